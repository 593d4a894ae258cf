"""What the lecture and the papers behind it say of active learning, judged on MNIST."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from nescio.applications.active_learning import Curves
from nescio_papers.kit import Claim, Comparison, Sample, median, sample, table, verdict, verdict_of
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
    RANDOM,
    RATIO,
    START,
)

LECTURE = "lecture, Applications: Active Learning"
FIGURE = "lecture, Fig. 5.1 (Gal, 2016)"
KIRSCH = "Kirsch et al. (2019)"
GOAL = 0.95
Named = Mapping[str, Curves]
AUTHORS = "published: learned convolutions, the authors' own runs"
TABLE = "published: learned convolutions, Gal et al. (2017), table 1"
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


def claims(found: Named, repeated: Named, images: int) -> list[Claim]:
    """All claims, judged."""
    return [
        *(_better_than_random(name, found) for name in (BALD, BATCH, RATIO, ENTROPY)),
        _zero_under_delta(found),
        _dropout_or_delta(found, BALD, DELTA_BALD),
        _dropout_or_delta(found, RATIO, DELTA_CONFIDENCE),
        _dropout_or_delta(found, ENTROPY, DELTA_ENTROPY),
        *(_within(name, found[name], most) for name, most in WITHIN.items()),
        _small_error(found),
        _batch_aware(found),
        _copies(repeated, images),
        _fails_on_copies(repeated),
    ]


def _better_than_random(name: str, found: Named) -> Claim:
    own, chance = found[name], found[RANDOM]
    end = int(own.labels[-1])
    gap = _error_at(own, end) - _error_at(chance, end)
    fewer = own.labels_to(GOAL).median < chance.labels_to(GOAL).median
    return Claim(
        LECTURE,
        f"The most uncertain data give an optimal convergence ({name} against random).",
        f"{_median(own)} labels to {GOAL:.0%} against {_median(chance)} at random (medians); error "
        f"at {end} labels less that at random: {_points(gap)}",
        verdict=verdict(gap.below and fewer, gap.below or fewer),
    )


def _zero_under_delta(found: Named) -> Claim:
    own, chance = found[DELTA_BALD], found[RANDOM]
    scores = own.scores[:, START:]
    count = min(own.acquired.shape[1], chance.acquired.shape[1])
    same = np.array_equal(own.acquired[:, :count], chance.acquired[:, :count])
    return Claim(
        FIGURE,
        "Under a delta posterior BALD is 0 everywhere, and no better than random.",
        f"largest of {scores.size} scores of acquired images: {np.abs(scores).max():g}; "
        f"{'the same images as' if same else 'other images than'} at random, by the same draws",
        verdict=verdict_of(not scores.any(), same),
    )


def _dropout_or_delta(found: Named, name: str, delta: str) -> Claim:
    steps = min(len(found[name].labels), len(found[delta].labels))
    own, other = found[name].first(steps), found[delta].first(steps)
    end = int(own.labels[-1])
    gap = _error_at(own, end) - _error_at(other, end)
    early = sample(own.error.mean(1)) - sample(other.error.mean(1))
    return Claim(
        FIGURE,
        f"Dropout gives a lower error than the softmax of one network ({name}).",
        f"error at {end} labels less that under a delta posterior: {_points(gap)}; mean over "
        f"the curve so far: {_points(early)}",
        verdict=verdict_of(gap.below, early.below),
    )


def _within(name: str, curves: Curves, most: int) -> Claim:
    middle = curves.labels_to(GOAL).median
    return Claim(
        KIRSCH if "BALD" in name else "Gal et al. (2017), table 1",
        f"{name} takes at most {most} labels to {GOAL:.0%} (published: {PUBLISHED[name][0]}).",
        f"{_median(curves)} (median; by seed {_each(curves)})",
        verdict=verdict(middle <= most),
    )


def _small_error(found: Named) -> Claim:
    end = int(found[BALD].labels[-1])
    each = {name: median(_error_at(found[name], end).values) for name in (BALD, BATCH, RATIO)}
    said = ", ".join(f"{name} {error:.2%}" for name, error in each.items())
    return Claim(
        KIRSCH,
        f"BALD has 98.4 % accuracy at 1,010 labels (wanted: at most {ERROR_WITHIN:.1%} error).",
        f"median error at {end} labels: {said}; random "
        f"{median(_error_at(found[RANDOM], end).values):.2%}",
        verdict=verdict(each[BALD] <= ERROR_WITHIN, min(each.values()) <= ERROR_WITHIN),
    )


def _batch_aware(found: Named) -> Claim:
    end = int(found[BATCH_OF_5].labels[-1])
    gap = _error_at(found[BATCH], end) - _error_at(found[BALD], end)
    return Claim(
        KIRSCH,
        "BatchBALD is better than BALD for batches of 10, on MNIST.",
        f"{_median(found[BATCH])} labels to {GOAL:.0%} against {_median(found[BALD])} (medians); "
        f"error at {end} labels less BALD's: {_points(gap)}",
        verdict=verdict(gap.below, gap.mean < 0),
    )


def _copies(repeated: Named, images: int) -> Claim:
    own, other = repeated[BATCH], repeated[BALD]
    end = int(own.labels[-1])
    gap = _error_at(own, end) - _error_at(other, end)
    kinds = {name: median(distinct(repeated[name], images)) for name in (BATCH, BALD)}
    return Claim(
        KIRSCH,
        f"Where each image is there {COPIES} times, BatchBALD is better than BALD.",
        f"error at {end} labels less BALD's: {_points(gap)}; different images among {end} labels: "
        f"{kinds[BATCH]:.0f} against {kinds[BALD]:.0f} (medians)",
        verdict=verdict(gap.below, gap.mean < 0),
    )


def _fails_on_copies(repeated: Named) -> Claim:
    reached = {name: own.labels_to(GOAL).median for name, own in repeated.items()}
    said = ", ".join(f"{name} {_median(own)}" for name, own in repeated.items())
    return Claim(
        KIRSCH,
        f"On repeated MNIST BatchBALD has {GOAL:.0%} by {REPEATED_WITHIN} labels, BALD not by "
        f"{REPEATED_END}.",
        f"labels to {GOAL:.0%} (medians): {said}",
        verdict=verdict_of(reached[BATCH] <= REPEATED_WITHIN, reached[BALD] > REPEATED_END),
    )


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
