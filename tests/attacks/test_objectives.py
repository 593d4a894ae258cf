"""What attacks raise: closed forms, saturation, and every kind of predictor as a source."""

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, logsumexp
from torch import nn

from nescio import Model, NescioError, attacks, calibration, heads, measures, models, nets, train
from nescio.attacks import (
    adversarial_noise,
    confidence,
    label_loss,
    margin,
    pgd,
    uncertainty,
    wrong_confidence,
)

CLASSES = 3


def small(dropout=0.0):
    return nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Dropout(dropout), nn.Linear(16, CLASSES))


def ensemble(members=3):
    return models.ensemble([small() for _ in range(members)])


def odds(probs, label):
    """log p / (1 - p) in float64, from all the other probabilities."""
    others = np.delete(probs, label)
    return np.log(probs[label]) - np.log(others.sum())


def test_confidence_and_label_loss_are_log_odds_of_the_mixture():
    model, x, y = ensemble().to(torch.float64), torch.rand(9, 4).double(), torch.arange(9) % CLASSES
    logits = model.outputs(x).numpy()
    probs = np.exp(log_softmax(logits, -1)).mean(0)
    sure, wrong = confidence(model)(x), label_loss(model)(x, y)
    sure_and_wrong = wrong_confidence(model)(x, y)
    for sample in range(9):
        others = np.where(np.arange(CLASSES) == int(y[sample]), 0, probs[sample])
        truth = odds(probs[sample], others.argmax())
        assert sure_and_wrong[sample].item() == pytest.approx(truth, rel=1e-9)
        assert sure[sample].item() == pytest.approx(
            odds(probs[sample], probs[sample].argmax()), rel=1e-9
        )
        assert wrong[sample].item() == pytest.approx(-odds(probs[sample], int(y[sample])), rel=1e-9)


class Steep(nn.Module):
    """Logits far beyond what float32 probabilities can tell apart."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(200 * torch.eye(CLASSES, 4))

    def forward(self, x):
        return x @ self.weight.T


def test_confidence_rises_where_float32_probabilities_are_one():
    net = Steep()
    x = torch.tensor([[0.8, 0.1, 0.0, 0.0], [0.0, 0.9, 0.1, 0.2]])
    assert (net(x).softmax(-1).amax(-1) == 1.0).all()
    leaf = x.clone().requires_grad_()
    value = confidence(net)(leaf)
    (slope,) = torch.autograd.grad(value.sum(), leaf)
    logits = x.double().numpy() @ net.weight.detach().double().numpy().T
    ordered = np.sort(logits, -1)
    truth = ordered[:, -1] - logsumexp(ordered[:, :-1], -1)
    np.testing.assert_allclose(value.detach().numpy(), truth, rtol=1e-5)
    assert (slope.abs().amax(1) > 1).all()
    found = adversarial_noise(net, x, radius=0.1, steps=20, step=0.01)
    assert (found.value > value + 10).all()
    against = pgd(label_loss(net), x, torch.tensor([0, 1]), radius=0.3, steps=20)
    assert against.value.isfinite().all()
    assert (against.value > label_loss(net)(x, torch.tensor([0, 1])) + 50).all()


def test_samples_can_be_led_to_a_sure_and_wrong_answer():
    net, x = Steep(), torch.tensor([[0.8, 0.6, 0.1, 0.0]])
    y = torch.tensor([0])
    found = pgd(wrong_confidence(net), x, y, radius=0.3, steps=20)
    assert net(found.x).argmax(-1).item() == 1
    assert found.value > 50


def test_a_uniform_answer_still_has_a_direction():
    """At equal logits the log of the confidence may have no slope; the odds have one."""
    net = nn.Linear(4, CLASSES)
    with torch.no_grad():
        net.bias.copy_(-(net.weight @ torch.full((4,), 0.5)))
    x = torch.full((1, 4), 0.5)
    assert net(x).abs().max() < 1e-6
    assert adversarial_noise(net, x, radius=0.2, steps=10).value > confidence(net)(x) + 0.05


@pytest.mark.parametrize(
    "name", ["predictive_entropy", "mutual_information", "least_confidence", "log_odds"]
)
def test_an_attack_lowers_or_raises_a_measure_of_an_ensemble(name):
    model, x = ensemble(), torch.rand(20, 4)
    read = getattr(measures, name)
    before = read(model(x))
    lower = pgd(uncertainty(model, name), x, radius=0.2, steps=20)
    higher = pgd(uncertainty(model, name, lower=False), x, radius=0.2, steps=20)
    torch.testing.assert_close(read(model(lower.x)), -lower.value, rtol=1e-4, atol=1e-6)
    assert (read(model(higher.x)) >= before - 1e-6).all()
    assert (read(model(lower.x)) < before).all()
    assert read(model(higher.x)).mean() > before.mean()


def test_options_of_a_measure_are_passed_on():
    model, x = ensemble(), torch.rand(5, 4)
    nats, bits = (uncertainty(model, "predictive_entropy", base=b)(x) for b in (np.e, 2))
    torch.testing.assert_close(bits, nats / np.log(2))


def test_the_variance_of_a_regression_ensemble_can_be_attacked():
    model = models.ensemble([nn.Linear(4, 2) for _ in range(3)], head=heads.gaussian())
    x = torch.rand(6, 4)
    found = pgd(uncertainty(model, "epistemic_variance", lower=False), x, radius=0.3, steps=10)
    assert (
        measures.epistemic_variance(model(found.x)) > measures.epistemic_variance(model(x))
    ).all()
    with pytest.raises(NescioError, match="expected class probabilities to attack, got a Gaussian"):
        adversarial_noise(model, x)


def sources():
    x = torch.rand(60, 4)
    y = (x[:, 0] * 3).long()
    y[:6] = 0  # no scaling fits all
    options = {"epochs": 30, "learning_rate": 0.02, "progress": False}
    net = train(lambda: small(dropout=0.2), (x, y), **options).member(0)
    model = train(small, (x, y), members=2, **options)
    return {
        "module": net,
        "model": model,
        "bayesian": models.weight_samples(
            Model(b := nets.bayesian_mlp(4, CLASSES), _stack(b), heads.categorical()), passes=4
        ),
        "mc dropout": models.mc_dropout(net, passes=5),
        "scaled": calibration.temperature(model, (x, y)),
        "scaled mc dropout": calibration.platt(models.mc_dropout(net, passes=5), (x, y)),
        "pooled": models.ensemble([net, model, models.mc_dropout(net, passes=3)]),
    }


def _stack(net):
    return {name: t.detach()[None] for name, t in net.state_dict().items()}


@pytest.fixture(scope="module")
def made():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return sources()


NAMES = ["module", "model", "bayesian", "mc dropout", "scaled", "scaled mc dropout", "pooled"]


@pytest.mark.parametrize("name", NAMES)
def test_adversarial_noise_raises_the_confidence_of_every_kind_of_predictor(name, made):
    source, x = made[name], torch.rand(12, 4)
    predictor = models.plain(source) if isinstance(source, nn.Module) else source
    found = adversarial_noise(source, x, radius=0.3, steps=15, step=None)
    before, after = (-measures.log_odds(predictor(z)) for z in (x, found.x))
    torch.testing.assert_close(after, found.value, rtol=1e-4, atol=1e-5)
    assert (after >= before - 1e-5).all()
    assert after.mean() > before.mean()


@pytest.mark.parametrize("name", NAMES)
def test_answers_with_gradients_equal_answers_without(name, made):
    source, x = made[name], torch.rand(12, 4)
    predictor = models.plain(source) if isinstance(source, nn.Module) else source
    torch.testing.assert_close(
        confidence(source)(x), -measures.log_odds(predictor(x)), rtol=1e-4, atol=1e-5
    )


def test_a_network_is_read_when_the_objective_is_made():
    net, x = small(), torch.rand(3, 4)
    objective = confidence(net)
    before = objective(x)
    with torch.no_grad():
        net[0].weight.mul_(3)
    assert torch.equal(objective(x), before)
    assert not torch.equal(confidence(net)(x), before)


def test_inputs_follow_the_number_type_of_a_network():
    found = adversarial_noise(small().double(), torch.rand(3, 4), steps=3)
    assert found.x.dtype == torch.float32


class OnlyCalls:
    def __call__(self, x):
        return None


@pytest.mark.parametrize(
    ("source", "x", "said"),
    [
        (nn.Linear(5, 3), torch.rand(4, 4), r"does not take inputs of shape \(4,\)"),
        (nn.Sequential(nn.Linear(4, 3), nn.Softmax(-1)), torch.rand(4, 4), "probabilities already"),
        (nn.Linear(4, 1), torch.rand(4, 4), "one output"),
        (OnlyCalls(), torch.rand(4, 4), r"OnlyCalls has no method answer\(x\)"),
        ([nn.Linear(4, 3)], torch.rand(4, 4), r"a list has no method answer"),
    ],
    ids=["shape", "softmax", "one output", "no answer", "list"],
)
def test_bad_sources_are_refused(source, x, said):
    with pytest.raises(NescioError, match=said):
        adversarial_noise(source, x, steps=2)


def test_labels_are_checked():
    net, x = small(), torch.rand(4, 4)
    with pytest.raises(NescioError, match=r"labels must lie in 0..2, got 0..3"):
        attacks.adversarial_samples(net, x, torch.arange(4), steps=2)
    with pytest.raises(NescioError, match="class labels must be integers"):
        attacks.adversarial_samples(net, x, torch.rand(4), steps=2)


def test_measures_without_a_gradient_or_a_name_are_refused():
    with pytest.raises(NescioError, match="variation_ratio counts votes"):
        uncertainty(small(), "variation_ratio")
    with pytest.raises(NescioError, match="did you mean 'predictive_entropy'"):
        uncertainty(small(), "predictive_entropi")


@pytest.mark.parametrize("name", ["module", "model", "mc dropout", "scaled", "pooled"])
@pytest.mark.parametrize("start", ["random", "input"])
def test_inference_mode_and_its_tensors_change_nothing(name, start, made):
    source, x, y = made[name], torch.rand(6, 4), torch.arange(6) % CLASSES
    options = {"radius": 0.2, "steps": 3, "step": 0.05, "start": start}
    truth = attacks.adversarial_samples(source, x, y, **options)
    with torch.inference_mode():
        copies = x.clone(), y.clone()
        given = [attacks.adversarial_samples(source, *pair, **options) for pair in ((x, y), copies)]
    assert copies[0].is_inference()
    given.append(attacks.adversarial_samples(source, *copies, **options))
    for found in given:
        assert torch.equal(found.x, truth.x)
        assert torch.equal(found.value, truth.value)
        assert not found.x.is_inference()


def test_a_network_from_inference_mode_is_attacked_or_says_what_it_is():
    x = torch.rand(6, 4)
    with torch.inference_mode():
        net, model, dropping = small(), ensemble(), models.mc_dropout(small(0.5), passes=2)
        loaded = Model(net, {name: t[None].clone() for name, t in net.state_dict().items()},
                       heads.categorical())  # fmt: skip
    for source in (net, model):
        assert adversarial_noise(source, x, steps=2).value.isfinite().all()
    for source in (dropping, loaded):
        with pytest.raises(NescioError, match="under torch.inference_mode.*load it outside"):
            adversarial_noise(source, x, steps=2)


@pytest.mark.parametrize("name", ["confidence", "label_loss", "wrong_confidence"])
def test_of_maps_an_objective_is_the_mean_over_pixels(name):
    net = nn.Conv2d(2, 3, 1).double()
    x = torch.rand(4, 2, 5, 6, dtype=torch.double)
    y = torch.arange(120).reshape(4, 5, 6) % 3
    objective = getattr(attacks, name)
    pixels = x.movedim(1, -1).flatten(0, 2)[..., None, None]  # each pixel as a sample
    each = [pixels, y.flatten()[:, None, None]][: 1 + (name != "confidence")]
    given = [x, y][: len(each)]
    found = objective(net)(*given)
    expected = objective(net)(*each).reshape(4, -1).mean(1)
    torch.testing.assert_close(found, expected)


def test_the_sign_of_the_margin_is_the_answer():
    """Of three classes, a label below a half may still win: label_loss does not tell."""
    model, x, y = ensemble(), torch.rand(200, 4), torch.arange(200) % CLASSES
    logs = model(x).log_probs.numpy()
    others = np.array([np.delete(row, label).max() for row, label in zip(logs, y, strict=True)])
    found = margin(model)(x, y).detach().numpy()
    np.testing.assert_allclose(found, others - logs[np.arange(200), y], rtol=1e-5, atol=1e-6)
    assert ((found > 0) == (model(x).labels != y).numpy()).all()
