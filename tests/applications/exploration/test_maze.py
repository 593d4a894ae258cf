"""The maze behind the protocol of environments: what agents see, resuming, actions it refuses."""

import pytest
import torch

from nescio.applications.exploration import Maze, learn
from nescio.applications.exploration.maze_world import RANGE
from nescio.core import NescioError

RNG = torch.Generator().manual_seed(0)


def actions(runs):
    return torch.randint(5, (runs,), generator=RNG)


def test_an_observation_has_distance_and_kind_of_each_eye():
    runs = Maze().start(seeds=[0, 1, 2])
    assert runs.reset(0).shape == (3, *Maze().shape) == (3, 27)
    for _ in range(60):
        observed, reward, ended = runs.step(actions(3))
        far, kind = runs.world.seen
        eyes = observed.view(3, 9, 3)
        assert observed.dtype == torch.float32
        assert ((eyes > 0).sum(-1) <= 1).all()
        for run, eye in ((run, eye) for run in range(3) for eye in range(9)):
            wanted = torch.zeros(3)
            if kind[run, eye] >= 0:
                wanted[kind[run, eye]] = 1 - far[run, eye] / RANGE
            torch.testing.assert_close(eyes[run, eye], wanted)
        assert reward.shape == (3,)
        assert not ended.any()


def test_the_maze_goes_on_from_epoch_to_epoch_and_begins_anew_at_the_first():
    runs = Maze().start(seeds=[4])
    first = runs.reset(0)
    for _ in range(30):
        last, _, _ = runs.step(actions(1))
    assert torch.equal(runs.reset(1), last)
    assert torch.equal(runs.reset(0), first)
    assert not torch.equal(first, last)


def test_a_state_that_is_restored_goes_on_as_it_would_have():
    runs, other = Maze().start(seeds=[1, 2]), Maze().start(seeds=[1, 2])
    runs.reset(0)
    for _ in range(200):
        runs.step(actions(2))
    state = {name: tensor.clone() for name, tensor in runs.state().items()}
    assert not any(tensor.is_complex() for tensor in state.values())
    other.restore(state)
    for _ in range(200):
        chosen = actions(2)
        for one, two in zip(runs.step(chosen), other.step(chosen), strict=True):
            assert torch.equal(one, two)


@pytest.mark.parametrize("wrong", [5, -1])
def test_actions_out_of_range_are_refused(wrong):
    runs = Maze().start(seeds=[0, 1])
    with pytest.raises(NescioError, match=f"run 1 is {wrong}"):
        runs.step(torch.tensor([0, wrong]))


def test_an_epoch_without_decisions_is_refused():
    with pytest.raises(NescioError, match="1 step or more, maze has 0"):
        learn(Maze(steps=0), "dropout", episodes=1, seeds=1)
