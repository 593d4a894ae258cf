"""What is said of generalization, judged on our networks."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from nescio.evaluation import Rademacher, RandomLabels
from nescio_papers.kit import Claim, Sample, sample, table, verdict, verdict_of
from nescio_papers.robust_deep_learning.generalization_labels import RANDOM, TRUE
from nescio_papers.robust_deep_learning.generalization_signs import (
    BOUNDED,
    LINEAR,
    NETWORK,
    Complexities,
)
from nescio_papers.robust_deep_learning.generalization_widths import TRAINED, Sweep

LECTURE = "lecture, Deep Learning and generalization"
ZHANG = "Zhang et al. (2017), figure 1, in the lecture"
BELKIN = "lecture, Generalization and over-parametrized models, on Belkin et al. (2019)"
ASKED = "what is asked here"
CHANGES = {
    "ece": "ECE",
    "ood_auroc": "AUROC against Fashion-MNIST",
    "far_field": "limit of the confidence far away",
}
HIGH, NEAR = 0.95, 0.1  # of the complexity; how far a peak may lie from n


def random_labels(found: RandomLabels, others: Mapping[str, RandomLabels]) -> list[Claim]:
    """Random labels are fitted, more slowly, and cost generalization."""
    last, slow = found.train[-1, :, -1], found.slow_down
    longer = [slow_enough(1 + after - before) for before, after in pairwise(slow)]
    error = [sample(1 - row) for row in found.test[..., -1]]
    growing = [after - before for before, after in pairwise(error)]
    epochs = {TRUE: found.epochs_to_fit[0], **{k: v.epochs_to_fit[0] for k, v in others.items()}}
    epochs[RANDOM] = found.epochs_to_fit[-1]
    said = ", ".join(f"{name} {stated(values)}" for name, values in epochs.items())
    return [
        Claim(
            LECTURE,
            "Deep models easily fit random labels.",
            f"accuracy on {found.samples} random labels of MNIST in {found.train.shape[-1]} epochs:"
            f" {', '.join(f'{100 * one:.1f} %' for one in last)} (one per seed)",
            verdict=verdict((last == 1).all(), (last >= HIGH).any()),
        ),
        Claim(
            ZHANG,
            "(a) Learning curves: random labels, shuffled pixels, random pixels and Gaussian noise "
            "are all fitted.",
            f"epochs to a training accuracy of {100 * found.goal:g} %: {said}",
            verdict=verdict_of(*(np.isfinite(values).all() for values in epochs.values())),
        ),
        Claim(
            ZHANG,
            "(b) Convergence slows down with the share of random labels, by a constant factor.",
            f"epochs to fit, over those with true labels, by share: {by_share(found, 'slow_down')}",
            verdict=verdict_of(slow_enough(slow[-1]), *longer),
        ),
        Claim(
            ZHANG,
            "(c) The generalization error grows with the share of random labels, to that of "
            "chance.",
            "test error by share: "
            + ", ".join(
                f"{100 * share:g} %: {100 * one.mean:.1f} ± {100 * one.half:.1f} %"
                for share, one in zip(found.shares, error, strict=True)
            ),
            verdict=verdict_of(*(one.above for one in growing), abs(error[-1].mean - 0.9) < 0.05),
        ),
    ]


def by_share(found: RandomLabels, name: str) -> str:
    """A number by share of random labels, with intervals over seeds."""
    values = getattr(found, name)
    rows = values[..., -1] if values.ndim == 3 else values
    each = zip(found.shares, rows, strict=True)
    return ", ".join(f"{100 * share:g} %: {stated(row)}" for share, row in each)


def stated(values: Any) -> str:
    """A mean over seeds with its interval; a dash where a seed has no number."""
    return str(sample(values)) if np.isfinite(np.asarray(values, dtype=float)).all() else "–"


def slow_enough(ratios: Any) -> bool:
    """Whether the whole interval of a slow-down is above 1."""
    return bool(np.isfinite(ratios).all()) and sample(ratios - 1).above


def knowing(found: RandomLabels) -> Claim:
    """Do networks that fitted noise know less of what they do not know?"""
    worse = sample(found.ece[-1, :, -1]) - sample(found.ece[0, :, -1])
    sure = float(np.nanmin(found.far_field[..., -1]))
    return Claim(
        ASKED,
        "A network that fitted random labels knows less of what it does not know.",
        f"ECE on test data by share: {by_share(found, 'ece')}; limit of the confidence far away at "
        f"least {sure:.4f} for every share; median factor to 99.9 % confidence: "
        f"{by_share(found, 'far_factor')}",
        verdict=verdict(worse.above and _sooner(found), worse.mean > 0 or _sooner(found)),
    )


def _sooner(found: RandomLabels) -> bool:
    """Whether networks on random labels are nearer to the data when they are confident."""
    gaps = found.far_factor[-1, :, -1] - found.far_factor[0, :, -1]
    return bool(np.isfinite(gaps).all()) and sample(gaps).below


def complexity(found: Complexities) -> list[Claim]:
    """Is the complexity near 1, and does the bound say nothing?"""
    last = {name: each[-1] for name, each in found.items()}
    network, count = last[NETWORK], last[NETWORK].samples
    ends = network.interval()
    said = ", ".join(f"{name} {sample(one.values)}" for name, one in last.items())
    bounded = last[BOUNDED]
    falls = found[BOUNDED][0].estimate / bounded.estimate
    return [
        Claim(
            LECTURE,
            f"R_n(H) ≈ 1 for networks (wanted: at least {HIGH} on 1,000 MNIST digits).",
            f"on {count} digits, {len(network.values)} draws of signs: {ends.value:.3f} "
            f"({ends.low:.3f} to {ends.high:.3f}); all classes: {said}",
            verdict=verdict(ends.low >= HIGH, ends.value >= HIGH),
        ),
        Claim(
            LECTURE,
            "No theoretical guarantee on generalization performances; classical learning theory "
            "is insufficient.",
            f"bound on the error of two classes at a training error of 0: network "
            f"{network.bound(0.0):.2f}, linear classifier {last[LINEAR].bound(0.0):.2f}, which say "
            f"nothing from 0.5 on; linear functions of a bounded norm "
            f"{bounded.bound(0.0, margin=1.0):.2f} if all digits had the largest margin, 1, and "
            f"below 0.5 from a margin of {least_margin(bounded):.2f} on; their complexity falls "
            f"{falls:.1f} times from {found[BOUNDED][0].samples} to {count} digits",
            verdict=verdict(network.bound(0.0) >= 0.5 > bounded.bound(0.0, margin=1.0)),
        ),
    ]


def least_margin(one: Rademacher) -> float:
    """From which margin of all training data on the bound says something, or infinity."""
    twice = 2 * one.estimate
    left = 0.5 - (one.bound(0.0, margin=1.0) - twice)
    return twice / left if left > 0 else math.inf


def descent(one: Sweep) -> Claim:
    """Is there a peak at the width where the data are interpolated, with a descent beyond?"""
    peaks, low, top, end = shape(one)
    by_seed = [one.ratios[int(i)] for i in np.array(one.values("squared_error")).argmax(0)]
    near = [abs(ratio - 1) <= NEAR for ratio in (one.ratios[peaks], *by_seed)]
    where = "trained weights = n K" if one.kind == TRAINED else "width = n"
    return Claim(
        BELKIN,
        f"Double U-curve: the test error peaks at {where} and falls again beyond ({one.kind}).",
        f"n = {one.samples}, {len(by_seed)} seeds: the squared error peaks at {peak_words(one)}; by"
        f" seed at {', '.join(f'{ratio:.2f}' for ratio in by_seed)} of it; test error "
        f"{percent(low)} at best before, {percent(top)} at the peak, {percent(end)} at the "
        f"largest width ({one.widths[-1]})",
        verdict=verdict(
            all(near) and (top - low).above and (top - end).above, _has_peak(one, peaks)
        ),
    )


def _has_peak(one: Sweep, peak: int) -> bool:
    """Whether the squared error there is above that at the smallest and the largest width."""
    first, top, last = (sample(one.values("squared_error")[i]) for i in (0, peak, -1))
    return bool((top - first).above and (top - last).above)


def shape(one: Sweep) -> tuple[int, Sample, Sample, Sample]:
    """Where the mean squared error peaks, and test errors at best before, there, and at the end."""
    errors = np.array(one.values("test_error"))
    peak = int(np.array(one.values("squared_error")).mean(1).argmax())
    before = errors[: peak + 1].mean(1).argmin()
    return peak, sample(errors[before]), sample(errors[peak]), sample(errors[-1])


def peak_words(one: Sweep) -> str:
    """Where the peak is, as a width and relative to the threshold."""
    peak = shape(one)[0]
    return f"width {one.widths[peak]} ({one.ratios[peak]:.2f} of the threshold)"


def percent(one: Sample) -> str:
    """A share with its interval, in per cent."""
    return f"{100 * one.mean:.1f} ± {100 * one.half:.1f} %"


def wide_networks(found: Sequence[Sweep]) -> Claim:
    """Is the widest network worse calibrated, or worse on other data, than a narrow one?"""
    words, worse = [], []
    for one in found:
        peak = shape(one)[0]
        narrow = int(np.array(one.values("test_error"))[: peak + 1].mean(1).argmin())
        gaps = {name: _change(one, name, narrow) for name in CHANGES}
        said = ", ".join(f"{CHANGES[name]} {signed(gap)}" for name, gap in gaps.items())
        words.append(f"{one.kind}, width {one.widths[-1]} less {one.widths[narrow]}: {said}")
        worse += [_is(gaps["ece"], "above"), _is(gaps["ood_auroc"], "below")]
    return Claim(
        ASKED,
        "An overparametrized network knows less of what it does not know.",
        f"{'; '.join(words)} (paired over seeds)",
        verdict=verdict_of(*worse),
    )


def _is(gap: Sample | None, side: str) -> bool:
    return gap is not None and bool(getattr(gap, side))


def _change(one: Sweep, name: str, narrow: int) -> Sample | None:
    """A number at the largest width less that at a narrow one, by seed; None where unknown."""
    ends = np.array([one.values(name)[index] for index in (-1, narrow)], dtype=float)
    return sample(ends[0] - ends[1]) if np.isfinite(ends).all() else None


def signed(one: Sample | None) -> str:
    """A difference with its interval."""
    return "–" if one is None else f"{one.mean:+.3f} ± {one.half:.3f}"


def sweep_table(one: Sweep) -> str:
    """Means over seeds by width."""
    names = {
        "train_error": "training error",
        "test_error": "test error",
        "squared_error": "squared error",
        "ece": "ECE",
        "confidence": "confidence",
        "confidence_far": "at 10 times the image",
        "far_field": "limit",
        "ood_auroc": "AUROC, Fashion-MNIST",
    }
    rows = [
        [
            str(width),
            f"{ratio:.2f}",
            *(f"{np.mean(np.array(one.values(name)[i], dtype=float)):.3g}" for name in names),
        ]
        for i, (width, ratio) in enumerate(zip(one.widths, one.ratios, strict=True))
    ]
    return table(["width", "of the threshold", *names.values()], rows)


def labels_table(found: RandomLabels) -> str:
    """Means over seeds by share of random labels, with intervals."""
    names = {
        "train": "training accuracy",
        "epochs_to_fit": "epochs to fit",
        "slow_down": "slow-down",
        "test": "test accuracy",
        "ece": "ECE",
        "confidence": "confidence",
        "far_field": "limit far away",
        "far_factor": "factor to 99.9 %",
    }
    columns = {name: getattr(found, name) for name in names}
    rows = [
        [f"{100 * share:g} %"]
        + [stated(v[i, :, -1] if v.ndim == 3 else v[i]) for v in columns.values()]
        for i, share in enumerate(found.shares)
    ]
    return table(["random labels", *names.values()], rows)
