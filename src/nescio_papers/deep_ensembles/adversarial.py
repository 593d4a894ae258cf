"""What adversarial training changes: scores, bands, boundaries, robustness; over several seeds."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from nescio.core import Classification, predictive_entropy
from nescio.data import Dataset
from nescio.models.model import Model
from nescio.report.plots.look import WIDTH, add_title, with_look
from nescio_papers.deep_ensembles.cubic_world import (
    EDGE,
    Regressor,
    cubic_attacked,
    cubic_held_out,
    cubic_runs,
    strip,
)
from nescio_papers.deep_ensembles.figures import pairs, show_map
from nescio_papers.deep_ensembles.printed_runs import cubic_printed
from nescio_papers.deep_ensembles.spiral import scores
from nescio_papers.deep_ensembles.spiral_world import RADIUS, distance, says, spiral_runs, square
from nescio_papers.deep_ensembles.worlds import BY_SEED, OWN, fast_gradient, seeds
from nescio_papers.kit import Claim, Findings, Sample, Settings, judged, sample

UNCERTAIN = 0.5  # nats
NAMES = ("plain", "adversarial")
TEXT = """\
Each pair of runs differs in nothing but the loss: the mean of the negative log-likelihood at x and
at x moved by 1 % of the range of the inputs (0.08 on the cubic, 0.02 on the spiral) along the sign
of its gradient. Every seed has its own data. Attacked inputs are moved by the same radius against
the trained ensemble, or the single network. Intervals are 95 % of the mean over the seeds. The
practical prints no run with adversarial training; its own run of the cubic is repeated here with
the adversarial loss of its code. It is as it is: networks that hardly fit the cubic."""
Table = dict[str, Sample]


def run(settings: Settings) -> Findings:
    """Both worlds with and without adversarial training."""
    cubics = [_table(_cubic, settings, cubic_runs(settings, way)) for way in (False, True)]
    own = [_table(_cubic, settings, cubic_printed(settings, way)) for way in (False, True)]
    spirals = [_table(_spiral, settings, spiral_runs(settings, way)) for way in (False, True)]
    numbers: dict[str, Any] = {
        world: {
            **{name: _plain(table) for name, table in zip(NAMES, tables, strict=True)},
            "difference": {key: (tables[1][key] - tables[0][key]).numbers() for key in tables[0]},
        }
        for world, tables in (("regression", cubics), ("spiral", spirals), ("printed", own))
    }
    figures = {
        "adversarial-regression.png": _cubic_pairs(*cubics),
        "adversarial-spiral.png": _spiral_pairs(*spirals),
        "adversarial-maps.png": _maps(settings),
    }
    wider = cubics[1]["band_on"] / cubics[0]["band_on"]
    captions = {
        "adversarial-regression.png": "The cubic, a gray line a seed. Adversarial training widens "
        f"the band on the data by a factor {wider} and brings the NLL on fresh data from "
        f"{cubics[0]['nll']} to {cubics[1]['nll']}.",
        "adversarial-spiral.png": "The spiral, a gray line a seed. Accuracy under attack goes from "
        f"{spirals[0]['attacked_accuracy']} to {spirals[1]['attacked_accuracy']}, the uncertain "
        f"share of the disc from {spirals[0]['uncertain_disc']} to {spirals[1]['uncertain_disc']}.",
        "adversarial-maps.png": "Total uncertainty without and with adversarial training, and the "
        "difference: within the disc the boundaries are wider, outside it only elsewhere.",
    }
    return Findings(
        numbers=numbers,
        figures=figures,
        captions=captions,
        comparisons=(),
        claims=judged(settings, _claims(cubics, spirals, own)),
        text=TEXT,
    )


def _table(measure: Any, settings: Settings, runs: Any) -> Table:
    rows = [measure(settings, data, result, index) for index, (data, result) in enumerate(runs)]
    return {key: sample(row[key] for row in rows) for key in rows[0]}


def _plain(table: Mapping[str, Sample]) -> dict[str, Any]:
    return {key: result.numbers() for key, result in table.items()}


def _cubic(settings: Settings, data: Dataset, result: Regressor, index: int) -> dict[str, float]:
    x, y = cubic_held_out(seeds(settings, index + 1)[index])
    trained, fresh = result(data.train[0]), result(x)
    attacked = result(cubic_attacked(result, x, y))
    members = range(result.model.members)
    single = {
        "train": [-trained.choose([m]).log_prob(data.train[1]).mean().item() for m in members],
        "fresh": [-fresh.choose([m]).log_prob(y).mean().item() for m in members],
        "attacked": [
            -result(cubic_attacked(result, x, y, m)).choose([m]).log_prob(y).mean().item()
            for m in members
        ],
    }
    strips = {"on": strip(0, EDGE), "near": strip(EDGE, 4.5), "off": strip(4.5, 6)}
    band = {key: result(x).mixture_variance.sqrt().mean().item() for key, x in strips.items()}
    return {
        "train_nll": -trained.log_prob(data.train[1]).mean().item(),
        "nll": -fresh.log_prob(y).mean().item(),
        "attacked_nll": -attacked.log_prob(y).mean().item(),
        "error": (fresh.mixture_mean - x**3).square().mean().sqrt().item(),
        **{f"single_{key}_nll": sum(values) / len(values) for key, values in single.items()},
        **{f"band_{key}": value for key, value in band.items()},
        "noise_on": result(strips["on"]).aleatoric.sqrt().mean().item(),
    }


def _spiral(settings: Settings, data: Dataset, model: Model, index: int) -> dict[str, float]:
    del index
    assert data.test is not None
    x, y = data.test
    moved = fast_gradient(model, x, y, RADIUS)
    attacked = says(model, moved)
    grid = square(80 if settings.quick else 200)
    result = says(model, grid)
    in_dist = grid.norm(dim=1) < 1
    unsure = (predictive_entropy(result) > UNCERTAIN).double()
    train_accuracy, train_nll = scores(says(model, data.train[0]), data.train[1])
    accuracy, nll = scores(says(model, x), y)
    attacked_accuracy, attacked_nll = scores(attacked, y)
    wrong = attacked.labels != y
    near = distance(grid, data.train[0]) < RADIUS
    return {
        "train_accuracy": train_accuracy,
        "train_nll": train_nll,
        "accuracy": accuracy,
        "nll": nll,
        "attacked_accuracy": attacked_accuracy,
        "attacked_nll": attacked_nll,
        "confidence_when_fooled": attacked.probs.amax(-1)[wrong].mean().item(),
        "confidence_near_data": result.probs.amax(-1)[near].mean().item(),
        "uncertain_square": unsure.mean().item(),
        "uncertain_disc": unsure[in_dist].mean().item(),
        "uncertain_outside": unsure[~in_dist].mean().item(),
        "boundary_disc": boundary(result, grid, in_dist),
    }


def boundary(result: Classification, grid: Tensor, in_dist: Tensor) -> float:
    """Length of the decision boundary within a region, by steps of the grid: rough is long."""
    side = round(len(grid) ** 0.5)
    step = (grid[1] - grid[0]).abs().max().item()
    labels, kept = result.labels.reshape(side, side), in_dist.reshape(side, side)
    total = 0
    for axis in (0, 1):
        one, two = (slice(None, -1), slice(None)), (slice(1, None), slice(None))
        here, there = (one, two) if axis == 0 else (one[::-1], two[::-1])
        changed = (labels[here] != labels[there]) & kept[here] & kept[there]
        total += int(changed.sum())
    return step * total


def _claims(cubics: list[Table], spirals: list[Table], own: list[Table]) -> list[Claim]:
    return [*_of_regression(cubics, own), *_of_classification(*spirals)]


def _of_regression(cubics: list[Table], own: list[Table]) -> list[Claim]:
    pairs = {OWN: own, BY_SEED: cubics}
    change = {way: _change(*tables) for way, tables in pairs.items()}
    gap = {way: [_gap(table) for table in tables] for way, tables in pairs.items()}
    source = "practical, regression answer 1"
    bands = (("on", "on the data"), ("near", "for |x| from 4 to 4.5"))
    return [
        Claim(
            source=source,
            sentence="Adversarial training significantly improves robustness.",
            facts=[
                found[key].fact(
                    f"change of the NLL of {name} under attack of the same radius, {way}", below=0
                )
                for way, found in change.items()
                for key, name in (
                    ("single_attacked_nll", "a single network"),
                    ("attacked_nll", "the ensemble"),
                )
            ],
            note=f"a single network {cubics[0]['single_attacked_nll']} without and "
            f"{cubics[1]['single_attacked_nll']} with, over the seeds",
        ),
        Claim(
            source=source,
            sentence="It prevents overfitting to the noise in the training data.",
            facts=[
                (gap[BY_SEED][1] - gap[BY_SEED][0]).fact(
                    "change of the NLL of a single network on fresh data less on the training data",
                    below=0,
                ),
                gap[BY_SEED][1].fact("what is left of it, in nats (prevented: 0.1)", below=0.1),
            ],
            note=f"{gap[BY_SEED][0]} without, {gap[BY_SEED][1]} with; {gap[OWN][0]} and "
            f"{gap[OWN][1]} {OWN}; the noise on the data {cubics[0]['noise_on']} and "
            f"{cubics[1]['noise_on']} over the seeds, for a true 3",
        ),
        Claim(
            source=source,
            sentence="This results in higher, more realistic uncertainty estimates in the "
            "immediate vicinity of the data points.",
            facts=[
                *(
                    (cubics[1][f"band_{key}"] / cubics[0][f"band_{key}"]).fact(
                        f"factor on the band {where}", above=1
                    )
                    for key, where in bands
                ),
                change[BY_SEED]["nll"].fact(
                    "more realistic: change of the NLL on fresh data", below=0
                ),
            ],
        ),
    ]


def _change(before: Table, after: Table) -> Table:
    """Differences paired by seed."""
    return {key: after[key] - before[key] for key in before}


def _gap(one: Table) -> Sample:
    """NLL of a single network on fresh data less on the training data."""
    return one["single_fresh_nll"] - one["single_train_nll"]


def _of_classification(plain: Table, trained: Table) -> list[Claim]:
    shift = _change(plain, trained)
    thick = [one["uncertain_disc"] / one["boundary_disc"] for one in (plain, trained)]
    answer = "practical, classification answer 4"
    return [
        Claim(
            source="practical, section Adversarial training",
            sentence="Adversarial training was found to improve the classifier's robustness.",
            facts=[
                shift["attacked_accuracy"].fact(
                    "change of the accuracy of the spiral ensemble under attack (a point)",
                    above=0.01,
                    form=".2%",
                ),
                shift["attacked_nll"].fact("change of its NLL under attack", below=0),
            ],
            note=f"accuracy {plain['attacked_accuracy']} without, {trained['attacked_accuracy']} "
            "with",
        ),
        Claim(
            source=answer,
            sentence="Adversarial training smoothes the decision boundaries.",
            facts=[
                shift["boundary_disc"].fact(
                    "change of the length of the boundary in the disc", below=0
                )
            ],
            note=f"{plain['boundary_disc']} without, {trained['boundary_disc']} with",
        ),
        Claim(
            source=answer,
            sentence="It expands the regions of uncertainty; it effectively thickens the decision "
            "boundary.",
            facts=[
                shift["uncertain_disc"].fact(
                    f"change of the share of the disc with more than {UNCERTAIN} nats",
                    above=0,
                    form=".1%",
                ),
                shift["uncertain_outside"].fact(
                    "change of that share of the rest of the square", above=0, form=".1%"
                ),
                (thick[1] / thick[0]).fact(
                    "factor on the share of the disc by length of boundary", above=1
                ),
            ],
        ),
        Claim(
            source=answer,
            sentence="This prevents the model from making high-confidence predictions on points "
            "that are only marginally different from the training data.",
            facts=[
                shift["confidence_when_fooled"].fact(
                    "change of the mean confidence where the attack succeeds", below=0
                ),
                trained["confidence_when_fooled"].fact(
                    "what is left of it (prevented: 0.6)", below=0.6
                ),
            ],
            note=f"within {RADIUS} of a training point {plain['confidence_near_data']} without, "
            f"{trained['confidence_near_data']} with",
        ),
    ]


def _pairs(panels: list[tuple[str, str]], tables: tuple[Table, Table], title: str) -> Figure:
    figure = Figure(figsize=(WIDTH + 1.2, 3.9), layout="constrained")
    for axis, (key, name) in zip(figure.subplots(1, len(panels)), panels, strict=True):
        pairs(axis, tables[0][key], tables[1][key], ("plain", "advers."), name)
    add_title(figure, title)
    return figure


@with_look
def _cubic_pairs(before: Table, after: Table) -> Figure:
    panels = [
        ("nll", "NLL, fresh data\n(nats)"),
        ("attacked_nll", "NLL, attacked\n(nats)"),
        ("single_attacked_nll", "NLL, attacked,\none network (nats)"),
        ("band_on", "band (1 deviation),\non the data"),
        ("band_near", "band, |x| from\n4 to 4.5"),
        ("band_off", "band, |x| from\n4.5 to 6"),
    ]
    better = (after["nll"] - before["nll"]).below
    said = "better scores and wider bands" if better else "no clear gain"
    return _pairs(panels, (before, after), f"Adversarial training on the cubic: {said} on the data")


@with_look
def _spiral_pairs(before: Table, after: Table) -> Figure:
    panels = [
        ("nll", "NLL, fresh data\n(nats)"),
        ("attacked_accuracy", "accuracy,\nattacked"),
        ("attacked_nll", "NLL, attacked\n(nats)"),
        ("uncertain_disc", "uncertain share\nof the disc"),
        ("uncertain_outside", "uncertain share\nof the rest"),
        ("boundary_disc", "boundary length\nin the disc"),
    ]
    gained = after["attacked_accuracy"] - before["attacked_accuracy"]
    title = f"Adversarial training on the spiral: accuracy under attack changes by {gained}"
    return _pairs(panels, (before, after), title)


@with_look
def _maps(settings: Settings) -> Figure:
    grid = square(80 if settings.quick else 200)
    result = [
        predictive_entropy(says(spiral_runs(settings, way)[0][1], grid), base=settings.base)
        for way in (False, True)
    ]
    figure = Figure(figsize=(WIDTH + 1.2, 3.8), layout="constrained")
    axes, top = figure.subplots(1, 3), float(torch.stack(result).max())
    bar: Any = {"bar": settings.unit}
    show_map(figure, axes[0], result[0], "total uncertainty, plain", top=top, **bar)
    show_map(figure, axes[1], result[1], "with adversarial training", top=top, **bar)
    gap: Any = {"cmap": "PuOr_r", "vmin": -top, "top": top}
    show_map(figure, axes[2], result[1] - result[0], "difference", **bar, **gap)
    grown = [f > UNCERTAIN / math.log(settings.base) for f in result]
    in_dist = grid.norm(dim=1) < 1
    one, two = (100 * g[in_dist].double().mean().item() for g in grown)
    said = "Wider" if two > one else "No wider"
    add_title(figure, f"{said} boundaries: uncertain share of the disc {one:.0f} % → {two:.0f} %")
    return figure
