"""The temperature and radius of ODIN, chosen on data, with a record of what they were chosen on."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from nescio.core import NescioError, as_batch, unknown
from nescio.detectors.activations import Activations
from nescio.detectors.detector import Detector
from nescio.detectors.odin import BATCH, log_odds_at, odin, sources, step
from nescio.metrics import auroc, fpr_at_tpr

TEMPERATURES = (1.0, 10.0, 100.0, 1000.0)
RADII = tuple(0.0002 * k for k in range(21))  # 0 to 0.004, as published
WITHOUT = "mean confidence of the in-distribution data"

# in-distribution and OOD scores -> what is to be high
CRITERIA: dict[str, Callable[[Tensor, Tensor], float]] = {
    "auroc": lambda in_dist, ood: float(auroc(in_dist, ood)),
    "fpr95": lambda in_dist, ood: -float(fpr_at_tpr(in_dist, ood)),
}


def tuned_odin(
    in_dist: Activations,
    ood: Activations | None = None,
    *,
    name: str | None = None,
    by: str = "auroc",
    temperatures: Sequence[float] | None = None,
    radii: Sequence[float] = RADII,
    scale: float | Sequence[float] | None = None,
) -> Detector:
    """ODIN with the temperature and radius that do best on data reserved for this.

    With `ood`, the pair with the best AUROC or FPR95; of equal ones the first. Without, one
    temperature is used (default 1000), and the radius is the one that raises the mean confidence
    of `in_dist` most (Hsu et al., 2020). `about["tuned"]` of the detector says which, and has the
    hashes of the inputs that were used: scores of these flatter it.

    in_dist, ood: observed with inputs=True, and not among the data to be scored later.
    name: of the OOD data, for tables. by: "auroc" or "fpr95".
    temperatures, radii: the grid. scale: as in `odin`.
    """
    if by not in CRITERIA:
        raise NescioError(unknown("criterion", by, CRITERIA))
    if temperatures is None:
        temperatures = TEMPERATURES if ood is not None else TEMPERATURES[-1:]
    if not len(temperatures) or not len(radii):
        raise NescioError("the grid is empty; give at least one temperature and one radius")
    if ood is None and len(temperatures) > 1:
        raise NescioError(
            "without OOD data the confidence decides, and it is not comparable between "
            f"temperatures; give one temperature, not {len(temperatures)}, or OOD data"
        )
    numbers = odin(scale=scale).options["scale"]
    best, result = -float("inf"), odin(scale=scale)
    for temperature in temperatures:
        inner = _scores(in_dist, temperature, radii, numbers)
        outer = None if ood is None else _scores(ood, temperature, radii, numbers)
        for index, radius in enumerate(radii):
            if outer is None:
                value = float((-inner[index]).sigmoid().mean())
            else:
                value = CRITERIA[by](inner[index].mean(0), outer[index].mean(0))
            if value > best:
                best = value
                result = odin(temperature=temperature, radius=radius, scale=scale)
    record: dict[str, Any] = {
        "by": WITHOUT if ood is None else by,
        "value": abs(best),
        "in_dist": in_dist.samples,
        "ood": 0 if ood is None else ood.samples,
        "on": None if ood is None else name or str(ood.about.get("name", "unnamed")),
        "hashes": _hashes(in_dist) + ([] if ood is None else _hashes(ood)),
        "temperatures": [float(t) for t in temperatures],
        "radii": [float(r) for r in radii],
    }
    about = {**in_dist.about, "tuned": record}
    return replace(result, about=about, fitted_on=in_dist.hashes)


def _hashes(activations: Activations) -> list[int]:
    return [] if activations.hashes is None else [int(h) for h in activations.hashes.tolist()]


def _scores(
    activations: Activations, temperature: float, radii: Sequence[float], scale: list[float] | None
) -> Tensor:
    """Scores `(radii, M, N)`; the gradient is taken once for all radii."""
    rows = []
    for member in range(activations.members):
        blocks = []
        for view in activations.views(member, ()):
            inputs, answer = sources(view)
            for part in inputs.split(BATCH):
                x = as_batch(part, part.dtype if part.is_floating_point() else torch.float32)
                sign = step(answer, x, temperature, scale)
                with torch.no_grad():
                    moved = [log_odds_at(answer(x - r * sign), temperature) for r in radii]
                blocks.append(torch.stack(moved))
        rows.append(torch.cat(blocks, 1))
    return torch.stack(rows, 1)
