"""CEDA: equations 1 and 3 by hand, one pass for both halves, which inputs come when."""

import math

import numpy as np
import pytest
import torch
from scipy.special import log_softmax
from torch import nn

from nescio import NescioError, heads, losses, nets, train
from nescio.core import Rng
from nescio.data.ood import another, uniform
from nescio.losses import Batch, with_ood
from nescio.losses.with_ood import APART, turns
from nescio.nets.stack import Forward, Stack, stack

MEMBERS, SAMPLES, FEATURES, CLASSES = 2, 5, 3, 4
OOD = uniform((FEATURES,), seed=7)


def make():
    return nn.Sequential(nn.Linear(FEATURES, 6), nn.Tanh(), nn.Linear(6, CLASSES)).double()


def situation(make=make, step=2, members=MEMBERS):
    made = [make() for _ in range(members)]
    x = torch.rand(members, SAMPLES, FEATURES).double()
    y = torch.randint(CLASSES, (members, SAMPLES))
    batch = Batch(
        x=x, y=y, points=20, low=x.amin((0, 1)), high=x.amax((0, 1)), steps=4, step=step, total=40
    )
    tensors = {
        name: t.requires_grad_() if t.is_floating_point() and "running" not in name else t
        for name, t in stack(made).items()
    }
    rng = Rng(3, tuple(range(members)), (0, step))
    return made, Forward(Stack(made[0]), tensors, rng), batch, rng


def others(batch, rng, ood=OOD, share=1.0, pool=None):
    index = turns(ood, batch, rng, share, pool).index
    return torch.stack([ood(row) for row in index]).double()


def logs(net, x):
    return log_softmax(net(x).detach().numpy(), -1)


def cross_entropy(net, x, y):
    return -logs(net, x)[np.arange(len(x)), y.numpy()].mean()


@pytest.mark.parametrize("weight", [0.0, 1.0, 2.5])
def test_the_value_is_equation_1_with_the_largest_log_probability_of_equation_3(weight):
    made, forward, batch, rng = situation()
    values = losses.ceda(losses.nll(), OOD, weight=weight)(forward, batch, rng)
    noise = others(batch, rng)
    for member, net in enumerate(made):
        truth = cross_entropy(net, batch.x[member], batch.y[member])
        truth += weight * logs(net, noise[member]).max(-1).mean()
        assert values[member].item() == pytest.approx(truth, rel=1e-12)


def test_the_other_form_is_the_divergence_from_uniform_and_a_constant():
    made, forward, batch, rng = situation()
    values = losses.ceda(losses.nll(), OOD, form="uniform")(forward, batch, rng)
    noise = others(batch, rng)
    for member, net in enumerate(made):
        divergence = (-math.log(CLASSES) - logs(net, noise[member])).mean()  # KL(uniform || p)
        truth = cross_entropy(net, batch.x[member], batch.y[member]) + divergence
        assert values[member].item() == pytest.approx(truth + math.log(CLASSES), rel=1e-12)


def test_both_forms_have_their_minimum_at_the_uniform_answer():
    outputs = torch.zeros(1, 1, CLASSES, dtype=torch.float64, requires_grad=True)
    for form, lowest in (("max", -math.log(CLASSES)), ("uniform", math.log(CLASSES))):
        value = with_ood.confidence_term(heads.categorical(), outputs, form)
        assert value.item() == pytest.approx(lowest)
        (slope,) = torch.autograd.grad(value.sum(), outputs)
        assert slope.abs().max() < 1e-15
        others = torch.randn(1, 100, CLASSES).double()
        other = with_ood.confidence_term(heads.categorical(), others, form)
        assert other.item() > lowest


@pytest.mark.parametrize("form", ["max", "uniform"])
def test_the_gradient_is_that_of_finite_differences(form):
    loss = losses.ceda(losses.nll(), OOD, weight=1.5, form=form)
    _, forward, batch, rng = situation()
    slopes = torch.autograd.grad(loss(forward, batch, rng).sum(), list(forward.parameters.values()))
    for weight, slope in zip(forward.parameters.values(), slopes, strict=True):
        flat = weight.detach().view(-1)
        for place in (0, len(flat) // 2, len(flat) - 1):
            before, values = flat[place].item(), []
            for shift in (1e-6, -1e-6):
                flat[place] = before + shift
                values.append(loss(forward, batch, rng).sum().item())
            flat[place] = before
            truth = (values[0] - values[1]) / 2e-6
            assert slope.reshape(-1)[place].item() == pytest.approx(truth, rel=1e-6, abs=1e-8)


class Counting(Stack):
    def __init__(self, net):
        super().__init__(net)
        self.calls = []

    def __call__(self, tensors, x, rng=None):
        self.calls.append(tuple(x.shape))
        return super().__call__(tensors, x, rng)


@pytest.mark.parametrize(
    "loss",
    [
        losses.ceda(losses.nll(), OOD),
        losses.outlier_exposure(losses.nll(), OOD),
        losses.ceda(losses.weight_decay(losses.nll()), OOD),
    ],
    ids=["ceda", "outlier exposure", "ceda of decay"],
)
def test_both_halves_run_in_one_pass(loss):
    made, forward, batch, rng = situation()
    counting = Counting(made[0])
    value = loss(Forward(counting, forward.tensors, rng), batch, rng)
    assert counting.calls == [(MEMBERS, 2 * SAMPLES, FEATURES)]
    torch.testing.assert_close(value, loss(forward, batch, rng))


def test_two_out_distributions_still_run_in_one_pass():
    made, forward, batch, rng = situation()
    counting, second = Counting(made[0]), uniform((FEATURES,), seed=8)
    inner = losses.ceda(losses.nll(), OOD, weight=2.0)
    value = losses.ceda(inner, second, weight=3.0)(
        Forward(counting, forward.tensors, rng), batch, rng
    )
    assert counting.calls == [(MEMBERS, 3 * SAMPLES, FEATURES)]
    for member, net in enumerate(made):
        truth = cross_entropy(net, batch.x[member], batch.y[member])
        truth += 2 * logs(net, others(batch, rng)[member]).max(-1).mean()
        truth += 3 * logs(net, others(batch, rng, second)[member]).max(-1).mean()
        assert value[member].item() == pytest.approx(truth, rel=1e-12)


def test_batchnorm_sees_both_halves():
    def normed():
        return nn.Sequential(
            nn.Linear(FEATURES, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, CLASSES)
        ).double()

    made, forward, batch, rng = situation(normed)
    losses.ceda(losses.nll(), OOD)(forward, batch, rng)
    noise = others(batch, rng)
    for member, net in enumerate(made):
        with torch.no_grad():
            hidden = net[0](torch.cat([batch.x[member], noise[member]]))
        torch.testing.assert_close(forward.tensors["1.running_mean"][member], 0.1 * hidden.mean(0))
        torch.testing.assert_close(
            forward.tensors["1.running_var"][member], 0.9 + 0.1 * hidden.var(0)
        )
        assert forward.tensors["1.num_batches_tracked"][member] == 1


def test_a_share_takes_fewer_or_more_inputs_and_at_least_one():
    _, _, batch, rng = situation()
    for share, count in ((0.01, 1), (0.4, 2), (1.0, 5), (3.0, 15)):
        assert turns(OOD, batch, rng, share, None).index.shape == (MEMBERS, count)


def epochs(ood, pool, count=3, share=1.0):
    """Numbers of each epoch of 20 samples in batches of 6, 6 and 8, (epochs, members, ...)."""
    sizes, rng = (6, 6, 8), Rng(0, (0, 4))
    seen = []
    for epoch in range(count):
        parts = []
        for step, samples in enumerate(sizes):
            x = torch.zeros(2, samples, FEATURES)
            batch = Batch(
                x=x,
                y=x,
                points=20,
                low=x[0, 0],
                high=x[0, 0],
                steps=3,
                step=3 * epoch + step,
                total=30,
            )
            parts.append(turns(ood, batch, rng, share, pool).index)
        seen.append(torch.cat(parts, 1))
    return torch.stack(seen)


def test_new_inputs_come_in_every_step_and_differ_between_members():
    seen = epochs(OOD, None)
    assert len(seen.unique()) == seen.numel()
    assert seen.min() >= APART  # none that a user would take for a test
    for member, number in ((0, 0), (1, 4)):
        own = seen[:, member].flatten() - APART * (1 + number)
        assert own.tolist() == list(range(60))


def test_a_pool_of_the_size_of_the_data_comes_once_an_epoch():
    seen = epochs(OOD, 20)
    for epoch in range(3):
        for member in range(2):
            assert len(seen[epoch, member].unique()) == 20
    assert torch.equal(seen[0].sort().values, seen[2].sort().values)


@pytest.mark.parametrize("size", [1, 2, 20, 30, 31, 1000])
def test_a_finite_set_is_walked_through_evenly(size):
    """Every input comes equally often; any stretch of a sorted set is met in a few steps."""
    z = torch.arange(size * FEATURES).view(size, FEATURES) / (size * FEATURES)
    ood = another(z, "sorted")
    seen = epochs(ood, None, count=size)[:, 0].flatten()
    assert (torch.bincount(seen, minlength=size) == 20).all()
    if size >= 20:
        assert (seen[:20] // (size // 4)).unique().numel() >= 4


def test_members_start_a_finite_set_at_different_places():
    seen = epochs(another(torch.rand(1000, FEATURES), "other"), None)
    assert not torch.equal(seen[0, 0], seen[0, 1])


def test_noise_becomes_unsure_and_the_data_stay_right():
    x = 0.1 + 0.25 * torch.rand(200, 6)
    y = torch.arange(200) % 2
    x[y == 1, :3] += 0.5
    ood = uniform((6,))
    options = {"epochs": 25, "batch_size": 20, "learning_rate": 5e-3, "progress": False}
    plain, ceda = (
        train(lambda: nets.mlp(6, 2, widths=(32, 32)), (x, y), loss=loss, **options)
        for loss in (losses.nll(), losses.ceda(losses.nll(), ood))
    )
    noise = ood.take(500)
    assert plain(noise).probs.amax(-1).mean() > 0.85
    assert ceda(noise).probs.amax(-1).mean() < 0.7
    assert (ceda(x).labels == y).float().mean() > 0.95


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"weight": -1.0}, "weight must be a number from 0 up, got -1"),
        ({"weight": math.nan}, "weight must be a number from 0 up"),
        ({"share": 0.0}, "share must be a positive number"),
        ({"form": "mean"}, "form must be one of max, uniform, flat, got 'mean'"),
        ({"pool": 0}, "pool must be a whole number from 1 up, or None, got 0"),
        ({"pool": 2.5}, "pool must be a whole number"),
        ({"ood": torch.rand(4, 3)}, r"must be an OOD source, .* got Tensor; .*another"),
        ({"ood": another(torch.rand(9, 3), "few"), "pool": 10}, "pool is 10, but 'few' has"),
        ({"base": losses.nll(heads.gaussian())}, "reads class logits; the gaussian head"),
        ({"form": "flat"}, "flat form reads concentrations, and the categorical head gives none"),
    ],
)
def test_bad_options_are_refused(options, said):
    with pytest.raises(NescioError, match=said):
        losses.ceda(**{"base": losses.nll(), "ood": OOD, **options})


def test_an_out_distribution_of_another_shape_is_refused():
    _, forward, batch, rng = situation()
    loss = losses.ceda(losses.nll(), uniform((1, 28, 28)))
    with pytest.raises(NescioError, match=r"shape \(1, 28, 28\), the training inputs have \(3,\)"):
        loss(forward, batch, rng)
