"""What a network trained on MNIST does not know: the lecture's three scores, and all detectors."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from torch import nn

from nescio import detectors, models
from nescio.data.ood import shapes
from nescio.evaluation import Comparison, compare
from nescio.evaluation.compare import Absent
from nescio.evaluation.compare.scoring import observe_given
from nescio.metrics import delong_test
from nescio.models.model import Model
from nescio_papers.kit import Comparison as Published
from nescio_papers.kit.experiment import Findings, Settings, absent, joined
from nescio_papers.kit.images import InData, spread
from nescio_papers.kit.nested import nested, rows_of
from nescio_papers.kit.stores import folder_of
from nescio_papers.kit.summary import table
from nescio_papers.robust_deep_learning import exposure
from nescio_papers.robust_deep_learning.networks import (
    DROPOUT,
    accuracy,
    compared,
    one_of,
    trained,
)
from nescio_papers.robust_deep_learning.ood_verdicts import DISPERSION, SHOWN, TUNED
from nescio_papers.robust_deep_learning.sets import (
    BLOCKS,
    KANA,
    PUBLISHED_AUROC,
    PUBLISHED_NOTES,
    budget,
    in_data,
    near,
    ood_data,
    shown_images,
)

PART = "ood"
MSP = "msp"
DROPOUTS = tuple(
    f"MC dropout: {m}" for m in ("log_odds", "predictive_entropy", "mutual_information")
)
BLIND = "odin, tuned without OOD data"
LECTURE = (MSP, *DROPOUTS, TUNED, SHOWN, BLIND, "odin")
Numbers = Mapping[str, Any]


def run(settings: Settings) -> Findings:
    """The lecture's example on some networks, and the matrix of outlier exposure."""
    in_dist = in_data(BLOCKS["MNIST"], budget(settings))
    if isinstance(in_dist, Absent):
        lecture = absent("MNIST", in_dist.why)
    else:
        lecture = _example(settings, in_dist)
    return joined({"example": lecture, "exposure": exposure.findings(settings)})


def _example(settings: Settings, in_dist: InData) -> Findings:
    """All detectors on the first network, the lecture's scores on the others as well."""
    sizes = budget(settings)
    model = trained(
        settings, PART, "mnist", in_dist, epochs=sizes.epochs["MNIST"],
        members=sizes.example_seeds, dropout=DROPOUT,
    )  # fmt: skip
    tables = [
        _compared(settings, one_of(model, index), in_dist, index) for index in range(model.members)
    ]
    comparison, right = tables[0], accuracy(one_of(model, 0), in_dist)
    names = comparison.ranked[:3]
    shown = [MSP, DROPOUTS[2], TUNED, *(n for n in names if n not in LECTURE)]
    gains = {
        name: {row: [_gain(one, name, row) for one in tables] for row in sets}
        for name, sets in _judged(comparison).items()
    }
    return Findings(
        numbers={
            **nested(comparison),
            "accuracy": right,
            "tested": _sets(comparison),
            "gains": gains,
        },
        figures={
            "ood-roc.png": comparison.roc(shown),
            "ood-histograms.png": comparison.histograms(shown),
        },
        captions={
            "ood-roc.png": "MNIST against sets that the network does not know: the lecture's three "
            "scores and the three best detectors.",
            "ood-histograms.png": "The scores behind these curves.",
        },
        comparisons=_published(comparison),
        text=_text(comparison, right, gains),
        skipped={one.name: one.absent for one in comparison.sets if one.absent},
    )


def _judged(comparison: Comparison) -> dict[str, list[str]]:
    """By score, the OOD sets that it is judged on; ODIN tuned on a set on that set alone."""
    rows = _sets(comparison)
    own = [KANA] if SHOWN in comparison.scores else []
    return {DISPERSION: rows, TUNED: rows, SHOWN: own}


def _gain(comparison: Comparison, name: str, row: str) -> dict[str, float]:
    """AUROC less that of the maximum probability, by DeLong's paired test."""
    in_dist = comparison.about.data
    own, plain = comparison.scores[name], comparison.scores[MSP]
    return vars(delong_test((own[in_dist], own[row]), (plain[in_dist], plain[row])))


def _compared(settings: Settings, model: Model, in_dist: InData, index: int) -> Comparison:
    sizes = budget(settings)
    folder = folder_of(settings, PART) / f"mnist-detectors-{index}"
    rows = ood_data(BLOCKS["MNIST"], in_dist, sizes, settings.seed)
    return compared(
        folder, model, sizes, rows, lambda: _table(settings, model, in_dist, whole=index == 0)
    )


def _table(settings: Settings, model: Model, in_dist: InData, *, whole: bool) -> Comparison:
    """The lecture's scores, and where `whole` all detectors on all test images."""
    sizes, net = budget(settings), model.member(0)
    tested = sizes if whole else replace(sizes, test=sizes.others)
    drawn = (shapes(in_dist.shape, seed=settings.seed), sizes.tuning)
    held = observe_given(net, "drawn shapes", drawn)
    sampled = models.mc_dropout(net, passes=sizes.passes, seed=settings.seed)
    all_of_them: dict[str, Any] = {
        "all": "all",
        BLIND: lambda seen: detectors.tuned_odin(seen[: sizes.tuning]),
    }
    return compare(
        {"network": net, "MC dropout": sampled},
        spread(in_dist.test, tested.test),
        ood_data(BLOCKS["MNIST"], in_dist, tested, settings.seed),
        train=in_dist.train,
        near=near(BLOCKS["MNIST"]),
        detectors={
            **(all_of_them if whole else {MSP: MSP}),
            TUNED: lambda seen: detectors.tuned_odin(
                seen[: sizes.tuning], held, name="drawn shapes"
            ),
            **_tuned_on_kana(net, sizes.tuning),
        },
        name="MNIST",
        resamples=sizes.resamples if whole else 0,
        seed=settings.seed,
        progress=False,
    )


def _tuned_on_kana(net: nn.Module, count: int) -> dict[str, Any]:
    """ODIN by the lecture's rule: tuned on OOD images, others of which are tested on."""
    images = shown_images(BLOCKS["MNIST"], KANA, count)
    if isinstance(images, Absent):
        return {}
    held = observe_given(net, KANA, images)
    return {SHOWN: lambda seen: detectors.tuned_odin(seen[:count], held, name=f"other {KANA}")}


def _published(comparison: Comparison) -> list[Published]:
    return [
        Published(
            f"MNIST, AUROC of the maximum probability: {row}",
            said,
            comparison.value(MSP, row),
            note=PUBLISHED_NOTES[row],
        )
        for row, said in PUBLISHED_AUROC.items()
        if row in _sets(comparison)
    ]


def _text(comparison: Comparison, right: float, gains: Numbers) -> str:
    sets = _sets(comparison)
    tuned = [[name, *(_gains(rows.get(row)) for row in sets)] for name, rows in gains.items()]
    cells = {name: rows_of(comparison, name) for name in LECTURE if name in comparison.scores}
    rows = [[name, *(_cell(own[row]["auroc"]) for row in sets)] for name, own in cells.items()]
    absent = [f"{one.name} is not at hand: {one.absent}." for one in comparison.sets if one.absent]
    return "\n\n".join(
        [
            f"A small convolutional network with dropout on MNIST, accuracy {100 * right:.2f} %. "
            "The lecture shows Kuzushiji-MNIST alone, as a picture without numbers. ODIN's "
            "temperature and radius are chosen on drawn shapes, which nothing is tested on; on "
            "other images of the set itself, as the lecture says; by the confidence of training "
            "images alone; or not at all.",
            *absent,
            "AUROC of the lecture's scores:",
            table(["", *sets], rows),
            f"AUROC less that of the maximum probability, mean over {_count(gains)} trainings (all "
            "of them):",
            table(["", *sets], tuned),
            "All detectors:",
            comparison.markdown(),
        ]
    )


def _sets(found: Comparison) -> list[str]:
    """The OOD sets that are at hand."""
    return [one.name for one in found.sets if one.kind in ("ood", "near") and not one.absent]


def _cell(number: Numbers) -> str:
    return f"{number['value']:.3f} ({number['low']:.3f}-{number['high']:.3f})"


def _count(gains: Numbers) -> int:
    return max((len(values) for rows in gains.values() for values in rows.values()), default=0)


def _gains(values: Sequence[Numbers] | None) -> str:
    if not values:
        return "–"
    said = ", ".join(f"{one['value']:+.3f}" for one in values)
    return f"{fmean(one['value'] for one in values):+.3f} ({said})"
