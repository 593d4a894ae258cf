"""Environments of Gymnasium beside Gymnasium itself, and what is said where it is not installed."""

import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from nescio.applications.exploration import cart_pole, mountain_car
from nescio.core import NescioError, derive

gymnasium = pytest.importorskip("gymnasium")


@pytest.mark.parametrize("environment", [cart_pole(), mountain_car()], ids=lambda one: one.name)
def test_runs_are_those_of_gymnasium(environment):
    runs, generator = environment.start([3, 4]), torch.Generator().manual_seed(0)
    observed = runs.reset(7)
    own = [gymnasium.make(environment.id) for _ in range(2)]
    firsts = [
        one.reset(seed=derive(seed, environment.name, 7) % 2**32)[0]
        for one, seed in zip(own, (3, 4), strict=True)
    ]
    torch.testing.assert_close(observed, environment.scaled(np.array(firsts)))
    over = [False, False]
    for _ in range(60):
        chosen = torch.randint(environment.actions, (2,), generator=generator)
        observed, rewards, ended = runs.step(chosen)
        for run in range(2):
            if over[run]:
                assert rewards[run] == 0
                continue
            theirs, reward, over[run], *_ = own[run].step(int(chosen[run]))
            torch.testing.assert_close(observed[run], environment.scaled(theirs))
            assert rewards[run] == reward
        assert ended.tolist() == over
    assert environment.steps == own[0].spec.max_episode_steps
    assert environment.actions == own[0].action_space.n
    assert environment.shape == own[0].observation_space.shape
    assert environment.solved == own[0].spec.reward_threshold


def test_the_time_limit_is_not_an_end():
    runs = mountain_car().start([0])
    runs.reset(0)
    ends = [runs.step(torch.tensor([1]))[2] for _ in range(230)]
    assert not torch.stack(ends).any()


def test_observations_are_scaled_to_their_ranges():
    car = mountain_car()
    corners = car.scaled([[-1.2, -0.07], [0.6, 0.07], [-0.3, 0.0]])
    torch.testing.assert_close(corners, torch.tensor([[-1.0, -1.0], [1.0, 1.0], [0.0, 0.0]]))


def test_actions_out_of_range_are_refused():
    runs = cart_pole().start([0])
    runs.reset(0)
    with pytest.raises(NescioError, match="2 actions, 0 to 1"):
        runs.step(torch.tensor([2]))


def test_a_name_that_gymnasium_does_not_know_is_refused():
    with pytest.raises(NescioError, match="no environment 'CartPole-v77'"):
        replace(cart_pole(), id="CartPole-v77").start([0])


def test_a_description_that_does_not_fit_is_refused():
    with pytest.raises(NescioError, match="has 3 actions and observations of shape"):
        replace(cart_pole(), id="MountainCar-v0").start([0])
    with pytest.raises(NescioError, match="3 names and 4 ranges"):
        replace(cart_pole(), names=("a", "b", "c")).start([0])


def test_without_gymnasium_the_extra_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(NescioError, match=r"pip install nescio\[exploration\]"):
        cart_pole().start([0])
