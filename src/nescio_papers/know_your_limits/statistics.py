"""What the uncertainty surfaces of the half-moons say in numbers, over all trainings."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nescio.core import measures
from nescio.metrics import auroc
from nescio_papers.kit import Settings, median, share
from nescio_papers.know_your_limits.judging import over_trainings
from nescio_papers.know_your_limits.models import (
    BUDGETS,
    DROPOUT,
    END,
    MANY,
    SINGLE,
    Network,
    trained,
    world,
)
from nescio_papers.know_your_limits.surfaces import (
    OF_MANY,
    OF_ONE,
    Field,
    Floats,
    Grid,
    boundary,
    distance,
    fields,
)

SLOPES = (-5.5, 6.5, -5.0, 5.5)
RINGS = {"on the data": (0.0, 0.2), "near": (0.2, 1.0), "away": (1.0, 3.0), "far": (3.0, np.inf)}
FLAT = 1e-3  # gradient norms below count as none
STEEP = 1e-2


def names_of(model: str) -> tuple[str, ...]:
    """The measures of a model: those of several networks need several."""
    return OF_ONE if model in SINGLE else OF_MANY


@cache
def statistics(settings: Settings) -> dict[str, Any]:
    """What the surfaces say: by budget, model and measure, over all trainings."""
    grid = Grid(SLOPES, 0.5 if settings.quick else 0.25)
    result: dict[str, Any] = {budget: _of_budget(settings, grid, budget) for budget in BUDGETS}
    result["shape"] = {budget: _shapes(settings, grid, budget) for budget in BUDGETS}
    result["released"] = _as_released(trained(settings, END)[DROPOUT][0], grid)
    result["step"] = grid.step
    return result


def _of_budget(settings: Settings, grid: Grid, budget: str) -> dict[str, Any]:
    models, data = trained(settings, budget), world(settings.seed)
    far = distance(grid.points, data.train[0])
    held = data.validation[0]
    return {
        name: _joined([_one(net, grid, far, held, settings, name) for net in models[name]])
        for name in (*SINGLE, *MANY)
    }


def _one(
    network: Network, grid: Grid, far: Floats, validation: Tensor, settings: Settings, name: str
) -> dict[str, Any]:
    """All numbers of one network on one grid, by measure."""
    x, kinds = grid.points, names_of(name)
    here = fields(network, x, kinds, settings.base)
    held = fields(network, validation, kinds, settings.base)
    with torch.no_grad():
        labels = network(x).member_log_probs.argmax(-1).numpy()
    edge = distance(x, boundary(grid, labels))
    return {kind: _measured(here[kind], held[kind].value, far, edge) for kind in kinds}


def _measured(field: Field, held: Floats, far: Floats, edge: Floats) -> dict[str, Any]:
    rings = {ring: (far >= low) & (far < high) for ring, (low, high) in RINGS.items()}
    outer = rings["far"]
    steep = outer & (field.slope > STEEP)
    low, high = np.quantile(field.value, (0.05, 0.95))
    usual = np.quantile(held, 0.95)
    return {
        "maximum": float(field.value.max()),
        "5 to 95 %": float(high - low),
        "value": {ring: median(field.value[mask]) for ring, mask in rings.items()},
        "gradient": {ring: median(field.slope[mask]) for ring, mask in rings.items()},
        "far auroc": auroc(held, field.value[outer]),
        "far, no more uncertain than data": share(field.value[outer] <= usual),
        "far and flat": share(field.slope[outer] < FLAT),
        "far and steep": share(steep[outer]),
        "steep: from a boundary": median(edge[steep]),
        "far: from a boundary": median(edge[outer]),
    }


def _joined(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Join numbers of several trainings: nested dictionaries of mean, lowest and highest."""
    return {
        key: _joined([row[key] for row in rows])
        if isinstance(value, dict)
        else over_trainings([row[key] for row in rows])
        for key, value in rows[0].items()
    }


def _shapes(settings: Settings, grid: Grid, budget: str) -> dict[str, Any]:
    """How wide the uncertain region is: shares of the plane, by model, over trainings."""
    results = {}
    for name in (*SINGLE, *MANY):
        rows = []
        for network in trained(settings, budget)[name]:
            with torch.no_grad():
                prediction = network(grid.points)
            relative = (measures.predictive_entropy(prediction, base=2)).numpy()
            least = 2 * measures.least_confidence(prediction).numpy()
            edge = distance(grid.points, boundary(grid, prediction.labels.numpy()))
            rows.append(
                {
                    "fuzzy": share((relative > 0.1) & (relative < 0.9)),
                    "entropy above half": share(relative > 0.5),
                    "1 - max above half": share(least > 0.5),
                    "entropy above half: from the boundary": median(edge[relative > 0.5]),
                    "all: from the boundary": median(edge),
                }
            )
        results[name] = _joined(rows)
    return results


def _as_released(network: Network, grid: Grid) -> dict[str, float]:
    """What the released code plots for mutual information, beside what it is, in bits."""
    with torch.no_grad():
        prediction = network(grid.points)
    plotted = 5 - measures.expected_entropy(prediction, base=2).numpy()
    right = measures.mutual_information(prediction, base=2).numpy()
    return {
        "lowest": float(plotted.min()),
        "highest": float(plotted.max()),
        "right, highest": float(right.max()),
        "correlation": float(np.corrcoef(plotted, right)[0, 1]),
    }
