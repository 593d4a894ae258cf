"""Total, data and knowledge uncertainty by region of the spiral's world."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from nescio.core import Categorical, expected_entropy, mutual_information, predictive_entropy
from nescio.data import Dataset
from nescio.models.model import Model
from nescio.report.plots.look import WIDTH, add_title, with_look
from nescio_papers.deep_ensembles.figures import dots
from nescio_papers.deep_ensembles.printed_runs import spiral_printed
from nescio_papers.deep_ensembles.spiral_world import (
    distance,
    says,
    spiral_runs,
    square,
    true_log_probs,
)
from nescio_papers.deep_ensembles.worlds import BY_SEED, OWN
from nescio_papers.kit import Claim, Fact, Findings, Sample, Settings, judged, sample, table

KINDS = {"total": predictive_entropy, "data": expected_entropy, "knowledge": mutual_information}
NAMES = {
    "arms": "on one\narm",
    "overlap": "where arms\noverlap",
    "gap": "gaps in\nthe disc",
    "corners": "corners",
    "radius 10": "radius\n10",
    "radius 100": "radius\n100",
}
ANSWER = "practical, classification answer"
TEXT = """\
Regions: *on one arm*, within 0.03 of a training input where the true probability of one arm is
above 0.95; *where arms overlap*, the same where it is below 0.8; *gaps in the disc*, further than
0.05 from every training input (at 0.1 hardly a gap is left); *corners*, both coordinates beyond
1.5; and circles of radius 10 and 100. *Plain* and *adversarial* are corrected runs; *printed* is
the practical's own run, whose longer steps leave members further apart, with its points in several
orders. Means over the region, then over the seeds or orders, in {unit}; log 3 is {top:.3f}.

"""
Found = dict[str, dict[str, Sample]]
Runs = Sequence[tuple[Dataset, Model]]


def run(settings: Settings) -> Findings:
    """The three uncertainties by region, with and without adversarial training."""
    result = {way: _measured(settings, runs) for way, runs in _runs(settings).items()}
    numbers: dict[str, Any] = {
        name: {
            index: {key: one.numbers() for key, one in row.items()} for index, row in rows.items()
        }
        for name, rows in result.items()
    }
    plain = result["plain"]
    most = max(plain, key=lambda index: plain[index]["total"].mean)
    diverse = max(plain, key=lambda index: plain[index]["knowledge"].mean)
    high, wide = (NAMES[index].replace("\n", " ") for index in (most, diverse))
    caption = (
        f"Uncertainty by region. Total uncertainty is highest {_at(high)} "
        f"({plain[most]['total']}), knowledge uncertainty {_at(wide)} "
        f"({plain[diverse]['knowledge']}); in the corners the latter is "
        f"{plain['corners']['knowledge']}."
    )
    top = math.log(3) / math.log(settings.base)
    return Findings(
        numbers=numbers,
        figures={"regions.png": _figure(result, settings)},
        captions={"regions.png": caption},
        claims=judged(settings, _claims(result, settings)),
        text=TEXT.format(unit=settings.unit, top=top) + _table(result),
    )


def _at(region: str) -> str:
    return region if region.startswith(("on", "where")) else f"in or at “{region}”"


def places(data: Dataset, points: int = 200) -> dict[str, Tensor]:
    """The points of every region."""
    grid = square(points)
    gap = distance(grid, data.train[0])
    sure = true_log_probs(grid).exp().amax(1)
    in_dist = grid.norm(dim=1) < 1
    near = (gap < 0.03) & in_dist
    angle = torch.linspace(0, 2 * math.pi, 401)[:-1]
    circle = torch.stack([angle.sin(), angle.cos()], dim=1)
    return {
        "arms": grid[near & (sure > 0.95)],
        "overlap": grid[near & (sure < 0.8)],
        "gap": grid[in_dist & (gap > 0.05)],
        "corners": grid[(grid.abs() > 1.5).all(1)],
        "radius 10": 10 * circle,
        "radius 100": 100 * circle,
    }


def _runs(settings: Settings) -> dict[str, Runs]:
    """Corrected ensembles without and with adversarial training, and the practical's own."""
    return {
        "plain": spiral_runs(settings, False),
        "adversarial": spiral_runs(settings, True),
        "printed": spiral_printed(settings),
    }


def _measured(settings: Settings, ensembles: Runs) -> Found:
    runs = []
    for data, model in ensembles:
        regions = places(data, 80 if settings.quick else 200)
        rows = {index: uncertainties(model, x, settings) for index, x in regions.items()}
        near, far = (says(model, regions[index]) for index in ("radius 10", "radius 100"))
        same = near.member_probs.argmax(-1) == far.member_probs.argmax(-1)
        rows["radius 100"]["as_at_10"] = same.float().mean().item()
        runs.append(rows)
    return {
        index: {key: sample(run[index][key] for run in runs) for key in row}
        for index, row in runs[0].items()
    }


def uncertainties(model: Model, x: Tensor, settings: Settings) -> dict[str, float]:
    """Means over the points of the three uncertainties, and of what single members say."""
    result = says(model, x)
    alone = result.member_probs
    votes = alone.argmax(-1)
    truth = predictive_entropy(Categorical(true_log_probs(x)[None]), base=settings.base)
    row = {name: kind(result, base=settings.base).mean().item() for name, kind in KINDS.items()}
    return {
        **row,
        "truth": truth.mean().item(),  # means something within the disc only
        "confidence_of_one": alone.amax(-1).mean().item(),
        "sure_share_of_one": (alone.amax(-1) > 0.99).float().mean().item(),
        "confidence": result.probs.amax(-1).mean().item(),
        "disagreeing": (votes != votes[0]).any(0).float().mean().item(),
    }


def _table(result: Mapping[str, Found]) -> str:
    header = ["region", "training", "total", "data", "knowledge"]
    header += ["confidence of one network", "members disagree on the class"]
    keys = (*KINDS, "confidence_of_one", "disagreeing")
    rows = [
        [NAMES[index].replace("\n", " "), way, *(str(result[way][index][key]) for key in keys)]
        for index in NAMES
        for way in result
    ]
    return table(header, rows)


def _claims(result: Mapping[str, Found], settings: Settings) -> list[Claim]:
    runs = {OWN: result["printed"], BY_SEED: result["plain"]}
    return [*_far_away(runs), *_at_boundaries(runs, settings), *_diverse(runs, settings.unit)]


def _each(runs: Mapping[str, Found], facts: Callable[[str, Found], list[Fact]]) -> list[Fact]:
    """The same facts on the practical's own run and over the seeds."""
    return [one for way, found in runs.items() for one in facts(way, found)]


def most_of(found: Found, kind: str, regions: Sequence[str]) -> Sample:
    """The largest of the regions, run by run."""
    rows = zip(*(found[region][kind].values for region in regions), strict=True)
    return sample(max(row) for row in rows)


def _far_away(runs: Mapping[str, Found]) -> list[Claim]:
    def sure(way: str, found: Found) -> list[Fact]:
        return [
            found[region]["confidence_of_one"].fact(
                f"mean confidence of one network, {region}, {way}", above=0.99
            )
            for region in ("corners", "radius 10", "radius 100")
        ]

    def straight(way: str, found: Found) -> list[Fact]:
        ten, hundred = found["radius 10"], found["radius 100"]
        gain = hundred["sure_share_of_one"] - ten["sure_share_of_one"]
        return [
            hundred["as_at_10"].fact(
                f"share of directions with the same class at radius 10 and 100, {way}", above=0.95
            ),
            gain.fact(
                f"share of them where one network is over 99 % sure, 100 less 10, {way}", above=0
            ),
        ]

    return [
        Claim(
            source=f"{ANSWER} 1",
            sentence="Standard neural networks (without ensembles) tend to be overconfident "
            "(probability close to 1.0) in regions far away from the training data.",
            facts=_each(runs, sure),
        ),
        Claim(
            source=f"{ANSWER} 1",
            sentence="This happens because the decision boundaries typically extend linearly into "
            "infinity.",
            facts=_each(runs, straight),
            note="the uncertain strip along a straight boundary keeps its width, so its share of a "
            "circle shrinks",
        ),
    ]


def _at_boundaries(runs: Mapping[str, Found], settings: Settings) -> list[Claim]:
    split = math.log(2) / math.log(settings.base)

    def highest(way: str, found: Found) -> list[Fact]:
        others = most_of(found, "total", [region for region in found if region != "overlap"])
        return [
            (found["overlap"]["total"] - others).fact(
                "total uncertainty where arms overlap less the highest of the other regions, in "
                f"{settings.unit}, {way}",
                above=0,
            )
        ]

    def data(way: str, found: Found) -> list[Fact]:
        overlap = found["overlap"]
        return [
            (overlap["data"] / overlap["total"]).fact(
                f"share of the total where arms overlap that is data uncertainty, {way}", above=0.8
            ),
            sample(one / split for one in overlap["data"].values).fact(
                f"data uncertainty there as a share of the maximum of two classes, {way}", above=0.9
            ),
        ]

    plain = runs[BY_SEED]["overlap"]
    return [
        Claim(
            source=f"{ANSWER} 2",
            sentence="The ensemble is most uncertain at the decision boundaries (the space "
            "directly between the spiral arms).",
            facts=_each(runs, highest),
        ),
        Claim(
            source=f"{ANSWER} 2",
            sentence="This corresponds to high data uncertainty: the probabilities are split, "
            "resulting in maximum Shannon entropy.",
            facts=_each(runs, data),
            note=f"{plain['data']} {settings.unit} over the seeds, for a true {plain['truth']}",
        ),
    ]


def _diverse(runs: Mapping[str, Found], unit: str) -> list[Claim]:
    def beyond(region: str, where: str) -> Callable[[str, Found], list[Fact]]:
        def facts(way: str, found: Found) -> list[Fact]:
            known = most_of(found, "knowledge", ("arms", "overlap"))
            return [
                (found[region]["knowledge"] - known).fact(
                    f"knowledge uncertainty in {where} less the higher of on and between the arms, "
                    f"in {unit}, {way}",
                    above=0,
                )
            ]

        return facts

    def split(way: str, found: Found) -> list[Fact]:
        return [
            found["radius 100"]["disagreeing"].fact(
                f"share of points where the four do not agree on the class, radius 100, {way}",
                above=0,
                form=".1%",
            )
        ]

    def above_far(way: str, found: Found) -> list[Fact]:
        gap = found["gap"]["knowledge"] - found["radius 100"]["knowledge"]
        return [gap.fact(f"the same less that at radius 100, {way}", above=0)]

    own, plain = runs[OWN], runs[BY_SEED]
    return [
        Claim(
            source=f"{ANSWER} 3",
            sentence="The members are most diverse in out-of-distribution regions, e.g. the "
            "corners of the plot.",
            facts=_each(runs, beyond("corners", "the corners")),
            note="at radius 100 it is "
            f"{own['radius 100']['knowledge']} {OWN}, {plain['radius 100']['knowledge']} "
            "over the seeds",
        ),
        Claim(
            source=f"{ANSWER} 3",
            sentence="Or in large gaps between spirals.",
            facts=[*_each(runs, beyond("gap", "gaps")), *_each(runs, above_far)],
        ),
        Claim(
            source=f"{ANSWER} 3",
            sentence="One model might classify a far-away point as red, while another classifies "
            "it as blue.",
            facts=_each(runs, split),
            note=f"in the corners {own['corners']['disagreeing']} {OWN}, "
            f"{plain['corners']['disagreeing']} over the seeds; elsewhere they agree, and are "
            "certain",
        ),
    ]


@with_look
def _figure(result: Mapping[str, Found], settings: Settings) -> Figure:
    figure = Figure(figsize=(WIDTH + 1.6, 4.6), layout="constrained")
    axes: Sequence[Any] = figure.subplots(1, 3)
    for axis, kind in zip(axes, KINDS, strict=True):
        groups = {way: [rows[index][kind] for index in NAMES] for way, rows in result.items()}
        marks = None
        if kind == "data":
            in_dist = ("arms", "overlap", "gap")
            exact = [
                result["plain"][index]["truth"].mean if index in in_dist else math.nan
                for index in NAMES
            ]
            marks = {"truth, in the disc": exact}
        dots(axis, list(NAMES.values()), groups, marks=marks)
        axis.tick_params(axis="x", labelsize=8)
        axis.set_title(f"{kind} uncertainty", loc="left")
        axis.set_ylim(bottom=-0.02)
    axes[1].set_ylim(axes[0].get_ylim())
    axes[2].set_title("knowledge uncertainty (its own scale)", loc="left")
    axes[0].set_ylabel(f"uncertainty in {settings.unit}")
    axes[1].legend(loc="upper right")
    plain = result["plain"]
    gap, far = plain["gap"]["total"].mean, plain["radius 100"]["total"].mean
    over = plain["overlap"]["total"].mean
    add_title(
        figure,
        f"Unsure where arms overlap ({over:.2f} {settings.unit}), sure far away ({far:.2f}), "
        f"{gap:.2f} in the gaps",
    )
    return figure
