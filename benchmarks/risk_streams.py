"""Whether bounds on the risk hold at all times, and how many labels they need.

`python -m benchmarks.risk_streams` draws 500 streams of 4,000 answers of each of ten kinds:
probabilities that are calibrated, too confident, not confident enough or unrelated to the errors,
errors that become more, come late, wait for a stretch without labels, or are as many as allowed;
and a small budget. A bound is wrong if it was at any of the 4,000 times, for the share of errors so
far. Then it counts labels until the upper bound reaches 2 %: of answers of networks on MNIST that a
guard lets through, drawn with replacement, and of simulated ones; beside labels drawn uniformly
with the same bound, without the probabilities and with them. A full run writes
docs/risk_streams.json.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import beta
from torch import nn

import nescio
from benchmarks.recorded_rows import record
from nescio.monitoring import propensities, risk_monitor
from nescio.monitoring.betting_sums import STAKES, log_capital, running
from nescio.monitoring.label_budget import FLOOR

Floats = NDArray[np.float64]
Rng = np.random.Generator
Answers = tuple[Floats, Floats]  # said and true probabilities of an error
RISK, CONFIDENCE, BUDGET, LENGTH, LONGEST = 0.02, 0.95, 0.05, 4_000, 160_000


def skewed(rng: Rng, n: int, risk: float = 0.01) -> Floats:
    """Most answers almost certain, one in 20 not."""
    g = np.where(rng.random(n) < 0.05, 0.6 * rng.beta(1, 3, n), rng.beta(0.3, 300, n))
    return np.clip(g * risk / 0.0085, 0, 0.9)


def mild(rng: Rng, n: int, risk: float = 0.01) -> Floats:
    """All answers about as certain."""
    return rng.beta(1, 1 / risk - 1, n)


def same(true: Floats) -> Answers:
    return true, true


KINDS: dict[str, Callable[[Rng, int], Answers]] = {
    "calibrated, few uncertain": lambda rng, n: same(skewed(rng, n)),
    "calibrated, all alike": lambda rng, n: same(mild(rng, n)),
    "as many errors as allowed": lambda rng, n: (skewed(rng, n), np.full(n, RISK)),
    "too confident, tenfold": lambda rng, n: (lambda g: (g / 10, g))(skewed(rng, n)),
    "not confident enough, fivefold": lambda rng, n: (
        lambda g: (np.minimum(5 * g, 0.9), g))(skewed(rng, n)),
    "unrelated to the errors": lambda rng, n: (skewed(rng, n), skewed(rng, n)),
    "errors become more": lambda rng, n: (skewed(rng, n), np.linspace(0.002, 0.06, n)),
    "errors come late": lambda rng, n: (
        skewed(rng, n, 0.002), np.where(np.arange(n) < 0.8 * n, 0.0, 0.2)),
}  # fmt: skip


ALLOWED = tuple(KINDS)[:6]  # where the risk of every answer, given the past, is at most 2 %


def waiting(n: int, drawn: NDArray[np.bool_]) -> Floats:
    """Errors that come where the last 30 answers were not labeled, and then in every fourth."""
    last = np.maximum.accumulate(np.where(drawn, np.arange(n), -1))
    before = np.append(-1, last[:-1])
    return np.where(np.arange(n) - before > 30, 0.25, 0.0)


def stream(rng: Rng, kind: str, n: int, budget: float) -> tuple[Any, ...]:
    """Said probabilities of an error, true ones, errors, draws and their probabilities."""
    adversary = kind == "errors wait for stretches without labels"
    said, true = (skewed(rng, n), np.empty(0)) if adversary else KINDS[kind](rng, n)
    q = propensities(1 - said, budget, risk=RISK)
    drawn = rng.random(n) < q
    true = waiting(n, drawn) if adversary else true
    return said, true, (rng.random(n) < true).astype(np.float64), drawn, q


def ever_wrong(
    said: Floats, e: Floats, drawn: Any, q: Floats, truths: Sequence[Floats], least: float
) -> list[bool]:
    """Whether the upper and the lower bound of each truth were ever wrong, by the formula."""
    g = np.minimum(said, q / (4 * least))
    gain, at = (e - g)[drawn] / q[drawn], np.cumsum(drawn)
    less, more, zero = STAKES * least, STAKES / (1 + 1 / (4 * least)), np.zeros(len(STAKES))
    upper = running(zero, np.log1p(-gain[:, None] * less))[at]
    lower = running(zero, np.log1p(gain[:, None] * more))[at]
    level, found = 1 - CONFIDENCE, []
    for truth in truths:
        excess = np.cumsum(truth - g)
        found.append(bool(log_capital(upper, less, excess).max() > -np.log(level)))
        found.append(bool(log_capital(lower, -more, excess).max() > -np.log(level / 2)))
    return found


def validity(streams: int) -> Iterator[dict[str, Any]]:
    """For each kind of stream: the share in which a bound was ever wrong, with its interval."""
    yield from (kind_row(place, streams) for place in range(len(KINDS) + 2))


def kind_row(place: int, streams: int) -> dict[str, Any]:
    """How often bounds were wrong in streams of one kind."""
    kinds = [(kind, BUDGET) for kind in (*KINDS, "errors wait for stretches without labels")]
    kind, budget = [*kinds, ("calibrated, few uncertain", 0.005)][place]
    rng, least = np.random.default_rng(place), budget * FLOOR
    wrong = np.zeros((5, streams), np.bool_)
    for run in range(streams):
        said, true, e, drawn, q = stream(rng, kind, LENGTH, budget)
        wrong[:4, run] = ever_wrong(said, e, drawn, q, (e, true), least)
        start = risk_monitor(risk=RISK, confidence=CONFIDENCE, least=least)
        wrong[4, run] = start.update(e, drawn, q, said).alarm is not None
    row: dict[str, Any] = {"stream": kind, "budget": budget, "streams": streams}
    names = ("upper_wrong", "lower_wrong", "upper_wrong_mean", "lower_wrong_mean", "alarms")
    for name, each in zip(names, wrong, strict=True):
        row |= {name: float(each.mean()), f"{name}_interval": interval(each)}
    return {**row, "risk_allowed": kind in ALLOWED}


def interval(hits: NDArray[np.bool_]) -> list[float]:
    """Clopper and Pearson, 95 %."""
    n, k = len(hits), int(hits.sum())
    low = 0.0 if k == 0 else float(beta.ppf(0.025, k, n - k + 1))
    return [low, 1.0 if k == n else float(beta.ppf(0.975, k + 1, n - k))]


def labels_needed(said: Floats, e: Floats, q: Floats, drawn: Any, least: float) -> float:
    """Labels until the upper bound is at most the risk; infinite if it never is."""
    g = np.minimum(said, q / (4 * least))
    gain, less = (e - g)[drawn] / q[drawn], STAKES * least
    logs = running(np.zeros(len(STAKES)), np.log1p(-gain[:, None] * less))[1:]
    excess = np.cumsum(RISK - g)[drawn]
    reached = np.flatnonzero(log_capital(logs, less, excess) >= -np.log(1 - CONFIDENCE))
    return float(reached[0] + 1) if len(reached) else np.inf


def economy(runs: int) -> Iterator[dict[str, Any]]:
    """Labels that are needed: drawn uniformly, uniformly with probabilities, and by the budget."""
    for name, (said_of, e_of) in answers_of_networks().items():
        rng = np.random.default_rng(0)
        found = np.empty((runs, 3))
        for run in range(runs):
            rows = rng.integers(len(said_of), size=LONGEST)
            said = said_of[rows]
            e = e_of[rows] if e_of is not None else (rng.random(LONGEST) < said).astype(float)
            even, q = np.full(LONGEST, BUDGET), propensities(1 - said, BUDGET, risk=RISK)
            alike, drawn = rng.random(LONGEST) < even, rng.random(LONGEST) < q
            found[run] = (
                labels_needed(0 * said, e, even, alike, BUDGET),
                labels_needed(said, e, even, alike, BUDGET),
                labels_needed(said, e, q, drawn, FLOOR * BUDGET),
            )
        errors = float((e_of if e_of is not None else said_of).mean())
        median = [float(one) for one in np.median(found, axis=0)]
        row: dict[str, Any] = {
            "answers": name,
            "errors": errors,
            "said": float(said_of.mean()),
            "runs": runs,
        }
        row |= {"uniform": median[0], "uniform_with_probabilities": median[1], "nescio": median[2]}
        yield {**row, "ratio": median[2] / median[0], "to_the_second": median[2] / median[1]}


def answers_of_networks() -> dict[str, tuple[Floats, Floats | None]]:
    """Probabilities of an error that are said, and the errors; None: they are calibrated."""
    rng = np.random.default_rng(1)
    result: dict[str, tuple[Floats, Floats | None]] = {}
    for risk in (0.005, 0.01, 0.014):
        result[f"simulated, few uncertain, {risk:.1%}"] = (skewed(rng, LONGEST, risk), None)
    result["simulated, all alike, 1.0%"] = (mild(rng, LONGEST), None)
    return result | {name: (said, wrong) for name, said, wrong in mnist((0.01, 0.015, 0.02))}


def networks() -> dict[str, tuple[nn.Module, int]]:
    """Networks for MNIST and how often they see the training digits."""
    convolutions = [nn.Conv2d(1, 8, 5), nn.ReLU(), nn.MaxPool2d(2)]
    convolutions += [nn.Conv2d(8, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    small = nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    lenet = nn.Sequential(*convolutions, nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 10))
    return {"two layers": (small, 4), "convolutions": (lenet, 2)}


def mnist(risks: Sequence[float]) -> Iterator[tuple[str, Floats, Floats]]:
    """Answers of guards on MNIST's test digits: names, said probabilities of an error, errors."""
    digits = nescio.data.load("mnist")
    parts: Any = (digits.train, digits.validation, digits.test)
    train, validation, test = ((x.float() / 255, y) for x, y in parts)
    torch.manual_seed(0)
    for name, (net, epochs) in networks().items():
        optimizer = torch.optim.Adam(net.parameters(), 1e-3)
        for _ in range(epochs):
            for rows in torch.randperm(len(train[0])).split(64):
                optimizer.zero_grad()
                nn.functional.cross_entropy(net(train[0][rows]), train[1][rows]).backward()
                optimizer.step()
        for risk in risks:
            decisions = nescio.guard(net.eval(), validation, train=train, risk=risk)(test[0])
            answered = decisions.decision == 0
            said = 1 - decisions.probability[answered].double().numpy()
            wrong = (decisions.label != test[1])[answered].double().numpy()
            yield f"MNIST, {name}, guard with risk {risk:.1%}", said, wrong


def parts(quick: bool) -> dict[str, Iterator[dict[str, Any]]]:
    """All rows; quick: of few runs."""
    runs, streams = (10, 20) if quick else (100, 500)
    return {"labels": economy(runs), "validity": validity(streams)}


if __name__ == "__main__":
    record("risk_streams", __doc__, parts)
