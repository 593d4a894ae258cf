"""The practical's quirks against closed forms, and what its worlds and numbers rest on."""

import math

import pytest
import torch
from torch import nn
from torch.distributions import Laplace, Normal, kl_divergence

from nescio import data, losses
from nescio.core import Categorical, DoubleExponential, Gaussian, Rng, seeded
from nescio.losses import Batch
from nescio.models.model import Model
from nescio.nets.stack import Forward, Stack, stack
from nescio.training.optimizers import optimizer
from nescio_papers.deep_ensembles import density, diversity, quirks, regions, spiral
from nescio_papers.deep_ensembles.adversarial import boundary
from nescio_papers.deep_ensembles.cubic_world import Regressor, cubic_net, regressor, strip
from nescio_papers.deep_ensembles.spiral_world import square, true_log_probs
from nescio_papers.deep_ensembles.worlds import fast_gradient, warm_cosine
from nescio_papers.kit import sample


@pytest.mark.parametrize(
    ("step", "factor"),
    [(1, 1.0), (5, 1.83), (12, 2.08), (50, 1.42), (100, 1.03), (300, 0.62), (600, 0.47)],
)
def test_the_frozen_schedule_has_the_known_factors(step, factor):
    assert quirks.frozen_adam(step - 1, 600) == pytest.approx(factor, abs=0.008)


def test_the_frozen_schedule_peaks_at_twelve_and_ends_at_a_third():
    factors = [quirks.frozen_adam(step, 1) for step in range(100)]
    assert max(range(100), key=factors.__getitem__) == 11
    assert quirks.frozen_adam(10**6, 1) == pytest.approx(math.sqrt(0.1), rel=1e-3)


def test_the_frozen_schedule_makes_adam_the_one_that_counts_every_step_as_the_first():
    slopes = torch.randn(40, 7, generator=torch.Generator().manual_seed(0)).double()
    ours = torch.zeros(7).double()
    adam = optimizer("adam", [ours])
    theirs, mean, square = torch.zeros(3, 7).double()
    for step, slope in enumerate(slopes):
        adam.update([ours], [slope], 0.08 * quirks.frozen_adam(step, 40))
        mean = 0.9 * mean + 0.1 * slope
        square = 0.999 * square + 0.001 * slope**2
        theirs = theirs - 0.08 * (mean / 0.1) / ((square / 0.001).sqrt() + 1e-8)
    assert torch.allclose(ours, theirs, rtol=1e-5)


def test_the_deviation_head_is_a_normal_density_with_softplus_as_deviation():
    outputs = torch.randn(2, 5, 2).double()
    y = torch.randn(2, 5, 1).double()
    head = quirks.deviation_head()
    deviation = nn.functional.softplus(outputs[..., 1:]) + 1e-6
    normal = Normal(outputs[..., :1], deviation)
    assert torch.allclose(head.nll(outputs, y), -normal.log_prob(y)[..., 0])
    said = head(outputs)
    assert torch.allclose(said.member_variance, deviation**2)
    other = torch.randn(2, 5, 2).double()
    second = Normal(other[..., :1], nn.functional.softplus(other[..., 1:]) + 1e-6)
    assert torch.allclose(head.divergence(outputs, other), kl_divergence(normal, second)[..., 0])


def forward_and_batch():
    nets = [nn.Linear(3, 4), nn.Linear(3, 4)]
    x = torch.randn(2, 6, 3)
    y = torch.randint(4, (2, 6))
    return (
        nets,
        Forward(Stack(nets[0]), stack(nets)),
        Batch(x=x, y=y, points=6, low=x.amin(1), high=x.amax(1)),
    )


def test_the_divided_loss_is_the_nll_over_the_number_of_classes():
    _, forward, batch = forward_and_batch()
    rng = Rng(0, (0, 1))
    whole = losses.nll()(forward, batch, rng)
    assert torch.allclose(quirks.divided_nll()(forward, batch, rng), whole / 4)


def test_the_norm_decay_adds_the_norm_not_its_square():
    nets, forward, batch = forward_and_batch()
    rng, base = Rng(0, (0, 1)), losses.nll()
    term = quirks.norm_decay(base, strength=0.1)(forward, batch, rng) - base(forward, batch, rng)
    norms = [nn.utils.parameters_to_vector(net.parameters()).norm().item() for net in nets]
    assert term.tolist() == pytest.approx([0.1 * norm for norm in norms], rel=1e-4)


def test_scaled_normal_weights_have_the_scale_biases_too():
    with seeded(0, "test"):
        net = quirks.scaled_normal(2, 3, (150, 150), 0.1)()
        spreads = [p.std().item() for p in net.parameters() if p.numel() > 100]
        free = [quirks.scaled_normal(1, 2, (50, 50))() for _ in range(200)]
    assert spreads == pytest.approx([0.1] * len(spreads), rel=0.2)
    scales = torch.stack(
        [nn.utils.parameters_to_vector(n.parameters()).detach().std() for n in free]
    )
    assert scales.square().mean().sqrt().item() == pytest.approx(0.1, rel=0.15)
    assert scales.std() > 0.03


def test_the_true_probabilities_are_calibrated():
    x, y = data.spiral(seed=5, points=20_000).train
    probs = true_log_probs(x).exp()
    assert torch.allclose(probs.sum(1), torch.ones(len(x)).double())
    for low in (0.0, 0.2, 0.4, 0.6, 0.8):
        chosen = (probs >= low) & (probs < low + 0.2)
        share = nn.functional.one_hot(y, 3)[chosen].double().mean()
        assert share.item() == pytest.approx(probs[chosen].mean().item(), abs=0.02)


def test_no_network_is_better_than_the_truth_on_fresh_data():
    best = spiral.best_possible(data.spiral(seed=1))
    assert 0.94 < best["test_accuracy"] < 0.98
    assert 0.1 < best["test_nll"] < 0.13


def test_the_warm_cosine_rises_then_falls_to_zero():
    factors = [warm_cosine(step, 100) for step in range(100)]
    assert factors[0] == pytest.approx(0.2)
    assert max(factors) == pytest.approx(1.0, abs=0.02)
    assert factors[-1] < 1e-3


def test_a_regressor_answers_in_the_units_of_the_data():
    found = regressor(data.cubic(), steps=2, members=2)
    x = strip(0, 4, 5)
    inner, outer = found.model(x), found(x)
    assert torch.allclose(outer.mean, found.unit * inner.mean)
    assert torch.allclose(outer.variance, found.unit**2 * inner.variance)
    assert found.unit == pytest.approx(data.cubic().train[1].std().item())


def test_the_laplace_scale_is_in_the_units_of_the_data_too():
    loss = losses.nll(density.heads.double_exponential())
    found = regressor(data.cubic(), loss=loss, steps=2, members=2)
    x = strip(0, 4, 5)
    assert torch.allclose(found(x).scale, found.unit * found.model(x).scale)


def linear_model() -> Model:
    net = nn.Linear(2, 2)
    weight = torch.tensor([[1.0, -2.0], [0.0, 0.0]])
    return Model(net, {"weight": weight[None], "bias": torch.zeros(1, 2)}, losses.nll().head)


def test_the_fast_gradient_moves_against_the_label():
    x, y = torch.zeros(2, 2), torch.tensor([0, 1])
    moved = fast_gradient(linear_model(), x, y, 0.1)
    assert torch.allclose(moved, torch.tensor([[-0.1, 0.1], [0.1, -0.1]]))


def test_levels_are_the_distribution_function_of_the_mixture():
    mean, spread, y = torch.randn(3, 9, 1), torch.rand(3, 9, 1) + 0.5, torch.randn(9, 1)
    normal = density.levels(Gaussian(mean, spread**2), y)
    assert torch.allclose(normal, Normal(mean, spread).cdf(y).mean(0), atol=1e-6)
    laplace = density.levels(DoubleExponential(mean, spread), y)
    assert torch.allclose(laplace, Laplace(mean, spread).cdf(y).mean(0), atol=1e-6)


@pytest.mark.parametrize("noise", density.KINDS)
def test_both_kinds_of_noise_have_deviation_three_and_right_coverage(noise):
    x, y = density.noisy_cubic(0, noise, 50_000)
    assert (y - x**3).std().item() == pytest.approx(3.0, rel=0.03)
    truth = (x**3)[None]
    right = Gaussian(truth, torch.full_like(truth, 9.0))
    if noise == "double_exponential":
        right = DoubleExponential(truth, torch.full_like(truth, 3 / math.sqrt(2)))
    assert density.coverage(right, y, 0.9) == pytest.approx(0.9, abs=0.01)


def test_the_boundary_of_a_half_plane_has_its_length():
    grid = square(101)
    logits = torch.stack([grid[:, 0] - 0.01, torch.zeros(len(grid))], dim=1)
    everywhere = torch.ones(len(grid), dtype=torch.bool)
    assert boundary(Categorical(logits[None]), grid, everywhere) == pytest.approx(4.0, rel=0.02)


def test_regions_are_where_they_say():
    world = data.spiral()
    found = regions.places(world, 100)
    assert all(len(points) > 20 for points in found.values())
    assert (found["corners"].abs() > 1.5).all()
    assert found["gap"].norm(dim=1).max() < 1
    assert torch.allclose(found["radius 100"].norm(dim=1), torch.tensor(100.0))
    assert true_log_probs(found["arms"]).exp().amax(1).min() > 0.95
    assert true_log_probs(found["overlap"]).exp().amax(1).max() < 0.8


def test_the_same_start_is_the_same_for_every_member_and_differs_by_seed():
    one, two = (diversity.same_start(cubic_net, seed) for seed in (0, 1))
    first, again, other = (
        nn.utils.parameters_to_vector(n.parameters()) for n in (one(), one(), two())
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_members_with_nothing_to_differ_by_are_the_same():
    made = regressor(data.cubic(), make=diversity.same_start(cubic_net, 0), steps=20, members=3)
    assert made(strip(0, 6, 9)).epistemic.max().item() < 1e-9  # rounding


def test_curves_are_those_of_the_ensemble():
    curves = spiral.Curves()
    watched = curves.watch(losses.nll())
    outputs, y = 3 * torch.randn(4, 50, 3), torch.randint(3, (50,))
    scores = watched.score(outputs, y.expand(4, 50))
    assert torch.equal(scores, losses.nll().score(outputs, y.expand(4, 50)))
    together = outputs.softmax(-1).mean(0)
    assert curves.accuracy == pytest.approx([(together.argmax(1) == y).float().mean().item()])
    assert curves.nll == pytest.approx([-together[range(50), y].log().mean().item()], rel=1e-5)


def test_a_run_notes_a_point_of_the_curves_at_every_step():
    curves = spiral.Curves()
    spiral.corrected(data.spiral(points=50), 0, 3, curves)
    assert len(curves.nll) == len(curves.accuracy) == 3


def test_intervals_are_students():
    found = sample([1.0, 2.0, 3.0])
    assert found.mean == 2
    assert found.half == pytest.approx(4.3027 / math.sqrt(3), rel=1e-4)
    assert (found - sample([0.9, 2.1, 2.9])).above is False
    assert (sample([1, 1.1, 0.9]) - sample([0, 0, 0])).above
    assert str(found) == "2 ± 2.5"
    assert math.isnan(sample([1.0]).half)


def test_the_faithful_losses_are_in_the_units_of_the_data():
    made = Regressor(regressor(data.cubic(), steps=2, members=2).model, unit=math.e)
    assert torch.allclose(made.losses(), made.model.history.train + 1)
