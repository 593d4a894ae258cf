"""What every loss keeps: one finite number a member, gradients everywhere, members apart."""

import inspect
import re
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import nn

from nescio import heads, losses
from nescio.attacks import Ascent
from nescio.core import Rng
from nescio.core.registry import losses as registry
from nescio.data.ood import uniform
from nescio.losses import Batch, Loss
from nescio.nets.mlp import VariationalLinear
from nescio.nets.stack import Forward, Stack, stack

SAMPLES, FEATURES, OUTPUTS = 7, 3, 4  # an odd number of samples: signs do not cancel


OOD = uniform((FEATURES,))


def build(name):
    """The loss with its defaults, around the likelihood, beside noise, where it takes them."""
    make = registry[name]
    base = losses.reverse_kl() if name == "prior_exposure" else losses.nll()
    given = {"base": base, "ood": OOD}
    return make(**{key: given[key] for key in inspect.signature(make).parameters if key in given})


COMPOSED = {
    "ceda of a prior network": lambda: losses.ceda(losses.reverse_kl(), OOD),
    "acet of a prior network": lambda: losses.acet(losses.reverse_kl(), OOD, form="flat"),
    "exposure of a prior network": lambda: losses.outlier_exposure(losses.forward_kl(), OOD),
    "evidential by cross-entropy": lambda: losses.evidential(form="cross_entropy"),
    "evidential beside noise": lambda: losses.prior_exposure(losses.evidential(), OOD),
    "attacked prior network": lambda: losses.adversarial_training(losses.dirichlet_elbo()),
    "adversarial of virtual": lambda: losses.adversarial(losses.virtual_adversarial(losses.nll())),
    "virtual of adversarial": lambda: losses.virtual_adversarial(losses.adversarial(losses.nll())),
    "anchored of adversarial": lambda: losses.anchored(losses.adversarial(losses.nll())),
    "adversarial of anchored": lambda: losses.adversarial(losses.anchored(losses.nll())),
    "pi of adversarial": lambda: losses.pi_model(losses.adversarial(losses.nll())),
    "virtual of a mean teacher": lambda: losses.virtual_adversarial(
        losses.mean_teacher(losses.brier()), entropy=0.1
    ),
    "mean teacher of pi": lambda: losses.mean_teacher(losses.pi_model(losses.nll())),
    "pi of temporal": lambda: losses.pi_model(losses.temporal_ensembling(losses.nll())),
    "ceda of pi": lambda: losses.ceda(losses.pi_model(losses.nll()), OOD),
    "exclusive transformations": lambda: losses.transformation_consistency(
        losses.ceda(losses.nll(), OOD), exclusivity=0.1
    ),
    "weighted classes": lambda: losses.class_weighted(losses.brier(), [0.5, 1.0, 2.0, 4.0]),
    "decay of weighted classes": lambda: losses.weight_decay(
        losses.class_weighted(losses.nll(), [0.5, 1.0, 2.0, 4.0])
    ),
    "noisy logits": lambda: losses.nll(heads.gaussian_logits()),
    "decay of brier": lambda: losses.weight_decay(losses.brier()),
    "dirichlet": lambda: losses.virtual_adversarial(losses.nll(heads.dirichlet())),
    "gaussian": lambda: losses.virtual_adversarial(
        losses.adversarial(losses.nll(heads.gaussian()))
    ),
    "laplace": lambda: losses.virtual_adversarial(losses.nll(heads.double_exponential())),
    "brier of a dirichlet": lambda: losses.brier(heads.dirichlet()),
    "elbo of adversarial": lambda: losses.elbo(losses.adversarial(losses.nll())),
    "adversarial of elbo": lambda: losses.adversarial(losses.elbo(losses.nll())),
    "elbo with a mixture": lambda: losses.elbo(losses.nll(heads.gaussian()), narrow=0.1),
    "elbo of decaying batches": lambda: losses.elbo(losses.nll(), weighting="decaying"),
    "ceda of acet": lambda: losses.ceda(losses.acet(losses.nll(), OOD), uniform((3,), seed=1)),
    "acet of adversarial": lambda: losses.acet(losses.adversarial(losses.nll()), OOD),
    "adversarial of ceda": lambda: losses.adversarial(losses.ceda(losses.nll(), OOD)),
    "ceda of virtual": lambda: losses.ceda(losses.virtual_adversarial(losses.nll()), OOD),
    "decay of outlier exposure": lambda: losses.weight_decay(
        losses.outlier_exposure(losses.brier(), OOD)
    ),
    "ceda of adversarial training": lambda: losses.ceda(
        losses.adversarial_training(losses.nll()), OOD
    ),
    "acet, the paper's": lambda: losses.acet(
        losses.nll(), OOD, attack=Ascent(radius=0.3, steps=40, step=0.0075), keep=False
    ),
    "acet with everything": lambda: losses.acet(
        losses.nll(), OOD, free=0.5, ramp=1.0, form="uniform", share=0.5, pool=20
    ),
    "acet in a sphere": lambda: losses.acet(
        losses.nll(), OOD, attack=Ascent(radius=0.4, steps=5, norm="l2"), keep=False
    ),
}
ALL = {name: lambda name=name: build(name) for name in registry} | COMPOSED


def network(dropout, linear=nn.Linear):
    layers = [linear(FEATURES, 6), nn.Tanh(), *([nn.Dropout(0.3)] if dropout else [])]
    return nn.Sequential(*layers, linear(6, OUTPUTS)).double()


def layer_for(loss):
    """The elbo reads distributions over weights; every other loss reads weights."""
    return (
        partial(VariationalLinear, spread=0.1)
        if re.search(r"\belbo\(", loss.description)
        else nn.Linear
    )


def situation(loss, members, dropout=False):
    rng = torch.Generator().manual_seed(0)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        nets = [network(dropout, layer_for(loss)) for _ in range(members)]
    x = torch.rand(members, SAMPLES, FEATURES, generator=rng, dtype=torch.float64)
    if loss.head.task == "classification":
        classes = (OUTPUTS - (loss.head.name == "with_score")) // loss.head.width  # one is no class
        y = torch.randint(classes, (members, SAMPLES), generator=rng)
    else:
        shape = (members, SAMPLES, OUTPUTS // loss.head.width)
        y = torch.randn(*shape, generator=rng, dtype=torch.float64)
    unlabeled = torch.rand(members, 5, FEATURES, generator=rng, dtype=torch.float64)
    batch = Batch(
        x=x,
        y=y,
        points=50,
        low=x.amin((0, 1)),
        high=x.amax((0, 1)),
        index=torch.arange(SAMPLES).expand(members, -1),
        data_points=50,
        unlabeled=unlabeled,
        unlabeled_index=torch.arange(5).expand(members, -1),
        unlabeled_points=20,
        steps=4,
        step=6,
        total=40,
    )
    tensors = {name: t.requires_grad_() for name, t in stack(nets).items()}
    averaged = {name: 0.9 * t.detach() for name, t in tensors.items()}
    step = Rng(3, tuple(range(members)), (1, 2))
    return Forward(Stack(nets[0]), tensors, step, averaged=averaged), batch, step


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("name", ALL)
def test_one_finite_number_a_member_and_gradients_for_every_weight(name, members):
    loss = ALL[name]()
    forward, batch, rng = situation(loss, members)
    values = loss(forward, batch, rng)
    assert isinstance(loss, Loss)
    assert values.shape == (members,)
    assert values.isfinite().all()
    slopes = torch.autograd.grad(values.sum(), list(forward.parameters.values()))
    for slope in slopes:
        assert slope.isfinite().all()
        assert (slope.flatten(1).abs().amax(1) > 0).all()
    reached = slopes[0].abs() > 0  # every single weight of the first layer
    assert reached.all()


@pytest.mark.parametrize("name", [name for name, make in ALL.items() if make().weighted])
def test_a_sample_of_weight_0_changes_nothing(name):
    """Of a loss that says it reads weights: neither its value nor a gradient; scale is nothing."""
    loss = ALL[name]()
    forward, batch, rng = situation(loss, 2)
    if "elbo(" in loss.description:  # its networks draw noise for each sample
        forward = replace(forward, rng=None)
    less = replace(batch, x=batch.x[:, :5], y=batch.y[:, :5])
    weight = batch.x.new_full((2, SAMPLES), 0.3)
    weight[:, 5:] = 0
    values = [loss(forward, one, rng) for one in (less, replace(batch, weight=weight))]
    torch.testing.assert_close(*values)
    slopes = [torch.autograd.grad(v.sum(), list(forward.parameters.values())) for v in values]
    torch.testing.assert_close(*slopes)


@pytest.mark.parametrize("weights", [(1.0, 2.0), (0.5, 3.0)])
def test_the_loss_of_a_batch_is_the_weighted_mean(weights):
    loss = losses.nll()
    forward, batch, rng = situation(loss, 1)
    weight = batch.x.new_tensor([weights[i % 2] for i in range(SAMPLES)])[None]
    scores = loss.score(forward(batch.x), batch.y)
    truth = (scores * weight).sum(1) / weight.sum(1)
    torch.testing.assert_close(loss(forward, replace(batch, weight=weight), rng), truth)


@pytest.mark.parametrize("dropout", [False, True])
@pytest.mark.parametrize("name", ALL)
def test_a_member_does_not_see_the_others(name, dropout):
    loss = ALL[name]()
    forward, batch, rng = situation(loss, 3, dropout)
    together = loss(forward, batch, rng)
    for member in range(3):
        own = slice(member, member + 1)
        tensors, averaged = (
            {key: tensor[own] for key, tensor in group.items()}
            for group in (forward.tensors, forward.averaged)
        )
        step = Rng(rng.seed, (member,), rng.place)
        alone = loss(
            Forward(forward.architecture, tensors, step, averaged=averaged),
            replace(batch, memory={}).members(own),
            step,
        )
        torch.testing.assert_close(alone, together[own], rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("name", ALL)
def test_the_same_step_gives_the_same_numbers(name):
    loss = ALL[name]()
    forward, batch, rng = situation(loss, 2, dropout=True)
    before = torch.get_rng_state()
    first = loss(forward, batch, rng)
    assert torch.equal(first, loss(forward, replace(batch, memory={}), rng))
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("name", ALL)
def test_the_score_is_the_data_term_of_each_sample(name):
    loss = ALL[name]()
    forward, batch, _ = situation(loss, 2)
    score = loss.score(forward(batch.x), batch.y)
    assert score.shape == (2, SAMPLES)
    assert score.isfinite().all()


@pytest.mark.parametrize("name", ALL)
def test_a_derivative_in_closed_form_is_offered_only_by_a_plain_mean_of_scores(name):
    loss = ALL[name]()
    if loss.slope is None:
        return
    forward, batch, rng = situation(loss, 2)
    outputs = forward(batch.x).detach()
    scores, rise = loss.slope(outputs, batch.y)
    torch.testing.assert_close(scores, loss.score(outputs, batch.y))
    torch.testing.assert_close(scores.mean(1), loss(forward, batch, rng).detach())
    outputs.requires_grad_()
    (truth,) = torch.autograd.grad(loss.score(outputs, batch.y).sum(), outputs)
    torch.testing.assert_close(rise, truth)


@pytest.mark.parametrize("name", ALL)
def test_the_description_names_what_the_loss_is_made_of(name):
    loss = ALL[name]()
    assert loss.head.name in loss.description
    if name in registry:
        assert loss.description.startswith(name)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (lambda: losses.nll(heads.gaussian()), lambda: losses.nll(heads.gaussian(floor=0.1))),
        (
            lambda: losses.adversarial(losses.nll()),
            lambda: losses.adversarial(losses.nll(), share=0.2),
        ),
        (
            lambda: losses.anchored(losses.nll()),
            lambda: losses.anchored(losses.nll(), prior_variance=2),
        ),
        (
            lambda: losses.weight_decay(losses.nll()),
            lambda: losses.weight_decay(losses.nll(), strength=1),
        ),
        (
            lambda: losses.virtual_adversarial(losses.nll()),
            lambda: losses.virtual_adversarial(losses.nll(), iterations=2),
        ),
        (
            lambda: losses.elbo(losses.nll(), prior_spread=0.5),
            lambda: losses.elbo(losses.nll(), prior_spread=0.5, narrow=0.1),
        ),
        (
            lambda: losses.elbo(losses.nll()),
            lambda: losses.elbo(losses.nll(), weighting="decaying"),
        ),
        (
            lambda: losses.ceda(losses.nll(), OOD),
            lambda: losses.ceda(losses.nll(), uniform((FEATURES,), seed=1)),
        ),
        (
            lambda: losses.ceda(losses.nll(), OOD),
            lambda: losses.ceda(losses.nll(), OOD, form="uniform"),
        ),
        (
            lambda: losses.outlier_exposure(losses.nll(), OOD),
            lambda: losses.outlier_exposure(losses.nll(), OOD, share=0.5),
        ),
        (
            lambda: losses.acet(losses.nll(), OOD),
            lambda: losses.acet(
                losses.nll(), OOD, attack=Ascent(radius=0.3, steps=2, step=0.1, best=False)
            ),
        ),
        (
            lambda: losses.acet(losses.nll(), OOD),
            lambda: losses.acet(losses.nll(), OOD, free=0.1),
        ),
        (
            lambda: losses.acet(losses.nll(), OOD),
            lambda: losses.acet(losses.nll(), OOD, ramp=0.1),
        ),
        (
            lambda: losses.adversarial_training(losses.nll()),
            lambda: losses.adversarial_training(losses.nll(), clean=0.5),
        ),
        (
            lambda: losses.weight_decay(losses.nll(), strength=1.00000001e-4),
            lambda: losses.weight_decay(losses.nll(), strength=1e-4),
        ),
    ],
)
def test_options_are_part_of_the_description(one, two):
    """A checkpoint tells runs apart by it."""
    assert one().description != two().description


@pytest.mark.parametrize("name", ["squared_error", "absolute_error", "brier", "nll"])
def test_images_and_several_targets(name):
    loss = build(name)
    forward, batch, rng = situation(loss, 2)
    net = nn.Sequential(nn.Flatten(), network(False))
    image = Batch(
        x=batch.x.unflatten(2, (1, 3, 1)), y=batch.y, points=50, low=batch.low, high=batch.high
    )
    tensors = {f"1.{key}": value for key, value in forward.tensors.items()}
    values = loss(Forward(Stack(net), tensors, rng), image, rng)
    torch.testing.assert_close(values, loss(forward, batch, rng))


LABELED = [name for name in ALL if ALL[name]().head.task == "classification"]


@pytest.mark.parametrize("name", LABELED)
def test_a_sample_whose_label_is_ignored_changes_nothing(name):
    """Whatever its input is, the loss and its gradients are the same: no loss averages past it."""
    loss = ALL[name]().ignoring(-100)
    forward, batch, rng = situation(loss, 2)
    batch.y[:, 2::3] = -100
    x = batch.x.clone()
    x[:, 2::3] = x[:, 2::3].flip(-1)
    found = []
    for inputs in (batch.x, x):
        value = loss(forward, replace(batch, x=inputs, memory={}, wanted=[]), rng)
        slopes = torch.autograd.grad(value.sum(), list(forward.parameters.values()))
        found.append([value, *slopes])
    for first, second in zip(*found, strict=True):
        torch.testing.assert_close(first, second, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", LABELED)
def test_a_batch_without_labels_gives_finite_numbers(name):
    loss = ALL[name]().ignoring(255)
    forward, batch, rng = situation(loss, 2)
    value = loss(forward, replace(batch, y=torch.full_like(batch.y, 255)), rng)
    slopes = torch.autograd.grad(value.sum(), list(forward.parameters.values()), allow_unused=True)
    assert all(part is None or part.isfinite().all() for part in (value, *slopes))


class Mapped(Forward):
    """The same networks with two axes of length 1 more."""

    def __call__(self, x):
        return super().__call__(x)[:, :, None, None]

    def frozen(self):
        still = super().frozen()
        return Mapped(still.architecture, still.tensors)

    @property
    def average(self):
        return Mapped(self.architecture, self.averaged, self.rng)


@pytest.mark.parametrize("name", LABELED)
def test_label_maps_of_one_pixel_are_labels(name):
    """Outputs (M, B, 1, 1, C) and labels (M, B, 1, 1) give what they give without the axes."""
    loss = ALL[name]()
    forward, batch, rng = situation(loss, 2)
    expected = loss(forward, batch, rng)
    averaged = forward.averaged
    mapped = Mapped(forward.architecture, forward.tensors, forward.rng, averaged=averaged)
    maps = replace(batch, y=batch.y[..., None, None], memory={}, wanted=[])
    torch.testing.assert_close(loss(mapped, maps, rng), expected, rtol=1e-10, atol=1e-12)
