"""How many members: M = 1, 2, 5, 10, 20, as random parts of one ensemble of twenty."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from nescio.core import Classification, Regression, generator, mutual_information
from nescio.data import cubic, spiral
from nescio.report.plots.look import GRAY, WIDTH, add_title, line, with_look
from nescio_papers.deep_ensembles.cubic_world import (
    EDGE,
    NOISE,
    cubic_held_out,
    regressor,
    strip,
    training_steps,
)
from nescio_papers.deep_ensembles.density import coverage
from nescio_papers.deep_ensembles.spiral import scores
from nescio_papers.deep_ensembles.spiral_world import classifier, says, square
from nescio_papers.deep_ensembles.worlds import seeds
from nescio_papers.kit import Claim, Fact, Findings, Sample, Settings, fact, judged, sample

SIZES = (1, 2, 5, 10, 20)
PARTS = 20  # random parts of each size
TEXT = """\
Twenty networks are trained once for every seed; smaller ensembles are {parts} random parts of them,
averaged. Each seed has its own data. The variance of the means of M members is on average (M - 1)/M
of that of infinitely many, and mutual information cannot exceed log M: part of their growth with M
is counting, not knowledge."""
Row = dict[str, float]


def run(settings: Settings) -> Findings:
    """Scores and uncertainties of both worlds by the number of members."""
    repeats = seeds(settings, 2 if settings.quick else 8)
    engine = settings.engine_of(1)
    cubics = list(engine.in_order(partial(_cubic, steps=training_steps(settings)), repeats))
    epochs = 4 if settings.quick else 20
    one = partial(_spiral, epochs=epochs, settings=settings)
    spirals = list(engine.in_order(one, repeats[: 1 if settings.quick else 3]))
    result = {"regression": _joined(cubics), "spiral": _joined(spirals)}
    numbers: dict[str, Any] = {
        world: {
            key: {str(size): one.numbers() for size, one in zip(SIZES, row, strict=True)}
            for key, row in rows.items()
        }
        for world, rows in result.items()
    }
    gains = {
        "regression": _share(result["regression"]["nll"]),
        "spiral": _share(result["spiral"]["nll"]),
    }
    numbers["share_of_the_gain_at_5"] = gains
    caption = (
        "Scores and uncertainties by the number of members, a gray line a seed. Five members have "
        f"{100 * gains['regression']:.0f} % of the gain in NLL of twenty on the cubic and "
        f"{100 * gains['spiral']:.0f} % on the spiral."
    )
    return Findings(
        numbers=numbers,
        figures={"members.png": _figure(result, gains, settings)},
        captions={"members.png": caption},
        claims=judged(settings, _claims(result)),
        text=TEXT.format(parts=PARTS),
    )


def parts_of(size: int, seed: int) -> list[list[int]]:
    """Random parts of twenty members; all of them where that is the whole."""
    if size == max(SIZES):
        return [list(range(size))]
    source = generator(seed, "parts", size)
    return [torch.randperm(max(SIZES), generator=source)[:size].tolist() for _ in range(PARTS)]


def _averaged(measure: Callable[[list[int]], Row], seed: int) -> dict[int, Row]:
    results = {}
    for size in SIZES:
        rows = [measure(members) for members in parts_of(size, seed)]
        results[size] = {key: sum(row[key] for row in rows) / len(rows) for key in rows[0]}
    return results


def _cubic(seed: int, steps: int) -> dict[int, Row]:
    data, (x, y) = cubic(seed=seed), cubic_held_out(seed)
    trained = regressor(data, members=max(SIZES), steps=steps, seed=seed)
    off = strip(EDGE, 6)
    noise = torch.randn(off.shape, generator=generator(seed, "beyond"))
    fresh, beyond, target = trained(x), trained(off), off**3 + NOISE * noise

    def measure(members: list[int]) -> Row:
        some, far = fresh.choose(members), beyond.choose(members)
        return _cubic_row(some, far, x, y, target)

    return _averaged(measure, seed)


def _cubic_row(some: Regression, far: Regression, x: Tensor, y: Tensor, target: Tensor) -> Row:
    return {
        "nll": -some.log_prob(y).mean().item(),
        "error": (some.mixture_mean - x**3).square().mean().sqrt().item(),
        "coverage_90": coverage(some, y, 0.9),
        "coverage_90_off": coverage(far, target, 0.9),
        "spread_off": far.epistemic.mean().sqrt().item(),
    }


def _spiral(seed: int, epochs: int, settings: Settings) -> dict[int, Row]:
    data = spiral(seed=seed)
    assert data.test is not None
    x, y = data.test
    model = classifier(data, members=max(SIZES), epochs=epochs, seed=seed)
    grid = square(40)
    ood = grid[grid.norm(dim=1) > 1.2]
    fresh, beyond = says(model, x), says(model, ood)

    def measure(members: list[int]) -> Row:
        return _spiral_row(fresh.choose(members), beyond.choose(members), y, settings.base)

    return _averaged(measure, seed)


def _spiral_row(some: Classification, far: Classification, y: Tensor, base: float) -> Row:
    accuracy, nll = scores(some, y)
    return {
        "nll": nll,
        "accuracy": accuracy,
        "knowledge_on": mutual_information(some, base=base).mean().item(),
        "knowledge_off": mutual_information(far, base=base).mean().item(),
        "confidence_off": far.probs.amax(-1).mean().item(),
    }


def _joined(runs: list[dict[int, Row]]) -> dict[str, list[Sample]]:
    """By the name of the number, a sample over the seeds for each size."""
    keys = runs[0][SIZES[0]]
    return {key: [sample(one[size][key] for one in runs) for size in SIZES] for key in keys}


def _share(nll: list[Sample]) -> float:
    """The share of the gain from one to twenty members that five have."""
    return (nll[0].mean - nll[SIZES.index(5)].mean) / (nll[0].mean - nll[-1].mean)


def _claims(result: Mapping[str, Mapping[str, list[Sample]]]) -> list[Claim]:
    five, source = SIZES.index(5), "practical, regression answer 3"
    cube, arms = result["regression"], result["spiral"]
    error, held, off = cube["error"], cube["coverage_90"], cube["coverage_90_off"]
    right = [arms["accuracy"][index].mean for index in (0, five, -1)]
    return [
        Claim(
            source=source,
            sentence="Increasing M improves approximation quality but with diminishing returns.",
            facts=[*_returns("cubic", cube["nll"]), *_returns("spiral", arms["nll"])],
        ),
        Claim(
            source=source,
            sentence="A larger M leads to a more accurate mean prediction as it averages out "
            "errors from individual models.",
            facts=[
                (error[five] - error[0]).fact("error against x^3, five less one", below=0),
                (error[-1] - error[0]).fact("twenty less one", below=0),
            ],
            note=f"{error[0]} for one, {error[-1]} for twenty; accuracy on the spiral "
            f"{right[0]:.4f}, {right[1]:.4f} and {right[2]:.4f} for one, five and twenty",
        ),
        Claim(
            source=source,
            sentence="A small number (e.g. M = 5) is often sufficient to obtain well-calibrated "
            "uncertainty estimates.",
            facts=[
                _missed(held[five]).fact("by what the 90 % intervals of five miss 90 %", below=0.03)
            ],
            note=f"five hold {held[five]} of fresh targets on the data and {off[five]} for |x| "
            f"from 4 to 6, twenty {held[-1]} and {off[-1]}: five do as well as twenty, and neither "
            "is calibrated",
        ),
        Claim(
            source=source,
            sentence="As M increases, the ensemble distribution better approximates the true "
            "posterior predictive distribution.",
            facts=[
                fact(
                    "change of the distance to the posterior predictive distribution from one "
                    "member to twenty (no prior is chosen, so there is none)",
                    math.nan,
                    (math.nan, math.nan),
                    below=0,
                )
            ],
            note=f"the spread beyond the data settles at {cube['spread_off'][-1]} for twenty",
        ),
    ]


def _returns(world: str, nll: list[Sample]) -> list[Fact]:
    """Twenty are better than one, and five have most of what twenty gain."""
    one, five, twenty = nll[0], nll[SIZES.index(5)], nll[-1]
    first = f"share of that gain that five have, {world}"
    return [
        (twenty - one).fact(f"NLL on fresh data, twenty less one, {world}", below=0),
        ((one - five) / (one - twenty)).fact(first, above=0.6),
    ]


def _missed(held: Sample) -> Sample:
    return sample(abs(one - 0.9) for one in held.values)


@with_look
def _figure(
    result: Mapping[str, Mapping[str, list[Sample]]], gains: Row, settings: Settings
) -> Figure:
    figure = Figure(figsize=(WIDTH + 1, 6.2), layout="constrained")
    axes = figure.subplots(2, 4)
    cube, arms = result["regression"], result["spiral"]
    top: list[tuple[str, str]] = [
        ("nll", "cubic: NLL, fresh data\n(nats)"),
        ("error", "cubic: error against $x^3$,\non the data"),
        ("coverage_90", "cubic: held by the 90 %\ninterval, on the data"),
        ("spread_off", "cubic: deviation of the\nmeans, |x| from 4 to 6"),
    ]
    low = [
        ("nll", "spiral: NLL, fresh data\n(nats)"),
        ("accuracy", "spiral: accuracy,\nfresh data"),
        ("knowledge_on", f"spiral: knowledge\nuncertainty, data ({settings.unit})"),
        ("knowledge_off", f"spiral: the same, beyond\nradius 1.2 ({settings.unit})"),
    ]
    for i, (rows, table, names) in enumerate(((axes[0], cube, top), (axes[1], arms, low))):
        for axis, (key, title) in zip(rows, names, strict=True):
            _by_size(axis, table[key], title, i)
    axes[0, 2].axhline(0.9, color=GRAY, linestyle="--")
    axes[0, 2].set_ylim(top=0.92)
    shares = " and ".join(f"{100 * gain:.0f} %" for gain in gains.values())
    add_title(figure, f"Five members have {shares} of the gain of twenty (cubic and spiral)")
    return figure


def _by_size(axis: Axes, row: list[Sample], title: str, index: int) -> None:
    for values in zip(*(one.values for one in row), strict=True):
        axis.plot(SIZES, values, color="#bbbbbb", linewidth=1)
    axis.plot(SIZES, [one.mean for one in row], **line(index))
    axis.set_xscale("log")
    axis.set_xticks(SIZES, [str(size) for size in SIZES])
    axis.minorticks_off()
    axis.set_title(title, loc="left")
    axis.set_xlabel("members M")
