"""Prediction intervals by split conformal prediction: a fitted value that can be called, saved."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nescio.conformal import exact_quantiles
from nescio.conformal.exact_quantiles import CALLS
from nescio.conformal.fitted import Fitted, in_words
from nescio.conformal.sets import say_small
from nescio.core import NescioError, Registry, as_targets

KIND = "prediction intervals"
MARGIN = 8 * torch.finfo(torch.float64).eps  # by which ends are rounded to the safe side

bands = Registry("kind of prediction interval")  # what is widened, and in which unit: (N, D) each


@dataclass(frozen=True, eq=False)
class Intervals(Fitted):
    """Prediction intervals that can be called; calibrated by a function of `nescio.conformal`.

    With D targets each has its own width, and the guarantee is for each target by itself; for all
    together, ask for `miscoverage / D`.
    """

    kind = KIND
    known = bands

    @torch.no_grad()
    def __call__(
        self, prediction: Any, groups: Any = None, *, first: int = 0
    ) -> tuple[Tensor, Tensor]:
        """Lowest and highest values, `(N, D)` each, infinite where nothing can be said.

        prediction: what the intervals were calibrated with. groups, first: as for `Sets`.
        """
        low, high, scale = bands[self.name](prediction, **self.options["score"])
        if low.shape[1] != self.options["targets"]:
            raise NescioError(
                f"these intervals were calibrated for {self.options['targets']} target(s), the "
                f"prediction has {low.shape[1]}; use the same network"
            )
        cells = self._cells(groups, len(low), low.device)
        u = None
        if self.options["randomize"]:
            u = exact_quantiles.uniforms(self.options["seed"], CALLS, first, len(low))
            u = u.to(low.device)[:, None].expand_as(cells)
        most, closed = exact_quantiles.limits(self.state, cells, u)
        width = most * scale
        slack = MARGIN * (torch.maximum(low.abs(), high.abs()) + width.abs())
        width = torch.where(closed, width + slack, width - slack)
        middle = 0.5 * (low + high)  # where the ends would cross, this point stays
        low, high = low - width, high + width
        crossed = low > high
        return torch.where(crossed, middle, low), torch.where(crossed, middle, high)

    def _cells(self, groups: Any, samples: int, device: torch.device) -> Tensor:
        """The cell of each sample and target, `(N, D)`."""
        by, targets = self.options["by"], self.options["targets"]
        self.check_by(groups, "intervals")
        columns = torch.arange(targets, device=device)
        if by is None:
            return columns.expand(samples, -1)
        numbers = exact_quantiles.check_groups(groups, samples).to(device)
        numbers = exact_quantiles.cell_numbers(numbers, self.state["groups"])[:, None]
        return torch.add(columns, numbers, alpha=targets)

    @property
    def guarantee(self) -> str:
        """The guarantee in words, with its assumption."""
        what = "target" if self.options["targets"] == 1 else "value of a target (each by itself)"
        exact = self.options["randomize"] and self.name != "quantile"  # there a point may stay
        return in_words(what, "interval", self, exact=exact)


@torch.no_grad()
def calibrate(
    name: str,
    prediction: Any,
    targets: Any,
    miscoverage: float,
    by: Any,
    randomize: bool,
    seed: int,
    **band_options: Any,
) -> Intervals:
    """Intervals of a named band, from calibration samples with their targets."""
    exact_quantiles.check_miscoverage(miscoverage)
    low, high, scale = (part.cpu() for part in bands[name](prediction, **band_options))
    y = as_targets(targets, len(low), task="regression", dtype=torch.float64).cpu()
    if y.shape != low.shape:
        raise NescioError(
            f"targets have shape {tuple(y.shape)}, the prediction {tuple(low.shape)}; "
            "they must agree"
        )
    if isinstance(by, str):
        raise NescioError(f"by must be None or group numbers (N,) for intervals, got {by!r}")
    options: dict[str, Any] = {
        "targets": y.shape[1],
        "samples": len(y),
        "miscoverage": float(miscoverage),
        "by": None if by is None else "group",
        "randomize": bool(randomize),
        "seed": seed,
        "score": band_options,
    }
    known, cells = torch.zeros(1, dtype=torch.int64), torch.zeros(len(y), dtype=torch.int64)
    if by is not None:
        known, cells = exact_quantiles.check_groups(by, len(y)).cpu().unique(return_inverse=True)
    cells = cells[:, None] * y.shape[1] + torch.arange(y.shape[1])
    score = torch.maximum(low - y, y - high) / scale
    state = exact_quantiles.fit(
        score.flatten().numpy(), cells.flatten().numpy(), len(known) * y.shape[1], miscoverage
    )
    state = state if by is None else {**state, "groups": known}
    say_small(state, options)
    return Intervals(name, options, state)
