"""Promises against simulation: `python -m benchmarks.validity [--quick] [--output FOLDER]`.

Calibration sets of several sizes are drawn again and again from a known distribution; each time
new samples are tried. A promise is broken if a one-sided binomial test with one new case of each
redraw says so at 1e-3. It is wasteful if the rate at the largest size stays below 0.8 of what is
allowed. Where scores do not tie, the number of misses among the new samples of a redraw follows a
beta-binomial law; a chi-squared test compares them. A full run writes docs/validity.json.
"""

import argparse
import datetime
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import nescio
from benchmarks.timing import ROOT, machine
from nescio import conformal
from nescio.core import write_json

Floats = NDArray[np.float64]
Misses = NDArray[np.bool_]  # (redraws, new): which new samples a promise missed

World = tuple[Tensor, Tensor, Tensor]  # logits, labels and groups, (redraws, samples, ...)

SIZES, REDRAWS, NEW = (200, 1000, 5000), 2000, 50
BLOCK = 100_000  # calibration samples at a time
SIGNIFICANT, LOOSE = 1e-3, 0.8
CLASSES, SURE, MISCOVERAGE = 5, (1.0, 0.7, 0.4), 0.1


@dataclass(frozen=True)
class Row:
    """One promise at one size: what was allowed, what came, and what the tests say."""

    guarantee: str
    samples: int
    allowed: float
    rate: float  # of misses or false alarms, over all new samples
    binomial: float  # p-value of the one-sided test; the smallest of all cells, times their number
    law: float | None  # p-value against the beta-binomial law, where there is one
    tight: bool  # whether it must not be loose

    def fails(self, largest: int) -> str:
        """What is wrong with it; nothing if all is well."""
        if self.binomial < SIGNIFICANT:
            return "promise broken"
        if self.law is not None and self.law < SIGNIFICANT:
            return "not the exact law"
        if self.tight and self.samples == largest and self.rate < LOOSE * self.allowed:
            return "wastefully loose"
        return ""


def judge(
    guarantee: str,
    samples: int,
    allowed: float,
    missed: Misses,
    kind: str,
    cells: NDArray[np.int64] | None = None,
) -> Row:
    """Test misses `(redraws, new)` of a promise, which holds in every cell where there are some.

    kind: "law" where the beta-binomial law holds, "exact" where the rate should come near the
    promise, "bound" where it may stay below.
    """
    from scipy.stats import binomtest

    cells = np.zeros(missed.shape, np.int64) if cells is None else cells
    tested = []
    for cell in np.unique(cells):
        own = cells == cell
        one = missed[np.arange(len(missed)), own.argmax(1)][own.any(1)]  # one sample a redraw
        tested.append(binomtest(int(one.sum()), len(one), allowed, alternative="greater").pvalue)
    return Row(
        guarantee,
        samples,
        allowed,
        float(missed.mean()),
        min(1.0, float(min(tested)) * len(tested)),
        beta_binomial_test(missed, samples, allowed) if kind == "law" else None,
        kind != "bound",
    )


def beta_binomial_test(missed: Misses, samples: int, allowed: float) -> float:
    """Chi-squared test of the misses of each redraw against their law; bins of 5 or more."""
    from scipy.stats import betabinom, chisquare

    (redraws, new), (kept, over) = missed.shape, conformal.coverage_law(samples, allowed)
    expected = redraws * betabinom.pmf(np.arange(new + 1), new, over, kept)
    place, total = np.zeros(new + 1, np.int64), 0.0
    for count in range(1, new + 1):  # a bin is full at 5, if as many are left
        total += expected[count - 1]
        full = total >= 5 and expected[count:].sum() >= 5
        place[count], total = place[count - 1] + full, 0.0 if full else total
    seen = np.bincount(place, np.bincount(missed.sum(1), minlength=new + 1))
    return float(chisquare(seen, np.bincount(place, expected)).pvalue) if place[-1] else 1.0


def false_alarms(samples: int, redraws: int, new: int, seed: int = 0) -> Iterator[Row]:
    """Alarms for inputs of the same distribution, where p <= alpha; scores are Student's t."""
    alphas = (0.01, 0.05)
    found: dict[str, list[Floats]] = {"": [], ", ties": [], ", ties randomized": []}
    rng = np.random.default_rng((seed, 1, samples))
    for redraw in range(redraws):
        old, fresh = rng.standard_t(3, samples), rng.standard_t(3, new)
        tied, tied_fresh = old.round(), fresh.round()
        numbers = np.arange(redraw * new, (redraw + 1) * new)
        found[""].append(conformal.p_values(old, fresh).numpy())
        found[", ties"].append(conformal.p_values(tied, tied_fresh).numpy())
        smooth = conformal.p_values(tied, tied_fresh, randomize=True, inputs=numbers)
        found[", ties randomized"].append(smooth.numpy())
    kinds = {"": "law", ", ties": "bound", ", ties randomized": "exact"}
    for name, values in found.items():
        for alpha in alphas:
            missed = np.stack(values) <= alpha
            yield judge(f"false alarms at {alpha:g}{name}", samples, alpha, missed, kinds[name])


def batches(samples: int, redraws: int, new: int, seed: int = 0) -> Iterator[Row]:
    """Share of false alarms among the alarms of a batch of which one in five is outside."""
    rng, level = np.random.default_rng((seed, 2, samples)), 0.1
    ood = np.arange(5 * new) % 5 == 0
    picked = np.zeros((redraws, 1), bool)
    shares = np.zeros(redraws)
    for redraw in range(redraws):
        fresh = rng.standard_normal(5 * new) + 4 * ood
        p = conformal.p_values(rng.standard_normal(samples), fresh)
        alarms = np.flatnonzero(conformal.benjamini_hochberg(p, level).numpy())
        if len(alarms):  # one of them at random is false with the probability that is bounded
            picked[redraw] = not ood[rng.choice(alarms)]
            shares[redraw] = (~ood[alarms]).mean()
    row = judge("false share of a batch's alarms", samples, level, picked, "bound")
    yield Row(**{**asdict(row), "rate": float(shares.mean())})


Builder = Callable[..., Any]
KINDS: Mapping[str, tuple[Builder, dict[str, Any], str]] = {
    "threshold": (conformal.threshold, {}, "law"),
    "threshold, randomized": (conformal.threshold, {"randomize": True}, "exact"),
    "threshold, each class": (conformal.threshold, {"by": "class"}, "exact"),
    "threshold, each group": (conformal.threshold, {"by": "group"}, "exact"),
    "adaptive": (conformal.adaptive, {}, "bound"),
    "adaptive, randomized": (conformal.adaptive, {"randomize": True}, "exact"),
    "adaptive, each class, randomized": (
        conformal.adaptive,
        {"by": "class", "randomize": True},
        "exact",
    ),
    "regularized adaptive": (conformal.regularized_adaptive, {"free": 1}, "bound"),
    "regularized adaptive, randomized": (
        conformal.regularized_adaptive,
        {"free": 1, "randomize": True},
        "exact",
    ),
}


def sets(samples: int, redraws: int, new: int, seed: int = 0) -> Iterator[Row]:
    """Labels outside their prediction sets; the network is too sure in two of three groups."""
    draw = torch.Generator().manual_seed(10_000 * seed + samples)
    found: dict[str, list[Tensor]] = {name: [] for name in KINDS}
    seen: dict[str | None, list[Tensor]] = {"class": [], "group": []}
    for block, rows in enumerate(_blocks(samples, redraws)):
        old, fresh = _world((rows, samples), draw), _world((rows, new), draw)
        seen["class"].append(fresh[1])
        seen["group"].append(fresh[2])
        for name, (build, options, _) in KINDS.items():
            chosen = {**options, "miscoverage": MISCOVERAGE, "seed": block}
            try_out = _by_class if options.get("by") == "class" else _at_once
            found[name].append(try_out(build, chosen, old, fresh))
    for name, (_, options, kind) in KINDS.items():
        by = options.get("by")
        cells = torch.cat(seen[by]).numpy() if by else None
        missed = torch.cat(found[name]).numpy()
        yield judge(f"sets: {name}", samples, MISCOVERAGE, missed, kind, cells)


def _at_once(build: Builder, options: dict[str, Any], old: World, fresh: World) -> Tensor:
    """Misses `(redraws, new)`: every redraw, and group of it, is a group of one calibration."""
    parts = len(SURE) if options.get("by") == "group" else 1
    numbers = [parts * _redraw(of) + (of if parts > 1 else 0) for _, _, of in (old, fresh)]
    chosen = {**options, "by": numbers[0].flatten()}
    fitted = build(old[0].flatten(0, 1), old[1].flatten(), **chosen)
    in_dist: Tensor = fitted(fresh[0].flatten(0, 1), numbers[1].flatten())
    return ~in_dist.gather(1, fresh[1].flatten()[:, None])[:, 0].view(fresh[1].shape)


def _by_class(build: Builder, options: dict[str, Any], old: World, fresh: World) -> Tensor:
    """Misses `(redraws, new)`, one redraw after another."""
    found = []
    for place, (z, y, x, label) in enumerate(zip(*old[:2], *fresh[:2], strict=True)):
        own = {**options, "seed": 1000 * options["seed"] + place}
        found.append(~build(z, y, **own)(x).gather(1, label[:, None])[:, 0])
    return torch.stack(found)


def _world(shape: tuple[int, int], draw: torch.Generator) -> World:
    """Logits, labels and groups of independent samples; the last group is the hardest."""
    logits = 2.0 * torch.randn(*shape, CLASSES, generator=draw, dtype=torch.float64)
    groups = torch.randint(len(SURE), shape, generator=draw)
    sure = torch.tensor(SURE, dtype=torch.float64)[groups][..., None]
    probs = (sure * logits).softmax(-1).flatten(0, 1)
    return logits, torch.multinomial(probs, 1, generator=draw).view(shape), groups


def intervals(samples: int, redraws: int, new: int, seed: int = 0) -> Iterator[Row]:
    """Targets outside their intervals, where the noise is twice what the model says."""
    draw = torch.Generator().manual_seed(20_000 + 10_000 * seed + samples)
    builders: Mapping[str, Builder] = {
        "residual": conformal.residual,
        "normalized": conformal.normalized,
        "quantile": conformal.quantile,
    }
    found: dict[str, list[Tensor]] = {name: [] for name in builders}
    for rows in _blocks(samples, redraws):
        (old, targets, of), (fresh, wanted, fresh_of) = (
            _line((rows, count), draw) for count in (samples, new)
        )
        for name, build in builders.items():
            fitted = build(old, targets, miscoverage=MISCOVERAGE, by=of)
            low, high = fitted(fresh, fresh_of)
            found[name].append(~((low <= wanted) & (wanted <= high)).view(rows, new))
    for name, parts in found.items():
        missed = torch.cat(parts).numpy()
        yield judge(f"intervals: {name}", samples, MISCOVERAGE, missed, "law")


def _line(shape: tuple[int, int], draw: torch.Generator) -> tuple[nescio.Gaussian, Tensor, Tensor]:
    """Predictions about a line, targets, and the number of the redraw of each sample."""
    x, noise = torch.randn(2, *shape, generator=draw, dtype=torch.float64).view(2, -1, 1)
    spread = 0.5 + x.abs()
    said = nescio.Gaussian(x[None], (0.5 * spread)[None].square())
    return said, x + spread * noise, _redraw(torch.empty(shape)).flatten()


def selective_risk(samples: int, redraws: int, new: int, seed: int = 0) -> Iterator[Row]:
    """Redraws in which the error rate of the answered inputs is above the wish.

    Scores are uniform and errors come with probability 0.3 u^2, so that the error rate up to a
    threshold t is 0.1 t^2.
    """
    from nescio.guards import largest_coverage

    del new  # the risk is known

    rng, risk, confidence = np.random.default_rng((seed, 3, samples)), 0.02, 0.95
    broken = np.zeros((redraws, 1), bool)
    for redraw in range(redraws):
        score = rng.random(samples)
        wrong = rng.random(samples) < 0.3 * score**2
        found = largest_coverage(score, wrong, risk=risk, confidence=confidence)
        broken[redraw] = 0.1 * max(0.0, min(1.0, found.threshold)) ** 2 > risk
    yield judge("risk of what is answered", samples, 1 - confidence, broken, "bound")


def guarded(samples: int, redraws: int, new: int, seed: int = 0) -> Iterator[Row]:
    """Alarms and risk of a guard's rule, whose limit and threshold come from the same samples.

    Scores s and doubts u are uniform and errors come with probability 0.2 s u: those up to a limit
    a and a threshold b have the error rate 0.05 a b.
    """
    from nescio.guards.decisions import CODES
    from nescio.guards.rules import Scored, fit_rule

    draw = torch.Generator().manual_seed(30_000 + 10_000 * seed + samples)
    wish: dict[str, Any] = {"false_alarm": 0.05, "risk": 0.03, "confidence": 0.95}

    def world(count: int) -> Scored:
        score, failure_score, chance = torch.rand(3, count, generator=draw, dtype=torch.float64)
        return Scored(score, failure_score, chance < 0.2 * score * failure_score)

    alarms, broken = np.zeros((redraws, new), bool), np.zeros((redraws, 1), bool)
    for redraw in range(redraws):
        rule = fit_rule("", world(samples), **wish)
        fresh = world(new)
        alarms[redraw] = rule.read(fresh.score, fresh.failure_score)[1] == CODES["p-value"]
        answered = max(0.0, min(1.0, rule.coverage.threshold))
        broken[redraw] = 0.05 * rule.limit * answered > wish["risk"]
    yield judge("false alarms of a guard", samples, wish["false_alarm"], alarms, "law")
    yield judge("risk of a guard", samples, 1 - wish["confidence"], broken, "bound")


def _blocks(samples: int, redraws: int) -> Iterator[int]:
    """How many redraws to take at a time."""
    step = max(1, BLOCK // samples)
    yield from (min(step, redraws - first) for first in range(0, redraws, step))


def _redraw(like: Tensor) -> Tensor:
    """The number of its row for each entry."""
    return torch.arange(len(like))[:, None].expand(like.shape)


def table(rows: Sequence[Row]) -> str:
    """Promise, size, allowed, rate, tests."""
    lines = [
        "| promise | calibration samples | allowed | came | binomial p | law p | verdict |",
        "|---|---|---|---|---|---|---|",
    ]
    largest = max(row.samples for row in rows)
    for row in rows:
        law = "-" if row.law is None else f"{row.law:.2g}"
        lines.append(
            f"| {row.guarantee} | {row.samples:,} | {row.allowed:g} | {row.rate:.4f} | "
            f"{row.binomial:.2g} | {law} | {row.fails(largest) or 'kept'} |"
        )
    return "\n".join(lines)


def simulate(sizes: Sequence[int], redraws: int, new: int) -> Iterator[Row]:
    """All promises, one after another."""
    for part in (false_alarms, batches, selective_risk, guarded, sets, intervals):
        for samples in sizes:
            yield from part(samples, redraws, new)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.validity", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few redraws, to see that all works")
    parser.add_argument("--output", type=Path, help="folder for validity.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    started, rows = time.perf_counter(), []
    sizes, redraws = ((200, 1000), 200) if options.quick else (SIZES, REDRAWS)
    for row in simulate(sizes, redraws, NEW):
        rows.append(row)
        print(table([row]).splitlines()[-1], file=sys.stderr, flush=True)
    print(table(rows))
    folder = options.output or (None if options.quick else ROOT / "docs")
    if folder is not None:
        content = {
            "date": datetime.date.today().isoformat(),
            "machine": machine(),
            "redraws": redraws,
            "seconds": round(time.perf_counter() - started),
            "rows": [{**asdict(row), "fails": row.fails(max(sizes))} for row in rows],
        }
        write_json(folder / "validity.json", content)
    if broken := [row for row in rows if row.fails(max(sizes))]:
        sys.exit(f"{len(broken)} of {len(rows)} promises failed")


if __name__ == "__main__":
    main()
