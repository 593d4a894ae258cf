"""Rewards: averages, intervals, when a task was solved, and the file."""

import numpy as np
import pytest

from nescio.applications.exploration import Rewards
from nescio.core import NescioError
from nescio.metrics import t_interval
from nescio.report.plots.reward_plot import reward_curves

DRAWN = np.random.default_rng(0).normal(size=(4, 30))


def rewards(values, **options):
    found = np.asarray(values, dtype=float)
    return Rewards(rewards=found, seeds=tuple(range(len(found))), **options)


def test_averages_are_those_of_the_last_episodes():
    found = rewards(DRAWN).averaged(7)
    for episode in range(30):
        last = DRAWN[:, max(0, episode - 6) : episode + 1]
        np.testing.assert_allclose(found[:, episode], last.mean(1))
    np.testing.assert_allclose(rewards(DRAWN).averaged(100)[:, -1], DRAWN.mean(1))


def test_intervals_are_students_over_seeds():
    band = rewards(DRAWN).interval(window=3, level=0.9)
    for episode in (0, 5, 29):
        one = t_interval(rewards(DRAWN).averaged(3)[:, episode], level=0.9)
        found = band.value[episode], band.low[episode], band.high[episode]
        np.testing.assert_allclose(found, (one.value, one.low, one.high))
    assert np.isnan(rewards(DRAWN[:1]).interval().low).all()


def test_episodes_to_a_reward_need_a_whole_window():
    steps = np.zeros((3, 10))
    steps[0, 0] = 100.0  # one lucky episode at the start does not count before the window is full
    steps[0, 1:] = -100.0
    steps[1, 4:] = 1.0
    found = rewards(steps, solved=0.5, window=4).episodes_to()
    assert found.by_seed.tolist() == [np.inf, 6, np.inf]
    assert found.reached == 1
    assert found.median == np.inf
    assert found.low >= 6
    assert rewards(steps, window=1).episodes_to(1.0).by_seed.tolist() == [1, 5, np.inf]
    with pytest.raises(NescioError, match="give reward="):
        rewards(steps).episodes_to()


def test_the_file_holds_everything(tmp_path):
    settings = {"agent": {"name": "ensemble"}, "environment": {"name": "chain"}}
    found = rewards(DRAWN, solved=0.5, window=9, settings=settings)
    again = Rewards.load(found.save(tmp_path))
    np.testing.assert_array_equal(again.rewards, found.rewards)
    assert (again.seeds, again.solved, again.window) == (found.seeds, 0.5, 9)
    assert repr(again) == "Rewards(ensemble on chain, 4 seeds, 30 episodes)"
    assert again.first(3).rewards.shape == (4, 3)


def test_curves_show_means_intervals_and_who_reached_the_reward():
    slow, quick = np.zeros((4, 40)), np.zeros((4, 40))
    quick[:, 10:], slow[0, 20:] = 1.0, 1.0
    found = {
        "quick": rewards(quick, solved=0.5, window=4),
        "slow": rewards(slow, solved=0.5, window=4),
    }
    (axis,) = reward_curves(found).axes
    first, second, dotted = axis.lines
    np.testing.assert_allclose(first.get_ydata(), found["quick"].averaged().mean(0))
    np.testing.assert_allclose(second.get_ydata(), found["slow"].averaged().mean(0))
    assert dotted.get_ydata()[0] == 0.5
    assert axis.get_xscale() == "log"
    assert [text.get_text() for text in axis.get_legend().get_texts()] == [
        "quick (4 of 4 seeds reach 0.5, median 12)",
        "slow (1 of 4 seeds reach 0.5)",
    ]
    one = reward_curves({"alone": rewards(quick[:1])}, scale="linear")
    assert one.axes[0].get_xscale() == "linear"
    with pytest.raises(NescioError, match="no rewards to draw"):
        reward_curves({})
    with pytest.raises(NescioError, match="unknown scale 'sqrt'"):
        reward_curves(found, scale="sqrt")


def test_no_episodes_are_refused():
    found = Rewards(rewards=np.ones((2, 3)), seeds=(0, 1))
    assert found.first(2).episodes == 2
    with pytest.raises(NescioError, match="episodes must be positive, got 0"):
        found.first(0)


def test_seeds_that_never_reach_a_reward_make_the_interval_infinite():
    rewards = np.zeros((10, 20))
    rewards[:6, 5:] = 1
    found = Rewards(rewards=rewards, seeds=tuple(range(10)), solved=0.5, window=1).episodes_to()
    assert (found.median, found.low, found.high) == (6, 6, np.inf)
    assert found.reached == 6
