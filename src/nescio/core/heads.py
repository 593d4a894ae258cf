"""How raw outputs are read: a head turns `(M, *batch, O)` into a prediction, and scores it.

Heads of classes and labels are here, those of numbers in `number_heads.py`; `head.py` says what a
head is.
"""

import math
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from nescio.core.dirichlet import Dirichlet
from nescio.core.errors import NescioError
from nescio.core.head import Head as Head
from nescio.core.head import check_positive, split_outputs
from nescio.core.head import head_from as head_from
from nescio.core.head import head_of_members as head_of_members
from nescio.core.head import in_target_units as in_target_units
from nescio.core.head import joint_head as joint_head
from nescio.core.multilabel import MultiLabel, two_logits
from nescio.core.noisy_logits import fixed_noise, log_mean_softmax, noisy_nll
from nescio.core.number_heads import double_exponential as double_exponential
from nescio.core.number_heads import evidence_of as evidence_of
from nescio.core.number_heads import evidence_rise as evidence_rise
from nescio.core.number_heads import fixed_variance as fixed_variance
from nescio.core.number_heads import gaussian as gaussian
from nescio.core.number_heads import normal_inverse_gamma as normal_inverse_gamma
from nescio.core.prediction import Categorical
from nescio.core.registry import heads


@heads.register
def categorical() -> Head:
    """Class probabilities by softmax of C outputs."""
    return Head(
        "categorical",
        {},
        "classification",
        1,
        Categorical,
        lambda outputs: outputs.log_softmax(-1),
        cross_entropy,
        _kl_categorical,
        _categorical_slope,
        gives_logits=True,
    )


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Negative log probability of the `labels` `(M, *batch)` by `logits` `(M, *batch, C)`."""
    return F.cross_entropy(logits.movedim(-1, 1), labels, reduction="none")  # classes second


def _categorical_slope(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    logs = logits.log_softmax(-1)
    index = labels[..., None]
    scores = -logs.gather(-1, index)[..., 0]
    return scores, logs.exp_().scatter_add_(-1, index, -torch.ones_like(scores)[..., None])


def _kl_categorical(p: Tensor, q: Tensor) -> Tensor:
    logs = p.log_softmax(-1)
    return (logs.exp() * (logs - q.log_softmax(-1))).sum(-1)


@heads.register
def binary(*, label: int | None = None) -> Head:
    """Two classes, 0 and 1, from one logit: the probability of class 1 is its sigmoid.

    label: of a network with a logit for each of several labels, the one that is read.
    """
    expand = partial(two_logits, label=label)
    return Head(
        "binary",
        {} if label is None else {"label": label},
        "classification",
        1,
        lambda outputs: Categorical(expand(outputs)),
        lambda outputs: expand(outputs).log_softmax(-1),
        lambda outputs, y: cross_entropy(expand(outputs), y),
        lambda p, q: _kl_categorical(expand(p), expand(q)),
        expand=expand,
    )


@heads.register
def multilabel() -> Head:
    """K labels, each 0 or 1, from K logits: the probability of 1 is the sigmoid of each."""
    return Head(
        "multilabel",
        {},
        "multilabel",
        1,
        MultiLabel,
        F.logsigmoid,
        lambda outputs, y: _label_losses(outputs, y).sum(-1),
        _kl_labels,
    )


def _label_losses(logits: Tensor, y: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(logits, y.to(logits.dtype), reduction="none")


def _kl_labels(p: Tensor, q: Tensor) -> Tensor:
    sure, unsure = p.sigmoid(), (-p).sigmoid()
    rise = F.logsigmoid(p) - F.logsigmoid(q)
    return (sure * rise + unsure * (F.logsigmoid(-p) - F.logsigmoid(-q))).sum(-1)


def known_head(outputs: int, labels: Tensor | None) -> Head:
    """The head of a network that came without one, where its outputs and labels tell.

    One output with labels 0 and 1 is a binary logit; several outputs with no labels, or with one
    whole number for each sample, are class logits. Anything else is asked for.

    outputs: number of outputs.
    labels: some labels; None: there are none.
    """
    if labels is not None and labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    single = labels is None or labels.ndim == 1
    if outputs == 1 and single and labels is not None and _are_zero_one(labels):
        return binary()
    if outputs > 1 and single and (labels is None or _are_classes(labels, outputs)):
        return categorical()
    given = "no labels" if labels is None else f"{labels.dtype} labels of {tuple(labels.shape)}"
    raise NescioError(
        f"it is not known how to read the network: it has {outputs} output(s), the data have "
        f"{given.replace('torch.', '')}; {asked()}"
    )


def asked() -> str:
    """The end of a message that asks for a head."""
    about = "".join(f"\n  {name}: {heads.summary(name)}" for name in heads)
    return f"give one of these heads, by head= in Python or --head on the command line:{about}"


def _are_classes(labels: Tensor, outputs: int) -> bool:
    """Whole numbers; floats only where each is one of the outputs."""
    if not labels.is_floating_point():
        return True
    return bool(((labels == labels.round()) & (labels >= 0) & (labels < outputs)).all())


def _are_zero_one(labels: Tensor) -> bool:
    return bool(((labels == 0) | (labels == 1)).all())


@heads.register
def with_score() -> Head:
    """Class probabilities by softmax of C outputs; one more output, the last, is a score."""
    return Head(
        "with_score",
        {},
        "classification",
        1,
        lambda outputs: Categorical(classes_of(outputs)),
        lambda outputs: classes_of(outputs).log_softmax(-1),
        lambda outputs, y: cross_entropy(classes_of(outputs), y),
        lambda p, q: _kl_categorical(classes_of(p), classes_of(q)),
        gives_logits=True,
    )


def classes_of(outputs: Tensor) -> Tensor:
    """Those of the `outputs` that are class logits: all but the last."""
    if outputs.shape[-1] < 3:
        raise NescioError(
            f"this head reads one output per class and one more, so at least 3, got "
            f"{outputs.shape[-1]}; give the network an output more than there are classes"
        )
    return outputs[..., :-1]


@heads.register
def dirichlet(*, activation: str | None = None, floor: float | None = None) -> Head:
    """Concentrations of a Dirichlet over C class probabilities: exp(output), or softplus + floor.

    activation: "exp" (the prior network's: the mean is the softmax of the outputs), or "softplus",
      which is the default only if a floor is given, as files of earlier versions give it.
    floor: what is added to each concentration, from 0 up; None: 0 for exp, 1 for softplus (then the
      activation is the evidence of evidential networks).
    """
    kind = activation or ("exp" if floor is None else "softplus")
    if kind not in ("exp", "softplus"):
        raise NescioError(f"activation must be 'exp' or 'softplus', got {activation!r}")
    least = float(kind == "softplus") if floor is None else float(floor)
    if not (math.isfinite(least) and least >= 0):
        raise NescioError(f"floor must be finite and not negative, got {floor}")
    logs = partial(_log_concentrations, kind, least)
    plain = kind == "exp" and not least  # outputs are log concentrations
    return Head(
        "dirichlet",
        {"activation": kind, "floor": least},
        "classification",
        1,
        lambda outputs: Dirichlet(logs(outputs)),
        lambda outputs: logs(outputs).log_softmax(-1),
        lambda outputs, y: cross_entropy(logs(outputs), y),
        lambda p, q: _kl_categorical(logs(p), logs(q)),
        _categorical_slope if plain else None,
        gives_logits=plain,
        log_concentrations=logs,
    )


SMALL = -30.0  # outputs below which softplus is exp, to the last digit


def _log_concentrations(activation: str, floor: float, outputs: Tensor) -> Tensor:
    """Log of activation + floor; softplus is its own argument, or exp, where that is exact."""
    if activation == "softplus":
        direct = F.softplus(outputs.clamp_min(SMALL)).log()
        outputs = torch.where(outputs < SMALL, outputs, direct)
    return outputs.logaddexp(outputs.new_tensor(math.log(floor))) if floor else outputs


@heads.register
def gaussian_logits(*, samples: int = 10, floor: float = 1e-6) -> Head:
    """C class logits with normal noise, from 2 C outputs: the logits, then their variances.

    The variances are softplus(output) + floor. The probabilities are the mean of
    softmax(logits + noise) over `samples` draws (Kendall and Gal, 2017, eq. 12): the same draws in
    every prediction, fresh ones for each label in training.

    samples: number of draws, an even number; they come in pairs of opposite sign.
    floor: what is added to the softplus, above 0.
    """
    check_positive(floor, "floor")
    if isinstance(samples, bool) or not isinstance(samples, int) or samples < 2 or samples % 2:
        raise NescioError(f"samples must be an even number from 2 up, got {samples!r}")
    pairs = samples // 2

    def split(outputs: Tensor) -> tuple[Tensor, Tensor]:
        logits, variance = split_outputs(floor, outputs, "class (logit, variance)")
        return logits, variance.sqrt()

    def center(outputs: Tensor) -> Tensor:
        logits, deviation = split(outputs)
        return log_mean_softmax(logits, deviation, fixed_noise(pairs, logits.shape[-1]))

    return Head(
        "gaussian_logits",
        {"samples": samples, "floor": floor},
        "classification",
        2,
        lambda outputs: Categorical(center(outputs)),
        center,
        lambda outputs, y: cross_entropy(center(outputs), y),
        lambda p, q: _kl_categorical(center(p), center(q)),
        noisy_nll=lambda outputs, y, draw: noisy_nll(*split(outputs), y, pairs, draw),
    )
