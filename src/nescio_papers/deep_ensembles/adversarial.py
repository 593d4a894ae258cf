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
from nescio_papers.deep_ensembles.spiral import scores
from nescio_papers.deep_ensembles.spiral_world import RADIUS, distance, says, spiral_runs, square
from nescio_papers.deep_ensembles.worlds import fast_gradient, seeds
from nescio_papers.kit import Claim, Findings, Sample, Settings, sample, verdict

UNCERTAIN = 0.5  # nats
NAMES = ("plain", "adversarial")
TEXT = """\
Each pair of runs differs in nothing but the loss: the mean of the negative log-likelihood at x and
at x moved by 1 % of the range of the inputs (0.08 on the cubic, 0.02 on the spiral) along the sign
of its gradient. Every seed has its own data. Attacked inputs are moved by the same radius against
the trained ensemble, or the single network. Intervals are 95 % of the mean over the seeds."""
Table = dict[str, Sample]


def run(settings: Settings) -> Findings:
    """Both worlds with and without adversarial training."""
    cubics = [_table(_cubic, settings, cubic_runs(settings, way)) for way in (False, True)]
    spirals = [_table(_spiral, settings, spiral_runs(settings, way)) for way in (False, True)]
    numbers: dict[str, Any] = {
        world: {
            **{name: _plain(table) for name, table in zip(NAMES, tables, strict=True)},
            "difference": {key: (tables[1][key] - tables[0][key]).numbers() for key in tables[0]},
        }
        for world, tables in (("regression", cubics), ("spiral", spirals))
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
        claims=_claims(cubics, spirals),
        text=TEXT,
    )


def _table(measure: Any, settings: Settings, runs: Any) -> Table:
    rows = [measure(settings, data, result, seed) for seed, (data, result) in enumerate(runs)]
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


def _claims(cubics: list[Table], spirals: list[Table]) -> list[Claim]:
    first, *regression = _of_regression(*cubics, *spirals)
    robust, *classification = _of_classification(*spirals)
    return [first, robust, *regression, *classification]


def _of_regression(before: Table, after: Table, plain: Table, trained: Table) -> list[Claim]:
    change = {key: after[key] - before[key] for key in before}
    gap = [one["single_fresh_nll"] - one["single_train_nll"] for one in (before, after)]
    wider = after["band_on"] / before["band_on"], after["band_near"] / before["band_near"]
    return [
        Claim(
            "practical, regression answer 1",
            "Adversarial training significantly improves robustness.",
            "NLL of a single network under attack of the same radius: "
            f"{before['single_attacked_nll']} without, {after['single_attacked_nll']} with; of the "
            f"ensemble {before['attacked_nll']} and {after['attacked_nll']}",
            verdict=verdict(
                change["single_attacked_nll"].below, change["single_attacked_nll"].mean < 0
            ),
        ),
        Claim(
            "practical, regression answer 1",
            "It prevents overfitting to the noise in the training data.",
            f"NLL of a single network on fresh data minus on the training data: {gap[0]} without, "
            f"{gap[1]} with; its noise on the data {before['noise_on']} and {after['noise_on']}, "
            f"for a true 3; on the spiral the ensemble's NLL on fresh data goes from "
            f"{plain['nll']} to {trained['nll']}",
            verdict=verdict((gap[1] - gap[0]).below and gap[1].mean < 0.1, (gap[1] - gap[0]).below),
        ),
        Claim(
            "practical, regression answer 1",
            "This results in higher, more realistic uncertainty estimates in the immediate "
            "vicinity of the data points.",
            f"the band grows by a factor {wider[0]} on the data and {wider[1]} for |x| from 4 "
            f"to 4.5; the ensemble's NLL on fresh data changes by {change['nll']}",
            verdict=verdict(
                change["band_on"].above and change["nll"].below, change["band_on"].above
            ),
        ),
    ]


def _of_classification(plain: Table, trained: Table) -> list[Claim]:
    shift = {key: trained[key] - plain[key] for key in plain}
    gained = shift["attacked_accuracy"]
    return [
        Claim(
            "practical, section Adversarial training",
            "Adversarial training was found to improve the classifier's robustness.",
            f"accuracy of the spiral ensemble under attack {plain['attacked_accuracy']} without "
            f"and {trained['attacked_accuracy']} with (difference {gained}); NLL under attack "
            f"{plain['attacked_nll']} and {trained['attacked_nll']}",
            verdict=verdict(gained.above and gained.mean > 0.01, shift["attacked_nll"].below),
        ),
        Claim(
            "practical, classification answer 4",
            "Adversarial training smoothes the decision boundaries.",
            f"length of the boundary within the disc: {plain['boundary_disc']} without, "
            f"{trained['boundary_disc']} with (difference {shift['boundary_disc']})",
            verdict=verdict(shift["boundary_disc"].below, shift["boundary_disc"].mean < 0),
        ),
        Claim(
            "practical, classification answer 4",
            "It expands the regions of uncertainty; it effectively thickens the decision boundary.",
            f"share with more than {UNCERTAIN} nats of total uncertainty: in the disc "
            f"{plain['uncertain_disc']} without and {trained['uncertain_disc']} with, in the "
            f"rest of the square {plain['uncertain_outside']} and {trained['uncertain_outside']}",
            verdict=verdict(
                shift["uncertain_disc"].above and shift["uncertain_outside"].above,
                shift["uncertain_disc"].above,
            ),
        ),
        Claim(
            "practical, classification answer 4",
            "This prevents the model from making high-confidence predictions on points that are "
            "only marginally different from the training data.",
            f"mean confidence where the attack succeeds: {plain['confidence_when_fooled']} "
            f"without, {trained['confidence_when_fooled']} with; within {RADIUS} of a training "
            f"point: {plain['confidence_near_data']} and {trained['confidence_near_data']}",
            verdict=verdict(
                trained["confidence_when_fooled"].mean < 0.6,
                shift["confidence_when_fooled"].below,
            ),
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
