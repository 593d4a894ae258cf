"""Losses for little labels in the loop: alone as in a stack, resumed, averaged, and worth it."""

import pytest
import torch
from torch import nn

from nescio import NescioError, data, losses, nets, recipes, train
from nescio.data.augmentation import crops, noise
from nescio.losses import Loss
from nescio.training import loop

DRAW = torch.Generator().manual_seed(0)
X = torch.randn(24, 3, generator=DRAW, dtype=torch.float64)
Y = (X[:, 0] > 0).long()
U = torch.randn(50, 3, generator=DRAW, dtype=torch.float64)
NAMES = ["pi_model", "temporal_ensembling", "mean_teacher", "transformation_consistency"]


def small():
    return nets.mlp(3, 2, widths=(6,), dropout=0.3).double()


def normed():
    layers = nn.Linear(3, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Dropout(0.2), nn.Linear(5, 2)
    return nn.Sequential(*layers).double()


def loss_named(name):
    return getattr(losses, name)(losses.nll(), weight=2.0, ramp=0.3)


@pytest.mark.parametrize("make", [small, normed])
@pytest.mark.parametrize("name", NAMES)
def test_a_member_of_a_stack_equals_the_same_member_alone(name, make):
    rows = [torch.arange(24), torch.arange(9), torch.arange(5, 17)]
    options = {"unlabeled": U, "epochs": 5, "batch_size": 6, "unlabeled_size": 8}
    options |= {"loss": loss_named(name), "augment": [noise(0.1)], "learning_rate": 0.01}
    together = train(make, (X, Y), members=3, rows=rows, **options)
    for member in range(3):
        alone = train(make, (X, Y), members=[member], rows=[rows[member]], **options)
        own = rows[member]
        other = train(make, (X[own], Y[own]), members=[member], **options)
        for key, tensor in alone.tensors.items():
            for found in (together.tensors[key][member], other.tensors[key][0]):
                torch.testing.assert_close(tensor[0], found, rtol=0, atol=1e-9)


class StopError(Exception):
    """The run is killed here."""


@pytest.mark.parametrize("name", NAMES)
def test_a_resumed_run_ends_in_the_same_bits(name, tmp_path):
    plain = loss_named(name)

    def stopping(limit):
        """The same loss, by its description too, that ends the run at a step."""

        def step(forward, batch, rng):
            if batch.step == limit:
                raise StopError
            return plain(forward, batch, rng)

        return Loss(
            description=plain.description,
            head=plain.head,
            score=plain.score,
            step=step,
            average=plain.average,
        )

    options = {"unlabeled": U, "epochs": 6, "batch_size": 6, "members": 2, "validation": (X, Y)}
    options |= {"augment": noise(0.1), "checkpoint_seconds": 0.0}
    whole = train(normed, (X, Y), loss=plain, **options)
    with pytest.raises(StopError):
        train(normed, (X, Y), loss=stopping(13), run=tmp_path, **options)
    resumed = train(normed, (X, Y), loss=stopping(-1), run=tmp_path, **options)
    for key, tensor in whole.tensors.items():
        assert torch.equal(tensor, resumed.tensors[key])
    assert torch.equal(whole.history.validation, resumed.history.validation)


def test_the_averaged_network_is_validated_and_returned(monkeypatch):
    """By hand: one decay in the ramp, then another, and the plain mean until that is slower."""
    after, inner = [], loop._average

    def watched(average, weights, decay, step):
        after.append((decay, {name: tensor.clone() for name, tensor in weights.items()}))
        inner(average, weights, decay, step)

    monkeypatch.setattr(loop, "_average", watched)
    loss = losses.mean_teacher(losses.nll(), ramp=0.3, decay=0.9, early_decay=0.6)
    options = {"unlabeled": U, "epochs": 10, "batch_size": 12, "learning_rate": 0.05}
    model = train(small, (X, Y), loss=loss, validation=(X, Y), **options)
    assert [decay for decay, _ in after] == [0.6] * 6 + [0.9] * 14  # of 20 steps
    for name in model.tensors:
        mean = torch.zeros_like(model.tensors[name])
        for step, (decay, weights) in enumerate(after):
            keep = min(decay, step / (step + 1))
            mean = keep * mean + (1 - keep) * weights[name]
        torch.testing.assert_close(model.tensors[name], mean)
    score = nn.functional.cross_entropy(model.member(0)(X), Y)
    torch.testing.assert_close(score, model.history.validation[-1, 0])
    after.clear()
    train(small, (X, Y), loss=loss, average=0.5, **options)  # replaces both
    assert {decay for decay, _ in after} == {0.5}


def test_ranges_and_the_walk_include_unlabeled_inputs():
    """Each once before one comes again, also from epoch to epoch."""
    seen, ranges = [], []

    def watching(forward, batch, rng):
        seen.append(batch.unlabeled_index.clone())
        ranges.append((batch.low, batch.high))
        assert torch.equal(batch.unlabeled[0], U[batch.unlabeled_index[0]])
        return losses.nll()(forward, batch, rng)

    train(small, (X, Y), loss=watching, unlabeled=U, epochs=5, batch_size=None, unlabeled_size=20)
    order = torch.cat(seen, 1)[0]
    assert sorted(order[:50].tolist()) == list(range(50))
    assert sorted(order[50:].tolist()) == list(range(50))
    low, high = ranges[0]
    assert torch.equal(low, torch.cat([X, U]).amin(0))
    assert torch.equal(high, torch.cat([X, U]).amax(0))


def test_bytes_and_floats_get_noise():
    images = torch.randint(256, (9, 1, 6, 6), generator=DRAW, dtype=torch.uint8)
    rng = torch.Generator().manual_seed(1)
    moved = noise(0.1).change(images, rng)
    assert moved.dtype == torch.uint8
    inside = (images > 100) & (images < 155)
    gap = (moved.double() - images.double())[inside] / 255
    assert gap.std() == pytest.approx(0.1, rel=0.25)
    with pytest.raises(NescioError, match="deviation must be a positive number"):
        noise(0)
    with pytest.raises(NescioError, match="needs images"):
        train(small, (X, Y), augment=[noise(), crops()], epochs=1)


def test_labels_among_unlabeled_inputs_are_refused():
    mixed = torch.where(torch.arange(24) < 6, Y, -1)
    with pytest.raises(NescioError, match=r"18 of 24 labels are -1.*unlabeled=x\[y < 0\]"):
        train(small, (X, mixed), epochs=1)
    for given in ((X, Y), [X, mixed], {"x": X, "labels": Y}):
        with pytest.raises(NescioError, match="takes inputs alone, got inputs with labels"):
            train(small, (X, Y), unlabeled=given, epochs=1)
    with pytest.raises(NescioError, match=r"'half_moons' has labels.*dataset\.train\[0\]"):
        train(small, (X, Y), unlabeled=data.half_moons(), epochs=1)
    with pytest.raises(NescioError, match="pi_model learns from inputs without labels"):
        train(small, (X, Y), loss=losses.pi_model(losses.nll()), epochs=2)
    plain = lambda: nets.mlp(3, 2).double()  # noqa: E731
    with pytest.raises(NescioError, match="are the same here, so the term would be 0"):
        train(plain, (X, Y), loss=losses.pi_model(losses.nll()), unlabeled=U, epochs=2)
    ignored = train(small, (X, mixed), ignore_index=-1, epochs=1)
    assert len(ignored.history.train) == 1


def test_scaling_reads_unlabeled_inputs_too():
    model = train(small, (X[:6], Y[:6]), unlabeled=U, standardize=True, epochs=1)
    mean = next(tensor for name, tensor in model.tensors.items() if name.endswith("mean"))
    torch.testing.assert_close(mean[0], torch.cat([X[:6], U]).mean(0))


def few(draw):
    """Three labels along each arm of the half-moons, and all inputs."""
    moons = data.half_moons(train=500, seed=draw)
    x, y = moons.train
    along = [torch.where(y == k)[0][x[y == k, 0].argsort()] for k in (0, 1)]
    chosen = torch.cat([own[[len(own) // 6, len(own) // 2, 5 * len(own) // 6]] for own in along])
    return (x[chosen], y[chosen]), x, moons.test


@pytest.mark.parametrize("name", ["mean_teacher", "virtual_adversarial"])
def test_half_moons_with_six_labels_are_learned(name):
    recipe = recipes.virtual_adversarial(radius=0.1, weight=3.0, entropy=0.3)
    if name == "mean_teacher":
        recipe = recipes.mean_teacher(weight=20.0, decay=0.98, early_decay=0.9, dropout=0.0)
    labeled, x, test = few(0)
    options = {"epochs": 500, "learning_rate": 0.01, "batch_size": None, "unlabeled_size": 100}
    options |= {"augment": noise(0.1)} if name == "mean_teacher" else {}
    make = lambda: nets.mlp(2, 2, widths=(32, 32))  # noqa: E731
    model = train(make, labeled, loss=recipe.loss, unlabeled=x, **options)
    accuracy = (model(test[0]).labels == test[1]).double().mean()
    assert accuracy > 0.9
