"""What a guard of a regression says about inputs: an interval and a decision for each, and why."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nescio.core import Array, as_targets
from nescio.guards.decisions import Decided
from nescio.metrics import rmse

INTERVAL = ("mean", "low", "high", "width")  # columns, of several targets with their names


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class RegressionDecisions(Decided):
    """Decisions for N inputs of a regression: answer, unsure or OOD, with their intervals.

    decision: index into `nescio.guards.DECISIONS`, `(N,)`.
    mean: predicted means, `(N, D)`; NaN where the input is not finite.
    low, high: ends of the prediction intervals, `(N, D)`; infinite where nothing is known.
    p_value: p-value of the input being like the calibration data, `(N,)`.
    score: score of the detector, `(N,)`, larger = further out.
    rule: index into `nescio.guards.RULES` of the rule that decided, `(N,)`.
    in_range: whether all numbers of the input are in the range of calibration, `(N,)`.
    names: names of the targets; None: they are numbers.
    false_alarm: the largest share of inputs like the calibration data that may be called OOD.
    """

    decision: Tensor
    mean: Tensor
    low: Tensor
    high: Tensor
    p_value: Tensor
    score: Tensor
    rule: Tensor
    in_range: Tensor
    names: tuple[str, ...] | None = None
    false_alarm: float = 0.01

    @property
    def width(self) -> Tensor:
        """The widths of the intervals, `(N, D)`."""
        return self.high - self.low

    def columns(self) -> dict[str, NDArray[Any]]:
        """Arrays by name, one row per input; decisions and rules in words.

        Of several targets each has its columns, as `mean_price` or, without names, `mean_0`.
        """
        found = super().columns()
        own: dict[str, NDArray[Any]] = {"decision": found.pop("decision")}
        for column, (name, k) in interval_columns(self.names, self.mean.shape[1]).items():
            values: Tensor = getattr(self, name)[:, k]
            own[column] = values.detach().cpu().numpy()
        return own | {name: array for name, array in found.items() if name not in INTERVAL}

    def missed(self, targets: Any) -> Tensor:
        """Whether one of the `targets` of an input lies outside its interval, `(N,)`."""
        y = as_targets(targets, len(self), task="regression", dtype=torch.float64)
        y = y.to(self.low.device)
        return ~((self.low <= y) & (y <= self.high)).all(1)

    def summary(self, targets: Array | None = None) -> dict[str, Any]:
        """Shares of the inputs by decision; with targets also the misses among the answers.

        "inputs" and "misses" are counts; "answer", "unsure", "ood", "out_of_range" and
        "interval_coverage" are shares of all inputs; "mean_width" is over inputs with finite
        intervals and targets; "risk" is the share of the answers whose interval misses, and "rmse"
        that of the answers, None where nothing is answered.

        targets: true targets, `(N,)` or `(N, D)`; None: unknown.
        """
        found = self.shares()
        found["out_of_range"] = int((~self.in_range).sum()) / max(len(self), 1)
        finite = self.width[self.width.isfinite().all(1)]
        found["mean_width"] = float(finite.mean()) if len(finite) else None
        if targets is None:
            return found
        missed, answered = self.missed(targets), self.answered
        answers = int(answered.sum())
        found["misses"] = int((missed & answered).sum())
        found["risk"] = found["misses"] / answers if answers else None
        found["interval_coverage"] = 1 - float(missed.double().mean())
        y = as_targets(targets, len(self), task="regression", dtype=torch.float64)
        keep = answered.cpu()
        found["rmse"] = rmse(self.mean.cpu()[keep], y.cpu()[keep]) if answers else None
        return found


def interval_columns(names: tuple[str, ...] | None, targets: int) -> dict[str, tuple[str, int]]:
    """The columns of predictions and intervals: what each holds, and of which target.

    names: names of the targets; None: they are numbers.
    targets: the number of targets.
    """
    words = names or tuple(map(str, range(targets)))
    return {
        name if targets == 1 else f"{name}_{word}": (name, k)
        for k, word in enumerate(words)
        for name in INTERVAL
    }


def unknown(count: int, targets: int, device: torch.device) -> dict[str, Tensor]:
    """What is said about inputs that are not finite: nothing, and every value is possible."""
    nothing = torch.full((count, targets), np.nan, dtype=torch.float64, device=device)
    none = torch.full((count,), np.nan, dtype=torch.float64, device=device)
    ends = torch.full_like(nothing, np.inf)
    return {"mean": nothing, "low": -ends, "high": ends, "p_value": none, "score": none.clone()}
