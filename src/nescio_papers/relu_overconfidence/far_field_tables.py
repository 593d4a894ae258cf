"""The tables of the part `far-field`, as Markdown."""

from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any

from nescio_papers.kit import percent, table
from nescio_papers.relu_overconfidence.alphas import REASONS
from nescio_papers.relu_overconfidence.searches import SPACING
from nescio_papers.relu_overconfidence.worlds import MNIST

Numbers = Mapping[str, Any]
NO_MNIST = "No MNIST: NESCIO_DATA names no folder that holds it, so only digits are shown. "
ALPHAS = """\
Rays are alpha x for uniform noise x in [0, 1]^d and alpha >= 1. The smallest alpha with 99.9 %
confidence is exact up to float64 rounding. The last two columns: the confidence on the
noise as it is, and the share above 95 % after the scaled image is cut to [0, 1]^d, of those that
reach 99.9 %. The published LeNet was trained for a hundred epochs; the networks here are smaller.
"""
REASON = """\
Why some rays never get there: the network is constant far out (dead), two classes grow equally
fast (tie), rounding leaves it open (undecided), or the members of an average end with different
classes. Beyond the last breakpoint the logits are affine forever.
"""
SEARCHES = """\
Searches that are often used instead, on the noise images and on directions with both signs: a
bisection between 1 and 1e6, which is right only where confidence crosses the level once, and a grid
of 600 factors in float32, whose steps are {spacing:.1f} %. A search is wrong where it is not at, or
within a step above, the exact first crossing: a crossing was missed, or float32 rounded a margin
between large logits. The last column counts rays that were seen below the level again further out:
confidence falls where two classes change places, in one linear region too.
"""
LIMITS = """\
Theorem 3.1: the limit of alpha x as alpha grows, over all trainings. It is one class unless two
classes tie or the network is constant far out. Test images and noise have no negative pixel; random
directions have both signs.
"""


def _rows(numbers: Numbers) -> Iterator[tuple[str, str, Numbers]]:
    for world, nets in numbers["worlds"].items():
        for name, row in nets.items():
            yield world, name, row
            if "ensemble" in row:
                yield world, f"{name}, average of {len(row['accuracy'])}", row["ensemble"]


def text_of(numbers: Numbers) -> str:
    """The tables, with a few words before each."""
    missing = "" if MNIST in numbers["worlds"] else NO_MNIST
    return "\n\n".join(
        [
            missing + ALPHAS.strip(),
            _alphas(numbers),
            REASON.strip(),
            _reasons(numbers),
            SEARCHES.format(spacing=100 * (SPACING - 1)).strip(),
            _searches(numbers),
            LIMITS.strip(),
            _limits(numbers),
            _rbf(numbers["rbf"]),
        ]
    )


def _alphas(numbers: Numbers) -> str:
    header = ["data", "network", "test error", "median alpha", "lowest and highest training"]
    header += ["5 % to 95 %", "at alpha = 1", "never", "mean confidence, noise", "cut, above 95 %"]
    rows = []
    for world, name, row in _rows(numbers):
        seeds = row["median_by_seed"]
        accuracy = row.get("accuracy")
        rows.append(
            [
                world,
                name,
                f"{100 * (1 - sum(accuracy) / len(accuracy)):.1f} %" if accuracy else "",
                factor(row["median"]),
                f"{factor(min(seeds))} to {factor(max(seeds))}" if len(seeds) > 1 else "",
                f"{factor(row['quantiles']['0.05'])} to {factor(row['quantiles']['0.95'])}",
                percent(row["already"]),
                percent(row["never"]),
                f"{row['mean_confidence_at_1']:.3f}",
                percent(row["clipped_above"]),
            ]
        )
    return table(header, rows)


def _reasons(numbers: Numbers) -> str:
    header = ["data", "network", *(f"never: {name}" for name in REASONS)]
    header += ["last breakpoint, median", "95 %", "sure before it"]
    rows = [
        [
            world,
            name,
            *(percent(row["reasons"][reason]) for reason in REASONS),
            factor(row["radius"]["0.5"]),
            factor(row["radius"]["0.95"]),
            percent(row["before_the_last_piece"]),
        ]
        for world, name, row in _rows(numbers)
    ]
    return table(header, rows)


def _searches(numbers: Numbers) -> str:
    header = ["data", "network", "rays", "median: exact", "bisection", "grid", "bisection wrong"]
    header += ["of these: says never", "largest ratio", "grid wrong", "falls again"]
    rows = [
        [
            world,
            name,
            f"{result['rays']} {way}",
            *(factor(result["median"][key]) for key in ("exact", "bisection", "grid")),
            str(result["bisection_wrong"]),
            str(result["bisection_says_never"]),
            f"{result['largest_ratio']:.3g}",
            str(result["grid_wrong"]),
            str(result["falls_again"]),
        ]
        for world, nets in numbers["worlds"].items()
        for name, row in nets.items()
        for way, result in row["searches"].items()
    ]
    return table(header, rows)


def _limits(numbers: Numbers) -> str:
    header = ["data", "network", "rays", "one class", "tie", "constant", "undecided"]
    header += ["mean limit confidence", "last breakpoint, largest"]
    rows = [
        [
            world,
            name,
            f"{result['rays']} {way}",
            *(percent(result[kind]) for kind in ("one", "tie", "constant", "undecided")),
            f"{result['mean_limit_confidence']:.4f}",
            factor(result["largest_radius"]),
        ]
        for world, nets in numbers["limits"].items()
        for name, ways in nets.items()
        for way, result in ways.items()
    ]
    return table(header, rows)


def _rbf(result: Numbers) -> str:
    near = result["distance"]
    return (
        "Theorem 3.2: an RBF network on the digits with a center on each training image, gamma "
        f"{result['gamma']:.3g}, accuracy {percent(result['accuracy'])}, mean confidence on test "
        f"images {result['mean_confidence_test']:.3f}. With alpha = {result['alpha']:.4g} every "
        f"probability is within {result['epsilon']:g} of 1/10 beyond {result['radius']:.3g} from "
        f"all training images. Test images are at a median distance of {near['test images']:.3g}, "
        f"noise images at {near['noise']:.3g}: {percent(result['noise_covered'])} of noise and "
        f"{percent(result['test_covered'])} of test images are covered. The last point on the rays "
        f"that is further than that from 1/10 is at {result['last_distance_above_epsilon']:.3g}: "
        "the radius is safe, not tight."
    )


def factor(value: float | None) -> str:
    """A factor in three digits; infinity is never."""
    return "never" if value is None or not isfinite(value) else f"{value:.3g}"
