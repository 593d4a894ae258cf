"""How raw outputs are read: a head turns `(M, *batch, O)` into a prediction, and scores it.

The spread is softplus of an output plus a floor. The floor is an option of the head.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from nescio.core.densities import DoubleExponential, Gaussian, Regression
from nescio.core.dirichlet import Dirichlet
from nescio.core.errors import NescioError
from nescio.core.multilabel import MultiLabel, two_logits
from nescio.core.noisy_logits import Draw, fixed_noise, log_mean_softmax, noisy_nll
from nescio.core.prediction import Categorical, Prediction
from nescio.core.registry import heads
from nescio.core.student_t import (
    StudentT,
    evidential_slope,
    kl_normal_inverse_gamma,
    log_student_t,
    predictive_scale,
)

Slope = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


TASKS = ("classification", "multilabel", "regression")


@dataclass(frozen=True, repr=False)
class Head:
    """A reading of raw outputs; calling it gives a prediction."""

    name: str
    options: Mapping[str, Any]  # JSON: files keep them
    task: str  # one of TASKS
    width: int  # network outputs for each class, label or target
    read: Callable[[Tensor], Prediction]
    center: Callable[[Tensor], Tensor]  # outputs -> log probabilities, or means; not checked
    nll: Callable[[Tensor, Tensor], Tensor]  # outputs, target -> (M, *batch), in nats
    divergence: Callable[[Tensor, Tensor], Tensor]  # KL of the readings of two outputs
    nll_slope: Slope | None = None  # nll and its derivative in the outputs, in closed form
    gives_logits: bool = False  # whether detectors read the outputs as they are, not `center`
    expand: Callable[[Tensor], Tensor] | None = None  # linear: outputs -> class logits, where fewer
    standardized: "Head | None" = None  # the head that `in_target_units` made this one of
    log_concentrations: Callable[[Tensor], Tensor] | None = None  # outputs -> those of a Dirichlet
    noisy_nll: Callable[[Tensor, Tensor, Draw], Tensor] | None = (
        None  # nll with noise, for training
    )

    def __post_init__(self) -> None:
        if self.task not in TASKS or self.width < 1:
            raise NescioError(
                f"the head {self.name} needs a task of {', '.join(TASKS)} and a width of at least "
                f"1, got task={self.task!r}, width={self.width}"
            )

    def __repr__(self) -> str:
        options = ", ".join(f"{key}={value!r}" for key, value in self.options.items())
        return f"Head({self.name}({options}), {self.task})"

    def __call__(self, outputs: Tensor) -> Prediction:
        prediction = self.read(outputs)
        if not isinstance(prediction, Prediction):
            raise NescioError(
                f"`read` of the head {self.name} must return a prediction, such as "
                f"Categorical(logits), got a {type(prediction).__name__}"
            )
        return prediction

    def logits(self, outputs: Tensor) -> Tensor:
        """What detectors read: class logits, or where a head has none, log probabilities."""
        if self.gives_logits:
            return outputs
        if self.log_concentrations is not None:  # their softmax is the mean
            return self.log_concentrations(outputs)
        return self.center(outputs) if self.expand is None else self.expand(outputs)

    def __reduce__(self) -> Any:
        return head_from, (self.name, dict(self.options))

    def __deepcopy__(self, _: Any) -> "Head":
        return self  # nothing in it changes


def head_from(name: str, options: Mapping[str, Any], given: Head | None = None) -> Head:
    """A head as a file or a pickle names it: its functions are those of this version of nescio.

    given: one that nescio does not have, which is then used, in the units of the options.
    """
    own = {key: value for key, value in options.items() if key != UNITS}
    made: Head = heads[name](**own) if given is None else given
    if UNITS not in options:
        return made
    return in_target_units(made, *_statistics(options[UNITS]))


UNITS = "units"  # the option of a head that has the statistics of the targets


def in_target_units(head: Head, mean: Tensor, scale: Tensor) -> Head:
    """The head in the units of the targets y, of networks that learned (y - mean) / scale.

    mean, scale: `(M, D)`, by member; options of the head, so that files keep them. Outputs may have
    several members in a row for each of the M, as draws of its dropout masks or weights.
    """
    if head.task != "regression":
        raise NescioError(f"only the targets of a regression have units; the head is {head.name}")
    if UNITS in head.options:
        raise NescioError("the head is in units of its targets already; give the one before")
    both = mean.double().cpu(), scale.double().cpu()

    def fitting(outputs: Tensor) -> tuple[Tensor, Tensor]:  # each (M, 1, ..., D)
        draws, rest = divmod(len(outputs), len(mean))
        if rest:
            raise NescioError(
                f"the head has target statistics of {len(mean)} member(s), the outputs have "
                f"{len(outputs)} members; choose members of a model with model.choose(...)"
            )
        shape = (len(outputs), *(1 for _ in outputs.shape[1:-1]), -1)
        shift, width = (t.repeat_interleave(draws, 0).view(shape).to(outputs) for t in both)
        return shift, width

    def read(outputs: Tensor) -> Prediction:
        prediction = head.read(outputs)
        assert isinstance(prediction, Regression)
        return prediction.rescaled(*fitting(outputs))

    def center(outputs: Tensor) -> Tensor:
        shift, width = fitting(outputs)
        return head.center(outputs) * width + shift

    def nll(outputs: Tensor, y: Tensor) -> Tensor:
        shift, width = fitting(outputs)
        return head.nll(outputs, (y - shift) / width) + width.log().sum(-1)

    units = {key: t.tolist() for key, t in zip(("mean", "scale"), both, strict=True)}
    options = {**head.options, UNITS: units}
    made: dict[str, Any] = {
        "options": options,
        "read": read,
        "center": center,
        "nll": nll,
        "nll_slope": None,
    }
    return replace(head, **made, standardized=head)  # a divergence has no units


def head_of_members(head: Head, members: Sequence[int]) -> Head:
    """The head of some of the members that it was made for, by index."""
    units = head.options.get(UNITS)
    if head.standardized is None or units is None or len(units["mean"]) == 1:
        return head
    mean, scale = _statistics(units)
    return in_target_units(head.standardized, mean[list(members)], scale[list(members)])


def joint_head(each: Sequence[Head]) -> Head:
    """One head for the outputs of several members, from the head of each."""
    first = each[0].standardized
    if first is None:
        return each[0]
    mean, scale = zip(*(_statistics(head.options[UNITS]) for head in each), strict=True)
    return in_target_units(first, torch.cat(mean), torch.cat(scale))


def _statistics(units: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
    mean, scale = (torch.tensor(units[key], dtype=torch.float64) for key in ("mean", "scale"))
    return mean, scale


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
    """Negative log probability of the labels, `(M, *batch)`."""
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
    """The outputs that are class logits: all but the last."""
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
    floor: what is added to each concentration, from 0 up; 0 by default for exp, 1 for softplus
    (then the activation is the evidence of evidential networks).
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
    every prediction, fresh ones for each label in training. samples: an even number; the draws come
    in pairs of opposite sign.
    """
    _positive(floor, "floor")
    if isinstance(samples, bool) or not isinstance(samples, int) or samples < 2 or samples % 2:
        raise NescioError(f"samples must be an even number from 2 up, got {samples!r}")
    pairs = samples // 2

    def split(outputs: Tensor) -> tuple[Tensor, Tensor]:
        logits, variance = _split(floor, outputs, "class (logit, variance)")
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


@heads.register
def gaussian(*, floor: float = 1e-6) -> Head:
    """Mean and variance, softplus(output) + floor, of D normal targets from 2 D outputs."""
    _positive(floor, "floor")
    slope, options = partial(_gaussian_slope, floor), {"floor": floor}
    densities = Gaussian, _gaussian_nll, _kl_gaussian
    return _regression("gaussian", options, 2, partial(_split, floor), *densities, slope)


@heads.register
def fixed_variance(*, variance: float = 1.0) -> Head:
    """Mean of D normal targets from D outputs; the noise variance is known."""
    _positive(variance, "variance")

    def split(outputs: Tensor) -> tuple[Tensor, Tensor]:
        return outputs, torch.full_like(outputs, variance)

    densities = Gaussian, _gaussian_nll, _kl_gaussian
    return _regression("fixed_variance", {"variance": variance}, 1, split, *densities)


@heads.register
def double_exponential(*, floor: float = 1e-6) -> Head:
    """Mean and scale, softplus(output) + floor, of D Laplace targets from 2 D outputs."""
    _positive(floor, "floor")
    densities = DoubleExponential, _laplace_nll, _kl_laplace
    options = {"floor": floor}
    return _regression("double_exponential", options, 2, partial(_split, floor), *densities)


@heads.register
def normal_inverse_gamma(*, floor: float = 1e-6) -> Head:
    """Student t densities of D targets and their evidence, from 4 D outputs (Amini et al., 2020).

    The outputs are the means, then nu, alpha - 1 and beta: softplus(output) + floor.
    """
    _positive(floor, "floor")
    split = partial(evidence_of, floor)

    def nll(outputs: Tensor, y: Tensor) -> Tensor:
        mean, nu, alpha, beta = split(outputs)
        return -log_student_t(y, mean, predictive_scale(nu, alpha, beta), 2 * alpha).sum(-1)

    return Head(
        "normal_inverse_gamma",
        {"floor": floor},
        "regression",
        4,
        lambda outputs: StudentT.from_normal_inverse_gamma(*split(outputs)),
        lambda outputs: split(outputs)[0],
        nll,
        lambda p, q: kl_normal_inverse_gamma(split(p), split(q)).sum(-1),
        lambda outputs, y: (
            nll(outputs, y),
            evidence_rise(outputs, evidential_slope(y, *split(outputs))),
        ),
    )


def evidence_rise(outputs: Tensor, slopes: Sequence[Tensor]) -> Tensor:
    """Derivatives in the raw outputs, from those in mean, nu, alpha and beta."""
    raw = outputs[..., outputs.shape[-1] // 4 :]
    return torch.cat([slopes[0], raw.sigmoid() * torch.cat([*slopes[1:]], dim=-1)], dim=-1)


def evidence_of(floor: float, outputs: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Mean, nu, alpha and beta of raw outputs `(M, *batch, 4 D)`, each `(M, *batch, D)`."""
    if outputs.shape[-1] % 4:
        raise NescioError(
            f"this head needs four outputs per target (mean, nu, alpha, beta), got "
            f"{outputs.shape[-1]}"
        )
    mean, *raw = outputs.chunk(4, dim=-1)
    nu, excess, beta = (F.softplus(part) + floor for part in raw)
    return mean, nu, 1 + excess, beta


def _regression(
    name: str,
    options: Mapping[str, float],
    width: int,
    split: Callable[[Tensor], tuple[Tensor, Tensor]],  # outputs -> mean, spread
    value: Callable[[Tensor, Tensor], Prediction],
    nll: Callable[[Tensor, Tensor, Tensor], Tensor],
    divergence: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor],
    slope: Slope | None = None,
) -> Head:
    return Head(
        name,
        options,
        "regression",
        width,
        lambda outputs: value(*split(outputs)),
        lambda outputs: split(outputs)[0],
        lambda outputs, y: nll(*split(outputs), y),
        lambda p, q: divergence(*split(p), *split(q)),
        slope,
    )


def _gaussian_nll(mean: Tensor, variance: Tensor, target: Tensor) -> Tensor:
    scaled = (target - mean).square() / variance
    return (0.5 * (variance.log() + scaled) + HALF_LOG_TWO_PI).sum(-1)


def _gaussian_slope(floor: float, outputs: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    raw = outputs.chunk(2, dim=-1)[1]
    mean, variance = _split(floor, outputs)
    pull = (mean - y) / variance
    excess = (mean - y) * pull  # squared error in units of the variance
    scores = (0.5 * (variance.log() + excess) + HALF_LOG_TWO_PI).sum(-1)
    spread = 0.5 * (1 - excess) / variance * raw.sigmoid()
    return scores, torch.cat([pull, spread], dim=-1)


def _kl_gaussian(m1: Tensor, v1: Tensor, m2: Tensor, v2: Tensor) -> Tensor:
    ratio = v1 / v2
    return 0.5 * (ratio - 1 - ratio.log() + (m1 - m2).square() / v2).sum(-1)


def _laplace_nll(mean: Tensor, scale: Tensor, target: Tensor) -> Tensor:
    return ((2 * scale).log() + (target - mean).abs() / scale).sum(-1)


def _kl_laplace(m1: Tensor, b1: Tensor, m2: Tensor, b2: Tensor) -> Tensor:
    gap = (m1 - m2).abs()
    return ((b2 / b1).log() + gap / b2 + b1 / b2 * (-gap / b1).exp() - 1).sum(-1)


def _split(
    floor: float, outputs: Tensor, what: str = "target (mean, spread)"
) -> tuple[Tensor, Tensor]:
    if outputs.shape[-1] % 2:
        raise NescioError(f"this head needs two outputs per {what}, got {outputs.shape[-1]}")
    mean, raw = outputs.chunk(2, dim=-1)
    return mean, F.softplus(raw) + floor


def _positive(value: float, name: str) -> None:
    if not (math.isfinite(value) and value > 0):
        raise NescioError(f"{name} must be positive and finite, got {value}")
