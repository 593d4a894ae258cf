"""Influence in linear regression: Cook's distance, beside leaving out every row of a table."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from nescio import heads, losses
from nescio.applications.influence import cooks_distance, fit, leverages, parameter_change
from nescio.core import NescioError
from nescio_papers.data.uci import uci_splits
from nescio_papers.kit import Claim, Findings, Settings, absent, exactly

TABLE = "concrete"
EXACT = 1e-9  # the largest relative difference that is rounding


def findings(settings: Settings) -> Findings:
    """Cook's distances and changes of the weights, by influence and by leaving rows out."""
    del settings  # it takes no time
    try:
        table = uci_splits(TABLE, only=[0])
    except NescioError as error:
        return absent(f"the table {TABLE}", str(error))
    return Findings(numbers=compared(standardized(table.x.double()), table.y.double()))


def judge(numbers: Mapping[str, Any]) -> list[Claim]:
    """The claim by stored numbers."""
    why = f"all {numbers['rows']} rows of {numbers['table']} are left out, one by one"
    return [
        Claim(
            source="here",
            sentence="In linear regression, influence and leverage together give exactly what "
            "leaving out a training example changes.",
            facts=[
                exactly(
                    "largest relative difference of the weights' moves from 1 / (1 - leverage) "
                    "times what influence says",
                    numbers["weights_difference"],
                    why=why,
                    below=EXACT,
                ),
                exactly(
                    "largest relative difference of Cook's distances",
                    numbers["distance_difference"],
                    why=why,
                    below=EXACT,
                ),
            ],
            note=f"{why}; influence without leverage is off by up to "
            f"{numbers['first_order_difference']:.1%} of the largest move",
        )
    ]


def standardized(x: Tensor) -> Tensor:
    """Columns with mean 0 and standard deviation 1; constant ones are left out."""
    spread = x.std(0)
    return (x - x.mean(0))[:, spread > 0] / spread[spread > 0]


def compared(x: Tensor, y: Tensor) -> dict[str, Any]:
    """By influence, and by least squares without each row."""
    net = nn.Linear(x.shape[1], 1).double()
    loss = losses.squared_error(heads.fixed_variance())
    minimum = fit(net, (x, y), head="fixed_variance", loss=loss, weight_decay=0.0)
    leverage = leverages(minimum)
    weights, distance = left_out(x, y)
    change = parameter_change(minimum, torch.arange(len(x)))
    moved = torch.cat([change[name].flatten(1) for name in ("weight", "bias")], 1)
    exact = moved / (1 - leverage)[:, None]
    return {
        "table": TABLE,
        "rows": len(x),
        "weights": x.shape[1] + 1,
        "gradient_norm": minimum.gradient_norm,
        "largest_leverage": float(leverage.max()),
        "largest_distance": float(distance.max()),
        "weights_difference": _apart(exact, weights),
        "distance_difference": _apart(cooks_distance(minimum), distance),
        "first_order_difference": _apart(moved, weights),
    }


def left_out(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Changes of the weights `(N, F + 1)` and Cook's distances `(N,)`, by least squares again."""
    wide = torch.cat([x, torch.ones_like(x[:, :1])], 1)
    full = torch.linalg.lstsq(wide, y).solution
    every = torch.arange(len(x))
    changes = torch.stack(
        [
            (torch.linalg.lstsq(wide[rest], y[rest]).solution - full)[:, 0]
            for rest in (every[every != row] for row in every)
        ]
    )
    variance = (y - wide @ full).square().sum() / (len(x) - wide.shape[1])
    distance = (changes @ wide.T).square().sum(1) / (wide.shape[1] * variance)
    return changes, distance


def _apart(first: Tensor, second: Tensor) -> float:
    """The largest difference, relative to the largest number."""
    return float((first - second).abs().max() / second.abs().max())
