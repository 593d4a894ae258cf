"""Table 2 of Hein et al. (2019): by which factor noise must be scaled until a network is sure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nescio.geometry import far_field, first_confident, through_origin
from nescio.models.model import Model
from nescio_papers.relu_overconfidence.worlds import wide

LEVEL = 0.999
CLIPPED = 0.95  # what counts as overconfident after the return into the box
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
DEAD, TIE, UNDECIDED, DISAGREE = "dead", "tie", "undecided", "members disagree"
REASONS = (DEAD, TIE, UNDECIDED, DISAGREE)


@dataclass(frozen=True, eq=False)
class Alphas:
    """What happens on the rays `t * x`, t >= 1, of N images; all `(N,)`.

    Of several members it is the average of their probabilities.
    """

    exact: Tensor  # infinite where the level is never reached
    reason: NDArray[np.str_]  # why it is never reached; empty where it is
    radius: Tensor  # the last breakpoint
    start: Tensor  # confidence at 1
    clipped: Tensor  # confidence of the scaled image cut to [0, 1]^d; NaN where never


def measured(model: Model, x: Tensor) -> Alphas:
    """All of it, exact up to float64 rounding, for images `(N, ...)`."""
    own = wide(model)
    origin, direction = through_origin(x)
    result = first_confident(own, origin, direction, confidence=LEVEL, pooled=True)
    far = far_field(own, origin, direction)
    return Alphas(
        exact=result.factor,
        reason=reasons(far.kind, result.factor),
        radius=far.radius.amax(0),
        start=confidence(own, direction),
        clipped=_clipped(own, direction, result.factor),
    )


def confidence(model: Model, x: Tensor) -> Tensor:
    """The largest probability of the average over members, `(N,)`."""
    return model.outputs(x).softmax(-1).mean(0).amax(-1)


def along(x: Tensor, t: Tensor) -> Tensor:
    """The images `t * x`, a factor an image."""
    return x * t.reshape(-1, *(1 for _ in x.shape[1:]))


def reasons(kind: Any, factor: Tensor) -> NDArray[np.str_]:
    """Why a ray never reaches the level, from the kinds `(M, N)` of its far field."""
    result = np.full(kind.shape[1], DISAGREE, dtype="<U16")
    result[(kind == "tie").any(0)] = TIE
    result[(kind == "constant").any(0)] = DEAD
    result[(kind == "undecided").any(0)] = UNDECIDED
    result[factor.isfinite().numpy()] = ""
    return result


def _clipped(model: Model, x: Tensor, factor: Tensor) -> Tensor:
    finite = factor.isfinite()
    result = confidence(model, along(x, torch.where(finite, factor, 1.0)).clamp(0, 1))
    return torch.where(finite, result, torch.nan)


def quantiles(values: Tensor) -> dict[str, float]:
    """Order statistics, without interpolation: infinity stays."""
    ordered = values.sort().values
    return {f"{q:g}": float(ordered[round(q * (len(ordered) - 1))]) for q in QUANTILES}


def median(values: Tensor) -> float:
    """The middle order statistic."""
    return quantiles(values)["0.5"]


def row(result: Sequence[Alphas]) -> dict[str, Any]:
    """Numbers of several trainings together, and the medians one by one."""
    exact, radius = (torch.cat([getattr(f, key) for f in result]) for key in ("exact", "radius"))
    clipped = torch.cat([f.clipped for f in result])[exact.isfinite()]
    reason = np.concatenate([f.reason for f in result])
    return {
        "rays": len(exact),
        "median": median(exact),
        "median_by_seed": [median(f.exact) for f in result],
        "quantiles": quantiles(exact),
        "already": _share(exact == 1),
        "never": _share(exact.isinf()),
        "reasons": {name: float((reason == name).mean()) for name in REASONS},
        "radius": quantiles(radius),
        "before_the_last_piece": _share(exact < radius),
        "mean_confidence_at_1": torch.cat([f.start for f in result]).mean().item(),
        "clipped_above": _share(clipped > CLIPPED),
        "clipped_by_seed": [_share(f.clipped[f.exact.isfinite()] > CLIPPED) for f in result],
        "clipped_rays": len(clipped),
    }


def _share(mask: Tensor) -> float:
    return mask.double().mean().item()
