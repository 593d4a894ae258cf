"""What makes members differ: initial weights, batch order, bootstrap, or all of them."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import nn

from nescio.core import Regression, generator, mutual_information, seeded
from nescio.data import Dataset, cubic, spiral
from nescio.models.model import Model
from nescio.report.plots.look import WIDTH, add_title, with_look
from nescio_papers.deep_ensembles.cubic_world import (
    EDGE,
    cubic_held_out,
    cubic_net,
    regressor,
    strip,
    training_steps,
)
from nescio_papers.deep_ensembles.figures import dots
from nescio_papers.deep_ensembles.spiral import corrected, scores
from nescio_papers.deep_ensembles.spiral_world import classifier, says, spiral_net, square
from nescio_papers.deep_ensembles.worlds import seeds
from nescio_papers.kit import Claim, Findings, Sample, Settings, sample, table

POINTS = 300  # an arm of the spiral, so that full batches are quick
WAYS = ("initialization", "batch order", "bootstrap", "all three")
SHUFFLED = "shuffled full batch"
HALF = 0.5  # of the spread by initialization: what we call a source of diversity
TEXT = """\
*Initialization*: own initial weights, full batch, so nothing else differs. *Batch order*: the same
initial weights for all, mini-batches in each member's own order. *Bootstrap*: the same initial
weights, full batch, each member on its own sample with replacement. *Shuffled full batch* is what
the practical's code does besides: the same initial weights, all points, in another order, which
changes nothing but rounding. Six networks on the cubic (600 steps each way) and four on the
spiral ({points} points an arm).

"""
Rows = dict[str, dict[str, Sample]]


def run(settings: Settings) -> Findings:
    """The spread of members on and off the data, by what makes them differ."""
    repeats = seeds(settings, 2 if settings.quick else 8)
    ways = (*WAYS, SHUFFLED)
    each = settings.engine_of(1).in_order
    one = {way: partial(_cubic, way, steps=training_steps(settings)) for way in ways}
    cubics = _rows({way: list(each(one[way], repeats)) for way in ways})
    own = {way: partial(_spiral, way, settings=settings) for way in WAYS}
    spirals = _rows({way: list(each(own[way], repeats[:3])) for way in WAYS})
    numbers = {
        world: {way: {key: one.numbers() for key, one in row.items()} for way, row in rows.items()}
        for world, rows in (("regression", cubics), ("spiral", spirals))
    }
    first, order = cubics["initialization"], cubics["batch order"]
    caption = (
        "What makes members differ. Beyond the data of the cubic, initialization alone gives a "
        f"spread of {first['spread_off']}, the order of mini-batches alone {order['spread_off']}; "
        f"shuffling a full batch gives {cubics[SHUFFLED]['spread_off']}."
    )
    return Findings(
        numbers=numbers,
        figures={"diversity.png": _figure(cubics, spirals, settings)},
        captions={"diversity.png": caption},
        text=TEXT.format(points=POINTS) + _table(cubics, spirals),
    )


def same_start(make: Callable[[], nn.Module], seed: int) -> Callable[[], nn.Module]:
    """A factory whose networks all have the same initial weights."""

    def factory() -> nn.Module:
        with seeded(seed, "same start"):
            return make()

    return factory


def _cubic(way: str, seed: int, steps: int) -> dict[str, float]:
    data, (x, y) = cubic(seed=seed), cubic_held_out(seed)
    said = _cubic_members(way, data, seed, steps)
    fresh, on, off = said(x), said(strip(0, EDGE)), said(strip(EDGE, 6))
    return {
        "spread_on": on.epistemic.sqrt().mean().item(),
        "spread_off": off.epistemic.sqrt().mean().item(),
        "nll": -fresh.log_prob(y).mean().item(),
    }


def _cubic_members(
    way: str, data: Dataset, seed: int, steps: int
) -> Callable[[torch.Tensor], Regression]:
    same = same_start(cubic_net, seed)
    if way == SHUFFLED:
        orders = [torch.randperm(40, generator=generator(seed, "shuffle", m)) for m in range(6)]
        alone = [
            regressor(_shuffled(data, order), make=same, members=1, steps=steps, seed=seed)
            for order in orders
        ]
        return lambda x: type(alone[0](x)).pool([one(x) for one in alone])
    make = cubic_net if way in ("initialization", "all three") else same
    size = 10 if way in ("batch order", "all three") else None
    bootstrap = way in ("bootstrap", "all three")
    return regressor(data, make=make, batch_size=size, bootstrap=bootstrap, steps=steps, seed=seed)


def _shuffled(data: Dataset, order: torch.Tensor) -> Dataset:
    x, y = data.train
    return Dataset(
        name=data.name, train=(x[order], y[order]), validation=None, test=None, classes=None
    )


def _spiral(way: str, seed: int, settings: Settings) -> dict[str, float]:
    data = spiral(seed=seed, points=POINTS)
    assert data.test is not None
    x, y = data.test
    model = _spiral_members(way, data, seed, settings)
    grid = square(60)
    angle = torch.linspace(0, 6.2, 200)
    indices = {
        "on": x,
        "off": grid[grid.norm(dim=1) > 1.2],
        "far": 10 * torch.stack([angle.sin(), angle.cos()], 1),
    }
    known = {
        f"knowledge_{where}": mutual_information(says(model, index), base=settings.base)
        for where, index in indices.items()
    }
    accuracy, nll = scores(says(model, x), y)
    means = {key: value.mean().item() for key, value in known.items()}
    return {**means, "accuracy": accuracy, "nll": nll}


def _spiral_members(way: str, data: Dataset, seed: int, settings: Settings) -> Model:
    own = way in ("initialization", "all three")
    make = spiral_net if own else same_start(spiral_net, seed)
    bootstrap = way in ("bootstrap", "all three")
    if way in ("initialization", "bootstrap"):
        steps = 20 if settings.quick else 300
        return corrected(data, seed, steps, make=make, bootstrap=bootstrap)
    epochs = 5 if settings.quick else 40
    return classifier(data, make=make, epochs=epochs, bootstrap=bootstrap, seed=seed)


def _rows(result: Mapping[str, list[dict[str, float]]]) -> Rows:
    return {
        way: {key: sample(run[key] for run in runs) for key in runs[0]}
        for way, runs in result.items()
    }


def _table(cubics: Rows, spirals: Rows) -> str:
    cube, arms = ("spread_on", "spread_off", "nll"), ("knowledge_on", "knowledge_off", "nll")
    header = ["what differs", "cubic: spread on the data", "beyond", "NLL"]
    header += ["spiral: knowledge uncertainty on the data", "beyond", "NLL"]
    rows = []
    for way, row in cubics.items():
        other = spirals.get(way)
        cells = [str(other[key]) if other else "" for key in arms]
        rows.append([way, *(str(row[key]) for key in cube), *cells])
    return table(header, rows)


def judge(numbers: Mapping[str, Any]) -> list[Claim]:
    """What makes members differ, by the stored numbers of each way."""
    cubics, spirals = (
        {way: {key: sample(one["values"]) for key, one in row.items()} for way, row in rows.items()}
        for rows in (numbers["regression"], numbers["spiral"])
    )
    return _claims(cubics, spirals)


def _claims(cubics: Rows, spirals: Rows) -> list[Claim]:
    first, shuffled, order = (
        cubics[way]["spread_off"] for way in ("initialization", SHUFFLED, "batch order")
    )
    score = cubics["bootstrap"]["nll"] - cubics["initialization"]["nll"]
    known = {way: row["knowledge_off"] for way, row in spirals.items()}
    what = "spread for |x| from 4 to 6"
    return [
        Claim(
            source="here",
            sentence="Random shuffling of the data points during training is a source of "
            "diversity.",
            facts=[
                (shuffled / first).fact(
                    f"{what} by shuffling a full batch, as in the practical's code, as a share of "
                    "that by initialization",
                    above=HALF,
                ),
                (order / first).fact(
                    f"{what} by the order of mini-batches alone, as such a share", above=HALF
                ),
            ],
            note=f"spread by initialization {first}; by shuffling a full batch {shuffled}, which "
            "is rounding that training amplifies",
        ),
        Claim(
            source="practical, regression answer 2",
            sentence="The random initialization of each network causes them to converge to "
            "different functions.",
            facts=[
                (first / cubics["initialization"]["spread_on"]).fact(
                    f"{what} over that on the data, by initialization alone", above=5
                )
            ],
            note=f"{first} by initialization, {cubics['all three']['spread_off']} by all three "
            f"sources; knowledge uncertainty beyond the disc {known['initialization']} and "
            f"{known['all three']}; the bootstrap changes the NLL of the cubic by {score}",
        ),
    ]


@with_look
def _figure(cubics: Rows, spirals: Rows, settings: Settings) -> Figure:
    figure = Figure(figsize=(WIDTH + 1, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    groups: dict[str, Any] = {
        "on the data": [row["spread_on"] for row in cubics.values()],
        "|x| from 4 to 6": [row["spread_off"] for row in cubics.values()],
    }
    dots(left, [way.replace(" ", "\n") for way in cubics], groups)
    left.set_yscale("log")
    left.set_ylabel("deviation of the members' means")
    left.set_title("cubic, six members", loc="left")
    groups = {
        "fresh data": [row["knowledge_on"] for row in spirals.values()],
        "square beyond radius 1.2": [row["knowledge_off"] for row in spirals.values()],
        "radius 10": [row["knowledge_far"] for row in spirals.values()],
    }
    dots(right, [way.replace(" ", "\n") for way in spirals], groups)
    right.set_ylabel(f"knowledge uncertainty in {settings.unit}")
    right.set_title("spiral, four members", loc="left")
    right.set_ylim(bottom=0)
    left.set_ylim(top=5 * left.get_ylim()[1])
    right.set_ylim(top=1.3 * right.get_ylim()[1])
    for axis in (left, right):
        axis.legend(loc="upper left", ncols=2)
    alone, none = cubics["initialization"]["spread_off"], cubics[SHUFFLED]["spread_off"]
    title = f"Beyond the data initialization alone gives a spread of {alone.mean:.2g}, shuffling a"
    add_title(figure, f"{title} full batch {none.mean:.2g}")
    return figure
