"""Anchored ensembles: the penalty by hand, anchors as draws from the prior."""

from dataclasses import replace

import pytest
import torch
from scipy import stats
from torch import nn

from nescio import losses
from nescio.core import NescioError, Rng, seeded
from nescio.losses import Batch
from nescio.losses.penalties import draw_anchors, prior_variances
from nescio.nets.stack import Forward, Stack, stack

RNG = Rng(5, (0, 1))


def draw_anchor(seed, members, name, shape):
    return draw_anchors(seed, members, ((name, tuple(shape)),))[0]


POINTS = 20


def net():
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).double()


def situation():
    with seeded(0):
        nets = [net(), net()]
    x = torch.randn(2, 6, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    batch = Batch(
        x=x, y=torch.zeros(2, 6, dtype=torch.long), points=POINTS, low=x.amin(1), high=x.amax(1)
    )
    return Forward(Stack(nets[0]), stack(nets)), batch


def penalty(**options):
    forward, batch = situation()
    base = losses.nll()
    return losses.anchored(base, **options)(forward, batch, RNG) - base(forward, batch, RNG)


def by_hand(variances, factor=0.5):
    """sum (w - anchor)^2 / (2 s N) for each member; N is the training set, not the batch."""
    forward, _ = situation()
    total = torch.zeros(2, dtype=torch.float64)
    for name, weight in forward.parameters.items():
        for member in range(2):
            anchor = draw_anchor(5, (member,), name, tuple(weight.shape[1:]))[0].double()
            gap = weight[member] - anchor * variances[name] ** 0.5
            total[member] += (gap**2).sum() / variances[name]
    return factor * total / POINTS


DEFAULT = {"0.weight": 1 / 3, "0.bias": 1.0, "2.weight": 1 / 4, "2.bias": 1.0}


@pytest.mark.parametrize(
    ("prior", "variances"),
    [
        (None, DEFAULT),
        (7.5, dict.fromkeys(DEFAULT, 7.5)),
        (
            {"0.*": 15.0, "*.bias": 2.0, "*": 0.5},
            {"0.weight": 15.0, "0.bias": 15.0, "2.weight": 0.5, "2.bias": 2.0},
        ),
    ],
)
def test_the_penalty_by_hand(prior, variances):
    torch.testing.assert_close(penalty(prior_variance=prior), by_hand(variances))


def test_with_a_squared_error_the_noise_variance_is_the_factor():
    forward, batch = situation()
    batch = replace(batch, y=torch.zeros(2, 6, 2, dtype=torch.float64))
    base = losses.squared_error()
    found = losses.anchored(base, noise=0.03)(forward, batch, RNG) - base(forward, batch, RNG)
    torch.testing.assert_close(found, by_hand(DEFAULT, factor=0.03))
    with pytest.raises(NescioError, match="for a squared error"):
        losses.anchored(losses.nll(), noise=0.03)


def test_patterns_name_the_inner_network_also_behind_input_scaling():
    shapes = (("net.0.weight", (4, 3)), ("net.2.weight", (2, 4)))
    assert prior_variances(shapes, (("0.*", 7.5), ("*", 1.0))) == (7.5, 1.0)


def test_a_pattern_that_fits_nothing_is_an_error():
    with pytest.raises(NescioError, match=r"'9\.\*' fits no parameter; there are: 0\.weight"):
        penalty(prior_variance={"9.*": 1.0, "*": 1.0})


def test_anchors_are_a_function_of_seed_member_and_name():
    draw = draw_anchor(5, (0, 3), "0.weight", (4, 3))
    draw_anchors.cache_clear()
    assert torch.equal(draw, draw_anchor(5, (0, 3), "0.weight", (4, 3)))
    assert torch.equal(draw[1:], draw_anchor(5, (3,), "0.weight", (4, 3)))
    for other in ((6, (0, 3), "0.weight"), (5, (1, 2), "0.weight"), (5, (0, 3), "2.weight")):
        assert not torch.isclose(draw, draw_anchor(*other, (4, 3))).any()


def test_anchors_are_standard_normal_before_scaling():
    draws = draw_anchor(0, (0, 1), "w", (5000,))
    assert stats.kstest(draws[0].numpy(), "norm").pvalue > 0.01
    assert abs(stats.pearsonr(draws[0].numpy(), draws[1].numpy()).statistic) < 0.05


def test_anchors_are_not_the_initial_weights():
    """Both come from the same seed, by different names."""
    with seeded(5, "start", 0):
        start = nn.init.normal_(torch.empty(4, 3))
    assert not torch.isclose(start, draw_anchor(5, (0,), "0.weight", (4, 3))[0]).any()


def test_a_member_at_its_anchor_pays_nothing_and_is_pulled_nowhere():
    forward, batch = situation()
    for name, weight in forward.parameters.items():
        weight.copy_(draw_anchor(5, (0, 1), name, tuple(weight.shape[1:])) * DEFAULT[name] ** 0.5)
    base = losses.nll()
    gap = losses.anchored(base)(forward, batch, RNG) - base(forward, batch, RNG)
    assert gap.abs().max() < 1e-12


@pytest.mark.parametrize(
    ("shape", "variance"), [((5,), 1.0), ((4, 3), 1 / 3), ((8, 2, 3, 3), 1 / 18)]
)
def test_the_default_variance_is_one_over_the_fan_in(shape, variance):
    assert prior_variances((("w", shape),), None) == pytest.approx((variance,))


def test_a_parameter_without_a_prior_is_an_error_that_names_it():
    with pytest.raises(NescioError, match=r"no prior variance for 0\.bias"):
        penalty(prior_variance={"*.weight": 1.0})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prior_variance": 0.0}, "positive, got 0.0"),
        ({"prior_variance": {"*": -1.0}}, "positive"),
        ({"noise": 0.0}, "noise"),
        ({"noise": -1.0}, "noise"),
    ],
)
def test_variances_must_be_positive(options, message):
    with pytest.raises(NescioError, match=message):
        penalty(**options)
