"""The practical's own runs: its data, its initial weights, and the losses that it printed."""

import pytest
import torch

from nescio_papers import Settings
from nescio_papers.deep_ensembles import printed_runs
from nescio_papers.deep_ensembles.cubic_world import cubic_net
from nescio_papers.deep_ensembles.printed_runs import (
    FINAL,
    INITIAL,
    SCALES,
    STEADY,
    cubic_points,
    cubic_printed,
    spiral_points,
    spiral_printed,
    starts,
)
from nescio_papers.deep_ensembles.spiral_world import spiral_net

QUICK = Settings(quick=True)


@pytest.fixture(scope="module")
def losses():
    """The losses of the six networks by step."""
    _, made = cubic_printed(QUICK)[0]
    return made.losses()


def test_the_scales_of_the_initial_weights_are_the_printed_ones():
    assert cubic_points()[1] == pytest.approx(SCALES, abs=1e-8)


def test_the_initial_losses_are_the_printed_ones(losses):
    assert losses[0].tolist() == pytest.approx(INITIAL, rel=2e-7)


def test_four_of_six_final_losses_are_the_printed_ones(losses):
    final = losses[-1].tolist()  # to four digits here; how a processor rounds moves the third
    assert [final[m] for m in STEADY] == pytest.approx([FINAL[m] for m in STEADY], rel=3e-3)


def test_the_other_two_networks_come_near(losses):
    others = [m for m in range(len(FINAL)) if m not in STEADY]
    assert len(others) == 2
    assert all(0.5 < losses[-1][m] / FINAL[m] < 2 for m in others)


def test_the_arms_have_the_printed_angles():
    x, y = spiral_points().train
    assert x.shape == (3000, 2)
    printed = ((-0.6210700567572351, 9.160761050479454), (7.506810982132371, 16.88345105834359))
    for arm, (low, high) in enumerate(printed):
        radius = torch.linspace(0, 1, 1000)
        whole = 8.0 * (arm + radius)  # the angle without noise, to count full turns
        angle = torch.atan2(*x[y == arm].T)
        angle = angle + 2 * torch.pi * ((whole - angle) / (2 * torch.pi)).round()
        assert angle[1:].min().item() >= low - 1e-4
        assert angle[1:].max().item() == pytest.approx(high, abs=1e-4)


def test_initial_weights_have_their_scale_and_are_stacked():
    found = starts(spiral_net(), range(4), [0.1] * 4)
    assert [tuple(t.shape) for t in found.values()][:2] == [(4, 150, 2), (4, 150)]
    assert found["2.weight"].std(dim=(1, 2)).tolist() == pytest.approx([0.1] * 4, rel=0.02)
    alone = starts(cubic_net(), [10], [0.5])
    both = starts(cubic_net(), [0, 10], [0.1, 0.5])
    assert all(torch.equal(alone[name][0], both[name][1]) for name in alone)


def test_another_order_of_the_points_changes_rounding_only(monkeypatch):
    monkeypatch.setattr(printed_runs, "QUICK_STEPS", 3)
    one, two = (model.history.train for _, model in spiral_printed(QUICK))
    assert not torch.equal(one, two)
    assert torch.allclose(one, two, rtol=1e-4)


def test_the_adversarial_loss_starts_above_the_plain_one(monkeypatch, losses):
    monkeypatch.setattr(printed_runs, "CUBIC_STEPS", 1)
    printed_runs._cubic_run.cache_clear()
    (_, made), *_ = cubic_printed(QUICK, adversarial=True)
    printed_runs._cubic_run.cache_clear()
    assert (made.losses()[0] >= losses[0]).all()
