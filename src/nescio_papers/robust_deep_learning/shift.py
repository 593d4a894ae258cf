"""What networks, ensembles, prediction sets and a guard do as digits move away from MNIST."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nescio import conformal, models, nets
from nescio.calibration import temperature
from nescio.core import from_json, kept, quiet, to_json
from nescio.data import corruptions
from nescio.data.dataset import Part
from nescio.evaluation.answers import see
from nescio.evaluation.compare import Absent
from nescio.evaluation.under_shift import ShiftCurves, accuracy_above, entropies, under_shift
from nescio.guards import Guard, guard
from nescio.models import Predictor
from nescio.models.model import Model
from nescio.report.plots import shift_plot as pictures
from nescio.training.train import train
from nescio_papers.kit.budgets import full_and_quick, size
from nescio_papers.kit.experiment import Findings, Settings, absent, joined
from nescio_papers.kit.images import InData, all_images, ood_images, spread
from nescio_papers.kit.nested import curves_of
from nescio_papers.kit.stores import folder_of
from nescio_papers.kit.summary import table
from nescio_papers.robust_deep_learning import shift_pairs
from nescio_papers.robust_deep_learning.networks import DROPOUT, RATE, weights_digest
from nescio_papers.robust_deep_learning.sets import BLOCKS
from nescio_papers.robust_deep_learning.shift_streams import streams
from nescio_papers.robust_deep_learning.shift_verdicts import (
    MC,
    MEMBERS,
    SINGLE,
    ensembles,
    published,
)

PART = "shift"
SHIFTS: Mapping[str, Callable[[], corruptions.Shifted]] = {
    "rotation": corruptions.rotation,
    "translation": corruptions.translation,
    "gaussian_noise": corruptions.gaussian_noise,
    "blur": corruptions.blur,
    "contrast": corruptions.contrast,
}
OOD = ("letters without O, I, S, Z", "Fashion-MNIST")
Numbers = Mapping[str, Any]


@dataclass(frozen=True)
class Budget:
    """The sizes of a run."""

    train: int = size(50_000, quick=500)
    held: int = size(10_000, quick=300)  # images that calibrate
    test: int = size(6_000, quick=200)
    epochs: int = size(10, quick=2)
    batch: int = size(128, quick=50)
    passes: int = size(50, quick=5)
    miss: float = size(0.001, quick=0.1)  # how often a set may miss the digit
    false_alarm: float = size(0.01, quick=0.05)
    risk: float = size(0.01, quick=0.2)


FULL, QUICK = full_and_quick(Budget)


@dataclass(frozen=True, eq=False)
class Digits:
    """Parts of MNIST that share no image."""

    in_dist: InData  # trained on and tested with
    held: Part  # calibrates


def run(settings: Settings) -> Findings:
    """Curves for each shift, confident answers, entropies and streams with an alarm."""
    sizes = QUICK if settings.quick else FULL
    digits = _digits(sizes)
    if isinstance(digits, Absent):
        return absent("MNIST", digits.why)
    model = _trained(settings, sizes, digits)
    subjects = _subjects(settings, sizes, model, digits)
    watch = _guard(model, digits, sizes)
    curves = {
        name: _along(settings, sizes, subjects, watch, digits, name, weights_digest(model))
        for name in SHIFTS
    }
    ood = _ood(sizes, subjects, digits, settings.seed)
    paired = _paired(settings, sizes, subjects, digits, weights_digest(model))
    stream = streams(watch, digits.in_dist.test, seed=settings.seed)
    first = Findings(
        numbers={name: curves_of(curve) for name, curve in curves.items()},
        figures={f"shift-{name}.png": pictures.curves(curve) for name, curve in curves.items()},
        captions={f"shift-{name}.png": _caption(curve) for name, curve in curves.items()},
        text=_text(sizes, curves),
    )
    pairs = Findings(numbers=paired)
    return joined({"curves": first, "paired": pairs, "ood": ood, "streams": stream})


def _digits(sizes: Budget) -> Digits | Absent:
    result = all_images("mnist")
    if isinstance(result, Absent):
        return result
    x, y = spread(result.train, sizes.train + sizes.held)
    order = torch.from_numpy(np.random.default_rng(0).permutation(len(x)))
    apart = min(sizes.held, len(x) // 3)
    trained, held = ((x[rows], y[rows]) for rows in order.split([len(x) - apart, apart]))
    return Digits(InData(trained, spread(result.test, sizes.test), result.classes), held)


def _trained(settings: Settings, sizes: Budget, digits: Digits) -> Model:
    in_dist = digits.in_dist
    return train(
        lambda: nets.small_cnn(in_dist.shape, in_dist.classes, dropout=DROPOUT),
        in_dist.train,
        members=max(MEMBERS),
        epochs=sizes.epochs,
        batch_size=sizes.batch,
        learning_rate=RATE,
        schedule="cosine",
        seed=settings.seed,
        run=folder_of(settings, PART) / "mnist",
        checkpoint_seconds=60,
        progress=False,
    )


def first(model: Model, members: int) -> Model:
    """The first networks of an ensemble."""
    tensors = {name: tensor[:members] for name, tensor in model.tensors.items()}
    return Model(model.net, tensors, model.head)


def _subjects(
    settings: Settings, sizes: Budget, model: Model, digits: Digits
) -> dict[str, Predictor]:
    """One network, as it is and with a temperature, ensembles of it, and MC dropout."""
    alone = first(model, 1)
    return {
        SINGLE: alone,
        f"{SINGLE}, temperature": temperature(alone, digits.held),
        **{f"M = {m}": first(model, m) for m in MEMBERS[1:]},
        MC: models.mc_dropout(alone, passes=sizes.passes, seed=settings.seed),
    }


def _guard(model: Model, digits: Digits, sizes: Budget) -> Guard:
    with quiet():  # few digits: it may answer nothing, which the curves show
        made: Guard = guard(
            first(model, 1),
            digits.held,
            train=digits.in_dist.train,
            false_alarm=sizes.false_alarm,
            risk=sizes.risk,
            progress=False,
        )
    return made


def _along(
    settings: Settings,
    sizes: Budget,
    subjects: Mapping[str, Predictor],
    watch: Guard,
    digits: Digits,
    name: str,
    weights: str,
) -> ShiftCurves:
    """The curves of one shift, measured once and kept."""
    last = f"M = {max(MEMBERS)}"
    calibrated: Any = partial(conformal.adaptive, miscoverage=sizes.miss)

    def make() -> Any:
        x, y = digits.held
        rules = {who: {"adaptive sets": calibrated(subjects[who](x), y)} for who in (SINGLE, last)}
        move, data = SHIFTS[name](), digits.in_dist.test
        return to_json(under_shift(subjects, data, move, sets=rules, guards={"guard": watch}))

    path = folder_of(settings, PART) / f"{name}.json"
    stored = kept(path, {"key": [weights, str(sizes)], "shift": name}, make)
    return from_json(ShiftCurves, stored, str(path))


def _paired(
    settings: Settings,
    sizes: Budget,
    subjects: Mapping[str, Predictor],
    digits: Digits,
    weights: str,
) -> dict[str, Any]:
    """The largest ensemble less MC dropout over all shifts, measured once and kept."""

    def make() -> Any:
        moves = list(SHIFTS.values())
        test = digits.in_dist.test
        return shift_pairs.along_shifts(_pair(subjects), test, moves, seed=settings.seed)

    key = {"key": [weights, str(sizes)], "shifts": list(SHIFTS), "seed": settings.seed}
    found: dict[str, Any] = kept(folder_of(settings, PART) / "paired.json", key, make)
    return found


def _pair(found: Mapping[str, Any]) -> tuple[Any, Any]:
    """The largest ensemble and MC dropout."""
    return found[ensembles()[-1]], found[MC]


def _ood(sizes: Budget, subjects: Mapping[str, Predictor], digits: Digits, seed: int) -> Findings:
    """Confident answers and entropies on digits and what is none, as far as it is at hand."""
    in_dist = {name: see(predictor, digits.in_dist.test[0]) for name, predictor in subjects.items()}
    rows = {}
    for index, row in enumerate(OOD):
        x = ood_images(BLOCKS["MNIST"].ood[row], sizes.test)
        if isinstance(x, Absent):
            rows[row] = absent(row, x.why)
            continue
        other = {name: see(predictor, x) for name, predictor in subjects.items()}
        rows[row] = _against(row, index, in_dist, digits.in_dist.test[1], other, seed)
    return joined(rows)


def _against(
    row: str,
    index: int,
    in_dist: Mapping[str, Any],
    y: Tensor,
    other: Mapping[str, Any],
    seed: int,
) -> Findings:
    """What all predictors say on digits and on one OOD set."""
    confident = {n: accuracy_above(in_dist[n], y, other[n]) for n in other}
    spreads = {n: entropies(in_dist[n], other[n]) for n in other if n in (*ensembles(), MC)}
    answers, histograms = f"confident-{index}.png", f"entropies-{index}.png"
    medians = {n: float(np.median(one.scores["predictive_entropy"])) for n, one in other.items()}
    at_nine = {n: float(one.accuracy[-1]) for n, one in confident.items()}
    head = ["", f"median entropy on {row}, nats", f"accuracy above 0.9 with {row}"]
    return Findings(
        numbers={
            "median_entropy": medians,
            "accuracy_above_0.9": at_nine,
            "entropy_growth": shift_pairs.entropy_growth(other, ensembles(), seed=seed),
            "confident_gain": shift_pairs.confident_gain(
                _pair(in_dist), y, _pair(other), seed=seed
            ),
        },
        figures={
            answers: pictures.confident_answers(confident),
            histograms: pictures.entropy_histograms(spreads, in_dist="MNIST", ood=row),
        },
        captions={
            answers: f"MNIST and {row}: accuracy above a confidence, {row} always wrong.",
            histograms: f"Predictive entropy of MNIST (filled) and {row} (line).",
        },
        comparisons=published(row, at_nine),
        text=table(head, [[n, f"{medians[n]:.3f}", _share(at_nine[n])] for n in other]),
    )


def _text(sizes: Budget, curves: Mapping[str, ShiftCurves]) -> str:
    lines = [
        f"Small convolutional networks with dropout, trained on {sizes.train:,} digits; "
        f"{sizes.held:,} others calibrate the temperature, the sets ({100 * (1 - sizes.miss):g} %) "
        f"and the guard ({100 * sizes.false_alarm:g} % false alarms, {100 * sizes.risk:g} % "
        f"errors); {sizes.test:,} test digits, moved in steps. Guarantees hold at strength 0; the "
        "rest shows what they are worth beyond.",
    ]
    for name, comparison in curves.items():
        strengths = [f"{strength:g}" for strength in comparison.strengths]
        rows = [
            [f"accuracy, {who}", *map(_share, comparison.curve(who, "accuracy"))]
            for who in comparison.subjects("accuracy")
        ]
        rows += [
            [f"ECE, {who}", *map(_share, comparison.curve(who, "ece"))]
            for who in comparison.subjects("ece")
        ]
        rows += [
            [f"covered, {who}", *map(_share, comparison.curve(who, "covered"))]
            for who in comparison.subjects("covered")
        ]
        rows += [
            [f"guard, {key}", *map(_share, comparison.curve("guard", key))]
            for key in ("risk", "answered", "unsure", "ood")
        ]
        lines += [f"### {name.replace('_', ' ')}", table(["strength", *strengths], rows)]
    return "\n\n".join(lines)


def _caption(comparison: ShiftCurves) -> str:
    return f"{comparison.shift.replace('_', ' ')}, {comparison.description}."


def _share(value: float | None) -> str:
    return "–" if value is None or value != value else f"{100 * value:.1f} %"
