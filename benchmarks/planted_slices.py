"""Planted slices: `python -m benchmarks.planted_slices [--draws 100] [--error-rate 0.05]`.

5,000 samples with 20 columns and calibrated confidences. A group of 5 % has an accuracy lower by 15
points, which the confidence does not show. How often does `find_slices` find it, and how often does
it report a slice where there is none? Found: a reported slice and the group share at least half of
the samples that are in either. False: no group, and some slice is reported.
"""

import argparse
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nescio.evaluation import find_slices

SAMPLES, COLUMNS, SHARE, DROP = 5000, 20, 0.05, 0.15
PLANTED = ("one word", "one number", "class and number", "interval", "two numbers")
NULL = ("none", "none, uneven difficulty", "none, overconfident everywhere")
Draw = tuple[NDArray[np.bool_], Mapping[str, NDArray[Any]], NDArray[Any], NDArray[np.bool_]]


def draw(form: str, seed: int, error_rate: float) -> Draw:
    """Errors, columns, confidences, and which samples are planted."""
    rng = np.random.default_rng([seed, len(form)])
    columns: dict[str, NDArray[Any]] = {f"number {k}": rng.random(SAMPLES) for k in range(18)}
    columns["site"] = rng.choice([f"site {k}" for k in range(20)], SAMPLES)
    columns["predicted class"] = rng.integers(0, 10, SAMPLES).astype(str)
    chance = rng.beta(1, 1 / error_rate - 1, SAMPLES)
    if form == "none, uneven difficulty":  # harder where number 0 is large, and known to be so
        order = np.argsort(columns["number 0"] + 0.5 * rng.random(SAMPLES))
        chance[order] = np.sort(chance)
    planted = _planted(form, columns, rng)
    wrong = rng.random(SAMPLES) < np.minimum(chance + DROP * planted, 1)
    confidence = 1 - chance
    return wrong, columns, confidence**0.3 if "everywhere" in form else confidence, planted


def _planted(form: str, columns: Mapping[str, NDArray[Any]], rng: Any) -> NDArray[np.bool_]:
    x, z = columns["number 3"], columns["number 7"]
    side, start = SHARE**0.5, rng.uniform(0.1, 0.85)
    if form == "one word":
        return np.asarray(columns["site"] == "site 7")
    if form == "one number":
        return np.asarray(x > 1 - SHARE)
    if form == "interval":
        return np.asarray((x > start) & (x < start + SHARE))
    if form == "two numbers":
        return np.asarray((x > 1 - side) & (z < side))
    if form == "class and number":
        return np.asarray((x > 1 - 10 * SHARE) & (columns["predicted class"] == "3"))
    return np.zeros(SAMPLES, bool)


def outcome(form: str, seed: int, error_rate: float, level: float) -> bool:
    """Whether the planted group was found; without one, whether anything was reported.

    Where some samples are known to be harder, they are wrong more often in truth; what counts then
    is a slice that is called overconfident.
    """
    wrong, columns, confidence, planted = draw(form, seed, error_rate)
    found = find_slices(wrong, columns, confidence=confidence, level=level, seed=seed)
    if form == "none, uneven difficulty":
        return any(
            one.p_overconfident is not None and one.p_overconfident <= level for one in found
        )
    if not planted.any():
        return len(found) > 0
    inside = [one.holds(columns) for one in found]
    return any((one & planted).sum() >= 0.5 * (one | planted).sum() for one in inside)


def main() -> None:
    """Print one line per form."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--error-rate", type=float, default=0.05)
    parser.add_argument("--level", type=float, default=0.02)
    parser.add_argument("--forms", nargs="*", default=[*PLANTED, *NULL])
    options = parser.parse_args()
    print(f"| planted ({options.error_rate:.0%} wrong elsewhere) | draws | found or false | s |")
    print("|---|---|---|---|")
    for form in options.forms:
        started = time.perf_counter()
        hits = sum(
            outcome(form, seed, options.error_rate, options.level) for seed in range(options.draws)
        )
        seconds = (time.perf_counter() - started) / options.draws
        print(f"| {form} | {options.draws} | {hits} | {seconds:.2f} |", flush=True)


if __name__ == "__main__":
    main()
