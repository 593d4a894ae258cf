"""The evidence lower bound: divergences against oracles, and how batches share them."""

from dataclasses import replace

import pytest
import torch
from torch import distributions, nn
from torch.nn import functional as F

from nescio import losses, nets
from nescio.core import NescioError, Rng, seeded
from nescio.losses import Batch
from nescio.losses.penalties import variational
from nescio.nets.stack import Forward, Stack, stack

POINTS = 20
RNG = Rng(5, (0, 1), (3, 0))


def situation(steps=1):
    """Two networks whose weights have different means and spreads."""
    with seeded(0):
        members = [nets.bayesian_mlp(3, 2, widths=(4,)).double() for _ in range(2)]
        for net in members:
            for name, weight in net.named_parameters():
                if name.endswith("_rho"):
                    nn.init.normal_(weight, -2.0, 1.0)
    x = torch.randn(2, 6, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    y = torch.zeros(2, 6, dtype=torch.long)
    batch = Batch(x=x, y=y, points=POINTS, low=x.amin((0, 1)), high=x.amax((0, 1)), steps=steps)
    return Forward(Stack(members[0]), stack(members)), batch


def divergence(rng=RNG, steps=1, **options):
    """What the elbo adds to its base, for each member."""
    forward, batch = situation(steps)
    batch = replace(batch, step=rng.place[-1])
    base = losses.nll()
    return losses.elbo(base, **options)(forward, batch, rng) - base(forward, batch, rng)


def weights():
    """Means and spreads of all weights, `(M, W)`."""
    forward, _ = situation()
    parts = variational(forward)
    means = torch.cat([mean.flatten(1) for _, mean, _ in parts], 1)
    return means, torch.cat([spread.flatten(1) for _, _, spread in parts], 1)


@pytest.mark.parametrize("prior", [0.3, 1.0, 2.5])
def test_the_divergence_from_a_normal_prior_is_the_closed_form(prior):
    means, spreads = weights()
    assert means.shape == (2, 4 * 3 + 4 + 2 * 4 + 2)
    truth = distributions.kl_divergence(
        distributions.Normal(means, spreads), distributions.Normal(0.0, prior)
    )
    torch.testing.assert_close(divergence(prior_spread=prior), truth.sum(1) / POINTS)


def test_it_is_divided_by_the_training_points_not_by_the_batch():
    forward, batch = situation()
    twice = Batch(x=batch.x, y=batch.y, points=2 * POINTS, low=batch.low, high=batch.high)
    base, loss = losses.nll(), losses.elbo(losses.nll())
    torch.testing.assert_close(
        loss(forward, twice, RNG) - base(forward, twice, RNG), divergence() / 2
    )


def test_the_weight_scales_it_and_nothing_is_added_at_zero():
    torch.testing.assert_close(divergence(weight=0.3), 0.3 * divergence())
    assert divergence(weight=0.0).abs().max() == 0


def drawn(count, **options):
    """The divergence of the first network by `count` draws: members that differ in noise alone."""
    forward, batch = situation()
    tensors = {name: t[:1].expand(count, *t.shape[1:]) for name, t in forward.tensors.items()}
    x, y = batch.x[:1].expand(count, 6, 3), batch.y[:1].expand(count, 6)
    many = Batch(x=x, y=y, points=POINTS, low=batch.low, high=batch.low)
    rng, copies = Rng(5, tuple(range(count))), Forward(forward.architecture, tensors)
    base = losses.nll()
    return losses.elbo(base, **options)(copies, many, rng) - base(copies, many, rng)


def integrated(prior):
    """The same without draws: the divergence of each weight from `prior` by the trapezium rule."""
    means, spreads = (table[0] for table in weights())
    own = distributions.Normal(means, spreads)
    steps = torch.linspace(-10, 10, 20_001).double()[:, None]
    points = means + spreads * steps
    height = own.log_prob(points)
    return torch.trapezoid(height.exp() * (height - prior(points)), points, dim=0).sum()


def mixture(wide, narrow, share):
    logs = torch.tensor([share, 1 - share]).double().log()
    parts = distributions.Normal(0.0, torch.tensor([wide, narrow]).double())
    return lambda points: (logs + parts.log_prob(points[..., None])).logsumexp(-1)


@pytest.mark.parametrize("prior", [{"narrow": 0.1, "share": 0.25}, {"narrow": 0.02, "share": 0.7}])
def test_the_draws_for_a_mixture_prior_are_unbiased(prior):
    draws = drawn(4000, prior_spread=1.5, **prior)
    truth = integrated(mixture(1.5, **prior)) / POINTS
    error = draws.std() / len(draws) ** 0.5
    assert error < 0.01 * truth
    assert (draws.mean() - truth).abs() < 4 * error


def test_a_mixture_of_equal_parts_is_a_normal_prior_on_average():
    draws = drawn(4000, prior_spread=0.7, narrow=0.7)
    gap = draws.mean() - divergence(prior_spread=0.7)[0]
    assert gap.abs() < 4 * draws.std() / len(draws) ** 0.5


@pytest.mark.parametrize("steps", [1, 2, 5, 40])
@pytest.mark.parametrize("weighting", ["uniform", "decaying"])
def test_the_batches_of_an_epoch_share_the_divergence(weighting, steps):
    whole = divergence()
    shares = torch.stack(
        [divergence(RNG.at(0, i), steps, weighting=weighting) / whole for i in range(steps)]
    )
    torch.testing.assert_close(shares.sum(0), torch.full((2,), float(steps)).double())
    if weighting == "uniform":
        truth = [1.0] * steps
    else:  # eq. 9 with batches counted from 1, times their number
        truth = [steps * 2.0 ** (steps - i) / (2.0**steps - 1) for i in range(1, steps + 1)]
    torch.testing.assert_close(shares[:, 0], torch.tensor(truth).double())


def test_a_thousand_batches_do_not_overflow():
    first = divergence(RNG.at(0, 0), 2000, weighting="decaying")
    torch.testing.assert_close(first, 1000 * divergence())
    assert divergence(RNG.at(0, 1999), 2000, weighting="decaying").abs().max() < 1e-12


def test_only_variational_weights_count():
    net = nn.Sequential(nn.Linear(3, 4), nets.bayesian_mlp(4, 2, widths=())).double()
    forward = Forward(Stack(net), stack([net]))
    assert [name for name, _, _ in variational(forward)] == ["1.0.weight", "1.0.bias"]
    spread = variational(forward)[0][2]
    torch.testing.assert_close(spread, torch.full_like(spread, 0.02))
    assert torch.equal(spread, F.softplus(forward.parameters["1.0.weight_rho"]))


def test_a_ramp_lets_the_weight_grow_evenly_to_all_of_it():
    forward, batch = situation()
    base, ramped = losses.nll(), losses.elbo(losses.nll(), ramp=0.4)
    whole = losses.elbo(losses.nll())(forward, batch, RNG) - base(forward, batch, RNG)
    for step, share in ((0, 0.0), (2, 0.5), (4, 1.0), (9, 1.0)):
        here = replace(batch, step=step, total=10)
        torch.testing.assert_close(
            ramped(forward, here, RNG) - base(forward, here, RNG), share * whole
        )
    assert "ramp" in ramped.description
    assert "ramp" not in losses.elbo(losses.nll()).description


def test_a_network_without_variational_layers_is_an_error_that_names_one():
    net = nets.mlp(3, 2).double()
    _, batch = situation()
    with pytest.raises(NescioError, match=r"variational layers, such as nets\.bayesian_mlp"):
        losses.elbo(losses.nll())(Forward(Stack(net), stack([net, net])), batch, RNG)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weighting": "none"}, "weighting is 'uniform' or 'decaying', got 'none'"),
        ({"prior_spread": 0.0}, "positive spreads"),
        ({"narrow": -1.0}, "positive spreads"),
        ({"narrow": 0.1, "share": 1.0}, "0 < share < 1"),
        ({"weight": -1.0}, "weight >= 0"),
        ({"ramp": 1.5}, "ramp is a share of the training"),
        ({"prior_spread": float("nan")}, "positive spreads"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(NescioError, match=message):
        losses.elbo(losses.nll(), **options)
