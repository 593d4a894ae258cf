"""What a bisection and a grid find in place of the first factor at which a network is sure.

Confidence along a ray can go up and down. A bisection then finds some crossing of the level, not
the first; a grid can step over one. Both are compared with the exact answer, ray by ray.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nescio.geometry import first_confident, through_origin
from nescio.models.model import Model
from nescio_papers.relu_overconfidence.alphas import LEVEL, along, confidence, median
from nescio_papers.relu_overconfidence.worlds import wide

LAST = 1e6  # where the searches give up
POINTS = 600  # of the grid
SPACING = LAST ** (1 / (POINTS - 1))
AT_ONCE = 20  # points of the grid
HALVINGS = 48  # of log(1e6): to the last bits
NEAR = 1e-6  # relative: two factors that agree in float64
ROUGH = 1e-3  # the same where float32 rounds the confidence


@dataclass(frozen=True, eq=False)
class Search:
    """Factors found on the rays `t * x`, t >= 1, of N images; all `(N,)`."""

    exact: Tensor
    bisected: Tensor
    grid: Tensor
    falls: Tensor  # whether the confidence was seen below the level again further out

    @property
    def bisection_wrong(self) -> Tensor:
        """Where the bisection is not at the first crossing."""
        return differs(self.exact, self.bisected)

    @property
    def grid_wrong(self) -> Tensor:
        """Where the grid is not within one step of the first crossing."""
        return differs(self.exact, self.grid, spacing=SPACING, near=ROUGH)


def searched(model: Model, x: Tensor) -> Search:
    """All three on the same images; the grid in float32, the rest in float64."""
    own, images = wide(model), x.double()
    exact = first_confident(own, *through_origin(x), confidence=LEVEL, pooled=True).factor
    result = by_bisection(own, images)
    return Search(
        exact=exact, bisected=result, grid=by_grid(model, x), falls=_falls(own, images, exact)
    )


def by_grid(model: Model, x: Tensor, *, coarse: int = 1) -> Tensor:
    """The first of 600 factors from 1 to a million, evenly on a log scale.

    coarse: look at one in this number of factors first, then at those before the first that is
      reached; a confidence that rises and falls between two of them is missed.
    """
    points = torch.from_numpy(np.geomspace(1, LAST, POINTS))
    rough = _first_index(model, x, points, coarse)
    index = rough.clone()
    for back in range(coarse - 1, 0, -1):
        rows = ((rough >= back) & (index == rough)).nonzero()[:, 0]
        if not len(rows):
            continue
        before = rough[rows] - back
        reached = confidence(model, along(x[rows], points[before].to(x.dtype))) >= LEVEL
        index[rows[reached]] = before[reached]
    return torch.where(index < 0, torch.inf, points[index.clamp_min(0)])


def _first_index(model: Model, x: Tensor, points: Tensor, coarse: int) -> Tensor:
    """The index of the first of every `coarse` points that is reached; -1 where none is."""
    index = torch.full((len(x),), -1)
    left = torch.arange(len(x))
    for some in _every(len(points), coarse).split(AT_ONCE):
        images = torch.cat([along(x[left], t.expand(len(left))) for t in points[some].to(x.dtype)])
        hits = (confidence(model, images) >= LEVEL).reshape(len(some), len(left))
        hit = hits.any(0)
        index[left[hit]] = some[hits.int().argmax(0)[hit]]
        left = left[~hit]
        if not len(left):
            break
    return index


def _every(count: int, coarse: int) -> Tensor:
    """0, coarse, 2 * coarse, ..., and the last of `count` indices."""
    return torch.cat([torch.arange(0, count - 1, coarse), torch.tensor([count - 1])])


def by_bisection(model: Model, x: Tensor) -> Tensor:
    """Halving between 1 and a million on a log scale, as if confidence could only grow."""
    low, high = (torch.full((len(x),), end, dtype=torch.float64) for end in (1.0, LAST))
    first, last = (confidence(model, along(x, t)) >= LEVEL for t in (low, high))
    for _ in range(HALVINGS):
        middle = (low * high).sqrt()
        sure = confidence(model, along(x, middle)) >= LEVEL
        low, high = torch.where(sure, low, middle), torch.where(sure, middle, high)
    return torch.where(first, 1.0, torch.where(last, high, torch.inf))


def differs(exact: Tensor, result: Tensor, *, spacing: float = 1.0, near: float = NEAR) -> Tensor:
    """Whether a search is wrong: not within one step of its spacing above the exact factor."""
    low, high = exact * (1 - near), exact * spacing * (1 + near)
    both = exact.isinf() & result.isinf()
    return ~both & ~((low <= result) & (result <= high))


def _falls(model: Model, x: Tensor, factor: Tensor) -> Tensor:
    """Whether one of 40 points up to a hundred times further is below the level again."""
    result = torch.zeros(len(x), dtype=torch.bool)
    rows = factor.isfinite().nonzero()[:, 0]
    for more in np.geomspace(1.01, 100, 40) if len(rows) else ():
        result[rows] |= confidence(model, along(x[rows], factor[rows] * more)) < LEVEL
    return result


def search_row(result: Sequence[Search]) -> dict[str, Any]:
    """How often the searches are wrong, over several trainings."""
    exact, bisected, grid = (
        torch.cat([getattr(f, key) for f in result]) for key in ("exact", "bisected", "grid")
    )
    wrong = torch.cat([f.bisection_wrong for f in result])
    missed = wrong & bisected.isinf() & exact.isfinite()
    ratio = (bisected / exact)[wrong & bisected.isfinite()]
    return {
        "rays": len(exact),
        "median": {"exact": median(exact), "bisection": median(bisected), "grid": median(grid)},
        "bisection_wrong": int(wrong.sum()),
        "bisection_says_never": int(missed.sum()),
        "largest_ratio": ratio.max().item() if len(ratio) else 1.0,
        "grid_wrong": int(torch.cat([f.grid_wrong for f in result]).sum()),
        "falls_again": int(torch.cat([f.falls for f in result]).sum()),
    }
