"""Prediction sets against MAPIE and a few lines by hand: `python -m benchmarks.conformal_sets`.

Calibrate on half of the samples, give the sets of the other half; the sides take turns, and the
best of several rounds counts. By hand: the threshold sets in single precision, without any check.
MAPIE (`pip install mapie`) is left out where it is not installed. `--output FILE` writes JSON.
"""

import argparse
import json
import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.timing import THREADS, machine
from nescio import conformal

SIZES = ((100_000, 10), (50_000, 100))
KINDS = {"threshold": "lac", "adaptive": "aps"}  # MAPIE's names
ROUNDS, MISCOVERAGE = 7, 0.1


def world(samples: int, classes: int) -> tuple[Tensor, Tensor]:
    """Logits in single precision, and labels drawn from them."""
    rng = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(samples, classes, generator=rng)
    return logits, torch.multinomial(logits.softmax(1), 1, generator=rng)[:, 0]


def nescio_side(kind: str, logits: Tensor, labels: Tensor) -> Any:
    half = len(logits) // 2
    fitted = getattr(conformal, kind)(logits[:half], labels[:half], miscoverage=MISCOVERAGE)
    return fitted(logits[half:])


def by_hand(kind: str, logits: Tensor, labels: Tensor) -> Any:
    half = len(logits) // 2
    probs, rank = logits.softmax(1), int((half + 1) * (1 - MISCOVERAGE)) + 1
    if kind == "threshold":
        own = 1 - probs[:half].gather(1, labels[:half, None])[:, 0]
        return 1 - probs[half:] <= own.kthvalue(rank).values
    own = probs[:half].gather(1, labels[:half, None])
    limit = (probs[:half] * (probs[:half] > own)).sum(1).kthvalue(rank).values
    values, order = probs[half:].sort(dim=1, descending=True)
    before = values.cumsum(1) - values
    return torch.empty_like(before, dtype=torch.bool).scatter_(1, order, before <= limit)


def mapie_side(kind: str, logits: Tensor, labels: Tensor) -> Any:
    SplitConformalClassifier: Any = import_module("mapie.classification").SplitConformalClassifier

    class Softmax:
        """What scikit-learn wants of a classifier; the inputs are the logits."""

        def __init__(self) -> None:
            self.classes_ = np.arange(logits.shape[1])
            self.n_features_in_ = logits.shape[1]

        def fit(self, *_: Any) -> "Softmax":
            return self

        def predict_proba(self, x: Any) -> Any:
            return torch.as_tensor(np.asarray(x)).softmax(1).numpy()

        def predict(self, x: Any) -> Any:
            return np.asarray(x).argmax(1)

        def __sklearn_is_fitted__(self) -> bool:
            return True

        def __sklearn_tags__(self) -> Any:
            from sklearn.linear_model import LogisticRegression

            return LogisticRegression().__sklearn_tags__()

    half, x, y = len(logits) // 2, logits.numpy(), labels.numpy()
    model = SplitConformalClassifier(
        Softmax(), confidence_level=1 - MISCOVERAGE, conformity_score=KINDS[kind], prefit=True
    )
    model.conformalize(x[:half], y[:half])
    return torch.from_numpy(model.predict_set(x[half:])[1][:, :, 0])


def measured(sides: dict[str, Callable[..., Any]], kind: str, samples: int, classes: int) -> Any:
    """The best time of each side in milliseconds, its coverage and its mean size."""
    logits, labels = world(samples, classes)
    times: dict[str, list[float]] = {name: [] for name in sides}
    row: dict[str, Any] = {"kind": kind, "samples": samples, "classes": classes}
    for turn in range(ROUNDS):
        for name, side in sides.items():
            start = time.perf_counter()
            sets = side(kind, logits, labels)
            times[name].append(1e3 * (time.perf_counter() - start))
            if not turn:
                own = sets.gather(1, labels[samples // 2 :, None]).double().mean()
                size = sets.sum(1).double().mean()
                row[f"{name}_coverage"], row[f"{name}_size"] = float(own), float(size)
    row |= {f"{name}_ms": min(taken) for name, taken in times.items()}
    return row | {f"times_{n}": row["nescio_ms"] / row[f"{n}_ms"] for n in sides if n != "nescio"}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.conformal_sets")
    parser.add_argument("--output", type=Path, help="file for the numbers as JSON")
    parser.add_argument("--threads", type=int, default=THREADS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    sides: dict[str, Callable[..., Any]] = {"nescio": nescio_side, "hand": by_hand}
    if find_spec("mapie"):
        sides["mapie"] = mapie_side
    rows = [measured(sides, kind, *size) for kind in KINDS for size in SIZES]
    for row in rows:
        print({k: round(v, 3) if isinstance(v, float) else v for k, v in row.items()}, flush=True)
    if options.output:
        content = {"machine": machine(), "threads": options.threads, "rows": rows}
        options.output.write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
