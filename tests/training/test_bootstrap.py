"""Bootstrap: each member trains on its own resample of the samples, the same in every epoch."""

import pytest
import torch
from torch import nn

from nescio import losses, nets, train
from nescio.core import Rng
from nescio.losses import Loss

POINTS = 40


def numbered():
    """Inputs that tell which case they are."""
    x = torch.arange(POINTS, dtype=torch.float64)[:, None] / POINTS
    return x, (x[:, 0] > 0.5).long()


def small():
    return nets.mlp(1, 2, widths=(6,)).double()


def watched(seen):
    """The likelihood, noting which samples each member is shown at each step."""
    base = losses.nll()

    def step(forward, batch, rng):
        samples = (batch.x[:, :, 0] * POINTS).round().long()
        seen.append((rng.place, rng.members, samples.tolist()))
        return base(forward, batch, rng)

    return Loss(description="watched", head=base.head, score=base.score, step=step)


def epochs_of(seen, member):
    """The samples of each epoch of a member, sorted."""
    found = {}
    for (epoch, _), members, samples in seen:
        found.setdefault(epoch, []).extend(samples[members.index(member)])
    return [sorted(samples) for _, samples in sorted(found.items())]


@pytest.mark.parametrize("batch_size", [None, 7])
def test_each_member_has_its_own_resample_in_every_epoch(batch_size):
    seen = []
    options = {"epochs": 3, "batch_size": batch_size, "seed": 4, "bootstrap": True}
    train(small, numbered(), members=3, loss=watched(seen), **options)
    samples = Rng(4, (0, 1, 2)).choices(POINTS)
    for member in range(3):
        assert epochs_of(seen, member) == [sorted(samples[member].tolist())] * 3
        assert 15 < len(set(epochs_of(seen, member)[0])) < 35  # about 63 % of the samples
    assert len({tuple(epochs_of(seen, member)[0]) for member in range(3)}) == 3


def test_the_order_within_a_resample_differs_between_epochs():
    seen = []
    train(small, numbered(), loss=watched(seen), epochs=2, batch_size=10, bootstrap=True)
    first, second = (
        [sample for (at, _), _, samples in seen if at == epoch for sample in samples[0]]
        for epoch in (0, 1)
    )
    assert sorted(first) == sorted(second)
    assert first != second


@pytest.mark.parametrize("batch_size", [None, 15])
def test_a_member_of_a_stack_equals_the_same_member_alone(batch_size):
    options = {"epochs": 20, "batch_size": batch_size, "seed": 3, "bootstrap": True}
    together = train(small, numbered(), members=3, learning_rate=0.01, **options)
    for member in range(3):
        alone = train(small, numbered(), members=[member], learning_rate=0.01, **options)
        for key, tensor in alone.tensors.items():
            torch.testing.assert_close(tensor[0], together.tensors[key][member], rtol=0, atol=1e-9)


def test_full_batch_equals_training_on_the_resample_itself():
    """One member, all samples at once: nothing else is drawn after the start."""
    x, y = numbered()
    options = {"epochs": 20, "batch_size": None, "learning_rate": 0.01, "seed": 2}
    ours = train(small, (x, y), members=[1], bootstrap=True, **options)
    index = Rng(2, (1,)).choices(POINTS)[0]
    truth = train(small, (x[index], y[index]), members=[1], **options)
    for key, tensor in truth.tensors.items():
        torch.testing.assert_close(ours.tensors[key], tensor, rtol=0, atol=1e-9)


def test_a_folder_of_a_run_without_it_is_refused(tmp_path):
    train(small, numbered(), epochs=1, run=tmp_path)
    with pytest.raises(ValueError, match="bootstrap"):
        train(small, numbered(), epochs=1, run=tmp_path, bootstrap=True)


def test_members_from_one_start_differ_by_their_resamples_alone():
    """The same initial weights, full batch: without the bootstrap all members are equal."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        state = small().state_dict()

    def same():
        net = small()
        net.load_state_dict(state)
        return net

    options = {"members": 3, "epochs": 10, "batch_size": None, "learning_rate": 0.05}
    alike = train(same, numbered(), **options)
    unlike = train(same, numbered(), bootstrap=True, **options)
    assert isinstance(alike.net, nn.Sequential)
    assert alike.tensors["0.weight"].std(0).max() < 1e-12
    assert unlike.tensors["0.weight"].std(0).max() > 1e-3
