"""Part `activations`: tanh and Swish networks on the same rays as ReLU."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from nescio.core import least_confidence
from nescio.metrics import accuracy
from nescio_papers.kit import Claim, Findings, Settings, between, percent
from nescio_papers.know_your_limits.judging import of_share, over_trainings
from nescio_papers.know_your_limits.models import Network, seeds, with_activation, world
from nescio_papers.know_your_limits.ray_figures import LAST, figure_of_rays
from nescio_papers.know_your_limits.rays import along, ray_numbers, scaled, start_points
from nescio_papers.know_your_limits.surfaces import ENTROPY, LEAST, OF_ONE

NAMES = {"relu": "ReLU", "tanh": "tanh", "swish": "Swish"}
END = "failure score at the end"
RAYS = 500  # from 250 points along two axes
AT_REST = 0.95  # of the rays
VALUES, GRADIENTS = "activations-values.png", "activations-gradients.png"


def activations(settings: Settings) -> Findings:
    """Do the measures of smooth networks converge along rays as well?"""
    networks = {name: with_activation(settings, key) for key, name in NAMES.items()}
    x, held = start_points(settings), world(settings.seed).validation
    numbers: dict[str, Any] = {}
    for name, nets in networks.items():
        numbers[name] = ray_numbers(nets, x, OF_ONE, settings.base)
        scores = [accuracy(net(held[0]).probs, held[1]) for net in nets]
        numbers[name]["validation accuracy"] = over_trainings(scores)
        numbers[name][END] = over_trainings([_failure_score(net, x) for net in nets])
    alphas = np.geomspace(1, LAST, 13 if settings.quick else 25)
    result = {
        name: along(nets[0], x, alphas.tolist(), OF_ONE, settings.base)
        for name, nets in networks.items()
    }
    titles = {
        VALUES: "Measures of tanh and Swish networks come to rest too; those of tanh above zero",
        GRADIENTS: "Gradients of all three die out on the rays, of tanh once its layers saturate",
    }
    return Findings(
        numbers=numbers,
        figures={
            name: figure_of_rays(
                alphas, result, settings, gradient=name == GRADIENTS, title=titles[name]
            )
            for name in (VALUES, GRADIENTS)
        },
        captions={
            VALUES: "Median and 90 % quantile over rays from validation points. Moved by less than "
            "1e-6 between alpha 1e5 and 1e6 (entropy): " + _shares(numbers, "still"),
            GRADIENTS: "Gradient norm of the entropy below 1e-6 at alpha 1e6: "
            + _shares(numbers, "gradient gone"),
        },
        text=_text(numbers, seeds(settings)),
    )


@torch.no_grad()
def _failure_score(network: Network, x: torch.Tensor) -> float:
    """Mean of 1 - max probability at the end of the rays of both axes."""
    ends = torch.cat([scaled(x, d, LAST) for d in range(x.shape[1])])
    return float(least_confidence(network(ends)).mean())


def _shares(numbers: dict[str, Any], key: str) -> str:
    return ", ".join(
        f"{name} {percent(row[ENTROPY][key]['mean'])}" for name, row in numbers.items()
    )


def _text(numbers: dict[str, Any], count: int) -> str:
    rows = [
        "| activation | validation accuracy | rays at rest | gradient gone | sure of one class "
        "| mean of 1 - max probability at the end |",
        "|---|---|---|---|---|---|",
    ]
    for name, row in numbers.items():
        cells = [
            between(row["validation accuracy"]),
            percent(row[LEAST]["still"]["mean"]),
            percent(row[LEAST]["gradient gone"]["mean"]),
            percent(row["limits"]["sure of one class"]["mean"]),
            between(row[END], ".2g"),
        ]
        rows.append(f"| {name} | {' | '.join(cells)} |")
    about = (
        f"The plain network with another activation, same rate and budget, {count} trainings. The "
        "features of a tanh network are bounded, so its logits end at constants and its confidence "
        "below 1, though not by much. Swish is affine far out, like ReLU, so its logits grow "
        "without end."
    )
    return about + "\n\n" + "\n".join(rows)


def _end(row: Mapping[str, Any]) -> Any:
    """The mean failure score at the end of the rays, whatever it was called when it was stored."""
    return next(value for key, value in row.items() if key.endswith("at the end"))


def activation_claims(numbers: Mapping[str, Any]) -> list[Claim]:
    """Whether the measures come to rest, and whether it takes a piecewise affine network."""
    what = "rays whose entropy is at rest from alpha 1e5 to 1e6"
    rows = {name: row[ENTROPY]["still"] for name, row in numbers.items()}
    ends = ", ".join(f"{name} {_end(row)['mean']:.2g}" for name, row in numbers.items())
    first, *others = NAMES.values()
    return [
        Claim(
            source="Ulmer and Cinà, abstract",
            sentence="This result stems from the interplay between the representation of ReLU "
            "networks as piece-wise affine transformations, the saturating nature of activation "
            "functions like softmax, and the most widely-used uncertainty metrics.",
            facts=[of_share(f"{what}, {first}", rows[first], above=AT_REST, points=RAYS)],
            note=f"mean of 1 - max probability at the end: {ends}",
        ),
        Claim(
            source="here",
            sentence="Another activation than ReLU is no remedy: with tanh and Swish the measures "
            "come to rest as well.",
            facts=[
                of_share(f"{what}, {name}", rows[name], above=AT_REST, points=RAYS)
                for name in others
            ],
            note="tanh features are bounded, and Swish is affine far out",
        ),
    ]
