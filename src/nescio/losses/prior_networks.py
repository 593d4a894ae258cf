"""Losses of networks that answer with a Dirichlet (Malinin and Gales, 2018, 2019).

A label y is worth 1 / prior_weight counts beside one count of each class: the target is
Dir(1 + onehot(y) / prior_weight). The reverse divergence from it has another form (an ELBO):

    KL(q || target) = (psi(a0) - psi(a_y)) / prior_weight + KL(q || Dir(1)) + a constant.

Every loss here is such a divergence times prior_weight, so that its data term is a cross-entropy in
nats and a learning rate means the same, whatever the prior weight. (The reference code divides by
the target concentration 1 / prior_weight, too.) All is computed in float64 from log concentrations.
"""

import math
from dataclasses import replace

from torch import Tensor
from torch.nn import functional as F

from nescio.core import Head, NescioError, Slope, heads
from nescio.core.registry import losses
from nescio.data import OODSource
from nescio.losses.ceda import ceda
from nescio.losses.divergences import Sloped, differentiable, elbo, forward, reverse
from nescio.losses.loss import Loss, pointwise


@losses.register
def reverse_kl(
    head: Head | None = None,
    *,
    prior_weight: float = 0.01,
    smoothing: float = 0.0,
    ignore_index: int | None = None,
) -> Loss:
    """KL(q || target) of a prior network, times `prior_weight`; the target is Dir(1 + y / weight).

    head: how outputs become concentrations; None: `nescio.heads.dirichlet()`.
    prior_weight: lambda; 0.01 gives a target concentration of 101 at the label and 1 elsewhere.
    smoothing: the share of the counts that all classes get evenly, from 0 to below 1.
    ignore_index: the label of what is left out, one that is not a class; None: nothing is.
    """
    loss = _to_target("reverse_kl", reverse, head, prior_weight, smoothing)
    return loss.ignoring(ignore_index)


@losses.register
def forward_kl(
    head: Head | None = None,
    *,
    prior_weight: float = 0.01,
    smoothing: float = 0.01,
    ignore_index: int | None = None,
) -> Loss:
    """KL(target || q), times `prior_weight`: the loss of the first prior networks.

    Where labels differ for one input it averages their targets, and concentrations fall below 1;
    `reverse_kl` trains better.

    head: how outputs become concentrations; None: `nescio.heads.dirichlet()`.
    prior_weight: as in `reverse_kl`.
    smoothing: the share of the counts that all classes get evenly, from 0 to below 1.
    ignore_index: the label of what is left out, one that is not a class; None: nothing is.
    """
    loss = _to_target("forward_kl", forward, head, prior_weight, smoothing)
    return loss.ignoring(ignore_index)


@losses.register
def dirichlet_elbo(
    head: Head | None = None, *, prior_weight: float = 0.01, ignore_index: int | None = None
) -> Loss:
    """psi(a0) - psi(a_y) + prior_weight KL(q || Dir(1)): `reverse_kl` less a constant.

    The constant, times prior_weight, is
    lgamma(C) + lgamma(1 + 1 / prior_weight) - lgamma(C + 1 / prior_weight).

    head: how outputs become concentrations; None: `nescio.heads.dirichlet()`.
    prior_weight: weight of the divergence from the flat Dirichlet.
    ignore_index: the label of what is left out, one that is not a class; None: nothing is.
    """
    return _elbo("dirichlet_elbo", head, prior_weight=prior_weight).ignoring(ignore_index)


@losses.register
def belief_matching(
    head: Head | None = None, *, weight: float = 1.0, ignore_index: int | None = None
) -> Loss:
    """psi(a0) - psi(a_y) + weight KL(q || Dir(1)) (Joo et al., 2020): a label counts 1 / weight.

    It is `dirichlet_elbo` with another weight; with 1 it bounds the likelihood of the labels.

    head: how outputs become concentrations; None: `nescio.heads.dirichlet()`.
    weight: weight of the divergence from the flat Dirichlet.
    ignore_index: the label of what is left out, one that is not a class; None: nothing is.
    """
    return _elbo("belief_matching", head, weight=weight).ignoring(ignore_index)


@losses.register
def prior_exposure(
    base: Loss,
    ood: OODSource,
    *,
    weight: float = 0.01,
    share: float = 1.0,
    pool: int | None = None,
) -> Loss:
    """Add `weight` times KL(q || Dir(1)) on OOD inputs, in one batch with the others.

    ood: noise or data, in the units of the training inputs, as in `ceda`.
    weight: equal to the prior weight of `base`, an OOD input counts as much as a sample.
    share, pool: as in `ceda`.
    """
    loss = ceda(base, ood, weight=weight, form="flat", share=share, pool=pool)
    text = f"prior_exposure({base.description}, {ood.description}, {weight=}, {share=}, {pool=})"
    return replace(loss, description=text)


def _to_target(
    name: str, divergence: Sloped, head: Head | None, prior_weight: float, smoothing: float
) -> Loss:
    _check(prior_weight)
    if not 0 <= smoothing < 1:
        raise NescioError(f"smoothing must be a share from 0 up and below 1, got {smoothing}")

    def sloped(logs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        classes = logs.shape[-1]
        label = F.one_hot(labels, classes).to(logs)
        target = 1 + ((1 - smoothing) * label + smoothing / classes) / prior_weight
        value, slope = divergence(logs, target)
        return prior_weight * value, prior_weight * slope

    return with_slopes(name, head, sloped, prior_weight=prior_weight, smoothing=smoothing)


def _elbo(name: str, head: Head | None, **options: float) -> Loss:
    (weight,) = options.values()
    _check(weight)

    def sloped(logs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        return elbo(logs, labels, weight)

    return with_slopes(name, head, sloped, **options)


def _check(weight: float) -> None:
    if not 0 < weight < math.inf:
        raise NescioError(f"the weight of the prior must be positive and finite, got {weight}")


def with_slopes(name: str, head: Head | None, sloped: Sloped, **options: object) -> Loss:
    """The mean of a score of log concentrations and labels that knows its derivative."""
    head = head or heads.dirichlet()
    if head.log_concentrations is None:
        raise NescioError(
            f"{name} reads concentrations, and the {head.name} head gives none; give it "
            "heads.dirichlet(), or no head"
        )
    read, values = head.log_concentrations, differentiable(sloped)

    def slope(outputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        value, rise = sloped(outputs.double(), labels)
        return value.to(outputs.dtype), rise.to(outputs.dtype)

    direct: Slope | None = slope if head.gives_logits else None  # outputs are log concentrations
    loss = pointwise(name, head, lambda outputs, y: values(read(outputs), y), direct)
    said = "".join(f", {key}={value!r}" for key, value in options.items())
    return replace(loss, description=f"{loss.description[:-1]}{said})")
