"""Total, data and knowledge uncertainty by region of the spiral's world."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from nescio.core import Categorical, expected_entropy, mutual_information, predictive_entropy
from nescio.data import Dataset, spiral
from nescio.models.model import Model
from nescio.report.plots.look import WIDTH, add_title, with_look
from nescio_papers.deep_ensembles.figures import dots
from nescio_papers.deep_ensembles.spiral import faithful_run
from nescio_papers.deep_ensembles.spiral_world import (
    distance,
    says,
    spiral_runs,
    square,
    true_log_probs,
)
from nescio_papers.deep_ensembles.worlds import seeds
from nescio_papers.kit import Claim, Findings, Sample, Settings, sample, table, verdict

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
1.5; and circles of radius 10 and 100. *Plain* and *adversarial* are corrected runs, *faithful* is
the practical's own recipe, whose longer steps leave members further apart. Means over the region,
then over the seeds, in {unit}; log 3 is {top:.3f}.

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
        claims=_claims(result, settings),
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
    own = seeds(settings, 2 if settings.quick else 3)
    return {
        "plain": spiral_runs(settings, False),
        "adversarial": spiral_runs(settings, True),
        "faithful": [(spiral(seed=seed), faithful_run(settings, seed)[0]) for seed in own],
    }


def _measured(settings: Settings, ensembles: Runs) -> Found:
    runs = []
    for data, model in ensembles:
        regions = places(data, 80 if settings.quick else 200)
        runs.append({index: uncertainties(model, x, settings) for index, x in regions.items()})
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
    plain, faithful = result["plain"], result["faithful"]
    return [
        *_far_away(plain),
        *_at_boundaries(plain, settings),
        *_diverse(plain, faithful, settings.unit),
    ]


def _far_away(plain: Found) -> list[Claim]:
    far, corner = plain["radius 100"], plain["corners"]
    return [
        Claim(
            f"{ANSWER} 1",
            "Standard neural networks (without ensembles) tend to be overconfident (probability "
            "close to 1.0) in regions far away from the training data.",
            f"mean confidence of one network: {corner['confidence_of_one']} in the corners, "
            f"{plain['radius 10']['confidence_of_one']} at radius 10, {far['confidence_of_one']} "
            f"at 100; on the arms {plain['arms']['confidence_of_one']}",
            verdict=verdict(
                far["confidence_of_one"].mean > 0.99, far["confidence_of_one"].mean > 0.9
            ),
        ),
        Claim(
            f"{ANSWER} 1",
            "This happens because the decision boundaries typically extend linearly into infinity.",
            "share of points where one network is more than 99 % sure: "
            f"{plain['radius 10']['sure_share_of_one']} at radius 10, {far['sure_share_of_one']} "
            "at 100; the uncertain strip along a straight boundary keeps its width, so its share "
            "of a circle shrinks",
            verdict=verdict(
                far["sure_share_of_one"].mean > plain["radius 10"]["sure_share_of_one"].mean,
                far["sure_share_of_one"].mean > 0.9,
            ),
        ),
    ]


def _at_boundaries(plain: Found, settings: Settings) -> list[Claim]:
    far, corner = plain["radius 100"], plain["corners"]
    overlap, gap = plain["overlap"], plain["gap"]
    highest = max(plain, key=lambda region: plain[region]["total"].mean)
    share = overlap["data"] / overlap["total"]
    unit, top = settings.unit, math.log(3) / math.log(settings.base)
    return [
        Claim(
            f"{ANSWER} 2",
            "The ensemble is most uncertain at the decision boundaries (the space directly between "
            "the spiral arms).",
            f"total uncertainty in {unit}: {overlap['total']} where arms overlap, {gap['total']} "
            f"in gaps of the disc, {corner['total']} in the corners, {far['total']} at radius 100",
            verdict=verdict(highest == "overlap", highest == "gap"),
        ),
        Claim(
            f"{ANSWER} 2",
            "This corresponds to high data uncertainty: the probabilities are split, resulting in "
            "maximum Shannon entropy.",
            f"where arms overlap {share} of the total is data uncertainty, {overlap['data']} "
            f"{unit} for a true {overlap['truth']}; the maximum is {top:.3g}",
            verdict=verdict(
                share.mean > 0.8 and overlap["data"].mean > 0.9 * top, share.mean > 0.8
            ),
        ),
    ]


def _diverse(plain: Found, old: Found, unit: str) -> list[Claim]:
    far, corner = plain["radius 100"], plain["corners"]
    known = {region: row["knowledge"] for region, row in plain.items()}
    return [
        Claim(
            f"{ANSWER} 3",
            "The members are most diverse in out-of-distribution regions, e.g. the corners of the "
            "plot.",
            f"knowledge uncertainty in {unit}: {known['corners']} in the corners, {known['arms']} "
            "on the arms: no boundary passes through the corners, and all members are certain of "
            f"the same class; the practical's own recipe: {old['corners']['knowledge']} in the "
            f"corners, {old['radius 100']['knowledge']} at radius 100",
            verdict=verdict(
                (known["corners"] - known["overlap"]).above,
                known["corners"].mean > known["overlap"].mean,
            ),
        ),
        Claim(
            f"{ANSWER} 3",
            "Or in large gaps between spirals.",
            f"knowledge uncertainty in {unit}: {known['gap']} in gaps, {known['overlap']} where "
            f"arms overlap, {known['arms']} on the arms; but {known['radius 100']} at radius 100; "
            f"the practical's own recipe: {old['gap']['knowledge']} in gaps",
            verdict=verdict(
                (known["gap"] - known["overlap"]).above
                and known["gap"].mean > known["radius 100"].mean,
                (known["gap"] - known["overlap"]).above,
            ),
        ),
        Claim(
            f"{ANSWER} 3",
            "One model might classify a far-away point as red, while another classifies it as "
            "blue.",
            "share of points where the four do not agree on the class: "
            f"{corner['disagreeing']} in the corners, {plain['radius 10']['disagreeing']} at "
            f"radius 10, {far['disagreeing']} at 100; elsewhere they agree, and are certain; the "
            f"practical's own recipe: {old['radius 100']['disagreeing']} at 100",
            verdict=verdict(
                far["disagreeing"].mean > 0.3, old["radius 100"]["disagreeing"].mean > 0.1
            ),
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
