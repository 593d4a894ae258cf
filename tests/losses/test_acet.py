"""ACET: equation 4 at the inputs found, perturbations that are kept, and what they cost."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import log_softmax
from torch import nn

from nescio import NescioError, attacks, losses, nets, train
from nescio.attacks import Ascent
from nescio.core import Rng
from nescio.data.ood import another, scaled, uniform
from nescio.losses import Batch
from nescio.losses import with_ood as keeping
from nescio.losses.with_ood import LEVELS, turns
from nescio.nets.stack import Forward, Stack, stack

MEMBERS, SAMPLES, FEATURES, CLASSES, POINTS = 2, 5, 3, 4, 20
OOD = uniform((FEATURES,), seed=7)
RADIUS = 0.3
TWO = Ascent(radius=RADIUS, steps=2, step=0.15, best=False)
PAPER = {"attack": Ascent(radius=RADIUS, steps=40, step=0.0075), "keep": False}


class Recording(Stack):
    """The shapes and the last inputs that were run, in training and in evaluation."""

    def __init__(self, net):
        super().__init__(net)
        self.training, self.evaluating = [], []

    def __call__(self, tensors, x, rng=None):
        (self.evaluating if rng is None else self.training).append(x.detach().clone())
        return super().__call__(tensors, x, rng)


def make():
    return nn.Sequential(nn.Linear(FEATURES, 6), nn.Tanh(), nn.Linear(6, CLASSES)).double()


def situation(make=make, members=MEMBERS, step=2):
    made = [make() for _ in range(members)]
    x = torch.rand(members, SAMPLES, FEATURES).double()
    y = torch.randint(CLASSES, (members, SAMPLES))
    batch = Batch(
        x=x,
        y=y,
        points=POINTS,
        low=x.amin((0, 1)),
        high=x.amax((0, 1)),
        steps=4,
        step=step,
        total=40,
    )
    tensors = {
        name: t.requires_grad_() if "running" not in name and "num" not in name else t
        for name, t in stack(made).items()
    }
    rng = Rng(3, tuple(range(members)), (0, step))
    return made, Forward(Recording(made[0]), tensors, rng), batch, rng


def acet(base, ood, **options):
    """The loss with a pool of as many inputs as there are samples, where inputs are kept."""
    pool = POINTS if options.get("keep", True) else None
    return losses.acet(base, ood, **({"pool": pool} | options))


def centers(batch, rng, ood=OOD, pool=POINTS):
    index = turns(ood, batch, rng, 1.0, pool).index
    return index % (1 << 40), torch.stack([ood(row) for row in index]).double()


def moved(forward):
    """The inputs from outside of the training pass."""
    (both,) = forward.architecture.training
    return both[:, SAMPLES:]


def logs(net, x):
    return log_softmax(net(x).detach().numpy(), -1)


def memory(batch):
    (levels,) = batch.memory.values()
    return levels


@pytest.mark.parametrize("options", [{}, PAPER, {"form": "uniform", "weight": 2.0}])
def test_the_value_is_equation_4_at_the_inputs_found(options):
    made, forward, batch, rng = situation()
    values = acet(losses.nll(), OOD, **options)(forward, batch, rng)
    weight, form = options.get("weight", 1.0), options.get("form", "max")
    for member, (net, found) in enumerate(zip(made, moved(forward), strict=True)):
        own = logs(net, batch.x[member])
        truth = -own[np.arange(SAMPLES), batch.y[member].numpy()].mean()
        sure = logs(net, found)
        truth += weight * (sure.max(-1).mean() if form == "max" else -sure.mean())
        assert values[member].item() == pytest.approx(truth, rel=1e-12)


@pytest.mark.parametrize("options", [{"attack": Ascent(radius=RADIUS, steps=10, step=0.06)}, PAPER])
def test_the_inputs_found_are_surer_and_in_ball_and_box(options):
    made, forward, batch, rng = situation()
    acet(losses.nll(), OOD, **options)(forward, batch, rng)
    _, center = centers(batch, rng, pool=POINTS if options is not PAPER else None)
    found = moved(forward)
    assert (found - center).abs().max() <= RADIUS + 1e-12
    assert found.min() >= 0
    assert found.max() <= 1
    for member, net in enumerate(made):
        gain = logs(net, found[member]).max(-1) - logs(net, center[member]).max(-1)
        assert gain.mean() > 0.01


@pytest.mark.parametrize("options", [{}, PAPER, {"form": "uniform"}])
def test_the_gradient_holds_the_inputs_found_fixed(options):
    loss = acet(losses.nll(), OOD, weight=1.5, **options)
    made, forward, batch, rng = situation()
    values = loss(forward, batch, rng)
    slopes = torch.autograd.grad(values.sum(), list(forward.parameters.values()))
    found, architecture = moved(forward), Stack(made[0])
    form = options.get("form", "max")

    def by_hand():
        in_dist = architecture(forward.tensors, batch.x).log_softmax(-1)
        ood = architecture(forward.tensors, found).log_softmax(-1)
        right = in_dist.gather(-1, batch.y[..., None])[..., 0]
        sure = ood.amax(-1) if form == "max" else -ood.mean(-1)
        return (-right.mean(1) + 1.5 * sure.mean(1)).sum().item()

    for weight, slope in zip(forward.parameters.values(), slopes, strict=True):
        flat = weight.detach().view(-1)
        for place in (0, len(flat) // 2, len(flat) - 1):
            before, near = flat[place].item(), []
            for shift in (1e-6, -1e-6):
                flat[place] = before + shift
                near.append(by_hand())
            flat[place] = before
            truth = (near[0] - near[1]) / 2e-6
            assert slope.reshape(-1)[place].item() == pytest.approx(truth, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize(
    ("options", "passes"),
    [
        ({}, 0),
        ({"attack": TWO}, 2),
        (PAPER, 41),
        ({"attack": Ascent(radius=RADIUS, steps=0, best=False), "free": 0.5}, 0),
        ({"attack": Ascent(radius=RADIUS, steps=5, best=False)}, 5),
    ],
    ids=["default", "two", "paper", "free alone", "five"],
)
def test_a_step_costs_one_training_pass_and_the_steps_of_the_attack(options, passes):
    _, forward, batch, rng = situation()
    acet(losses.nll(), OOD, **options)(forward, batch, rng)
    shapes = [tuple(x.shape) for x in forward.architecture.training]
    assert shapes == [(MEMBERS, 2 * SAMPLES, FEATURES)]
    assert len(forward.architecture.evaluating) == passes
    assert all(x.shape[1] == SAMPLES for x in forward.architecture.evaluating)


def test_batchnorm_is_frozen_in_the_attack_and_sees_both_halves_once():
    def normed():
        return nn.Sequential(
            nn.Linear(FEATURES, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, CLASSES)
        ).double()

    made, forward, batch, rng = situation(normed)
    acet(losses.nll(), OOD, attack=Ascent(radius=RADIUS, steps=10))(forward, batch, rng)
    (both,) = forward.architecture.training
    for member, net in enumerate(made):
        with torch.no_grad():
            hidden = net[0](both[member])
        torch.testing.assert_close(forward.tensors["1.running_mean"][member], 0.1 * hidden.mean(0))
        assert forward.tensors["1.num_batches_tracked"][member] == 1


def test_perturbations_are_kept_where_they_were_found_and_nowhere_else():
    _, forward, batch, rng = situation()
    loss = acet(losses.nll(), OOD)
    fresh = replace(batch, memory={})
    acet(losses.nll(), OOD, attack=Ascent(radius=RADIUS, steps=0, best=False), free=0.0, ramp=0.0)(
        forward, fresh, rng
    )
    before = memory(fresh)
    forward.architecture.training.clear()
    loss(forward, batch, rng)
    levels, (place, center) = memory(batch), centers(batch, rng)
    assert levels.shape == (MEMBERS, POINTS, FEATURES)
    assert levels.dtype == torch.int8
    truth = ((moved(forward) - center) * (LEVELS / RADIUS)).round()
    for member in range(MEMBERS):
        assert torch.equal(levels[member, place[member]].double(), truth[member])
        rest = torch.ones(POINTS, dtype=torch.bool)
        rest[place[member]] = False
        assert torch.equal(levels[member, rest], before[member, rest])
    assert levels.abs().max() <= LEVELS
    assert not torch.equal(before[0], before[1])  # members begin apart


def test_a_visit_goes_on_where_the_last_one_ended():
    """Five visits of one step each are one attack of five steps, up to rounding to bytes."""
    _, forward, batch, rng = situation()
    once = acet(losses.nll(), OOD, attack=Ascent(radius=RADIUS, steps=1, step=0.04, best=False))
    for _ in range(5):
        forward.architecture.training.clear()
        once(forward, batch, rng)
    step_by_step = moved(forward)
    forward.architecture.training.clear()
    five = acet(losses.nll(), OOD, attack=Ascent(radius=RADIUS, steps=5, step=0.04, best=False))
    five(forward, replace(batch, memory={}), rng)
    gap = (step_by_step - moved(forward)).abs()
    assert gap.max() <= 5 * 0.5 * RADIUS / LEVELS + 1e-9
    stay = acet(
        losses.nll(), OOD, attack=Ascent(radius=RADIUS, steps=0, best=False), free=0.0, ramp=0.0
    )
    forward.architecture.training.clear()
    again = replace(
        batch, memory={key: memory(batch) for key in _name_of(stay, forward, batch, rng)}
    )
    forward.architecture.training.clear()
    stay(forward, again, rng)
    assert (moved(forward) - step_by_step).abs().max() <= 0.5 * RADIUS / LEVELS + 1e-9


def _name_of(loss, forward, batch, rng):
    fresh = replace(batch, memory={})
    loss(forward, fresh, rng)
    return fresh.memory


def test_the_radius_grows_along_a_ramp():
    widths = []
    for step in (0, 4, 9, 30):
        _, forward, batch, rng = situation(step=step)
        loss = acet(losses.nll(), OOD, attack=TWO, ramp=0.25)  # 10 of 40 steps
        loss(forward, batch, rng)
        _, center = centers(batch, rng)
        widths.append((moved(forward) - center).abs().max().item())
    assert widths[0] <= 0.1 * RADIUS + 1e-9
    assert widths[1] == pytest.approx(0.5 * RADIUS)
    assert widths[2] == pytest.approx(RADIUS)
    assert widths[3] == pytest.approx(RADIUS)


@pytest.mark.parametrize("form", ["max", "uniform"])
def test_the_free_step_follows_the_gradient_of_the_training_pass(form):
    """The loss asks the training loop for the gradient of its inputs."""
    made, forward, batch, rng = situation()
    values = acet(losses.nll(), OOD, attack=TWO, free=0.25, form=form)(forward, batch, rng)
    ((inputs, take),) = batch.wanted
    weights = list(forward.parameters.values())
    *slopes, rise = torch.autograd.grad(values.sum(), [*weights, inputs])
    take(rise)
    place, center = centers(batch, rng)
    for member, (net, found) in enumerate(zip(made, moved(forward), strict=True)):
        leaf = found.clone().requires_grad_()
        out = net(leaf).log_softmax(-1)
        sure = out.amax(-1) if form == "max" else -out.mean(-1)
        (slope,) = torch.autograd.grad(sure.sum(), leaf)
        low, high = (center[member] - RADIUS).clamp(min=0), (center[member] + RADIUS).clamp(max=1)
        ahead = (found + 0.25 * RADIUS * slope.sign()).clamp(low, high)
        truth = ((ahead - center[member]) * (LEVELS / RADIUS)).round()
        assert torch.equal(memory(batch)[member, place[member]].double(), truth)
    forward.architecture.training.clear()
    plain = acet(losses.nll(), OOD, attack=TWO, form=form)
    same = plain(forward, replace(batch, memory={}, wanted=[]), rng)
    torch.testing.assert_close(values, same)
    torch.testing.assert_close(tuple(slopes), torch.autograd.grad(same.sum(), weights))


def test_two_of_them_keep_apart():
    _, forward, batch, rng = situation()
    second = uniform((FEATURES,), seed=8)
    losses.acet(acet(losses.nll(), OOD), second, pool=30)(forward, batch, rng)
    assert sorted(levels.shape[1] for levels in batch.memory.values()) == [POINTS, 30]
    assert [x.shape[1] for x in forward.architecture.training] == [3 * SAMPLES]


def test_a_finite_out_set_keeps_one_perturbation_an_input():
    _, forward, batch, rng = situation()
    few = another(torch.rand(8, FEATURES), "few")
    losses.acet(losses.nll(), few, pool=8)(forward, batch, rng)
    assert memory(batch).shape == (MEMBERS, 8, FEATURES)


def test_nothing_is_kept_without_keep():
    _, forward, batch, rng = situation()
    acet(losses.nll(), OOD, **PAPER)(forward, batch, rng)
    assert not batch.memory


def test_too_many_kept_perturbations_are_refused_with_their_size(monkeypatch):
    monkeypatch.setattr(keeping, "BYTES", MEMBERS * POINTS * FEATURES)
    _, forward, batch, rng = situation()
    acet(losses.nll(), OOD)(forward, batch, rng)
    with pytest.raises(NescioError, match=r"need 1\.1 GB; use a smaller pool, fewer members"):
        losses.acet(losses.nll(), OOD, pool=200_000_000)(forward, replace(batch, memory={}), rng)


def test_a_pool_smaller_than_a_step_is_refused():
    _, forward, batch, rng = situation()
    with pytest.raises(NescioError, match="takes 5 OOD inputs, of a pool of 4"):
        losses.acet(losses.nll(), OOD, pool=4)(forward, batch, rng)


def test_an_out_set_smaller_than_a_step_is_refused_with_what_can_be_done():
    _, forward, batch, rng = situation()
    few = another(torch.rand(4, FEATURES), "few")
    with pytest.raises(
        NescioError, match="takes 5 OOD inputs.* 'few' has 4; .* keep=False"
    ) as caught:
        losses.acet(losses.nll(), few)(forward, batch, rng)
    assert "pool" not in str(caught.value)
    values = losses.acet(losses.nll(), few, **PAPER)(forward, batch, rng)  # as it says
    assert values.isfinite().all()
    assert losses.acet(losses.nll(), few, share=0.8)(forward, batch, rng).isfinite().all()


def test_inputs_ood_the_box_are_refused():
    _, forward, batch, rng = situation()
    said = r"inputs of '3 \* uniform' range .* the box \[0.0, 1.0\]; scale them, or give the attack"
    with pytest.raises(NescioError, match=said):
        losses.acet(losses.nll(), scaled(OOD, 3.0))(forward, batch, rng)
    wide = Ascent(radius=RADIUS, steps=2, step=0.15, high=3.0)
    losses.acet(losses.nll(), scaled(OOD, 3.0), attack=wide)(forward, batch, rng)


@pytest.mark.parametrize("options", [{}, PAPER], ids=["kept", "paper"])
def test_training_data_ood_the_box_are_refused(options):
    """Noise in [0, 1] is no noise for inputs in other units."""
    x, y = data()
    make = lambda: nets.mlp(6, 2, widths=(8,))  # noqa: E731
    settings = {"epochs": 1, "batch_size": 24, "progress": False}
    for inputs in (255 * x, (x - 0.5) / 0.1):
        with pytest.raises(
            NescioError, match=r"training inputs range .* attack=Ascent\(\.\.\., low"
        ):
            train(make, (inputs, y), loss=losses.acet(losses.nll(), NOISE, **options), **settings)
    wide = Ascent(radius=25.5, steps=2, low=0.0, high=255.0)
    loss = losses.acet(losses.nll(), uniform((6,), high=255.0), attack=wide)
    assert train(make, (255 * x, y), loss=loss, **settings).history.train.isfinite().all()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"attack": Ascent(radius=0.3, norm="l2")}, "stores perturbations in a linf ball"),
        ({"attack": Ascent(radius=None)}, "positive radius, or say keep=False"),
        ({"attack": Ascent(radius=0.0)}, "positive radius, or say keep=False"),
        ({"free": 0.5, "keep": False}, "starts each search anew"),
        ({"free": -0.5}, "free is a share of the radius, from 0 up"),
        ({"free": math.nan}, "free is a share of the radius, from 0 up"),
        ({"ramp": 1.5}, "ramp is a share, from 0 to 1"),
        ({"weight": -1.0}, "weight must be"),
        ({"pool": 0}, "pool must be"),
    ],
)
def test_bad_options_are_refused(options, said):
    with pytest.raises(NescioError, match=said):
        losses.acet(losses.nll(), OOD, **options)


def data(points=120):
    x = 0.1 + 0.25 * torch.rand(points, 6)
    y = torch.arange(points) % 2
    x[y == 1, :3] += 0.5
    return x, y


NOISE = uniform((6,))


def trained(loss):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        known = data()
    options = {"epochs": 25, "batch_size": 24, "learning_rate": 1e-2, "progress": False}
    return train(lambda: nets.mlp(6, 2, widths=(24, 24)), known, loss=loss, **options)


def sure(model):
    """Mean confidence on adversarial noise, judged by many steps and restarts."""
    found = attacks.adversarial_noise(model, NOISE.take(100), steps=50, step=None, restarts=2)
    return model(found.x).probs.amax(-1).mean().item()


@pytest.fixture(scope="module")
def by_the_papers_attack():
    return sure(trained(losses.acet(losses.nll(), NOISE, weight=2.0, **PAPER)))


def test_a_plain_network_is_sure_on_adversarial_noise():
    assert sure(trained(losses.nll())) > 0.98


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"free": 0.5},
        {"attack": Ascent(radius=RADIUS, steps=0, best=False), "free": 1.0, "ramp": 0.3},
    ],
    ids=["default", "free", "free alone with a ramp"],
)
def test_adversarial_noise_becomes_unsure_as_with_the_papers_attack(options, by_the_papers_attack):
    ours = sure(trained(losses.acet(losses.nll(), NOISE, weight=2.0, **options)))
    assert ours < 0.65
    assert ours < by_the_papers_attack + 0.03


def test_the_free_step_is_more_than_jitter():
    """Without steps and without the free one, noise is only shaken."""
    still = Ascent(radius=RADIUS, steps=0, best=False)
    jitter, free = (
        sure(trained(losses.acet(losses.nll(), NOISE, weight=2.0, attack=still, free=free)))
        for free in (0.0, 1.0)
    )
    assert free < jitter - 0.02


def test_members_that_stop_early_take_their_perturbations_with_them():
    """A member of a stack that others leave equals the member alone."""
    x, y = data()
    held = data()[0].double()
    options = {
        "loss": losses.acet(losses.nll(), NOISE, free=0.5),
        "epochs": 25,
        "batch_size": 40,
        "learning_rate": 0.01,
        "validation": (held, torch.where(held[:, 5] > 0.3, 1 - y, y)),  # some labels are wrong
        "patience": 1,
        "progress": False,
    }

    def make():
        return nets.mlp(6, 2, widths=(8,)).double()

    together = train(make, (x.double(), y), members=4, **options)
    assert len(set(together.history.stopped)) > 1
    for member in range(4):
        alone = train(make, (x.double(), y), members=[member], **options)
        assert alone.history.stopped[0] == together.history.stopped[member]
        for key, tensor in alone.tensors.items():
            torch.testing.assert_close(tensor[0], together.tensors[key][member], rtol=0, atol=1e-9)
