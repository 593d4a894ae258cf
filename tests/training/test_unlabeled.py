"""Inputs without labels beside the batch: their order, augmentation and checks."""

import pytest
import torch

from nescio import NescioError, losses, nets, train
from nescio.data.augmentation import crops
from nescio.losses import Loss

DRAW = torch.Generator().manual_seed(0)
X = torch.randn(40, 3, generator=DRAW, dtype=torch.float64)
Y = (X[:, 0] > 0).long()
U = torch.arange(70, dtype=torch.float64)[:, None].expand(-1, 3) / 100


def small():
    return nets.mlp(3, 2, widths=(6,), dropout=0.2).double()


def consistent(seen=None):
    """The likelihood, and the distance between two passes with other masks on unlabeled inputs."""
    base = losses.nll()

    def step(forward, batch, rng):
        if seen is not None:
            seen.append((rng.place, batch.unlabeled.clone()))
        two = forward(batch.unlabeled), forward.again("second")(batch.unlabeled)
        gap = (two[0].softmax(-1) - two[1].softmax(-1)).square().sum(-1).mean(1)
        return base(forward, batch, rng) + gap

    return Loss(description="consistent", head=base.head, score=base.score, step=step)


def numbers(seen, member, epoch):
    """Which unlabeled inputs a member saw in an epoch, in order."""
    found = [batch[member, :, 0] * 100 for (at, *_), batch in seen if at == epoch]
    return torch.cat(found).round().long().tolist()


def test_each_member_walks_through_them_in_an_order_of_its_own():
    seen = []
    options = {"unlabeled": U, "members": 2, "epochs": 2, "batch_size": 10, "unlabeled_size": 25}
    train(small, (X, Y), loss=consistent(seen), **options)
    assert {batch.shape for _, batch in seen} == {(2, 25, 3)}
    first, second = numbers(seen, 0, 0), numbers(seen, 0, 1)
    assert len(first) == 100
    assert sorted(first[:70]) == list(range(70))  # each once before one comes again
    assert len(set(first[70:])) == 30
    assert first != second
    assert first != numbers(seen, 1, 0)


@pytest.mark.parametrize(("batch_size", "size"), [(10, 10), (None, 70), (100, 70)])
def test_a_step_has_as_many_as_the_batch_size(batch_size, size):
    seen = []
    options = {"unlabeled": U, "epochs": 1, "batch_size": batch_size}
    train(small, (X, Y), loss=consistent(seen), **options)
    assert {batch.shape for _, batch in seen} == {(1, size, 3)}


def test_a_member_of_a_stack_equals_the_same_member_alone():
    rows = [torch.arange(40), torch.arange(25), torch.arange(10, 33)]
    options = {"unlabeled": U, "epochs": 5, "batch_size": 10, "loss": consistent()}
    together = train(small, (X, Y), members=3, rows=rows, **options)
    for member in range(3):
        alone = train(small, (X, Y), members=[member], rows=[rows[member]], **options)
        for key, tensor in alone.tensors.items():
            torch.testing.assert_close(tensor[0], together.tensors[key][member], rtol=0, atol=1e-9)


def test_images_are_augmented_and_bytes_become_floats():
    images = torch.randint(256, (30, 1, 6, 6), generator=DRAW, dtype=torch.uint8)
    seen = []
    make = lambda: torch.nn.Sequential(torch.nn.Flatten(), nets.mlp(36, 2))  # noqa: E731
    options = {"unlabeled": images, "epochs": 1, "batch_size": 10, "augment": crops(2)}
    train(make, (images.float() / 255, Y[:30]), loss=consistent(seen), **options)
    for _, batch in seen:
        assert batch.dtype == torch.float32
        assert batch.max() <= 1
    whole = torch.cat([batch[0] for _, batch in seen])
    floats = images.float() / 255
    kept = sum(any(torch.equal(image, one) for one in floats) for image in whole)
    assert kept < 10  # about one in 25 is not moved
    moved = sum(
        any(torch.equal(image[:, 2:4, 2:4], one[:, a : a + 2, b : b + 2]) for one in floats
            for a in range(5) for b in range(5))
        for image in whole
    )  # fmt: skip
    assert moved == 30


def test_bad_input_is_refused(tmp_path):
    with pytest.raises(NescioError, match=r"unlabeled inputs have shape \(2,\) per sample"):
        train(small, (X, Y), unlabeled=U[:, :2], epochs=1)
    with pytest.raises(NescioError, match="unlabeled inputs contain NaN"):
        train(small, (X, Y), unlabeled=U * torch.nan, epochs=1)
    with pytest.raises(NescioError, match="unlabeled_size must be positive"):
        train(small, (X, Y), unlabeled=U, unlabeled_size=0, epochs=1)
    with pytest.raises(NescioError, match=r"inputs with labels; give unlabeled=x\."):
        train(small, (X, Y), unlabeled=(X, Y), epochs=1)
    with pytest.raises(NescioError, match="give unlabeled="):
        train(small, (X, Y), unlabeled_size=5, epochs=1)
    with pytest.raises(NescioError, match="empty"):
        train(small, (X, Y), unlabeled=U[:0], epochs=1)
    train(small, (X, Y), unlabeled=U, epochs=1, run=tmp_path)
    with pytest.raises(NescioError, match="unlabeled"):
        train(small, (X, Y), unlabeled=U + 1, epochs=1, run=tmp_path)
