"""How often the intervals of the metrics hold the truth, in simulations where it is known.

`python -m benchmarks.coverage` draws samples again and again and writes docs/coverage.json. The
truth is the metric of a very large sample, or a closed form. Intervals are at 95 %.
"""

import argparse
import datetime
import math
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.timing import ROOT, machine
from nescio import metrics
from nescio.core import write_json
from nescio.metrics import Interval

Arrays = tuple[NDArray[Any], ...]
Draw = Callable[[np.random.Generator, int], Arrays]
Found = dict[str, Interval]
MANY = 1_000_000
RANKING = ("auroc", "aupr", "fpr_at_tpr", "detection_error", "autc")
SELECTIVE = ("ap_error", "ap_success", "auroc", "fpr_at_tpr", "aurc", "excess_aurc")


def apart(gap: float) -> Draw:
    """Scores of two sides whose means are `gap` standard deviations apart."""
    return lambda rng, count: (rng.normal(size=count), rng.normal(gap, 1, count))


def answers(rng: np.random.Generator, count: int) -> Arrays:
    """Failure scores and errors, 15 % wrong."""
    score = rng.normal(size=count)
    return score, rng.random(count) < 1 / (1 + np.exp(2.2 - 1.2 * score))


def confidences(over: float) -> Draw:
    """Confidences from 1/2 to 1; the chance to be right is `over` times further below 1."""

    def draw(rng: np.random.Generator, count: int) -> Arrays:
        sure = 1 - 0.5 * rng.beta(1, 3, count)
        return sure, rng.random(count) < sure - over * (1 - sure)

    return draw


def of_ranking(a: NDArray[Any], b: NDArray[Any], seed: int) -> Found:
    found = dict(metrics.bootstrap_ranking(a, b, of=RANKING, resamples=200, seed=seed))
    scale, apart = max(a.max(), b.max()) - min(a.min(), b.min()), found["autc"]
    found["autc"] = Interval(
        *((1 - 2 * end) * scale for end in (apart.value, apart.high, apart.low))
    )
    found["auroc, DeLong"] = metrics.delong_interval(a, b)
    found["auroc, DeLong, log-odds"] = metrics.delong_interval(a, b, logit=True)
    return found


def of_answers(score: NDArray[Any], wrong: NDArray[Any], seed: int) -> Found:
    found: Any = metrics.bootstrap_selective(score, wrong, of=SELECTIVE, resamples=200, seed=seed)
    return {**found, "error rate": metrics.bootstrap_mean(wrong, resamples=200, seed=seed)}


def of_confidences(sure: NDArray[Any], right: NDArray[Any], seed: int) -> Found:
    kinds: dict[str, tuple[Any, dict[str, Any]]] = {
        "ece": (metrics.ece, {}),
        "ece, equal mass": (metrics.ece, {"equal": "mass"}),
        "smooth_ece": (metrics.smooth_ece, {}),
        "debiased_ece, norm 2": (metrics.debiased_ece, {"norm": 2}),
    }
    return {
        name: metrics.bootstrap_metric(metric, sure, right, resamples=50, seed=seed, **options)
        for name, (metric, options) in kinds.items()
    }


def truth_of_ranking(gap: float) -> dict[str, float]:
    a, b = apart(gap)(np.random.default_rng(1), MANY)
    rank = metrics.rank(a, b)
    area = NormalDist().cdf(gap / math.sqrt(2))
    # AUTC is (1 - gap / scale) / 2 on the scale of the samples: the gap is compared
    result = {"aupr": rank.aupr, "fpr_at_tpr": rank.fpr_at_tpr(), "autc": gap}
    result["detection_error"] = NormalDist().cdf(-gap / 2)
    return result | dict.fromkeys(("auroc", "auroc, DeLong", "auroc, DeLong, log-odds"), area)


def truth_of_answers() -> dict[str, float]:
    score, wrong = answers(np.random.default_rng(1), MANY // 4)
    few: Any = {"of": SELECTIVE, "resamples": 2}
    found = metrics.bootstrap_selective(score, wrong, **few)
    return {name: one.value for name, one in found.items()} | {"error rate": float(wrong.mean())}


def truth_of_confidences(over: float) -> dict[str, float]:
    sure, right = confidences(over)(np.random.default_rng(1), MANY)
    gap = over * (1 - sure)
    result = dict.fromkeys(("ece", "ece, equal mass"), float(gap.mean()))
    result["smooth_ece"] = metrics.smooth_ece(sure, right) if over else 0.0
    return {**result, "debiased_ece, norm 2": float(np.sqrt(np.square(gap).mean()))}


def rows(draws: int) -> Iterator[dict[str, Any]]:
    """The share of draws in which each interval holds the truth."""
    worlds: list[tuple[str, Draw, Callable[..., Found], dict[str, float]]] = [
        *((f"two sides, gap {g:g}", apart(g), of_ranking, truth_of_ranking(g))
          for g in (0.5, 1.0, 2.0, 3.0)),
        ("answers", answers, of_answers, truth_of_answers()),
        *((f"confidences, over by {o:g}", confidences(o), of_confidences, truth_of_confidences(o))
          for o in (0.0, 0.5, 1.0)),
    ]  # fmt: skip
    for world, draw, intervals, truths in worlds:
        for samples in (200, 1000):
            held: dict[str, list[bool]] = defaultdict(list)
            rounds = draws // 4 if intervals is of_confidences else draws  # these take long
            for seed in range(rounds):
                drawn = draw(np.random.default_rng((seed, samples)), samples)
                for name, found in intervals(*drawn, seed).items():
                    held[name].append(found.low - 1e-12 <= truths[name] <= found.high + 1e-12)
            for name, each in held.items():
                yield {"metric": name, "world": world, "samples": samples, "draws": rounds,
                       "truth": truths[name], "held": float(np.mean(each))}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coverage", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few draws, to see that all works")
    parser.add_argument("--output", type=Path, help="folder for coverage.json")
    options = parser.parse_args()
    started, found = time.perf_counter(), []
    for row in rows(10 if options.quick else 200):
        found.append(row)
        print(row, file=sys.stderr, flush=True)
    folder = options.output or (None if options.quick else ROOT / "docs")
    if folder is not None:
        content = {"date": datetime.date.today().isoformat(), "machine": machine(), "level": 0.95}
        seconds = round(time.perf_counter() - started)
        write_json(folder / "coverage.json", {**content, "seconds": seconds, "rows": found})


if __name__ == "__main__":
    main()
