"""Part `segmentation`: road scenes, a class for each pixel, and what the network does not know."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nescio.data import CAMVID_CLASSES
from nescio.evaluation.compare import Absent
from nescio.metrics import Difference, Interval
from nescio_papers.kit import Comparison, Findings, Settings, absent, all_images, table
from nescio_papers.robust_deep_learning import segmentation_pictures
from nescio_papers.robust_deep_learning.segmentation_measures import (
    ALEATORIC,
    EPISTEMIC,
    NAMES,
    Quality,
    between,
    by_class,
    edges,
    improvement,
    of_classes,
    quality,
    ranked,
    rise,
)
from nescio_papers.robust_deep_learning.segmentation_network import (
    IGNORED,
    Answers,
    Trained,
    answers,
    budget,
    rare_classes,
    shares,
    trained,
)
from nescio_papers.robust_deep_learning.segmentation_verdicts import PLAIN, SAMPLED
from nescio_papers.robust_deep_learning.stored_facts import RECALLED

SCENES, CLASSES, ERRORS = (f"segmentation-{name}.png" for name in ("scenes", "classes", "errors"))
INTRODUCTION = (
    "CamVid in the split of SegNet at 120 x 90 pixels: 367 frames train; its 101 validation "
    "frames are the test frames here, and pixels without a class are left out everywhere. A "
    "U-Net, `nets.unet((3, 90, 120), 22, width=32, dropout=0.5, stem=2)`, with dropout around its"
    " deepest level, gives a logit and its variance for each class and pixel (the head "
    "`gaussian_logits`): aleatoric uncertainty is learned. It was trained from scratch; classes "
    "count by the square root of (median share / share), so that rare ones are found, and frames "
    "were mirrored, scaled, shifted and changed in color. MC dropout gives the epistemic part: "
    "aleatoric is the expected entropy of a pass, epistemic the mutual information between the "
    "label and the pass. Intervals (95 %) draw frames, not pixels. But the test frames are every "
    "second one of 200 in a row, of a film whose other stretches are among the training frames: "
    "they are alike, and other roads would vary more than these intervals say. The network, the "
    "class weights and the length of the training were chosen by five runs that were looked at on"
    " these same frames, so the mean IoU is somewhat flattering."
)


@dataclass(frozen=True, eq=False, kw_only=True)
class Results:
    """What was measured."""

    network: Trained
    quality: Mapping[str, Quality]
    gain: Difference  # in mean IoU
    ranking: Mapping[str, Mapping[str, Interval]]
    rare: tuple[int, ...]
    rare_gaps: Mapping[str, Interval]  # rare less frequent classes, by measure
    edge_gaps: Mapping[str, Interval]  # edges less the rest
    rises: Mapping[str, tuple[float, Interval]]  # upside down

    def numbers(self) -> dict[str, Any]:
        """As plain numbers, for JSON."""
        return {
            "weights": self.network.weights,
            "cpu_seconds": self.network.cpu_seconds,
            "quality": {name: one.numbers() for name, one in self.quality.items()},
            "gain_in_mean_iou": vars(self.gain),
            "ranking_of_errors": {
                name: {key: vars(one) for key, one in each.items()}
                for name, each in self.ranking.items()
            },
            "rare_classes": [CAMVID_CLASSES[index] for index in self.rare],
            "rare_less_frequent": {name: vars(one) for name, one in self.rare_gaps.items()},
            "edges_less_rest": {name: vars(one) for name, one in self.edge_gaps.items()},
            "upside_down": {
                name: {"ratio": ratio, "difference": vars(gap)}
                for name, (ratio, gap) in self.rises.items()
            },
        }


def run(settings: Settings) -> Findings:
    """Train, answer the test frames by MC dropout, and judge."""
    sizes = budget(settings)
    images = all_images("camvid", train=sizes.train, test=sizes.test)
    if isinstance(images, Absent):
        return absent("CamVid", images.why)
    network = trained(settings, images)
    found, share = answers(settings, images, network.model), shares(images.train[1])
    results = measured(found, network, share, sizes.resamples)
    own = results.quality[SAMPLED]
    return Findings(
        numbers={"training_shares": share, **results.numbers(), **_by_class(found)},
        figures={
            SCENES: segmentation_pictures.scenes(found),
            CLASSES: segmentation_pictures.classes(own, found.sampled, found.y, share),
            ERRORS: segmentation_pictures.errors(found),
        },
        captions={
            SCENES: "The lecture's columns, with the aleatoric map that they lack: image, truth, "
            "prediction, aleatoric and epistemic uncertainty (nats).",
            CLASSES: "Intersection over union of each class, and its mean uncertainties over the "
            "test pixels against its share of the training pixels.",
            ERRORS: "Left: the share of wrong pixels if only the most certain ones are answered. "
            "Right: confidence against accuracy.",
        },
        comparisons=compared(results),
        text="\n\n".join([INTRODUCTION, _network_words(results), *_tables(results, share)]),
    )


def measured(found: Answers, network: Trained, share: list[float], resamples: int) -> Results:
    """All numbers of the test frames."""
    y, maps, rare = found.y, found.sampled, rare_classes(share)
    frequent = [index for index in range(IGNORED) if index not in rare]
    edge, both = edges(y), (ALEATORIC, EPISTEMIC)
    kinds = (of_classes(y, rare), of_classes(y, frequent)), (edge, ~edge & (y != IGNORED))
    rare_gaps, edge_gaps = (
        {name: between(getattr(maps, name), *kind) for name in both} for kind in kinds
    )
    return Results(
        network=network,
        quality={
            SAMPLED: quality(maps, y, resamples),
            PLAIN: quality(found.plain, y, resamples),
        },
        gain=improvement(found, resamples),
        ranking=ranked(maps, y, resamples),
        rare=tuple(rare),
        rare_gaps=rare_gaps,
        edge_gaps=edge_gaps,
        rises={name: rise(found, name) for name in both},
    )


def _by_class(found: Answers) -> dict[str, list[float]]:
    return {name: by_class(found.sampled, found.y, name) for name in (ALEATORIC, EPISTEMIC)}


def words(one: Interval | Difference, digits: int = 3) -> str:
    """A value with its interval."""
    return f"{one.value:.{digits}f} ({one.low:.{digits}f} to {one.high:.{digits}f})"


def compared(found: Results) -> list[Comparison]:
    """Published numbers beside ours, in per cent."""
    ranking = found.ranking["least_confidence"]
    overlap, area, average = (100 * one for one in (
        found.quality[SAMPLED].mean_iou.value, ranking["auroc"].value, ranking["ap_error"].value
    ))  # fmt: skip
    small = "ours: 120 x 90, the validation frames, a small network from scratch"
    return [
        Comparison("CamVid, mean IoU in %, aleatoric and epistemic", 67.5, overlap,
                   note=f"{RECALLED}; a DenseNet of 103 layers, 480 x 360, test frames; {small}"),
        Comparison("CamVid, AUROC of wrong pixels by confidence, in %", 84.42, area,
                   note=f"{RECALLED}; SegNet, 480 x 360 (Corbière et al., 2019); ours by MC "
                   "dropout"),
        Comparison("CamVid, AP of wrong pixels by confidence, in %", 48.53, average,
                   note=f"{RECALLED}; the same network; it depends on how many pixels are wrong"),
        Comparison("CamVid, gain in mean IoU by epistemic uncertainty, points", 0.1,
                   100 * found.gain.value,
                   note=f"{RECALLED}; published 67.1 and 67.2; ours by MC dropout"),
    ]  # fmt: skip


def _network_words(found: Results) -> str:
    spent = found.network.cpu_seconds
    time = "" if spent is None else f"; its training took {spent / 60:.0f} minutes of one core"
    return f"The network has {found.network.weights:,} weights{time}."


def _tables(found: Results, share: list[float]) -> list[str]:
    """Quality of both ways to predict, IoU by class, and the ranking of errors."""
    sides = found.quality
    heads = ["", "accuracy", "mean IoU", "NLL, nats", "ECE"]
    rows = [
        [name, f"{one.accuracy:.4f}", words(one.mean_iou), f"{one.nll:.4f}", f"{one.ece:.4f}"]
        for name, one in sides.items()
    ]
    classes = [
        [CAMVID_CLASSES[index], f"{100 * share[index]:.1f} %"]
        + [f"{one.by_class[index]:.3f}" for one in sides.values()]
        for index in sorted(range(IGNORED), key=lambda index: -share[index])
    ]
    ranking = [
        [NAMES[name], *(words(one[key]) for key in ("auroc", "ap_error", "aurc"))]
        for name, one in found.ranking.items()
    ]
    return [
        table(heads, rows),
        table(["class", "training pixels", *(f"IoU, {name}" for name in sides)], classes),
        table(["which pixels are wrong?", "AUROC", "AP of errors", "AURC"], ranking),
    ]
