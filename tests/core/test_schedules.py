"""Schedules by their formulas."""

import math
from itertools import pairwise

import pytest

from nescio.core import NescioError, constant, ramp_up, schedule_named
from nescio.core.schedules import SCHEDULES, cosine, drops, ramps


@pytest.mark.parametrize("name", [name for name in SCHEDULES if name != "ramps"])
def test_schedules_start_at_the_full_rate_and_never_rise(name):
    factors = [schedule_named(name)(step, 200) for step in range(200)]
    assert factors[0] == 1.0
    assert all(a >= b > 0 for a, b in pairwise(factors))


def test_constant():
    assert {constant(step, 10) for step in range(10)} == {1.0}


def test_cosine():
    for step, factor in ((0, 1.0), (25, 0.5 + math.sqrt(0.125)), (50, 0.5), (100, 0.0)):
        assert cosine(step, 100) == pytest.approx(factor, abs=1e-12)


def test_drops_divide_by_ten_at_the_published_shares():
    factors = {step: drops()(step, 100) for step in (0, 49, 50, 74, 75, 89, 90, 99)}
    expected = {0: 1, 49: 1, 50: 0.1, 74: 0.1, 75: 0.01, 89: 0.01, 90: 1e-3, 99: 1e-3}
    assert factors == pytest.approx(expected)


def test_drops_elsewhere_by_another_factor():
    schedule = drops((0.3,), by=0.5)
    assert [schedule(step, 10) for step in (2, 3, 9)] == [1.0, 0.5, 0.5]


def test_ramps_are_the_published_ones():
    """Up over 80 and down over 50 of 300 epochs, in the words of the published code."""

    def published(epoch):
        up = math.exp(-5 * (1 - epoch / 80) ** 2) if epoch < 80 else 1.0
        return up * (math.exp(-(((epoch - 250) * 0.5) ** 2) / 50) if epoch >= 250 else 1.0)

    schedule = schedule_named("ramps")
    for epoch in range(300):
        assert schedule(epoch, 300) == pytest.approx(published(epoch), rel=1e-12)
    assert [ramp_up(step, 80) for step in (80, 200)] == [1.0, 1.0]
    assert ramps(0.5, 0.5)(75, 100) == pytest.approx(math.exp(-12.5 / 4))
    with pytest.raises(NescioError, match="ramps are shares of the training"):
        ramps(80, 50)


def test_functions_pass_and_unknown_names_are_refused():
    assert schedule_named(cosine) is cosine
    with pytest.raises(
        NescioError, match="unknown schedule 'linear'; known: constant, cosine, drops, ramps"
    ):
        schedule_named("linear")
