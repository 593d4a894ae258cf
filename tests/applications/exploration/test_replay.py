"""Replay: the last transitions of each run, drawn alike."""

import torch

from nescio.applications.exploration.replay import Replay, Transitions


def transitions(numbers):
    """Transitions (S, T) whose parts are all their number."""
    seen = numbers[..., None].float()
    return Transitions(
        seen=seen,
        action=numbers,
        reward=numbers.float(),
        after=seen + 1,
        ended=numbers < 0,
        members=seen > 0,
    )


def test_each_run_has_its_last_transitions():
    replay, seen = Replay(2, 5), [[], []]
    draws = torch.Generator().manual_seed(0)
    for episode in range(9):
        numbers = 1 + 20 * episode + torch.arange(2 * (episode + 1)).reshape(2, -1)
        real = torch.rand(numbers.shape, generator=draws) < 0.6
        real[:, 0] = True
        replay.add(transitions(numbers), real)
        for run in range(2):
            seen[run] += numbers[run, real[run]].tolist()
        chance = torch.linspace(0, 1, 101).expand(2, -1)
        drawn = replay.draw(chance)
        for run in range(2):
            assert set(drawn.action[run].tolist()) == set(seen[run][-5:])
        torch.testing.assert_close(drawn.after[..., 0], drawn.reward + 1)
        assert torch.equal(drawn.seen[..., 0], drawn.reward)


def test_what_a_file_holds_goes_on_in_the_same_way():
    first, second = Replay(2, 8), Replay(2, 8)
    real = torch.tensor([[True, True, True], [True, False, False]])
    first.add(transitions(torch.arange(6).reshape(2, 3)), real)
    second.restore(first.state())
    assert len(first.state()["seen"][0]) == 3
    for replay in (first, second):
        replay.add(transitions(10 + torch.arange(6).reshape(2, 3)), real)
    chance = torch.rand(2, 50, generator=torch.Generator().manual_seed(1))
    assert torch.equal(first.draw(chance).action, second.draw(chance).action)
