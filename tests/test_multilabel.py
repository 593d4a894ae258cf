"""Networks with several labels: each label is read as a one-logit network of its own."""

import numpy as np
import pytest
import torch
from torch import nn

import nescio
from nescio import MultiLabel, NescioError, calibration, conformal, heads, losses
from nescio.detectors.activations import Activations
from nescio.guards.label_guards import of_label
from nescio.models import ensemble, plain

K = 3


def data(rows, seed):
    rng = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 4, generator=rng)
    z = torch.stack([x[:, 0], x[:, 1] * x[:, 2], x[:, 3] - 1], 1)
    return x, (z + 0.5 * torch.randn(rows, K, generator=rng) > 0).long()


@pytest.fixture(scope="module")
def model():
    make = lambda: nescio.nets.mlp(4, K, widths=(24,))  # noqa: E731
    loss = losses.nll(heads.multilabel())
    return nescio.train(make, data(1500, 0), loss=loss, epochs=15, learning_rate=3e-3)


def test_the_loss_is_bce_and_the_probabilities_are_sigmoids(model):
    x, y = data(200, 1)
    prediction = model(x)
    z = model.outputs(x)[0]
    assert isinstance(prediction, MultiLabel)
    torch.testing.assert_close(prediction.probs, z.sigmoid())
    truth = nn.functional.binary_cross_entropy_with_logits(z, y.float(), reduction="none").sum(-1)
    torch.testing.assert_close(-prediction.log_prob(y), truth)
    torch.testing.assert_close(model.head.nll(z[None], y[None])[0], truth)
    assert ((prediction.labels == y).float().mean(0) > 0.7).all()


def test_a_mixture_averages_the_probabilities_of_whole_label_rows():
    logits = torch.randn(4, 6, K, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    y = (torch.rand(6, K) > 0.5).long()
    p = logits.sigmoid()
    joint = torch.where(y == 1, p, 1 - p).prod(-1).mean(0).log()
    torch.testing.assert_close(MultiLabel(logits).log_prob(y), joint)
    torch.testing.assert_close(MultiLabel(logits).probs, p.mean(0))


def test_saved_and_pooled(model, tmp_path):
    x, _ = data(10, 1)
    model.save(tmp_path)
    assert torch.equal(nescio.load(tmp_path)(x).probs, model(x).probs)
    net = model.member(0)
    torch.testing.assert_close(ensemble([net, net], head="multilabel")(x).probs, model(x).probs)


@pytest.mark.parametrize("name", ["temperature", "platt", "isotonic", "histogram"])
@pytest.mark.parametrize("shared", [False, True])
def test_calibration_of_each_label(model, name, shared, tmp_path):
    x, y = data(800, 2)
    given = model(x)
    maps = calibration.fit_labels(name, given, y, shared=shared)
    new = model(data(50, 3)[0])
    found = maps(new)
    for k in range(K):
        alone = calibration.fit(name, given.label(k), y[:, k])
        if not shared:
            truth = alone(new.label(k)).probs[:, 1]
            torch.testing.assert_close(found.probs[:, k], truth, rtol=1e-4, atol=1e-6)
    again = nescio.load(maps.save(tmp_path / "maps.safetensors"))
    assert torch.equal(again(new).logits, found.logits)
    if shared and name == "temperature":
        assert len(set(maps.temperatures)) == 1


def test_a_calibrated_predictor_is_saved(model, tmp_path):
    x, y = data(800, 2)
    made = calibration.temperature(model, (x, y))
    new, _ = data(20, 4)
    made.save(tmp_path)
    torch.testing.assert_close(nescio.load(tmp_path)(new).probs, made(new).probs)
    with pytest.raises(NescioError, match="each label"):
        made.networks()


def test_prediction_sets_hold_for_all_labels_at_once(model):
    x, y = data(1000, 5)
    sets = conformal.label_sets(model(x), y, miscoverage=0.2)
    new, truth = data(4000, 6)
    given = model(new)
    held = [one(given.label(k))[torch.arange(4000), truth[:, k]] for k, one in enumerate(sets)]
    assert torch.stack(held).all(0).float().mean() > 0.78
    alone = conformal.label_sets(model(x), y, miscoverage=0.2, joint=False)
    held = [one(given.label(k))[torch.arange(4000), truth[:, k]] for k, one in enumerate(alone)]
    for one in held:
        assert 0.76 < one.float().mean() < 0.84


def test_guards_of_each_label(model, tmp_path):
    x, y = data(1500, 7)
    made = nescio.guard_labels(
        model, (x, y), train=data(1500, 0), risk=0.1, names=["a", "b", "c"], false_alarm=0.02
    )
    new, truth = data(500, 8)
    found = made(new)
    assert list(found) == ["a", "b", "c"]
    assert torch.equal(found["a"].score, found["c"].score)  # whether it is OOD is asked once
    assert torch.equal(found["a"].p_value, found["b"].p_value)
    for k, (name, one) in enumerate(found.items()):
        assert torch.equal(one.label, model(new).label(k).labels)
        assert made[name].confidence == pytest.approx(1 - 0.05 / 3)
        assert one.summary(truth[:, k])["risk"] < 0.15
    assert "all 3 labels at once" in made.guarantees[0]
    place = made.save(tmp_path / "guards", weights=True)
    again = nescio.load(place / "b.safetensors", net=model.member(0))
    assert torch.equal(again(new).decision, found["b"].decision)
    stream = nescio.monitor(made["a"]).update(found["a"].score)
    assert stream.count == 500


def test_guards_of_labels_are_copies_and_know_the_training_data(model):
    x, y = data(1500, 7)
    net = plain(model.member(0), head="multilabel").networks()[0].net
    made = nescio.guard_labels(net, (x, y), risk=0.1, false_alarm=0.05)
    before = made(x[:20])
    with torch.no_grad():
        next(net.parameters()).mul_(3)
    after = made(x[:20])
    assert all(torch.equal(after[k].failure_score, before[k].failure_score) for k in after)
    with pytest.raises(NescioError, match="1500 of 1500.*the model was trained on"):
        nescio.guard_labels(model, data(1500, 0), risk=0.1, false_alarm=0.05)
    seen, truth = data(1500, 0)
    few = torch.cat([x, seen[:5]]), torch.cat([y, truth[:5]])
    made = nescio.guard_labels(model, few, risk=0.1, false_alarm=0.05)
    assert any("5 of 1,055 calibration inputs are training" in text for text in made.guarantees)


@pytest.mark.parametrize(
    ("names", "message"),
    [(["a", "../b", "c"], "'../b' cannot be one"), (["a", "A", "b"], "all different")],
)
def test_labels_name_files(model, names, message):
    with pytest.raises(NescioError, match=message):
        nescio.guard_labels(model, data(300, 7), names=names)


def test_a_label_that_is_never_there_is_named(model):
    x, y = data(300, 7)
    y[:, 1] = 0
    with pytest.raises(NescioError, match="the label b is 0 in all 210 calibration samples"):
        nescio.guard_labels(model, (x, y), names=["a", "b", "c"])


def test_without_training_data_a_part_of_the_calibration_data_fits_the_detector(model):
    x, y = data(1500, 7)
    made = nescio.guard_labels(model.member(0), (x, y.bool()), risk=0.1, false_alarm=0.05)
    assert len(made) == K
    assert made["0"].notes["calibration"] == 1050


@pytest.mark.filterwarnings("ignore::nescio.core.errors.FewSamplesWarning")
def test_the_risks_of_all_labels_are_bounded_at_once():
    """Calibrated labels whose true risk at a threshold is known: it is exceeded in few redraws."""
    risk, confidence, broken, answered, runs = 0.08, 0.8, 0, 0.0, 30
    rng = torch.Generator().manual_seed(0)

    def drawn(rows):
        z = 4 * torch.randn(rows, K, generator=rng, dtype=torch.float64)
        return z, (torch.rand(rows, K, generator=rng) < z.sigmoid()).long()

    big, truth = drawn(40_000)
    for seed in range(runs):
        z, y = drawn(400)
        over = []
        for k in range(K):
            acts = Activations(logits=z, features=z, labels=None)
            one = nescio.guard(
                None, of_label(acts, k, y[:, k]), detector="energy", risk=risk, seed=seed,
                confidence=1 - (1 - confidence) / K, sets=None, false_alarm=0.05,
            )  # fmt: skip
            found = one.decide(of_label(Activations(logits=big, features=big), k))
            wrong = (found.label != truth[:, k])[found.answered]
            answered += len(wrong) / len(truth) / runs / K
            over.append(bool(len(wrong)) and float(wrong.double().mean()) > risk + 0.003)
        broken += any(over)
    assert answered > 0.5  # it is not kept by silence
    assert broken / runs <= (1 - confidence) + 2 * (0.2 * 0.8 / runs) ** 0.5


def test_the_audit_has_a_section_for_each_label(model, tmp_path, monkeypatch):
    x, y = data(200, 9)
    options = {"rays": 0, "attack_steps": 0, "alphas": (1.0, 10.0), "names": ["a", "b", "c"]}
    found = nescio.audit_labels(model, (x, y), train=data(400, 0), **options)
    assert list(found.audits) == ["a", "b", "c"]
    given = model(x)
    for k, name in enumerate("abc"):
        right = (given.labels[:, k] == y[:, k]).double().mean()
        assert found.results.value(name, "test", "accuracy") == pytest.approx(float(right))
        alone = found[name].findings.predictors["network"].test
        assert found.results.value(name, "test", "ece") == pytest.approx(alone.ece)
        roc = pytest.importorskip("sklearn.metrics").roc_auc_score
        truth = roc(y[:, k].numpy(), given.logits[0, :, k].numpy())
        assert found.results.value(name, "test", "auroc") == pytest.approx(truth)
    saved = []
    monkeypatch.setattr(nescio.Audit, "save", lambda _, folder: saved.append(folder.name))
    assert (found.save(tmp_path) / "labels.json").exists()
    assert saved == ["a", "b", "c"]


def test_one_label_goes_everywhere(model):
    x, y = data(300, 9)
    net = model.member(0)
    read = heads.binary(label=1)
    seen = nescio.observe(net, (x, y[:, 1]), head=read)
    torch.testing.assert_close(seen.logits[0, :, 1], model.outputs(x)[0, :, 1])
    assert seen.weight.shape == (1, 2, 24)
    one = plain(net, head="binary,label=1")
    torch.testing.assert_close(one(x).probs, model(x).label(1).probs)
    far = nescio.geometry.far_field(one, x[:3], x[3:6])
    assert far.limit.shape[-1] == 2


def test_what_reads_classes_refuses_several_labels(model):
    x, y = data(50, 9)
    for call in (
        lambda: nescio.observe(model, x),
        lambda: nescio.guard(model, (x, y)),
        lambda: nescio.audit(model, (x, y[:, 0])),
        lambda: nescio.observe(model.member(0), x, head="multilabel"),
    ):
        with pytest.raises(NescioError, match="binary\\(label=0\\)"):
            call()
    with pytest.raises(NescioError, match="multilabel: K labels"):
        nescio.train(lambda: nescio.nets.mlp(4, K), (x, y), epochs=1)
    with pytest.raises(NescioError, match="0 or 1"):
        nescio.guard_labels(model, (x, 2 * y))
    with pytest.raises(NescioError, match="geometry"):
        nescio.geometry.far_field(model, x[:3], x[3:6])
    assert np.all(model(x).labels.numpy() >= 0)
