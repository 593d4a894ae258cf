"""What a guard says about inputs: a decision for each, and why."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nescio.core import Array, NescioError, as_tensor, check_labels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DECISIONS = ("answer", "unsure", "ood")
ANSWER, UNSURE, OOD = range(3)
RULES = {  # which rule decided, and its decision
    "sure enough": ANSWER,
    "p-value": OOD,  # at most the false-alarm rate
    "not finite": OOD,  # the input, or what the network gives for it
    "failure_score": UNSURE,  # it is above the threshold
    "no guarantee": UNSURE,  # the calibration data hold no threshold
    "tie": UNSURE,  # the detector's score is, up to rounding, that where OOD begins
    "unknown group": UNSURE,  # no calibration sample was of this group
    "batch": OOD,  # by the p-values of a whole batch
    "p-value alone": UNSURE,  # OOD by its own p-value, but not by those of the batch
    "width": UNSURE,  # of a regression: the prediction interval is too wide
}
RULE_NAMES = tuple(RULES)
CODES = {name: code for code, name in enumerate(RULES)}
DECIDED = torch.tensor(list(RULES.values()))  # the decision of each code
SHOWN = 20  # rows of a printed table
FEW = 16  # classes


class Decided:
    """What decisions about classes and about numbers have in common: one row per input."""

    decision: Tensor
    p_value: Tensor
    rule: Tensor

    def __len__(self) -> int:
        return len(self.decision)

    def __getitem__(self, chosen: Any) -> Self:
        """Some of the inputs: a number, a slice, indices or a mask."""
        if isinstance(chosen, int):
            if not -len(self) <= chosen < len(self):
                raise IndexError(f"input {chosen} of {len(self)}")
            chosen = slice(chosen, chosen + 1 or None)
        return self._with({n: tensor[chosen] for n, tensor in self._tensors().items()})

    def __repr__(self) -> str:
        counts = ", ".join(f"{count} {name}" for name, count in self._counts().items())
        return f"{type(self).__name__}({len(self)} inputs: {counts})"

    def __str__(self) -> str:
        return self.table

    def _repr_html_(self) -> str:
        from nescio.report import decisions_html

        return decisions_html(self)

    def plot(self) -> "Figure":
        """One point per input: its p-value, and its failure score or the width of its interval."""
        from nescio.report import plots

        figure: Figure = plots.decisions_plot(self)
        return figure

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """The decisions of all `parts`, in their order."""
        if not parts:
            raise NescioError("nothing to join: the list of decisions is empty")
        if len(parts) == 1:
            return parts[0]
        names = parts[0]._tensors()
        return parts[0]._with({n: torch.cat([getattr(part, n) for part in parts]) for n in names})

    @property
    def answered(self) -> Tensor:
        """Which inputs are answered, `(N,)`."""
        return self.decision == ANSWER

    def columns(self) -> dict[str, NDArray[Any]]:
        """Arrays by name, one row per input; decisions and rules in words."""
        found: dict[str, NDArray[Any]] = {
            name: tensor.detach().cpu().numpy() for name, tensor in self._tensors().items()
        }
        found["decision"] = np.array(DECISIONS)[found["decision"]]
        found["rule"] = np.array(RULE_NAMES)[found["rule"]]
        return found

    @property
    def table(self) -> str:
        """The first rows as text, and the counts."""
        columns = self[:SHOWN].columns()
        words = [
            [f"{value:.4g}" if isinstance(value, float) else str(value) for value in column]
            for column in columns.values()
        ]
        rows = text_table(list(columns), list(zip(*words, strict=True)))
        more = [f"... {len(self) - SHOWN} more"] if len(self) > SHOWN else []
        return "\n".join([rows, *more, repr(self)])

    def batch(self, level: float) -> Self:
        """The same with *ood* decided for the batch as a whole (Benjamini and Hochberg, 1995).

        Of the inputs called OOD, in expectation at most the share `level` are like the
        calibration data. What is OOD by its own p-value alone becomes unsure.
        """
        from nescio.conformal import benjamini_hochberg

        if not 0 < level < 1:
            raise NescioError(
                f"the level of a batch must lie between 0 and 1, got {level}; try 0.1"
            )
        rule = torch.where(self.rule == CODES["p-value"], CODES["p-value alone"], self.rule)
        tested = self.p_value.isfinite()
        out = torch.zeros_like(tested)
        if tested.any():
            out[tested] = benjamini_hochberg(self.p_value[tested], level=level).to(out)
        rule = torch.where(out, CODES["batch"], rule)
        return self._with({"rule": rule, "decision": decided(rule)})

    def to(self, device: torch.device | str) -> Self:
        """The same on `device`."""
        return self._with({n: tensor.to(device) for n, tensor in self._tensors().items()})

    def shares(self) -> dict[str, Any]:
        """The number of inputs, and the share of each decision."""
        counts, count = self._counts(), max(len(self), 1)
        return {"inputs": len(self), **{name: number / count for name, number in counts.items()}}

    def _counts(self) -> dict[str, int]:
        return {name: int((self.decision == i).sum()) for i, name in enumerate(DECISIONS)}

    def _tensors(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}

    def _with(self, tensors: Mapping[str, Tensor]) -> Self:
        return type(self)(**{**vars(self), **tensors})


@dataclass(frozen=True, eq=False, repr=False)
class Decisions(Decided):
    """Decisions for N inputs: answer, unsure or OOD, with the numbers behind them.

    decision: index into `nescio.guards.DECISIONS`, `(N,)`.
    label: the most probable class, `(N,)`; -1 where the input is not finite.
    probability: calibrated probability of the label, `(N,)`.
    p_value: p-value of the input being like the calibration data, `(N,)`.
    score: score of the detector, `(N,)`, larger = further out.
    failure_score: failure score, `(N,)`, larger = the label is more likely wrong.
    rule: index into `nescio.guards.RULES` of the rule that decided, `(N,)`.
    in_range: whether all numbers of the input are in the range of calibration, `(N,)`.
    sets: whether each class is in the prediction set, `(N, C)`; None: there are no sets.
    names: names of the classes; None: they are numbers.
    false_alarm: the largest share of inputs like the calibration data that may be called OOD.
    """

    decision: Tensor
    label: Tensor
    probability: Tensor
    p_value: Tensor
    score: Tensor
    failure_score: Tensor
    rule: Tensor
    in_range: Tensor
    sets: Tensor | None = None
    names: tuple[str, ...] | None = None
    false_alarm: float = 0.01

    @property
    def set_sizes(self) -> Tensor:
        """The number of classes in each prediction set, `(N,)`."""
        if self.sets is None:
            raise NescioError("this guard gives no prediction sets; make it with sets=0.1")
        return self.sets.sum(1)

    def columns(self) -> dict[str, NDArray[Any]]:
        """Arrays by name, one row per input; decisions, rules and sets in words."""
        found = super().columns()
        if self.names is not None:
            found["label"] = np.array([*self.names, ""])[found["label"]]  # -1: without a label
        if self.sets is not None:
            found["set"] = _sets(found.pop("sets"), self.names)
        return found

    def summary(self, labels: Array | None = None) -> dict[str, Any]:
        """Shares of the inputs by decision; with true labels also the errors among the answers.

        "inputs" and "errors" are counts; "answer", "unsure", "ood", "out_of_range" and
        "set_coverage" are shares of all inputs; "risk" is the share of the answers that are wrong,
        None where nothing is answered.

        labels: true classes `(N,)`; None: unknown.
        """
        found, count = self.shares(), max(len(self), 1)
        found["out_of_range"] = int((~self.in_range).sum()) / count
        if self.sets is not None:
            found["mean_set_size"] = float(self.set_sizes.double().sum()) / count
        if labels is None:
            return found
        truth = as_tensor(labels, "labels").to(self.label.device)
        if truth.shape != self.label.shape:
            raise NescioError(f"{len(self)} decisions but labels of shape {tuple(truth.shape)}")
        classes = sys.maxsize if self.sets is None else self.sets.shape[1]
        truth = check_labels(truth, classes, truth.shape)
        wrong = (self.label != truth) & self.answered
        found["errors"] = int(wrong.sum())
        answers = int(self.answered.sum())
        found["risk"] = int(wrong.sum()) / answers if answers else None
        if self.sets is not None:
            found["set_coverage"] = float(self.sets.gather(1, truth[:, None]).double().mean())
        return found


def no_answers(
    probabilities: Tensor, *, names: tuple[str, ...] | None = None, false_alarm: float = 0.01
) -> Decisions:
    """Decisions where no guard could be made: nothing is answered.

    probabilities: class probabilities, `(N, C)`.
    names: names of the classes; None: they are numbers.
    false_alarm: the largest share of inputs like the calibration data that may be called OOD.
    """
    probability, label = probabilities.double().max(1)
    nothing = torch.full_like(probability, torch.nan)
    rule = torch.full_like(label, CODES["no guarantee"])
    return Decisions(
        decision=decided(rule),
        label=label,
        probability=probability,
        p_value=nothing,
        score=nothing,
        failure_score=nothing,
        rule=rule,
        in_range=torch.ones_like(label, dtype=torch.bool),
        names=names,
        false_alarm=false_alarm,
    )


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns of words."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (header, *rows)
    ]
    return "\n".join(lines)


def decided(rule: Tensor) -> Tensor:
    """The decision `(N,)` of each rule."""
    return DECIDED.to(rule.device).take(rule)


def _sets(sets: NDArray[np.bool_], names: tuple[str, ...] | None) -> NDArray[Any]:
    """Sets as words, `3 | 8`; each distinct set is written once."""
    words = names or tuple(map(str, range(sets.shape[1])))
    if sets.shape[1] <= FEW:  # each set has a number
        numbers = sets @ (1 << np.arange(sets.shape[1], dtype=np.int32))
        known = np.flatnonzero(np.bincount(numbers))
        rows = (known[:, None] >> np.arange(sets.shape[1])) & 1 > 0
        places = known.searchsorted(numbers)
    else:
        packed = np.ascontiguousarray(np.packbits(sets, axis=1))
        keys = packed.view(np.dtype((np.void, packed.shape[1])))[:, 0]
        _, first, places = np.unique(keys, return_index=True, return_inverse=True)
        rows, places = sets[first], places.reshape(-1)
    texts = [" | ".join(words[i] for i in np.flatnonzero(row)) for row in rows]
    return np.array(texts, dtype=str)[places] if texts else np.array([], dtype=str)
