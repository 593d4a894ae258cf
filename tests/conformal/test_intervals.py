"""Intervals against the definition, and bad input."""

import math

import pytest
import torch

import nescio
from nescio.conformal import (
    binomial_interval,
    interval_coverage,
    normalized,
    quantile,
    residual,
)
from nescio.core import NescioError


def line(samples, members=2, targets=1, seed=0):
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(members, samples, targets, generator=draw).double()
    variance = (0.2 + torch.rand(members, samples, targets, generator=draw)).double()
    y = x.mean(0) + torch.randn(samples, targets, generator=draw).double()
    return nescio.Gaussian(x, variance), y


def smallest(values, share):
    """The ceil((n + 1)(1 - a))-th smallest of each column."""
    place = math.ceil(round((len(values) + 1) * (1 - share), 9)) - 1
    return values.sort(0).values[place]


@pytest.mark.parametrize("share", [0.05, 0.2])
@pytest.mark.parametrize("targets", [1, 3])
def test_residual_intervals_are_those_of_the_definition(share, targets):
    (old, y), (new, _) = line(99, targets=targets), line(20, targets=targets, seed=1)
    width = smallest((y - old.mean.mean(0)).abs(), share)
    low, high = residual(old, y, miscoverage=share)(new)
    assert torch.allclose(low, new.mean.mean(0) - width, rtol=1e-12, atol=1e-12)
    assert torch.allclose(high, new.mean.mean(0) + width, rtol=1e-12, atol=1e-12)


def test_normalized_intervals_are_those_of_the_definition():
    (old, y), (new, _) = line(99), line(20, seed=1)
    spread = [p.mixture_variance.sqrt() for p in (old, new)]
    width = smallest((y - old.mixture_mean).abs() / spread[0], 0.1) * spread[1]
    low, high = normalized(old, y)(new)
    assert torch.allclose(high - new.mixture_mean, width, rtol=1e-12)
    assert torch.allclose(new.mixture_mean - low, width, rtol=1e-12)


def test_quantile_intervals_are_those_of_the_definition():
    (_, y), (_, wanted) = line(99), line(20, seed=1)
    ends, new = (y.roll(1) - 0.5, y.roll(1) + 1), (wanted.roll(1) - 0.5, wanted.roll(1) + 1)
    moved = smallest(torch.maximum(ends[0] - y, y - ends[1]), 0.1)
    low, high = quantile(ends, y)(new)
    assert torch.allclose(low, new[0] - moved, rtol=1e-12, atol=1e-12)
    assert torch.allclose(high, new[1] + moved, rtol=1e-12, atol=1e-12)
    flat = quantile(tuple(end[:, 0] for end in ends), y[:, 0])(tuple(end[:, 0] for end in new))
    assert torch.equal(flat[0], low)


def test_ends_that_would_cross_stay_at_one_point():
    y = torch.zeros(50)
    ends = torch.full((50,), -5.0), torch.full((50,), 5.0)
    narrow = torch.tensor([-1.0]), torch.tensor([2.0])
    low, high = quantile(ends, y)(narrow)  # each end moves in by 5
    assert (low.item(), high.item()) == (0.5, 0.5)


@pytest.mark.parametrize("build", [residual, normalized, quantile])
def test_groups_have_the_intervals_they_would_have_alone(build):
    (old, y), (new, _) = line(200, targets=2), line(30, targets=2, seed=1)
    groups, of = torch.arange(200) % 2 + 5, torch.arange(30) % 2 + 5
    low, high = build(old, y, by=groups)(new, of)
    for group in (5, 6):
        alone = build(old[groups == group], y[groups == group])(new[of == group])
        assert torch.equal(low[of == group], alone[0])
        assert torch.equal(high[of == group], alone[1])


@pytest.mark.parametrize("build", [residual, normalized, quantile])
def test_targets_are_covered_as_guaranteed(build):
    """Every redraw is a group, so that all are calibrated in one call."""
    redraws, samples = 1500, 40
    (old, y), (new, wanted) = line(redraws * samples), line(redraws, seed=1)
    fitted = build(old, y, by=torch.arange(redraws).repeat_interleave(samples), randomize=True)
    low, high = fitted(new, torch.arange(redraws))
    found = interval_coverage(low, high, wanted, level=0.999).covered[0]
    assert found.low <= 0.9 <= found.high


@pytest.mark.parametrize("randomize", [False, True])
def test_targets_that_tie_are_covered_as_guaranteed(randomize):
    """Residuals of 0, 0.2 and 0.4, where rounding at the ends would decide."""
    redraws, samples = 3000, 20
    draw = torch.Generator().manual_seed(0)
    probs = torch.tensor([0.5, 0.3, 0.2]).expand(redraws, 3)
    step = torch.multinomial(probs, samples + 1, replacement=True, generator=draw)
    y, mean = 0.1 + 0.2 * step.double(), torch.full((redraws, samples + 1), 0.1).double()
    groups = torch.arange(redraws).repeat_interleave(samples)
    fitted = residual(mean[:, 1:].flatten(), y[:, 1:].flatten(), by=groups, randomize=randomize)
    low, high = fitted(mean[:, 0], torch.arange(redraws), inputs=torch.arange(redraws))
    hits = int(((low[:, 0] <= y[:, 0]) & (y[:, 0] <= high[:, 0])).sum())
    found = binomial_interval(hits, redraws, level=0.999)
    assert found.high >= 0.9
    if randomize:
        assert found.low <= 0.9
    else:
        assert found.low > 0.9  # ties are kept


def test_means_alone_are_enough_for_residuals():
    (old, y), (new, _) = line(50), line(5, seed=1)
    from_means = residual(old.mixture_mean, y)(new.mixture_mean)
    assert torch.equal(from_means[0], residual(old, y)(new)[0])


def test_a_small_group_gets_the_whole_line():
    old, y = line(30, targets=2)
    groups = torch.zeros(30, dtype=torch.int64)
    groups[:4] = 1
    with pytest.warns(UserWarning, match=r"1 of 2 groups .* 1 \(4\)\.$"):
        fitted = residual(old, y, by=groups)
    low, high = fitted(old[:4], groups[:4])
    assert (low == -math.inf).all()
    assert (high == math.inf).all()
    assert "each by itself" in fitted.guarantee


def test_nothing_is_kept_of_a_share_that_may_all_be_missed():
    old, y = line(10)
    low, high = residual(old, y, miscoverage=0.95, randomize=True)(line(2000, seed=1)[0])
    assert (low == high).any()
    assert not (low.isnan() | high.isnan()).any()


@pytest.mark.parametrize(
    ("build", "prediction", "targets", "words"),
    [
        (residual, torch.zeros(50, 2), torch.zeros(50), "they must agree"),
        (residual, torch.zeros(50), torch.full((50,), math.nan), "NaN"),
        (residual, torch.full((50,), math.nan), torch.zeros(50), "NaN"),
        (residual, torch.zeros(8), torch.zeros(8), "at least 9 samples"),
        (residual, torch.zeros(2, 5, 5, 1), torch.zeros(5, 5), "exchangeable"),
        (normalized, torch.zeros(50), torch.zeros(50), "use `residual`"),
        (normalized, nescio.Gaussian(*[torch.zeros(1, 50, 1)] * 2), torch.zeros(50), "are 0"),
        (quantile, nescio.Gaussian(*[torch.zeros(1, 50, 1)] * 2), torch.zeros(50), "variance 0"),
        (quantile, torch.zeros(50), torch.zeros(50), "a pair"),
        (quantile, (torch.zeros(50), torch.zeros(49)), torch.zeros(50), "one shape"),
        (quantile, (torch.zeros(1, 1, 50), torch.zeros(50)), torch.zeros(50), r"\(N,\) or"),
    ],
)
def test_what_cannot_be_calibrated_is_refused(build, prediction, targets, words):
    with pytest.raises(NescioError, match=words):
        build(prediction, targets)


@pytest.mark.parametrize("build", [residual, quantile])
def test_options_are_checked(build):
    old, y = line(50)
    with pytest.raises(NescioError, match="between 0 and 1"):
        build(old, y, miscoverage=3.0)
    with pytest.raises(NescioError, match="by must be None or group numbers"):
        build(old, y, by="class")
    with pytest.raises(NescioError, match="take no groups="):
        build(old, y)(old, torch.zeros(50).long())
    with pytest.raises(NescioError, match="calibrated for 1 target"):
        build(old, y)(line(50, targets=2)[0])
    with pytest.raises(NescioError, match="groups 7 were not among"):
        build(old, y, by=torch.zeros(50).long())(old, torch.full((50,), 7))


def test_sets_are_no_intervals(tmp_path):
    logits, labels = torch.randn(50, 3), torch.arange(50) % 3
    path = nescio.conformal.threshold(logits, labels).save(tmp_path / "sets.safetensors")
    with pytest.raises(NescioError, match="holds a prediction sets"):
        nescio.load(path, kind="prediction intervals")
