"""Losses of Dirichlet networks: identities, mpmath, gradients at extreme outputs, a toy."""

import math

import mpmath
import pytest
import torch
from torch import distributions, nn

import nescio
from nescio import heads, losses
from nescio.core import Dirichlet, NescioError, Rng, mutual_information
from nescio.data.ood import uniform
from nescio.losses import Batch, divergences

NAMES = ("reverse_kl", "forward_kl", "dirichlet_elbo", "belief_matching")


def outputs(*shape, scale=4.0, seed=0):
    rng = torch.Generator().manual_seed(seed)
    return scale * torch.randn(*shape, generator=rng, dtype=torch.float64)


def constant(classes, weight):
    counts = 1 / weight
    return math.lgamma(classes) + math.lgamma(1 + counts) - math.lgamma(classes + counts)


@pytest.mark.parametrize("classes", [2, 3, 10, 100])
@pytest.mark.parametrize("weight", [1e-3, 0.01, 0.5, 1.0, 7.0])
def test_the_elbo_is_the_reverse_divergence_up_to_its_constant(classes, weight):
    raw = outputs(3, 50, classes, scale=2.0)
    y = torch.arange(150).view(3, 50) % classes
    reverse = losses.reverse_kl(prior_weight=weight).score(raw, y) / weight
    bound = losses.dirichlet_elbo(prior_weight=weight).score(raw, y) / weight
    belief = losses.belief_matching(weight=weight).score(raw, y) / weight
    gap = reverse - bound - constant(classes, weight)
    assert (gap / reverse.clamp_min(1)).abs().max() < 1e-10
    assert gap.abs().max() < 1e-10 * max(1, reverse.abs().max().item())
    assert torch.equal(belief, bound)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_divergences_are_those_of_the_value(smoothing):
    """`Dirichlet.kl` has another formula, which loses no digits; see its tests against mpmath."""
    raw, y = outputs(2, 40, 5, scale=4.0).clamp(-14, 18), torch.arange(80).view(2, 40) % 5
    target = 1 + 100 * ((1 - smoothing) * nn.functional.one_hot(y, 5).double() + smoothing / 5)
    pair = Dirichlet(raw), Dirichlet.from_alpha(target)
    reverse = losses.reverse_kl(smoothing=smoothing).score(raw, y)
    forward = losses.forward_kl(smoothing=smoothing).score(raw, y)
    torch.testing.assert_close(100 * reverse, pair[0].kl(pair[1]), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(100 * forward, pair[1].kl(pair[0]), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", ["reverse_kl", "forward_kl"])
def test_divergences_are_those_of_torch(name):
    raw, y = outputs(2, 40, 5, scale=1.5), torch.arange(80).view(2, 40) % 5
    found = losses.__dict__[name](prior_weight=0.05, smoothing=0.1).score(raw, y) / 0.05
    target = 1 + (0.9 * nn.functional.one_hot(y, 5).double() + 0.02) / 0.05
    pair = distributions.Dirichlet(raw.exp()), distributions.Dirichlet(target)
    truth = distributions.kl_divergence(*(pair if name == "reverse_kl" else pair[::-1]))
    torch.testing.assert_close(found, truth, rtol=1e-9, atol=1e-9)


def test_the_target_of_the_lecture_is_101_and_there_the_loss_is_0():
    at_target = torch.tensor([[[1.0, 101.0, 1.0]]], dtype=torch.float64).log()
    assert losses.reverse_kl().score(at_target, torch.tensor([[1]])).item() < 1e-12
    assert losses.forward_kl(smoothing=0.0).score(at_target, torch.tensor([[1]])).item() < 1e-12
    raw = at_target.clone().requires_grad_()
    (slope,) = torch.autograd.grad(losses.reverse_kl().score(raw, torch.tensor([[1]])).sum(), raw)
    assert slope.abs().max() < 1e-12


@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_those_of_finite_differences(name):
    loss = losses.__dict__[name]()
    y = torch.arange(12).view(2, 6) % 4
    for scale in (1.0, 5.0):
        raw = outputs(2, 6, 4, scale=scale).clamp(-8, 12).requires_grad_()
        assert torch.autograd.gradcheck(lambda z: loss.score(z, y), raw, eps=1e-6, rtol=1e-4)


def slope_oracle(logs, target):
    with mpmath.workdps(60):
        a = [mpmath.exp(v) for v in logs]
        rest = (sum(a) - sum(target)) * mpmath.psi(1, sum(a))
        pairs = zip(a, target, strict=True)
        return [float(x * ((x - b) * mpmath.psi(1, x) - rest)) for x, b in pairs]


@pytest.mark.parametrize(
    "logs",
    [[0.0] * 3, [30.0, 29.0, -13.0], [-14.0] * 3, [60.0, 60.0, 58.0], [18.0, 0.0, 0.0]],
)
def test_slopes_against_mpmath(logs):
    target = [101.0, 1.0, 1.0]
    row, counts = (torch.tensor(v, dtype=torch.float64) for v in (logs, target))
    for function, wanted in (
        (lambda v: divergences.reverse(v, counts), target),
        (divergences.from_flat, [1.0] * 3),
    ):
        truth = slope_oracle(logs, wanted)
        largest = max(map(abs, truth))
        assert function(row)[1].tolist() == pytest.approx(truth, rel=1e-10, abs=1e-12 * largest)


@pytest.mark.parametrize("name", [*NAMES, "evidential"])
@pytest.mark.parametrize("size", [50.0, 100.0, 1e4, 1e30])
def test_float32_values_and_gradients_are_finite_at_any_output(name, size):
    loss, y = losses.__dict__[name](), torch.tensor([[0, 1, 0, 0]])
    raw = size * torch.tensor([[[1.0, 1.0], [1.0, -1.0], [-1.0, -1.0], [0.0, 1.0]]])
    raw.requires_grad_()
    value = loss.score(raw, y)
    assert value.dtype == torch.float32
    (slope,) = torch.autograd.grad(value.sum(), raw)
    assert value.isfinite().all()
    assert slope.isfinite().all()
    if name != "evidential":  # which has no gradient far below 0
        assert slope[0, 2].abs().min() > 0  # a network that went too low is pulled up
        assert slope[0, 2].sum() < 0


def test_float32_gradients_are_right_for_large_concentrations():
    logs = torch.tensor([[[40.0, 39.0, 20.0]]], requires_grad=True)
    loss = losses.reverse_kl()
    (slope,) = torch.autograd.grad(loss.score(logs, torch.tensor([[0]])).sum(), logs)
    truth = [0.01 * v for v in slope_oracle([40.0, 39.0, 20.0], [101.0, 1.0, 1.0])]
    assert slope[0, 0].tolist() == pytest.approx(truth, rel=1e-6)


def test_second_derivatives_are_an_error_not_a_part_of_the_truth():
    outputs = torch.randn(1, 4, 3, requires_grad=True)
    value = losses.reverse_kl().score(outputs, torch.tensor([[0, 1, 2, 0]])).sum()
    with pytest.raises(NescioError, match="no second derivatives"):
        torch.autograd.grad(value + outputs.square().sum(), outputs, create_graph=True)


def test_a_learning_rate_means_the_same_for_every_prior_weight():
    """Gradients at the start hardly depend on the weight once labels outweigh the prior."""
    raw, y = torch.zeros(1, 3, 4, dtype=torch.float64, requires_grad=True), torch.arange(3)[None]
    sizes = []
    for weight in (0.1, 0.01, 0.001, 1e-4):
        loss = losses.reverse_kl(prior_weight=weight).score(raw, y).mean()
        sizes.append(torch.autograd.grad(loss, raw)[0].norm().item())
    assert max(sizes) < 1.05 * min(sizes)


@pytest.mark.parametrize("form", ["squared_error", "cross_entropy"])
def test_evidential_data_terms_are_means_over_draws(form):
    alpha = torch.tensor([[3.0, 1.5, 2.0]], dtype=torch.float64)
    raw = (alpha - 1).log()[None]  # of which exp + 1 is alpha
    found = losses.evidential(form=form).score(raw, torch.tensor([[1]])).item()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        draws = distributions.Dirichlet(alpha).sample((200_000,))[:, 0]
    label = torch.tensor([0.0, 1.0, 0.0])
    scores = (draws - label).square().sum(1) if form == "squared_error" else -draws[:, 1].log()
    error = 4 * scores.std().item() / math.sqrt(len(scores))
    assert found == pytest.approx(scores.mean().item(), abs=error)


def test_the_penalty_of_evidence_reads_wrong_classes_only_and_grows_over_epochs():
    x, y = torch.zeros(1, 1, 2), torch.tensor([[0]])
    raw = torch.tensor([[[4.0, 2.0, -1.0]]], dtype=torch.float64)
    loss = losses.evidential(annealing=10)

    def at(step, outputs=raw):
        batch = Batch(x=x, y=y, points=1, low=x[0, 0], high=x[0, 0], steps=5, step=step)
        return loss(lambda _: outputs, batch, Rng(0, (0,))).item()

    data = loss.score(raw, y).item()
    alpha = raw[0, 0].exp() + 1
    pair = torch.stack([torch.tensor([1.0, *alpha[1:]]), torch.ones(3)]).double()
    apart = distributions.kl_divergence(*map(distributions.Dirichlet, pair)).item()
    assert at(0) == pytest.approx(data)
    assert at(25) == pytest.approx(data + 0.5 * apart)
    assert at(50) == at(500) == pytest.approx(data + apart)


def test_the_exposed_network_is_flat_on_ood_inputs():
    """Two blobs, noise around: precision on noise falls to about C, on the blobs it does not."""
    rng = torch.Generator().manual_seed(0)
    y = torch.arange(200) % 2
    x = 0.3 * torch.randn(200, 2, generator=rng) + torch.stack([4.0 * y - 2, 0.0 * y], 1)
    ood = uniform((2,), low=-9.0, high=9.0)
    loss = losses.prior_exposure(losses.reverse_kl(), ood)
    model = nescio.train(
        lambda: nescio.nets.mlp(2, 2, widths=(64, 64)),
        (x, y),
        loss=loss,
        epochs=100,
        learning_rate=5e-3,
        seed=0,
    )
    far = ood.take(400)
    far = far[(far.abs() > 4).any(1)]
    inside, outside = model(x), model(far)
    assert isinstance(inside, Dirichlet)
    assert (inside.labels == y).float().mean() > 0.99
    assert inside.log_precision.median() > math.log(30)
    assert outside.log_precision.median() < math.log(5)
    assert mutual_information(outside).median() > 5 * mutual_information(inside).median()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: losses.reverse_kl(prior_weight=0.0), "weight of the prior must be positive"),
        (lambda: losses.belief_matching(weight=math.inf), "weight of the prior must be positive"),
        (lambda: losses.forward_kl(smoothing=1.0), "smoothing must be a share"),
        (lambda: losses.reverse_kl(heads.categorical()), r"reads concentrations.*heads\.dirichlet"),
        (lambda: losses.evidential(heads.categorical()), "reads concentrations"),
        (lambda: losses.evidential(form="log"), "form must be"),
        (lambda: losses.evidential(weight=-1.0), "from 0 up"),
        (lambda: losses.prior_exposure(losses.nll(), uniform((2,))), "flat form reads"),
    ],
)
def test_bad_options_are_refused(make, said):
    with pytest.raises(NescioError, match=said):
        make()
