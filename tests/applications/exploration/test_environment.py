"""The environments: their laws, and what is refused."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from nescio.applications.exploration import Bandit, Chain, as_actions, learn
from nescio.applications.exploration.environment import described
from nescio.core import NescioError

ENVIRONMENTS = [Bandit(), Bandit(actions=3, features=4, noise=0.1), Chain(length=5)]


@pytest.mark.parametrize("environment", ENVIRONMENTS, ids=lambda e: e.name)
def test_runs_have_the_shapes_they_say_and_a_run_in_a_stack_is_the_run_alone(environment):
    together, alone = environment.start([3, 7, 8]), environment.start([7])
    for episode in range(3):
        seen, own = together.reset(episode), alone.reset(episode)
        assert seen.shape == (3, *environment.shape)
        assert seen.dtype == torch.float32
        torch.testing.assert_close(seen[1:2], own, rtol=0, atol=0)
        action = torch.arange(3) % environment.actions
        for both, single in zip(together.step(action), alone.step(action[1:2]), strict=True):
            assert len(both) == 3
            torch.testing.assert_close(both[1:2], single, rtol=0, atol=0)


def test_a_chain_pays_at_its_ends_and_the_far_one_ends_the_episode():
    chain = Chain(length=6)
    runs = chain.start([0, 1])
    runs.reset(0)
    back = 1 - runs.onward[torch.arange(2), 1]
    seen, reward, ended = runs.step(back)
    assert seen[:, 0].tolist() == [1, 1]
    np.testing.assert_allclose(reward, 0.001)
    assert not ended.any()
    runs.reset(1)
    gained = torch.zeros(2)
    for state in range(1, 5):
        seen, reward, ended = runs.step(runs.onward[:, state])
        assert seen.argmax(1).tolist() == [state + 1] * 2
        gained += reward
    assert ended.all()
    assert gained.tolist() == [1, 1]


def test_which_action_leads_on_differs_by_state_and_seed():
    onward = Chain(length=40).start(range(50)).onward.double()
    assert abs(float(onward.mean()) - 0.5) < 4 * 0.5 / np.sqrt(onward.numel())
    assert len({tuple(row.tolist()) for row in onward}) == 50


@pytest.mark.parametrize("slack", [0, 5])
def test_random_actions_reach_the_far_end_as_often_as_the_walk_says(slack):
    chain = Chain(length=5, slack=slack)
    place, arrived = np.eye(5)[1], 0.0
    for _ in range(chain.steps):
        moved = np.zeros(5)
        for state in range(4):
            moved[max(state - 1, 0)] += place[state] / 2
            moved[state + 1] += place[state] / 2
        arrived += moved[4]
        moved[4] = 0
        place = moved
    if not slack:
        assert arrived == 2.0 ** -(chain.length - 2)
    found = learn(chain, "epsilon_greedy,epsilon=1", episodes=1, seeds=400, updates=1, widths=(4,))
    share = (found.rewards >= 1).mean()
    assert abs(share - arrived) < 4 * np.sqrt(arrived * (1 - arrived) / 400)


def test_a_bandit_pays_its_means_with_noise():
    bandit = Bandit(actions=3, features=2, noise=0.5)
    runs = bandit.start([5])
    rest = []
    for episode in range(800):
        seen = runs.reset(episode)
        expected = bandit.means([5])[0, episode % 3] @ seen[0]
        reward = runs.step(torch.tensor([episode % 3]))[1]
        rest.append(float(reward[0] - expected))
    assert abs(np.mean(rest)) < 4 * 0.5 / np.sqrt(800)
    assert abs(np.std(rest) - 0.5) < 4 * 0.5 / np.sqrt(1600)


@pytest.mark.parametrize(
    ("actions", "words"),
    [
        ([0, 2], "the action of run 1 is 2; there are 2 actions, 0 to 1"),
        ([-1, 0], "the action of run 0 is -1"),
        ([0], "2 whole numbers, one for each run"),
        ([0.0, 1.0], "2 whole numbers"),
        ([True, False], "2 whole numbers"),
    ],
)
def test_actions_out_of_range_are_refused(actions, words):
    with pytest.raises(NescioError, match=words):
        as_actions(torch.tensor(actions), runs=2, count=2)
    runs = Chain(length=4).start([0, 1])
    runs.reset(0)
    with pytest.raises(NescioError, match=words):
        runs.step(torch.tensor(actions))


def test_options_out_of_range_are_refused():
    with pytest.raises(NescioError, match="a slack of 0 or more, got 2 and 0"):
        Chain(length=2)
    with pytest.raises(NescioError, match="noise of 0 or more"):
        Bandit(noise=-1)
    with pytest.raises(NescioError, match="a dataclass; got <class"):
        described(Chain)
    with pytest.raises(NescioError, match="lacks actions, shape, steps"):
        described(Named("some"))
    with pytest.raises(NescioError, match="fields of chain must be numbers and texts"):
        described(Held(torch.zeros(2)))


@dataclass(frozen=True)
class Named:
    name: str


@dataclass(frozen=True)
class Held(Chain):
    values: torch.Tensor
