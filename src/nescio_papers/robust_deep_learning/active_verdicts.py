"""What the lecture and the papers behind it say of active learning, judged on MNIST."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np

from nescio.applications.active_learning import Curves
from nescio_papers.kit import A_SHARE, Claim, Comparison, Sample, exactly, median, sample, table
from nescio_papers.robust_deep_learning.active_runs import (
    BALD,
    BALD_20,
    BATCH,
    BATCH_OF_5,
    COPIES,
    DELTA_BALD,
    DELTA_CONFIDENCE,
    DELTA_ENTROPY,
    ENTROPY,
    MNIST,
    RANDOM,
    RATIO,
    REPEATED,
    START,
)
from nescio_papers.robust_deep_learning.stored_facts import RECALLED, number, over_seeds

LECTURE = "lecture, Applications: Active Learning"
KIRSCH, GAL = "Kirsch et al. (2019)", "Gal et al. (2017), table 1"
OWN, FIGURES = "here", "here, our own goal"
GOAL = 0.95
Named = Mapping[str, Curves]
AUTHORS = f"published: learned convolutions, the runs of {KIRSCH}"
TABLE = f"{RECALLED}: learned convolutions, {GAL}"
PUBLISHED = {  # labels to 95 %
    BALD_20: (240, AUTHORS),
    BALD: (290, f"{AUTHORS}, 100 passes"),
    BATCH: (240, AUTHORS),
    BATCH_OF_5: (210, AUTHORS),
    RATIO: (295, TABLE),
    ENTROPY: (355, TABLE),
    RANDOM: (835, TABLE),
}
ERRORS = {RANDOM: 4.66, BALD: 1.80, ENTROPY: 1.74, RATIO: 1.64}  # % at 1,000 labels
WITHIN = {BALD_20: 250, BALD: 250, BATCH: 240, BATCH_OF_5: 210, RATIO: 300}  # labels to 95 %
REPEATED_WITHIN, REPEATED_END, ERROR_WITHIN = 280, 310, 0.016


def distinct(curves: Curves, images: int) -> list[int]:
    """How many different images each seed has labeled, where a pool has several copies of each."""
    return [len(np.unique(own % images)) for own in curves.acquired]


@dataclass(frozen=True)
class Learned:
    """A method's curve as it is stored.

    labels: number of labels at each step.
    errors: error rates by seed and step.
    needed: labels to 95 % by seed; NaN where it was not reached.
    """

    labels: Sequence[int]
    errors: Sequence[Sequence[float]]
    needed: Sequence[float]

    def error_at(self, labels: int) -> Sample:
        """The errors at a number of labels; NaN where no step has it."""
        if labels not in self.labels:
            return sample(math.nan for _ in self.errors)
        return sample(row[self.labels.index(labels)] for row in self.errors)

    def until(self, labels: int) -> Sample:
        """The mean error over the curve up to a number of labels."""
        steps = sum(one <= labels for one in self.labels)
        return sample(fmean(row[:steps]) for row in self.errors)

    @property
    def end(self) -> int:
        """The number of labels at the end."""
        return self.labels[-1]


Stored = Mapping[str, Learned]


def learned(numbers: Mapping[str, Any]) -> dict[str, Learned]:
    """The curves of a pool from stored numbers."""
    return {
        name: Learned(
            labels=own["labels"],
            errors=[[1 - one for one in row] for row in own["accuracy"]],
            needed=[number(one) for one in own["labels_to_95"]],
        )
        for name, own in numbers.items()
    }


def judge(numbers: Mapping[str, Any]) -> list[Claim]:
    """All claims, judged by stored numbers."""
    if "absent" in numbers:
        return []
    found, repeated = (learned(numbers[pool]) for pool in (MNIST, REPEATED))
    return [
        *(_better_than_random(name, found) for name in (BALD, BATCH, RATIO, ENTROPY)),
        _zero_under_delta(found, numbers[MNIST][DELTA_BALD].get("largest_score")),
        _dropout_or_delta(found, BALD, DELTA_BALD),
        _dropout_or_delta(found, RATIO, DELTA_CONFIDENCE),
        _dropout_or_delta(found, ENTROPY, DELTA_ENTROPY),
        *(_within(name, found[name], most) for name, most in WITHIN.items()),
        _small_error(found),
        _batch_aware(found),
        _copies(repeated, numbers["different_images"]),
        _fails_on_copies(repeated),
    ]


def _better_than_random(name: str, found: Stored) -> Claim:
    own, chance = found[name], found[RANDOM]
    fewer = sample(own.needed) - sample(chance.needed)
    return Claim(
        source=LECTURE,
        sentence=f"Most uncertain data: optimal convergence ({name} against random)",
        facts=[
            over_seeds(f"labels to {GOAL:.0%} less those at random", fewer, below=0, form=".0f"),
            over_seeds(
                f"error at {own.end} labels less that at random",
                own.error_at(own.end) - chance.error_at(own.end),
                below=0,
                form=".2%",
            ),
        ],
        note="judged as better than random; that nothing converges faster was not tested",
    )


def _zero_under_delta(found: Stored, largest: float | None) -> Claim:
    own, chance = found[DELTA_BALD], found[RANDOM]
    pairs = [
        abs(one - two)
        for first, second in zip(own.errors, chance.errors, strict=True)
        for one, two in zip(first, second, strict=False)
    ]
    facts = [
        exactly(
            f"largest difference of {len(pairs)} errors from those at random, by the same draws",
            max(pairs),
            why="all seeds and steps are compared",
            below=1e-9,
        )
    ]
    if largest is not None:
        why = "all acquired images are scored"
        facts.append(exactly("largest score of an acquired image", largest, why=why, below=1e-9))
    return Claim(
        source=OWN,
        sentence="Under a delta posterior BALD is 0 everywhere, and no better than random.",
        facts=facts,
    )


def _dropout_or_delta(found: Stored, name: str, delta: str) -> Claim:
    own, other = found[name], found[delta]
    end = min(own.end, other.end)
    gaps = {
        f"error at {end} labels": own.error_at(end) - other.error_at(end),
        f"mean error up to {end} labels": own.until(end) - other.until(end),
    }
    return Claim(
        source=OWN,
        sentence=f"Dropout gives a lower error than the softmax of one network ({name}).",
        facts=[
            over_seeds(f"{what} less that under a delta posterior", gap, below=0, form=".2%")
            for what, gap in gaps.items()
        ],
    )


def _within(name: str, own: Learned, most: int) -> Claim:
    said, how = PUBLISHED[name]
    return Claim(
        source=KIRSCH if most == said else FIGURES,
        sentence=f"{name} takes at most {most} labels to {GOAL:.0%}.",
        facts=[
            over_seeds(
                f"labels to {GOAL:.0%}, mean over seeds", own.needed, below=most + 1, form=".0f"
            )
        ],
        note=f"by seed {', '.join(f'{one:.0f}' for one in own.needed)}; {said} {how}",
    )


def _small_error(found: Stored) -> Claim:
    end = found[BALD_20].end
    others = ", ".join(f"{name} {_mean(found[name], end)}" for name in (BALD, BATCH, RATIO, RANDOM))
    return Claim(
        source=KIRSCH,
        sentence=f"{BALD_20}, has 98.4 % accuracy at 1,010 labels (wanted: at most "
        f"{ERROR_WITHIN:.1%} error).",
        facts=[
            over_seeds(
                f"error of {BALD_20} at {end} labels",
                found[BALD_20].error_at(end),
                below=ERROR_WITHIN,
                form=".2%",
                within=A_SHARE,
            )
        ],
        note=others,
    )


def _batch_aware(found: Stored) -> Claim:
    end = found[BATCH_OF_5].end
    own, other = found[BATCH], found[BALD]
    return Claim(
        source=KIRSCH,
        sentence="BatchBALD is better than BALD for batches of 10, on MNIST.",
        facts=[
            over_seeds(
                f"error at {end} labels less BALD's",
                own.error_at(end) - other.error_at(end),
                below=0,
                form=".2%",
            )
        ],
        note=f"mean up to {end} labels {_points(own.until(end) - other.until(end))}",
    )


def _copies(repeated: Stored, different: Mapping[str, Sequence[int]]) -> Claim:
    own, other = repeated[BATCH], repeated[BALD]
    kinds = {name: median(different[name]) for name in (BATCH, BALD)}
    return Claim(
        source=KIRSCH,
        sentence=f"Where each image is there {COPIES} times, BatchBALD is better than BALD.",
        facts=[
            over_seeds(
                f"error at {own.end} labels less BALD's",
                own.error_at(own.end) - other.error_at(own.end),
                below=0,
                form=".2%",
            )
        ],
        note=f"different images among {own.end} labels: {kinds[BATCH]:.0f} against "
        f"{kinds[BALD]:.0f} (medians)",
    )


def _fails_on_copies(repeated: Stored) -> Claim:
    limits = {BATCH: (REPEATED_WITHIN, {"below": 1 - GOAL}),
              BALD: (REPEATED_END, {"above": 1 - GOAL})}  # fmt: skip
    return Claim(
        source=KIRSCH,
        sentence=f"On repeated MNIST BatchBALD has {GOAL:.0%} by {REPEATED_WITHIN} labels, BALD "
        f"not by {REPEATED_END}.",
        facts=[
            over_seeds(
                f"error of {name} at {labels} labels",
                repeated[name].error_at(labels),
                form=".2%",
                within=A_SHARE,
                **limit,
            )
            for name, (labels, limit) in limits.items()
        ],
    )


def _mean(own: Learned, labels: int) -> str:
    return f"{own.error_at(labels).mean:.2%}"


def comparisons(found: Named) -> list[Comparison]:
    """Published numbers beside ours."""
    rows = [
        Comparison(
            f"{name}: labels to 95 %, median", said, found[name].labels_to(GOAL).median, note=note
        )
        for name, (said, note) in PUBLISHED.items()
    ]
    end = min(1000, int(found[RANDOM].labels[-1]))
    return rows + [
        Comparison(
            f"{name}: error at 1,000 labels, %",
            said,
            100 * median(_error_at(found[name], end).values),
            note="published: learned convolutions, a reproduction of Gal et al. (2017)",
        )
        for name, said in ERRORS.items()
    ]


def overview(found: Named) -> str:
    """A table: labels to 90 and 95 %, errors on the way and at the end, seconds."""
    ends = sorted({int(one.labels[-1]) for one in found.values()})
    rows = [
        [name, _median(own, 0.9), _median(own), _each(own),
         *(_error(own, end) for end in ends), f"{own.seconds.sum():.0f}"]
        for name, own in found.items()
    ]  # fmt: skip
    header = ["method", "labels to 90 %", "to 95 %", "to 95 %, by seed",
              *(f"error at {end} labels" for end in ends), "processor seconds"]  # fmt: skip
    return table(header, rows)


def numbers(found: Named) -> dict[str, Any]:
    """What was measured, for JSON."""
    return {
        name: {
            "labels": own.labels.tolist(),
            "accuracy": own.accuracy.round(5).tolist(),
            "labels_to_90": own.labels_to(0.9).by_seed.tolist(),
            "labels_to_95": own.labels_to(GOAL).by_seed.tolist(),
            "largest_score": float(np.abs(own.scores[:, START:]).max(initial=0.0)),
            "error_at_the_end": _error_at(own, int(own.labels[-1])).numbers(),
            "processor_seconds": dict(
                zip(
                    ("train", "evaluate", "score"),
                    own.seconds.sum(0).round(1).tolist(),
                    strict=True,
                )
            ),
        }
        for name, own in found.items()
    }


def _error_at(curves: Curves, labels: int) -> Sample:
    return sample(curves.error_at(labels))


def _error(curves: Curves, labels: int) -> str:
    if labels > curves.labels[-1]:
        return ""
    found = _error_at(curves, labels)
    return f"{100 * found.mean:.2f} ± {100 * found.half:.2f} %"


def _median(curves: Curves, accuracy: float = GOAL) -> str:
    middle = curves.labels_to(accuracy).median
    return f"{middle:.0f}" if np.isfinite(middle) else f"not by {curves.labels[-1]}"


def _each(curves: Curves) -> str:
    needed = curves.labels_to(GOAL).by_seed
    return ", ".join(f"{one:.0f}" if np.isfinite(one) else "–" for one in needed)


def _points(gap: Sample) -> str:
    return f"{100 * gap.mean:+.2f} ± {100 * gap.half:.2f} points"
