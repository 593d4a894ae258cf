"""Guards recalibrated with the labels of a service, with and without the correction for sampling.

    python -m benchmarks.from_log --seeds 50

A guard is served while its inputs drift: 40 % are now of a kind that it calls OOD although the
network is right about them, and of its answers more are wrong than before. All that it refuses is
labeled, and 5 % of its answers. A new guard is made of these labels: from all of them, as they are,
and from the sample that `nescio.serving.log_calibration` draws. The risk of each is measured on
fresh inputs of the stream.
"""

import argparse
import io
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

import nescio
from nescio.core import RangeWarning
from nescio.serving.decision_log import DecisionLog, Entry, KeptInput, Label, open_log
from nescio.serving.log_calibration import kept_inputs, sample_of

RISK = 0.05  # that the new guard is to guarantee, with confidence 0.95
SAMPLE = 0.05  # share of answers that are reviewed
STREAM, FRESH = 8000, 50_000  # decisions, and inputs to test on


def network() -> nn.Module:
    """The log-odds of two Gaussians, with their means at -1 and 1 of the first number."""
    made = nn.Sequential(nn.Linear(2, 2))
    made.load_state_dict({"0.weight": torch.tensor([[-1.0, 0], [1, 0]]), "0.bias": torch.zeros(2)})
    return made


def near(draws: np.random.Generator, count: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Inputs as at the time of the first guard: two classes that overlap, 16 % errors."""
    y = draws.integers(0, 2, count)
    x = draws.normal(size=(count, 2)) + np.stack([2.0 * y - 1, 0 * y], axis=1)
    return x.astype(np.float32), y


def stream(draws: np.random.Generator, count: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Inputs as they are now: 40 % are far from what the first guard knew, and easy."""
    x, y = near(draws, count)
    far = draws.random(count) < 0.4
    x[far] = np.stack([6.0 * (2 * y[far] - 1), np.full(far.sum(), 10.0)], axis=1)
    x[far] += draws.normal(size=(int(far.sum()), 2)) * 0.5
    return x.astype(np.float32), y


def first_guard() -> nescio.Guard:
    """The guard that is served: it answers where at most 20 % are wrong, which is nearly always."""
    draws = np.random.default_rng(0)
    train, calibration = near(draws, 500), near(draws, 2000)
    made: nescio.Guard = nescio.guard(
        network(), calibration, train=train, risk=0.2, detector="mahalanobis"
    )
    return made


def served(seed: int, log: DecisionLog, first: nescio.Guard, count: int = STREAM) -> None:
    """Let a guard decide about the stream, and people label all that is in the queue."""
    draws = np.random.default_rng(1 + seed)
    x, y = stream(draws, count)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RangeWarning)  # it is the drift
        found = first(torch.as_tensor(x)).columns()
    answered = np.asarray(found["decision"]) == "answer"
    propensity = np.where(answered, SAMPLE, 1.0)
    picked = draws.random(count) < propensity
    log.register("g", "v", {"classes": ["0", "1"], "input": {"shape": [2], "columns": None}})
    log.write([
        entry(at, found, x[at], bool(picked[at]), float(propensity[at])) for at in range(count)
    ])  # fmt: skip
    log.add_labels([
        Label(decision=f"d{at}", reviewer="anna", kind="label", label=str(y[at]), time=0.0)
        for at in np.flatnonzero(picked)
    ])  # fmt: skip


def entry(at: int, found: object, x: NDArray[np.float32], picked: bool, propensity: float) -> Entry:
    """A decision as the service writes it."""
    assert isinstance(found, dict)
    file = io.BytesIO()
    np.save(file, x)
    return Entry(
        id=f"d{at}",
        time=float(at),
        replica="0",
        guard="g",
        version="v",
        digest="",
        decision=str(found["decision"][at]),
        label=str(found["label"][at]),
        probability=float(found["probability"][at]),
        p_value=float(found["p_value"][at]),
        score=float(found["score"][at]),
        failure_score=float(found["failure_score"][at]),
        rule="",
        in_range=True,
        set=None,
        more=None,
        picked=picked,
        propensity=propensity,
        kept=KeptInput("npy", file.getvalue()) if picked else None,
    )


def recalibrated(
    seed: int, ids: Sequence[str], labels: Sequence[str], log: DecisionLog
) -> tuple[float, float]:
    """The risk and the share of answers, on fresh inputs, of a guard made of labeled decisions."""
    draws = np.random.default_rng(1000 + seed)
    kept = kept_inputs(log, ids)
    x = np.stack([np.load(io.BytesIO(one.body)) for one in kept])
    y = np.array([int(one) for one in labels])
    train = stream(draws, 500)
    made = nescio.guard(network(), (x, y), train=train, risk=RISK, detector="mahalanobis")
    fresh, truth = stream(draws, FRESH)
    found = made(torch.as_tensor(fresh)).summary(torch.as_tensor(truth))
    return float(found["risk"] or 0.0), float(found["answer"])


def both(
    seed: int, folder: Path, first: nescio.Guard, count: int = STREAM
) -> dict[str, tuple[float, float]]:
    """The two guards of one stream: of the sample, and of all labels as they are."""
    with open_log(folder / f"{seed}.db") as log:
        served(seed, log, first, count)
        sample = sample_of(log, seed=seed)
        everything = [one for _, one in log.labels()]
        ids, labels = [one.decision for one in everything], [str(one.label) for one in everything]
        return {
            "sample": recalibrated(seed, sample.ids, sample.labels, log),
            "all labels": recalibrated(seed, ids, labels, log),
        }


def main() -> None:
    """Print how often each guard keeps its promise."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seeds", type=int, default=50)
    seeds = parser.parse_args().seeds
    with tempfile.TemporaryDirectory() as folder:
        first = first_guard()
        found = [both(seed, Path(folder), first) for seed in range(seeds)]
    print(f"risk to keep: {RISK:.0%}, with confidence 95 %; {seeds} streams of {STREAM}")
    for name in found[0]:
        risks = np.array([one[name][0] for one in found])
        answers = np.array([one[name][1] for one in found])
        print(
            f"{name:<12} kept in {np.mean(risks <= RISK):.0%} of streams; mean risk "
            f"{risks.mean():.2%}, largest {risks.max():.2%}; {answers.mean():.0%} answered"
        )


if __name__ == "__main__":
    main()
