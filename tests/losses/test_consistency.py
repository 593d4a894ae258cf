"""Losses for little labels by brute force: each term, its ramp, and who counts in it."""

from dataclasses import replace
from itertools import combinations
from math import exp

import pytest
import torch
from torch import nn

from nescio import heads, losses
from nescio.core import NescioError, Rng
from nescio.data.augmentation import augment, noise
from nescio.losses import Batch, Loss
from nescio.losses.consistency import mutual_exclusivity
from nescio.nets.stack import Forward, Stack, stack

RNG = Rng(5, (0, 1), (3, 0))
DRAW = torch.Generator().manual_seed(0)


def forward_of(*layers):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        made = [nn.Sequential(nn.Linear(3, 8), *layers, nn.Linear(8, 4)).double() for _ in "ab"]
    architecture, tensors = Stack(made[0]), stack(made)
    for name in architecture.trained:
        tensors[name].requires_grad_()
    averaged = {name: (0.8 * tensor.detach()).to(tensor.dtype) for name, tensor in tensors.items()}
    return Forward(architecture, tensors, RNG, averaged=averaged)


def batch_of(step=30, **options):
    """In an epoch of one step, 30 of 100."""
    x = torch.rand(2, 6, 3, generator=DRAW, dtype=torch.float64)
    return Batch(
        x=x,
        y=torch.zeros(2, 6, dtype=torch.long),
        points=6,
        low=x.amin((0, 1)),
        high=x.amax((0, 1)),
        index=torch.arange(6).expand(2, -1),
        data_points=6,
        unlabeled=torch.rand(2, 5, 3, generator=DRAW, dtype=torch.float64),
        unlabeled_index=torch.tensor([[0, 3, 8, 4, 2], [9, 1, 0, 2, 5]]),
        unlabeled_points=10,
        step=step,
        total=100,
        **options,
    )


def silent():
    """A base without a data term, so that only the other term is left."""
    return Loss(
        description="none",
        head=heads.categorical(),
        score=lambda outputs, y: outputs[..., 0],
        step=lambda f, b, r: torch.zeros(2, dtype=torch.float64),
    )


def everything(batch):
    return torch.cat([batch.x, batch.unlabeled], 1)


def test_pi_model_is_the_mean_squared_distance_of_two_passes():
    forward, batch = forward_of(nn.Dropout(0.5)), batch_of()
    first = forward(everything(batch)).softmax(-1)
    second = forward.again("second")(everything(batch)).softmax(-1)
    truth = 7 * (first - second).square().mean((1, 2))  # over inputs and classes
    found = losses.pi_model(silent(), weight=7.0)(forward, batch, RNG)
    torch.testing.assert_close(found, truth)
    both = torch.autograd.grad(found.sum(), list(forward.parameters.values()))
    wanted = torch.autograd.grad(truth.sum(), list(forward.parameters.values()))
    torch.testing.assert_close(both, wanted)  # gradients go through both passes


def test_the_base_reads_the_same_pass_over_all_inputs():
    """The mean over labels, and BatchNorm sees labeled and unlabeled inputs together, once."""
    forward, batch = forward_of(nn.BatchNorm1d(8), nn.Dropout(0.3)), batch_of()
    scores = -forward(everything(batch)).log_softmax(-1)[:, :6, 0]
    fresh = forward_of(nn.BatchNorm1d(8), nn.Dropout(0.3))
    found = losses.mean_teacher(losses.nll(), weight=0.0)(fresh, batch, RNG)
    torch.testing.assert_close(found, scores.mean(1))
    for name in ("1.running_mean", "1.running_var", "1.num_batches_tracked"):
        torch.testing.assert_close(fresh.tensors[name], forward.tensors[name])
    assert fresh.tensors["1.num_batches_tracked"].tolist() == [1, 1]


def test_mean_teacher_is_the_distance_from_the_averaged_network():
    forward, batch = forward_of(nn.Dropout(0.5)), batch_of()
    student = forward(everything(batch)).softmax(-1)
    teacher = forward.average.again("teacher")(everything(batch)).softmax(-1)
    assert not teacher.requires_grad
    truth = 3 * (student - teacher).square().mean((1, 2))
    loss = losses.mean_teacher(silent(), weight=3.0, ramp=0.2)
    torch.testing.assert_close(loss(forward, batch, RNG), truth)
    assert [loss.average(step, 100) for step in (0, 19, 20, 99)] == [0.99, 0.99, 0.999, 0.999]
    assert losses.weight_decay(loss).average is loss.average  # other losses keep it


@pytest.mark.parametrize("passes", [2, 3, 5])
def test_transformations_are_compared_in_pairs(passes):
    forward, batch = forward_of(nn.Dropout(0.5)), batch_of()
    every = [forward(everything(batch)).softmax(-1)]
    every += [
        forward.again(f"pass {number}")(everything(batch)).softmax(-1)
        for number in range(1, passes)
    ]
    pairs = sum((one - two).square().sum(-1) for one, two in combinations(every, 2))
    exclusive = mutual_exclusivity(every[0])
    truth = (2 * pairs + 0.3 * exclusive).mean(1)
    options = {"weight": 2.0, "passes": passes, "exclusivity": 0.3}
    loss = losses.transformation_consistency(silent(), **options)
    torch.testing.assert_close(loss(forward, batch, RNG), truth)
    assert torch.equal(loss(forward, replace(batch, step=1), RNG), loss(forward, batch, RNG))


def test_mutual_exclusivity_by_hand():
    certain = torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64, requires_grad=True)
    assert mutual_exclusivity(certain) == -1
    assert torch.autograd.grad(mutual_exclusivity(certain), certain)[0].isfinite().all()
    p = torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64)
    by_hand = -(0.2 * 0.7 * 0.5 + 0.3 * 0.8 * 0.5 + 0.5 * 0.8 * 0.7)
    torch.testing.assert_close(mutual_exclusivity(p), p.new_tensor(by_hand))


@pytest.mark.parametrize("name", ["pi_model", "temporal_ensembling", "mean_teacher"])
def test_the_weight_ramps_up_as_published(name):
    """0 in the first epoch, then exp(-5 (1 - t)^2) over 80 of 300 epochs."""
    forward, batch = forward_of(nn.Dropout(0.5)), replace(batch_of(), steps=4, total=1200)
    loss = getattr(losses, name)(silent(), weight=1.0)
    if name == "temporal_ensembling":
        loss(forward, batch, RNG)
    stored = {key: tensor.clone() for key, tensor in batch.memory.items()}

    def at(step):
        memory = {key: tensor.clone() for key, tensor in stored.items()}
        return loss(forward, replace(batch, step=step, memory=memory), RNG.at(9, 0))

    full = at(320)
    assert (full > 0).all()
    for epoch, share in [(0, 0.0), (1, exp(-5 * (79 / 80) ** 2)), (40, exp(-1.25)), (299, 1.0)]:
        torch.testing.assert_close(at(4 * epoch), share * full)
    assert (at(3) == 0).all()  # still the first epoch


def test_augmentations_are_drawn_again_for_every_pass():
    forward = forward_of()  # without dropout
    steps = (noise(0.1),)
    batch = batch_of(augment=lambda x, rng: augment(steps, x, rng))
    batch = replace(batch, original=batch.x, unlabeled_original=batch.unlabeled)
    again = batch.again("second", RNG)
    assert not torch.equal(again.x, batch.x)
    assert not torch.equal(again.unlabeled, batch.again("third", RNG).unlabeled)
    own = slice(1, 2)  # a member alone draws the same
    torch.testing.assert_close(batch.members(own).again("second", RNG.of(own)).x, again.x[own])
    gap = forward(everything(batch)).softmax(-1) - forward(everything(again)).softmax(-1)
    truth = gap.square().mean((1, 2))
    found = losses.pi_model(silent(), weight=1.0)(forward, batch, RNG)
    torch.testing.assert_close(found, truth)
    maps = replace(batch, y=torch.zeros(2, 6, 1, 1, dtype=torch.long))
    with pytest.raises(NescioError, match="move the pixels of label maps"):
        maps.again("second", RNG)
    plain = batch_of()
    assert plain.again("second", RNG) is plain


def test_weights_count_for_labeled_inputs_and_unlabeled_ones_count_1():
    forward, batch = forward_of(nn.Dropout(0.5)), batch_of()
    weight = torch.tensor([[1.0, 0, 2, 0, 0, 1], [0, 0, 0, 0, 0, 0]], dtype=torch.float64)
    first = forward(everything(batch)).softmax(-1)
    second = forward.again("second")(everything(batch)).softmax(-1)
    scores, every = (
        (first - second).square().mean(-1),
        torch.cat([weight, weight.new_ones(2, 5)], 1),
    )
    truth = (scores * every).sum(1) / every.sum(1)
    loss = losses.pi_model(silent(), weight=1.0)
    torch.testing.assert_close(loss(forward, replace(batch, weight=weight), RNG), truth)


def test_virtual_adversarial_reads_unlabeled_inputs_too():
    """The same as all inputs in one labeled batch: labels do not matter to it."""
    forward, batch = forward_of(nn.Tanh()), batch_of()
    x = everything(batch)
    whole = replace(batch, x=x, y=torch.zeros(2, 11, dtype=torch.long), unlabeled=None)
    for options in ({}, {"iterations": 2, "probe": 0.1}, {"entropy": 0.5}):
        loss = losses.virtual_adversarial(silent(), radius=0.3, **options)
        torch.testing.assert_close(loss(forward, batch, RNG), loss(forward, whole, RNG))
    logs = forward(x).log_softmax(-1)
    entropy = -(logs.exp() * logs).sum(-1).mean(1)
    one, two = (losses.virtual_adversarial(silent(), entropy=e) for e in (0.0, 0.5))
    torch.testing.assert_close(two(forward, batch, RNG), one(forward, batch, RNG) + 0.5 * entropy)
    texts = {losses.virtual_adversarial(silent(), **o).description for o in ({}, {"probe": 1e-3})}
    assert len(texts) == 2
    with pytest.raises(NescioError, match="entropy is that of classes"):
        losses.virtual_adversarial(losses.nll(heads.gaussian()), entropy=1.0)


@pytest.mark.parametrize(
    "name", ["pi_model", "temporal_ensembling", "mean_teacher", "transformation_consistency"]
)
def test_bad_input_is_refused(name):
    make = getattr(losses, name)
    with pytest.raises(
        NescioError, match=r"ramp is a share of the training.*got 80: it would take 80"
    ):
        make(losses.nll(), ramp=80)
    with pytest.raises(NescioError, match="weight must be a number from 0 up, got -1"):
        make(losses.nll(), weight=-1)
    with pytest.raises(
        NescioError, match=f"{name} compares class probabilities; the gaussian head"
    ):
        make(losses.nll(heads.gaussian()))
    forward, batch = forward_of(nn.Dropout(0.5)), batch_of()
    with pytest.raises(NescioError, match=f"{name} learns from inputs without labels, and there"):
        make(silent())(forward, replace(batch, unlabeled=None), RNG)
    with pytest.raises(NescioError, match="0 in the first epoch, and the training has only one"):
        make(silent(), ramp=0.5)(forward, replace(batch, steps=100, step=5), RNG)


def test_passes_that_are_the_same_are_refused():
    forward, batch = forward_of(), batch_of(step=0)
    for name in ("pi_model", "transformation_consistency"):
        with pytest.raises(NescioError, match=f"{name} compares passes with different dropout"):
            getattr(losses, name)(silent())(forward, batch, RNG)
    with pytest.raises(NescioError, match="passes >= 2 and exclusivity >= 0"):
        losses.transformation_consistency(losses.nll(), passes=1)
    with pytest.raises(NescioError, match="decays are between 0 and 1"):
        losses.mean_teacher(losses.nll(), decay=1.0)
