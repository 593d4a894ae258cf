"""What a head is: a reading of raw outputs `(M, *batch, O)`, and the units of targets."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from nescio.core.densities import Regression
from nescio.core.errors import NescioError
from nescio.core.noisy_logits import Draw
from nescio.core.prediction import Prediction
from nescio.core.registry import heads

Slope = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


TASKS = ("classification", "multilabel", "regression")


@dataclass(frozen=True, repr=False)
class Head:
    """A reading of raw outputs; calling it gives a prediction.

    name: name of the head, under which files and the command line know it.
    options: its options; JSON, which files hold.
    task: "classification", "multilabel" or "regression".
    width: number of network outputs for each class, label or target.
    read: a function of outputs to a prediction.
    center: a function of outputs to log probabilities, or to means; they are not checked.
    nll: a function of outputs and targets to the negative log-likelihood, `(M, *batch)`, in nats.
    divergence: a function of two outputs to the KL divergence between their predictions.
    nll_slope: nll and its derivative in the outputs, in closed form; None: by autograd.
    gives_logits: whether detectors read the outputs as they are, not `center`.
    expand: a linear function of outputs to class logits, where there are fewer outputs; None: there
      are not.
    standardized: the head that `in_target_units` made this one of; None: it is none of these.
    log_concentrations: a function of outputs to log concentrations of a Dirichlet; None: it has
      none.
    noisy_nll: nll with noise, for training; None: it has no noise.
    """

    name: str
    options: Mapping[str, Any]
    task: str
    width: int
    read: Callable[[Tensor], Prediction]
    center: Callable[[Tensor], Tensor]
    nll: Callable[[Tensor, Tensor], Tensor]
    divergence: Callable[[Tensor, Tensor], Tensor]
    nll_slope: Slope | None = None
    gives_logits: bool = False
    expand: Callable[[Tensor], Tensor] | None = None
    standardized: "Head | None" = None
    log_concentrations: Callable[[Tensor], Tensor] | None = None
    noisy_nll: Callable[[Tensor, Tensor, Draw], Tensor] | None = None

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
        """The prediction that raw `outputs` `(M, *batch, O)` stand for."""
        prediction = self.read(outputs)
        if not isinstance(prediction, Prediction):
            raise NescioError(
                f"`read` of the head {self.name} must return a prediction, such as "
                f"Categorical(logits), got a {type(prediction).__name__}"
            )
        return prediction

    def logits(self, outputs: Tensor) -> Tensor:
        """What detectors read in `outputs`: class logits, or without any, log probabilities."""
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

    name: name of the head.
    options: its options.
    given: a head that nescio does not have, which is then used, in the units of the options; None:
      nescio has it.
    """
    own = {key: value for key, value in options.items() if key != UNITS}
    made: Head = heads[name](**own) if given is None else given
    if UNITS not in options:
        return made
    return in_target_units(made, *_statistics(options[UNITS]))


UNITS = "units"  # the option of a head that has the statistics of the targets


def in_target_units(head: Head, mean: Tensor, scale: Tensor) -> Head:
    """The head in the units of the targets y, of networks that learned (y - mean) / scale.

    Outputs may have several members in a row for each of the M, as draws of its dropout masks or
    weights.

    head: the head of the standardized targets.
    mean, scale: mean and deviation of the targets, `(M, D)`, by member; they become options of the
      head, so that files hold them.
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
    """The `head` of some of the `members` that it was made for, by index."""
    units = head.options.get(UNITS)
    if head.standardized is None or units is None or len(units["mean"]) == 1:
        return head
    mean, scale = _statistics(units)
    return in_target_units(head.standardized, mean[list(members)], scale[list(members)])


def joint_head(each: Sequence[Head]) -> Head:
    """One head for the outputs of several members, from the head of `each`."""
    first = each[0].standardized
    if first is None:
        return each[0]
    mean, scale = zip(*(_statistics(head.options[UNITS]) for head in each), strict=True)
    return in_target_units(first, torch.cat(mean), torch.cat(scale))


def _statistics(units: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
    mean, scale = (torch.tensor(units[key], dtype=torch.float64) for key in ("mean", "scale"))
    return mean, scale


def split_outputs(
    floor: float, outputs: Tensor, what: str = "target (mean, spread)"
) -> tuple[Tensor, Tensor]:
    if outputs.shape[-1] % 2:
        raise NescioError(f"this head needs two outputs per {what}, got {outputs.shape[-1]}")
    mean, raw = outputs.chunk(2, dim=-1)
    return mean, F.softplus(raw) + floor


def check_positive(value: float, name: str) -> None:
    if not (math.isfinite(value) and value > 0):
        raise NescioError(f"{name} must be positive and finite, got {value}")
