"""What a network trained on MNIST does not know: the lecture's three scores, and all detectors."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from nescio import detectors, models
from nescio.data.ood import shapes
from nescio.evaluation import Comparison, compare
from nescio.evaluation.compare import Absent
from nescio.evaluation.compare.scoring import observe_given
from nescio.metrics import delong_test
from nescio.models.model import Model
from nescio_papers.kit import Claim
from nescio_papers.kit.claims import judged, verdict_of
from nescio_papers.kit.experiment import Findings, Settings, absent, joined
from nescio_papers.kit.images import InData
from nescio_papers.kit.nested import nested, rows_of
from nescio_papers.kit.stores import folder_of
from nescio_papers.kit.summary import table
from nescio_papers.robust_deep_learning import exposure
from nescio_papers.robust_deep_learning.networks import DROPOUT, accuracy, compared, trained
from nescio_papers.robust_deep_learning.sets import BLOCKS, budget, in_data, near, ood_data

PART = "ood"
SOURCE = "lecture, Out of Distribution Detection"
MSP, TUNED = "msp", "odin, tuned on drawn shapes"
DROPOUTS = tuple(
    f"MC dropout: {m}" for m in ("log_odds", "predictive_entropy", "mutual_information")
)
LECTURE = (MSP, *DROPOUTS, TUNED, "odin, tuned without OOD data", "odin")
Numbers = Mapping[str, Any]


def run(settings: Settings) -> Findings:
    """The lecture's example on one network, and the matrix of outlier exposure."""
    in_dist = in_data(BLOCKS["MNIST"], budget(settings))
    if isinstance(in_dist, Absent):
        lecture = absent("MNIST", in_dist.why)
    else:
        lecture = _example(settings, in_dist)
    whole = joined({"example": lecture, "exposure": exposure.findings(settings)})
    return replace(whole, claims=judged(settings, whole.claims))


def _example(settings: Settings, in_dist: InData) -> Findings:
    sizes = budget(settings)
    epochs = sizes.epochs["MNIST"]
    model = trained(settings, PART, "mnist", in_dist, epochs=epochs, dropout=DROPOUT)
    folder = folder_of(settings, PART) / "mnist-detectors"
    comparison = compared(folder, model, sizes, lambda: _table(settings, model, in_dist))
    right = accuracy(model, in_dist)
    names = comparison.ranked[:3]
    shown = [MSP, DROPOUTS[2], TUNED, *(n for n in names if n not in LECTURE)]
    return Findings(
        numbers={**nested(comparison), "accuracy": right},
        figures={
            "ood-roc.png": comparison.roc(shown),
            "ood-histograms.png": comparison.histograms(shown),
        },
        captions={
            "ood-roc.png": "MNIST against sets that the network does not know: the lecture's three "
            "scores and the three best detectors.",
            "ood-histograms.png": "The scores behind these curves.",
        },
        claims=_claims(comparison),
        text=_text(comparison, right),
        skipped={one.name: one.absent for one in comparison.sets if one.absent},
    )


def _table(settings: Settings, model: Model, in_dist: InData) -> Comparison:
    """All detectors and MC dropout; ODIN is tuned on drawn shapes, which nothing is tested on."""
    sizes, net = budget(settings), model.member(0)
    drawn = (shapes(in_dist.shape, seed=settings.seed), sizes.tuning)
    held = observe_given(net, "drawn shapes", drawn)
    sampled = models.mc_dropout(net, passes=sizes.passes, seed=settings.seed)
    return compare(
        {"network": net, "MC dropout": sampled},
        in_dist.test,
        ood_data(BLOCKS["MNIST"], in_dist, sizes, settings.seed),
        train=in_dist.train,
        near=near(BLOCKS["MNIST"]),
        detectors={
            "all": "all",
            TUNED: lambda seen: detectors.tuned_odin(
                seen[: sizes.tuning], held, name="drawn shapes"
            ),
            LECTURE[-2]: lambda seen: detectors.tuned_odin(seen[: sizes.tuning]),
        },
        name="MNIST",
        resamples=sizes.resamples,
        seed=settings.seed,
        progress=False,
    )


def _text(comparison: Comparison, right: float) -> str:
    sets = _sets(comparison)
    cells = {name: rows_of(comparison, name) for name in LECTURE}
    rows = [[name, *(_cell(cells[name][row]["auroc"]) for row in sets)] for name in LECTURE]
    absent = [f"{one.name} is not at hand: {one.absent}." for one in comparison.sets if one.absent]
    return "\n\n".join(
        [
            f"A small convolutional network with dropout on MNIST, accuracy {100 * right:.2f} %. "
            "The lecture shows Kuzushiji-MNIST alone, as a picture without numbers. ODIN's "
            "temperature and radius are chosen three ways: on drawn shapes, which nothing is "
            "tested on; by the confidence of training images alone; not at all.",
            *absent,
            "AUROC of the lecture's scores:",
            table(["", *sets], rows),
            "All detectors:",
            comparison.markdown(),
        ]
    )


def _sets(found: Comparison) -> list[str]:
    """The OOD sets that are at hand."""
    return [one.name for one in found.sets if one.kind in ("ood", "near") and not one.absent]


def _cell(number: Numbers) -> str:
    return f"{number['value']:.3f} ({number['low']:.3f}-{number['high']:.3f})"


def _claims(comparison: Comparison) -> list[Claim]:
    logits = {row: comparison.value("max_logit", row) for row in _sets(comparison)}
    right = [value > 0.5 for value in logits.values()]
    return [
        Claim(
            SOURCE,
            "Baseline solution: assume that logits (before soft-max) are smaller for out- than for "
            "in-distribution samples.",
            f"AUROC of the maximum logit: {_said(logits)}",
            verdict=verdict_of(*right),
        ),
        _better(
            comparison,
            DROPOUTS[2],
            "In classification: estimate dispersion (e.g. mutual info) for Bayesian models (e.g. "
            "MC dropout).",
        ),
        _better(
            comparison, TUNED, "ODIN: modify inputs to maximize differences of in and out samples."
        ),
    ]


def _better(comparison: Comparison, name: str, sentence: str) -> Claim:
    """Does a paired test set a score above the maximum probability: on all sets, some, none?"""
    in_dist = comparison.about.data
    own, plain = comparison.scores[name], comparison.scores[MSP]
    gaps = {
        row: delong_test((own[in_dist], own[row]), (plain[in_dist], plain[row]))
        for row in _sets(comparison)
    }
    said = ", ".join(
        f"{row} {gap.value:+.3f} ({gap.low:+.3f} to {gap.high:+.3f})" for row, gap in gaps.items()
    )
    wins = [gap.low > 0 for gap in gaps.values()]
    return Claim(
        SOURCE,
        sentence,
        f"AUROC of {name} less that of the maximum probability: {said}",
        verdict=verdict_of(*wins),
    )


def _said(values: Mapping[str, float]) -> str:
    return ", ".join(f"{row} {value:.3f}" for row, value in values.items())
