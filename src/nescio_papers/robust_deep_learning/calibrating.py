"""Part `calibration`: reliability before and after temperature, and every other calibration."""

import math
from collections.abc import Mapping
from typing import Any

import torch

from nescio import calibration, metrics
from nescio.calibration import Map
from nescio.core import Categorical, Classification, NescioError
from nescio.core.registry import calibrators
from nescio.evaluation.compare import Absent
from nescio.metrics import Reliability
from nescio.models.model import Model
from nescio.report.plots.reliability_plot import reliability_diagram
from nescio_papers.kit import (
    A_SHARE,
    Claim,
    Comparison,
    Findings,
    InData,
    Settings,
    slug,
    table,
)
from nescio_papers.robust_deep_learning.networks import residual, trained
from nescio_papers.robust_deep_learning.sets import BLOCKS, PHOTOGRAPHS, budget, in_data
from nescio_papers.robust_deep_learning.stored_facts import ONCE, RECALLED, between, learned, less

PART = "calibration"
SOURCE = "lecture, Model Calibration in deep learning"
DATA = ("MNIST", "CIFAR-10")
HELD = 10  # every tenth training image calibrates
BEFORE, USUAL = "before", "temperature"
COLUMNS = {
    "error": "error, %",
    "nll": "NLL, nats",
    "brier": "Brier",
    "ece": "ECE, %",
    "smooth_ece": "smooth ECE, %",
    "mce": "largest gap, %",
}
BY_CLASS = {
    f"{kind}, class by class": (kind, {"keep_argmax": False}) for kind in ("isotonic", "histogram")
}
SHARES = ("error", "ece", "smooth_ece", "mce")  # printed in per cent
POOR, LEFT = 0.01, 0.02  # an ECE that we call badly calibrated; what may be left after repair
PUBLISHED_ECE = {BEFORE: 0.046, USUAL: 0.0083}  # Guo et al. (2017): ResNet-110, CIFAR-10
PUBLISHED_TEMPERATURE = 1.173  # of the baseline of outlier exposure on MNIST
Numbers = Mapping[str, Any]


def run(settings: Settings) -> Findings:
    """A diagram and a table for each data set at hand."""
    numbers: dict[str, Any] = {}
    skipped: dict[str, str] = {}
    figures, captions, texts = {}, {}, [_INTRODUCTION]
    for name in DATA:
        in_dist = in_data(BLOCKS[name], budget(settings))
        if isinstance(in_dist, Absent):
            texts.append(f"{name} is not at hand: {in_dist.why}.")
            skipped[name] = in_dist.why
            continue
        result, bins = _calibrated(settings, name, in_dist)
        file = f"calibration-{slug(name)}.png"
        numbers[name] = result
        figures[file] = reliability_diagram(bins, title=f"{name}: accuracy against confidence")
        captions[file] = (
            f"{name}: reliability on the test images. Temperature {result['temperature']:.2f}, "
            f"fitted on {result['held']:,} training images that the network did not see."
        )
        texts += [name, _table(result)]
    return Findings(
        numbers=numbers,
        figures=figures,
        captions=captions,
        comparisons=_comparisons(numbers),
        text="\n\n".join(texts),
        skipped=skipped,
        empty=not numbers,
    )


_INTRODUCTION = (
    "One network per data set: a small one for MNIST; for CIFAR-10 ResNet-20, trained like the "
    "plain network of the second paper's table 1. A tenth of the training images fits the "
    "calibrations alone; all numbers are of the test images. The intervals of the ECE take off "
    "some of what chance adds to it, so they may lie below the value; the lower end is "
    "above 0 only if a calibrated network would show such an error in at most 2.5 % of draws."
)


def held_out(in_dist: InData) -> tuple[InData, tuple[torch.Tensor, torch.Tensor]]:
    """The data without every tenth training image, and those."""
    x, y = in_dist.train
    held = torch.arange(len(y)) % HELD == 0
    return InData((x[~held], y[~held]), in_dist.test, in_dist.classes), (x[held], y[held])


def network_of(settings: Settings, name: str, shown: InData) -> Model:
    """The network of a data set: a small one for digits, ResNet-20 for photographs."""
    if name in PHOTOGRAPHS:
        return residual(settings, PART, slug(name), shown)
    epochs = budget(settings).epochs[name]
    return trained(settings, PART, slug(name), shown, epochs=epochs)


def _calibrated(
    settings: Settings, name: str, in_dist: InData
) -> tuple[dict[str, Any], dict[str, Reliability]]:
    shown, held = held_out(in_dist)
    model = network_of(settings, name, shown)
    there, labels = _answers(model(held[0])), held[1]
    test, truth = _answers(model(in_dist.test[0])), in_dist.test[1]
    rows: dict[str, Any] = {BEFORE: _row(test, truth, settings)}
    bins = {BEFORE: _reliability(test, truth)}
    left_out = {}
    for row, (kind, options) in ({kind: (kind, {}) for kind in calibrators} | BY_CLASS).items():
        try:
            fitted: Map = calibration.fit(kind, there, labels, **options)
        except NescioError as error:  # few held-out images: a class without one
            left_out[row] = str(error)
            continue
        rows[row] = _row(fitted(test), truth, settings)
        if row == USUAL:
            bins[f"after, temperature {fitted.temperature:.2f}"] = _reliability(fitted(test), truth)
            rows[row]["temperature"] = fitted.temperature
    slope = rows.get(USUAL, {}).get("temperature", float("nan"))
    return {"held": len(labels), "temperature": slope, "rows": rows, "left_out": left_out}, bins


def _answers(prediction: Any) -> Classification:
    wide: Classification = prediction.to(torch.float64)
    return Categorical(wide.member_log_probs)


def _sure(prediction: Classification, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return prediction.probs.amax(-1), prediction.labels == labels


def _reliability(prediction: Classification, labels: torch.Tensor) -> Reliability:
    return metrics.reliability(*_sure(prediction, labels))


def _row(prediction: Classification, labels: torch.Tensor, settings: Settings) -> dict[str, Any]:
    sure, right = _sure(prediction, labels)
    resamples = budget(settings).resamples
    error = metrics.bootstrap_metric(metrics.ece, sure, right, resamples=resamples)
    return {
        "error": 1 - metrics.accuracy(prediction.probs, labels),
        "nll": metrics.nll(prediction.probs, labels),
        "brier": metrics.brier(prediction.probs, labels),
        "ece": error.value,
        "ece_low": max(error.low, 0.0),
        "ece_high": error.high,
        "smooth_ece": metrics.smooth_ece(sure, right),
        "mce": metrics.mce(sure, right),
    }


def _table(result: Numbers) -> str:
    rows = []
    for name, row in result["rows"].items():
        cells = [f"{100 * row[k]:.2f}" if k in SHARES else f"{row[k]:.4f}" for k in COLUMNS]
        place = list(COLUMNS).index("ece")
        cells[place] += f" ({100 * row['ece_low']:.2f} to {100 * row['ece_high']:.2f})"
        rows.append([name, *cells])
    parts = [table(["", *COLUMNS.values()], rows)]
    parts += [f"{name} left out: {why}." for name, why in result["left_out"].items()]
    return "\n\n".join(parts)


def judge(numbers: Mapping[str, Numbers]) -> list[Claim]:
    """Are networks calibrated badly, and does one temperature repair it?"""
    rows = {name: one["rows"] for name, one in numbers.items() if USUAL in one["rows"]}
    return [claim for name, one in rows.items() for claim in _claims(name, one)]


def _claims(name: str, rows: Mapping[str, Numbers]) -> list[Claim]:
    """The claims on the network of a data set, if it has learned that."""
    before, after = _ece(rows[BEFORE]), _ece(rows[USUAL])
    needs = learned(name, "test error", rows[BEFORE].get("error", math.nan))
    poor = between("ECE", before, above=POOR, form=".2%", within=A_SHARE)
    return [
        Claim(
            source=SOURCE,
            sentence=f"Modern neural networks are no longer well-calibrated. ({name})",
            facts=[poor],
            needs=needs,
            note=f"badly calibrated: an ECE above {100 * POOR:g} %; {_which(name)}; {ONCE}",
        ),
        Claim(
            source=SOURCE,
            sentence=f"Simple solution to over-confident prediction: temperature scaling. ({name})",
            facts=[
                between("fall of the ECE", less(before, after), above=0, form=".2%"),
                between("ECE that is left", after, below=LEFT, form=".2%", within=A_SHARE),
            ],
            needs=[*needs, poor],
            note=f"NLL {rows[BEFORE]['nll']:.3f}, then {rows[USUAL]['nll']:.3f}; {ONCE}",
        ),
    ]


def _which(name: str) -> str:
    """Which network it is."""
    return "ResNet-20" if name in PHOTOGRAPHS else "the network is small"


def _ece(row: Numbers) -> Numbers:
    return {"value": row["ece"], "low": max(row["ece_low"], 0.0), "high": row["ece_high"]}


def _comparisons(numbers: Mapping[str, Numbers]) -> list[Comparison]:
    """The temperature of a published network for MNIST, and the ECE of one for CIFAR-10."""
    rows = []
    for name, result in numbers.items():
        if name == "MNIST":
            rows.append(
                Comparison(
                    f"{name}: temperature",
                    PUBLISHED_TEMPERATURE,
                    result["temperature"],
                    note="of the baseline network of outlier exposure",
                )
            )
            continue
        rows += [
            Comparison(
                f"{name}: ECE {'before' if row == BEFORE else 'after temperature'}",
                said,
                result["rows"][row]["ece"],
                note=f"{RECALLED}; Guo et al.: ResNet-110, all training images, 15 bins",
            )
            for row, said in PUBLISHED_ECE.items()
            if row in result["rows"]
        ]
    return rows
