"""Part `exact-limits`: what each measure says infinitely far away, by method and number of members.

Far out a member is sure of one class, but for ties and dead directions. So the limit of every
measure comes from the votes of the members, and the question is where they disagree.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nescio import nets
from nescio.core import Categorical, measures
from nescio.geometry.rays.limit_map import LimitMap, limit_map
from nescio.models.model import Model
from nescio_papers.kit.experiment import Findings, Settings
from nescio_papers.kit.shares import percent
from nescio_papers.kit.summary import table
from nescio_papers.know_your_limits.judging import over_trainings
from nescio_papers.know_your_limits.limit_figures import figure_of_circles, figure_of_members
from nescio_papers.know_your_limits.models import (
    ANCHORED,
    DROPOUT,
    END,
    ENSEMBLE,
    P_DROPOUT,
    P_PLAIN,
    RATE,
    RATE_OF_DROPOUT,
    WIDTHS,
    choose,
    fit,
    passes,
    thinned,
    trained,
    world,
)
from nescio_papers.know_your_limits.statistics import SLOPES
from nescio_papers.know_your_limits.surfaces import (
    ENTROPY,
    INFORMATION,
    LEAST,
    VARIANCE,
    functions,
    top,
)
from nescio_papers.know_your_limits.votes import votes

BY_MEMBERS, CIRCLES = "limits-by-members.png", "limits-circle.png"
USUAL = 0.95  # quantile of the validation points: a limit above tells a direction from the data
NOTHING = 1e-9  # a limit below is none
SIGNAL, SOME = 0.5, 0.05  # shares of directions told from the data: most of them, and some
RATES = (0.05, 0.5)  # of dropout, beside the paper's
SCALES = (0.5, 2.0)  # of the initial weights
BOX = ((SLOPES[0], SLOPES[1]), (SLOPES[2], SLOPES[3]))


@dataclass(frozen=True, eq=False)
class Method:
    """Networks of one method: in groups that are averaged, with the limits of all of them."""

    models: tuple[Model, ...]  # of one or several trainings
    maps: tuple[LimitMap, ...]
    pooled: bool  # a group may have any of the members of the one model


def sizes(settings: Settings) -> tuple[int, ...]:
    """Numbers of members."""
    return (1, 2, 5, 10) if settings.quick else (1, 2, 5, 10, 20, 50)


def exact_limits(settings: Settings) -> Findings:
    """Limits over all directions of the plane, and areas of a box by how members vote."""
    result = methods(settings)
    numbers: dict[str, Any] = {
        "methods": {name: of_method(method, settings) for name, method in result.items()},
        "areas": areas(settings),
        "apart": _apart(result),
    }
    return Findings(
        numbers=numbers,
        figures={
            BY_MEMBERS: figure_of_members(numbers["methods"], settings),
            CIRCLES: figure_of_circles(_circles(result, settings), settings),
        },
        captions=_captions(numbers, settings),
        text=_words(numbers, settings),
    )


@cache
def methods(settings: Settings) -> Mapping[str, Method]:
    """Ensembles, MC dropout and ensembles from other initial weights, with their exact limits."""
    models = trained(settings, END)
    joined = {name: _joined([net.model for net in models[name]]) for name in (ENSEMBLE, ANCHORED)}
    result = {name: _pooled(model) for name, model in joined.items()}
    drops = {P_DROPOUT: [net.model for net in models[DROPOUT]]}
    for rate in RATES[-1:] if settings.quick else RATES:
        drops[rate] = _dropped(settings, rate)
    for rate in sorted(drops):
        maps = tuple(limit_map(model) for model in drops[rate])
        result[f"{DROPOUT}, rate {rate:.2g}"] = Method(tuple(drops[rate]), maps, pooled=False)
    count = 5 if settings.quick else 20
    for scale in SCALES[-1:] if settings.quick else SCALES:
        model = fit(lambda s=scale: _scaled(s), settings, END, count, RATE)  # type: ignore[misc]
        result[f"{ENSEMBLE}, initial weights x {scale:g}"] = _pooled(model)
    return result


def _joined(models: Sequence[Model]) -> Model:
    tensors = {
        name: torch.cat([model.tensors[name] for model in models]) for name in models[0].tensors
    }
    return Model(models[0].net, tensors, models[0].head)


def _pooled(model: Model) -> Method:
    return Method((model,), (limit_map(model),), pooled=True)


def _dropped(settings: Settings, rate: float) -> list[Model]:
    """MC dropout at another rate, as ordinary networks, one for each training."""
    count = 1 if settings.quick else 3
    make = lambda: nets.mlp(2, 2, widths=(25,) * 4, dropout=rate)  # noqa: E731
    model = fit(make, settings, END, count, RATE_OF_DROPOUT)
    return [thinned(choose(model, [i]), passes(settings)) for i in range(count)]


def _scaled(scale: float) -> nn.Module:
    """The plain network with its initial weights and shifts times a factor."""
    net = nets.mlp(2, 2, widths=WIDTHS, dropout=P_PLAIN)
    with torch.no_grad():
        for value in net.parameters():
            value.mul_(scale)
    return net


def of_method(method: Method, settings: Settings) -> dict[str, Any]:
    """Numbers by how many members are averaged: over groups, mean, lowest and highest."""
    results = {}
    held = world(settings.seed).validation[0].double()
    seen = [model.outputs(held).double() for model in method.models]
    for size in sizes(settings):
        rows = []
        for model, limits, logits in zip(method.models, method.maps, seen, strict=True):
            if size > model.members:
                continue
            groups = range(0, model.members - size + 1, size) if method.pooled else (0,)
            rows += [_of_group(limits, logits, slice(i, i + size), settings.base) for i in groups]
        if rows:
            one = {key: over_trainings([row[key] for row in rows]) for key in rows[0]}
            results[str(size)] = {"groups": len(rows), **one}
    return results


def _of_group(limits: LimitMap, logits: Tensor, rows: slice, base: float) -> dict[str, float]:
    """Shares of directions and mean limits of one group of members."""
    weight = (limits.widths / limits.widths.sum()).numpy()
    prediction, data = Categorical.from_probs(limits.limit[rows]), Categorical(logits[rows])
    labels = limits.limit[rows].argmax(-1)
    agree = (labels == labels[:1]).all(0).numpy()
    one = (limits.kind[rows] == "one").all(0)
    differ, tied = float((~agree & one) @ weight), float(~one @ weight)
    result = {"agree": 1 - differ - tied, "disagree": differ, "tie or constant": tied}
    for name, function in functions(base).items():
        value = function(prediction).numpy()
        usual = float(np.quantile(function(data).numpy(), USUAL))
        result[f"{name}, mean"] = float(value @ weight)
        result[f"{name}, none"] = float((value < NOTHING) @ weight)
        result[f"{name}, told from data"] = float((value > usual) @ weight)
    expected = measures.expected_entropy(prediction, base=base).numpy()
    result["expected entropy, mean"] = float(expected @ weight)
    return result


def _apart(result: Mapping[str, Method]) -> dict[str, float]:
    """How far limits are from what the votes say: of all members, over all directions, in nats."""
    worst = {"entropy": 0.0, "least": 0.0, "variance": 0.0}
    for method in result.values():
        for limits in method.maps:
            one = (limits.kind == "one").all(0)
            prediction = Categorical.from_probs(limits.limit[:, torch.as_tensor(one)])
            v = (limits.limit[..., 1] > 0.5).double().mean(0).numpy()[one]
            both = np.stack([v, 1 - v])
            entropy = -np.where(both > 0, both * np.log(np.where(both > 0, both, 1)), 0).sum(0)
            for key, name, expected in (
                ("entropy", INFORMATION, entropy),
                ("entropy", ENTROPY, entropy),
                ("least", LEAST, both.min(0)),
                ("variance", VARIANCE, v * (1 - v)),
            ):
                value = functions(math.e)[name](prediction).numpy()
                off = float(np.abs(value - expected).max()) if len(value) else 0.0
                worst[key] = max(worst[key], off)
    return worst


@cache
def areas(settings: Settings) -> dict[str, Any]:
    """Shares of the area of a box by how the first members vote, by method."""
    models = trained(settings, END)
    whole = (BOX[0][1] - BOX[0][0]) * (BOX[1][1] - BOX[1][0])
    results = {}
    for name in (ENSEMBLE, ANCHORED, DROPOUT):
        many = [net.model for net in models[name]]
        model = many[0] if name == DROPOUT else _joined(many)
        model = choose(model, range(5)) if settings.quick else model
        parts = votes(model, BOX)
        rows = {}
        for size in sizes(settings):
            if size <= model.members:
                area = parts.areas(range(size))
                differ = float(area[1:-1].sum() / area.sum())
                rows[str(size)] = {"agree": 1 - differ, "differ": differ, "tie": parts.tied / whole}
        results[name] = rows
    return results


def _circles(result: Mapping[str, Method], settings: Settings) -> dict[str, dict[int, LimitMap]]:
    """Limits of the first members, for the circles."""
    shown = (1, 5, sizes(settings)[-1])
    chosen = {}
    for name in (ENSEMBLE, ANCHORED):
        limits = result[name].maps[0]
        chosen[name] = {
            size: LimitMap(limits.angles, limits.limit[:size], limits.kind[:size]) for size in shown
        }
    return chosen


def _last(rows: Mapping[str, Any]) -> tuple[int, Mapping[str, Any]]:
    """The largest number of members of a method, and its numbers."""
    size = max(map(int, rows))
    return size, rows[str(size)]


def _words(numbers: Mapping[str, Any], settings: Settings) -> str:
    header = [
        "method", "M", "members agree", "disagree", "one ties or is constant",
        f"mean limit of entropy ({settings.unit})", f"of mutual information ({settings.unit})",
        "of class variance", "of 1 - max", "directions told from the data (entropy)",
        "(mutual information)",
    ]  # fmt: skip
    cells = [
        [
            name,
            size,
            *(percent(row[key]["mean"]) for key in ("agree", "disagree", "tie or constant")),
            *(
                f"{row[f'{key}, mean']['mean']:.3g}"
                for key in (ENTROPY, INFORMATION, VARIANCE, LEAST)
            ),
            *(percent(row[f"{key}, told from data"]["mean"]) for key in (ENTROPY, INFORMATION)),
        ]
        for name, rows in numbers["methods"].items()
        for size, row in rows.items()
    ]
    split = [
        [name, size, *(percent(row[key]) for key in ("agree", "differ", "tie"))]
        for name, rows in numbers["areas"].items()
        for size, row in rows.items()
    ]
    (left, right), (low, high) = BOX
    return "\n\n".join(
        [
            "The exact limit over all directions of the plane; means over groups of members that "
            "share no network. A direction is told from the data by a measure where its limit is "
            f"above the {USUAL:.0%} quantile of the validation points".replace("%", " %")
            + ".",
            table(header, cells),
            f"Shares of the box [{left:g}, {right:g}] x [{low:g}, {high:g}] by how the first M "
            "members vote, from the pieces of each, as exact areas. A tie is a piece on which a "
            "member's two logits are one function.",
            table(["model", "M", "same class", "differ", "tie"], split),
            _verdict(numbers),
        ]
    )


def _verdict(numbers: Mapping[str, Any]) -> str:
    """Which measure has signal far away, and when, in words."""
    ends = {name: _last(rows) for name, rows in numbers["methods"].items()}
    best = max(ends, key=lambda n: ends[n][1][f"{INFORMATION}, told from data"]["mean"])
    told = ends[best][1][f"{INFORMATION}, told from data"]["mean"]
    other = ends[best][1][f"{ENTROPY}, told from data"]["mean"]
    level = "most" if told > SIGNAL else "some" if told > SOME else "hardly any"
    apart = max(numbers["apart"].values())
    return (
        "**Which measure has signal far away?** One network: none, every measure is 0 in all "
        "directions but those of a tie or a dead piece. Several: all of them, in the same "
        "directions, those where members disagree. There each limit is a function of the votes: "
        "predictive entropy and mutual information are both the entropy of the votes, 1 - max "
        "probability the share of the minority, class variance v (1 - v) (largest deviation "
        f"{apart:.0e}). So none orders directions better than another; what helps is "
        "disagreement. They differ on the data: mutual information is lower there, as it leaves "
        "out what every member is unsure about, so the same limit stands out more. The best here "
        f"is {best} with {ends[best][0]} members: {level} of the directions, {percent(told)}, are "
        f"told from the data by mutual information, {percent(other)} by predictive entropy."
    )


def _captions(numbers: Mapping[str, Any], settings: Settings) -> dict[str, str]:
    rows, size = numbers["methods"], sizes(settings)[-1]
    many = {name: _last(rows[name])[1] for name in (ENSEMBLE, ANCHORED)}
    means = [f"{many[name][f'{INFORMATION}, mean']['mean']:.3f}" for name in many]
    above = [percent(1 - many[name][f"{ENTROPY}, none"]["mean"]) for name in many]
    one = percent(rows[ENSEMBLE]["1"][f"{ENTROPY}, none"]["mean"])
    return {
        BY_MEMBERS: "Mean over all directions of the exact limits of mutual information and "
        "predictive entropy, and the share of directions in which members disagree. The two "
        f"measures have the same limit, but for ties. With {size} members: ensemble {means[0]}, "
        f"anchored ensemble {means[1]} {settings.unit} of {top(INFORMATION, settings.base):.3f}.",
        CIRCLES: "The exact limit of predictive entropy in every direction of the plane, as the "
        f"length of a wedge; it reaches the rim at {top(ENTROPY, settings.base):.2f}, the largest "
        "possible value. The rim shows the class of the mixture. With one member the limit is 0 in "
        f"{one} of the directions; with {size} it is above 0 in {above[0]} of the directions for "
        f"the ensemble and {above[1]} for the anchored ensemble.",
    }
