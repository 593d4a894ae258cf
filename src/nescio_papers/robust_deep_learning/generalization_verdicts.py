"""What is said of generalization, judged on our networks."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from nescio.core import Floats
from nescio.evaluation import Rademacher
from nescio_papers.kit import Claim, Sample, sample
from nescio_papers.robust_deep_learning.generalization_labels import (
    CHANGES as CHANGED,
)
from nescio_papers.robust_deep_learning.generalization_labels import FULL, RANDOM, TRUE
from nescio_papers.robust_deep_learning.generalization_signs import (
    BOUNDED,
    LINEAR,
    NETWORK,
    Complexities,
)
from nescio_papers.robust_deep_learning.generalization_tables import percent, stated
from nescio_papers.robust_deep_learning.generalization_widths import TRAINED, Sweep
from nescio_papers.robust_deep_learning.stored_facts import between, number, of_count, over_seeds

LECTURE = "lecture, Deep Learning and generalization"
ZHANG = "Zhang et al. (2017), figure 1, in the lecture"
BELKIN = "lecture, Generalization and over-parametrized models, on Belkin et al. (2019)"
ASKED = "what is asked here"
CHANGES = {
    "ece": "ECE",
    "ood_auroc": "AUROC against Fashion-MNIST",
    "far_field": "limit of the confidence far away",
}
NEAR_ONE, NEAR = 0.95, 0.1  # of the complexity; how far a peak may lie from n
HIGH, EASILY = 0.99, 10  # of the labels; times the epochs of true labels
CHANCE, CLOSE = 0.9, 0.05  # errors
Numbers = Mapping[str, Any]


def judge(numbers: Numbers) -> list[Claim]:
    """All claims, from the numbers of the part."""
    if "absent" in numbers:
        return []
    labels, signs = numbers["random_labels"], complexities_of(numbers["rademacher"])
    sweeps = [sweep_of(kind, one) for kind, one in numbers["double_descent"].items()]
    return [
        *random_labels(labels),
        knowing(labels),
        *complexity(signs, labels),
        *map(descent, sweeps),
        wide_networks(sweeps),
    ]


def random_labels(found: Numbers) -> list[Claim]:
    """Random labels are fitted, more slowly, and cost generalization."""
    slow, kinds = _table(found, "slow_down"), [key for key in found if key in CHANGED]
    epochs = {TRUE: found["epochs_to_fit"][0], **{kind: found[kind][0] for kind in kinds}}
    epochs[RANDOM] = found["epochs_to_fit"][-1]
    reached = [np.isfinite(np.array(values, dtype=float)) for values in epochs.values()]
    trainings, samples = np.concatenate(reached), found.get("samples", FULL.train)
    fitted = sum(round(samples * number(share)) for share in found["train"][-1])
    said = ", ".join(f"{name} {stated(values)}" for name, values in epochs.items())
    return [
        Claim(
            source=LECTURE,
            sentence="Deep models easily fit random labels.",
            facts=[
                of_count("share of random labels of MNIST that are fitted", fitted,
                         samples * len(found["train"][-1]), above=HIGH, form=".2%"),
                over_seeds(f"easily: epochs to fit them, over those of true labels (less than "
                           f"{EASILY} times),", slow[-1], below=EASILY),
            ],
            note=f"{samples} digits, {len(slow[-1])} seeds",
        ),
        Claim(
            source="here",
            sentence="Random labels, shuffled pixels, random pixels and Gaussian noise are all "
            "fitted.",
            facts=[
                of_count(f"share of {len(trainings)} trainings with a training accuracy of 100 %",
                         int(trainings.sum()), len(trainings), above=0.8)
            ],
            note=f"epochs: {said}",
        ),
        Claim(
            source=ZHANG,
            sentence="(b) convergence slowdown",
            facts=[
                over_seeds(f"epochs to fit at a share of {share:.0%} over those at {other:.0%}",
                           _table(found, "epochs_to_fit")[i] / _table(found, "epochs_to_fit")[j],
                           above=1)
                for (i, share), (j, other) in _steps(_shares(found))
            ],
            needs=[of_count("trainings that fit", int(trainings.sum()), len(trainings), above=0.8)],
            note="read as: the more labels are random, the more epochs it takes to fit them; "
            f"slow-down by share: {by_share(found, 'slow_down')}",
        ),
        _error_growth(found),
    ]  # fmt: skip


def _steps(shares: Sequence[float]) -> list[tuple[tuple[int, float], tuple[int, float]]]:
    """From true labels to a few random ones, and from those to random ones alone."""
    last = len(shares) - 1
    pairs = [(1, 0), (last, 1)] if last > 1 else [(last, 0)]
    return [((i, shares[i]), (j, shares[j])) for i, j in pairs]


def _error_growth(found: Numbers) -> Claim:
    error = [sample(1 - row) for row in _table(found, "test")]
    growth = [after - before for before, after in pairwise(error)]
    slowest = min(range(len(growth)), key=lambda i: growth[i].mean)
    far = sample(CHANCE - one for one in error[-1].values)
    return Claim(
        source=ZHANG,
        sentence="(c) generalization error growth",
        facts=[
            over_seeds(f"smallest growth of the test error from one share to the next, up to "
                       f"{_shares(found)[slowest + 1]:.0%},", growth[slowest], above=0, form=".1%"),
            over_seeds("chance (90 %) less the test error with random labels alone", far,
                       below=CLOSE, form=".1%"),
        ],
        note="read as: it grows with the share of random labels, to that of chance; test error by "
        "share: "
        + ", ".join(f"{share:.0%}: {percent(one)}"
                    for share, one in zip(_shares(found), error, strict=True)),
    )  # fmt: skip


def _table(found: Numbers, name: str) -> Floats:
    """Numbers by share of random labels and seed; NaN where there is none."""
    return np.array(found[name], dtype=float)


def _shares(found: Numbers) -> Sequence[float]:
    shares: Sequence[float] = found.get("shares", FULL.shares)
    return shares


def by_share(found: Numbers, name: str) -> str:
    """A number by share of random labels, with intervals over seeds."""
    each = zip(_shares(found), _table(found, name), strict=True)
    return ", ".join(f"{share:.0%}: {stated(row)}" for share, row in each)


def knowing(found: Numbers) -> Claim:
    """Do networks that fitted noise know less of what they do not know?"""
    gaps = {
        name: _table(found, name)[-1] - _table(found, name)[0] for name in ("ece", "far_factor")
    }
    sure = np.nanmin(_table(found, "far_field"))
    return Claim(
        source=ASKED,
        sentence="A network that fitted random labels knows less of what it does not know.",
        facts=[
            over_seeds("ECE on test data, random less true labels,", gaps["ece"], above=0,
                       form="+.3f"),
            over_seeds("factor from a digit to 99.9 % confidence (less: sure sooner), random less "
                       "true labels,", gaps["far_factor"], below=0, form="+.2f"),
        ],
        note=f"limit of the confidence far away at least {sure:.4f} for every share",
    )  # fmt: skip


def complexities_of(numbers: Numbers) -> Complexities:
    """Complexities as they were before they were stored."""
    return {
        name: [
            Rademacher(samples=int(count), values=np.array(values, dtype=float),
                       exact=name in (LINEAR, BOUNDED), seed=0, signs=name != BOUNDED)
            for count, values in each.items()
        ]
        for name, each in numbers.items()
    }  # fmt: skip


def complexity(found: Complexities, labels: Numbers) -> list[Claim]:
    """Is the complexity near 1, and does the bound say nothing?"""
    last = {name: each[-1] for name, each in found.items()}
    network, bounded = last[NETWORK], last[BOUNDED]
    ends = vars(network.interval())
    more = network.bound(0.0) - network.estimate  # the rest of the bound is fixed
    said = ", ".join(f"{name} {sample(one.values)}" for name, one in last.items())
    return [
        Claim(
            source=LECTURE,
            sentence=f"R_n(H) ≈ 1 for networks (wanted: at least {NEAR_ONE} on 1,000 MNIST "
            "digits).",
            facts=[between("Rademacher complexity", ends, above=NEAR_ONE)],
            note=f"{network.samples} digits, {len(network.values)} draws of signs; all classes: "
            f"{said}",
        ),
        Claim(
            source=LECTURE,
            sentence="No theoretical guarantee on generalization performances; classical learning "
            "theory is insufficient.",
            facts=[
                between("bound on the error of two classes at a training error of 0 (it says "
                        "nothing from 0.5 on),", {key: one + more for key, one in ends.items()},
                        above=0.5)
            ],
            needs=[
                over_seeds("test error of networks with true labels", 1 - _table(labels, "test")[0],
                           below=0.5, form=".1%")
            ],
            note=f"linear functions of a bounded norm: {bounded.bound(0.0, margin=1.0):.2f} if all "
            f"digits had the largest margin, 1, and below 0.5 from a margin of "
            f"{least_margin(bounded):.2f} on",
        ),
    ]  # fmt: skip


def least_margin(one: Rademacher) -> float:
    """From which margin of all training data on the bound says something, or infinity."""
    twice = 2 * one.estimate
    left = 0.5 - (one.bound(0.0, margin=1.0) - twice)
    return twice / left if left > 0 else math.inf


def sweep_of(kind: str, one: Numbers) -> Sweep:
    """A sweep as it was before it was stored; NaN where there is no number."""
    numbers = [
        [{name: number(value) for name, value in seed.items()} for seed in row]
        for row in one["numbers"]
    ]
    return Sweep(kind=kind, samples=one.get("samples", 0), widths=one["widths"],
                 ratios=one["ratios"], numbers=numbers)  # fmt: skip


def descent(one: Sweep) -> Claim:
    """Is there a peak at the width where the data are interpolated, with a descent beyond?"""
    errors, squared = (np.array(one.values(name)) for name in ("test_error", "squared_error"))
    apart = np.abs(np.array(one.ratios) - 1)
    at = int(apart.argmin())
    around, narrow = apart <= max(NEAR, apart[at]), best_narrow(one)
    ratio = np.log(squared[around].max(0) / squared[~around].max(0))
    by_seed = [one.ratios[int(i)] for i in squared.argmax(0)]
    where = "trained weights = n K" if one.kind == TRAINED else "width = n"
    return Claim(
        source=BELKIN,
        sentence=f"Double U-curve phenomena observed ... ({one.kind})",
        facts=[
            over_seeds(f"log of the largest squared error within {NEAR:.0%} of the threshold over "
                       "that elsewhere", ratio, above=0, form="+.2f"),
            over_seeds(f"test error at the threshold less the best before it, width "
                       f"{one.widths[narrow]},", errors[at] - errors[narrow], above=0,
                       form="+.1%"),
            over_seeds(f"test error at the threshold less that at width {one.widths[-1]}",
                       errors[at] - errors[-1], above=0, form="+.1%"),
        ],
        note=f"read as: the test error peaks at {where} and falls again beyond; {len(by_seed)} "
        "seeds, paired; by seed the squared error peaks at "
        f"{', '.join(f'{ratio:.2f}' for ratio in by_seed)} of the threshold",
    )  # fmt: skip


def best_narrow(one: Sweep) -> int:
    """The width before the threshold with the smallest test error; the first if all are beyond."""
    before = [i for i, ratio in enumerate(one.ratios) if ratio < 1 - NEAR] or [0]
    means = np.array(one.values("test_error")).mean(1)
    return min(before, key=lambda i: means[i])


def wide_networks(found: Sequence[Sweep]) -> Claim:
    """Is the widest network worse calibrated, or worse on other data, than a narrow one?"""
    facts, far = [], []
    for one in found:
        gaps = {name: _change(one, name, best_narrow(one)) for name in CHANGES}
        facts += [
            over_seeds(f"{one.kind}: {CHANGES['ece']}", gaps["ece"], above=0, form="+.3f"),
            over_seeds(
                f"{one.kind}: {CHANGES['ood_auroc']}", gaps["ood_auroc"], below=0, form="+.3f"
            ),
        ]
        far.append(f"{one.kind} {stated(gaps['far_field'].values)}")
    return Claim(
        source=ASKED,
        sentence="An overparametrized network knows less of what it does not know.",
        facts=facts,
        note="the largest width less the best one before the threshold, paired by seed; "
        f"{CHANGES['far_field']}: {', '.join(far)}",
    )


def _change(one: Sweep, name: str, narrow: int) -> Sample:
    """A number at the largest width less that at a narrow one, by seed."""
    wide, other = (np.array(one.values(name)[index], dtype=float) for index in (-1, narrow))
    return sample(wide - other)
