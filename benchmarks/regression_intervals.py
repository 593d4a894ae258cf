"""Prediction intervals on UCI sets: `python -m benchmarks.regression_intervals [--sets NAME ...]`.

The standard splits of each set; of the training rows of a split a quarter calibrates, the rest
trains an ensemble of five Gaussian networks. All splits and members of a set train in one stack.
Every method gets the same predictions, calibration rows and test rows; crepes and MAPIE take part
where they are installed.

Coverage: given the number n of calibration rows, the misses among m test rows of a split follow a
beta-binomial law (where scores do not tie) with mean 1 - ceil((n + 1)(1 - a)) / (n + 1). `z` is how
many standard deviations the coverage over all splits is from its mean, if splits were independent;
they share rows, so this is a guide. Widths are in standard deviations of the targets.
"""

import argparse
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import nescio
from benchmarks.timing import ROOT, machine
from nescio import conformal, heads, losses, nets
from nescio.core import Regression, generator, write_json
from nescio_papers.data.uci import uci_splits

SETS = (
    "bostonHousing",
    "concrete",
    "energy",
    "naval-propulsion-plant",
    "power-plant",
    "protein-tertiary-structure",
    "wine-quality-red",
)
MEMBERS, EPOCHS, CALIBRATING = 5, 40, 0.25
OURS = "ours (default)"
Floats = NDArray[np.float64]
Ends = tuple[Floats, Floats]


@dataclass(frozen=True, eq=False, kw_only=True)
class Case:
    """One split: what the ensemble says about calibration and test rows."""

    noise: float  # RMSE on the training rows
    old: Regression
    old_y: Tensor
    new: Regression
    new_y: Tensor
    scale: float  # standard deviation of all targets
    seed: int


Method = Callable[[Case, float], Ends]


def ours(name: str, **options: Any) -> Method:
    """A kind of nescio's."""

    def ends(case: Case, miscoverage: float) -> Ends:
        own = {"noise": case.noise} if name == "spread" else options
        made = getattr(conformal, name)(case.old, case.old_y, miscoverage=miscoverage, **own)
        return _ends(made(case.new))

    return ends


def default(case: Case, miscoverage: float) -> Ends:
    """What a guard takes where nothing is named."""
    return _ends(chosen(case, miscoverage)(case.new))


def chosen(case: Case, miscoverage: float) -> conformal.Intervals:
    """The narrowest kind on a part of the calibration rows, calibrated on the others."""
    options: Any = {"miscoverage": miscoverage, "seed": case.seed}
    return conformal.narrowest(case.old, case.old_y, **options)


def crepes(*, normalized: bool) -> Method:
    """A conformal regressor of crepes, with the predicted deviations as difficulties."""

    def ends(case: Case, miscoverage: float) -> Ends:
        from crepes import ConformalRegressor

        sigmas = _deviation(case.old) if normalized else None
        made = ConformalRegressor().fit(_mean(case.old) - case.old_y[:, 0].numpy(), sigmas)
        new = _deviation(case.new) if normalized else None
        options = {"y_hat": _mean(case.new), "sigmas": new, "confidence": 1 - miscoverage}
        found = made.predict_int(**options)
        return found[:, 0], found[:, 1]

    return ends


def mapie(case: Case, miscoverage: float) -> Ends:
    """Split conformal prediction of MAPIE with absolute residuals."""
    SplitConformalRegressor: Any = import_module("mapie.regression").SplitConformalRegressor
    level = 1 - miscoverage
    rows = np.arange(len(case.old) + len(case.new))[:, None]
    means = np.concatenate([_mean(case.old), _mean(case.new)])
    made = SplitConformalRegressor(_Known(means), confidence_level=level, prefit=True)
    made.conformalize(rows[: len(case.old)], case.old_y[:, 0].numpy())
    _, found = made.predict_interval(rows[len(case.old) :])
    return found[:, 0, 0], found[:, 1, 0]


class _Known:
    """An estimator, as scikit-learn has them, that knows the predictions of all rows."""

    def __init__(self, means: Floats) -> None:
        self.means, self.fitted_ = means, True

    def fit(self, *_: Any) -> "_Known":
        return self

    def predict(self, rows: NDArray[np.int64]) -> Floats:
        return np.asarray(self.means[rows[:, 0]])


METHODS: Mapping[str, Method] = {
    OURS: default,
    "ours, normalized": ours("normalized"),
    "ours, residual": ours("residual"),
    "ours, quantile": ours("quantile"),
    "ours, spread": ours("spread"),
    "crepes, standard": crepes(normalized=False),
    "crepes, normalized": crepes(normalized=True),
    "MAPIE, absolute": mapie,
}


def _ends(found: tuple[Tensor, Tensor]) -> Ends:
    low, high = (end[:, 0].numpy() for end in found)
    return low, high


def _mean(said: Regression) -> Floats:
    return np.asarray(said.mixture_mean[:, 0].numpy(), dtype=np.float64)


def _deviation(said: Regression) -> Floats:
    return np.asarray(said.mixture_variance[:, 0].sqrt().numpy(), dtype=np.float64)


def cases(name: str, *, epochs: int, splits: int | None) -> list[Case]:
    """Ensembles of all splits, trained in one stack, on their calibration and test rows."""
    table = uci_splits(name, only=None if splits is None else range(splits))
    x, y = table.x.float(), table.y.float().reshape(len(table.x), -1)
    parts = []
    for split, (train, test) in enumerate(table.rows):
        order = train[torch.randperm(len(train), generator=generator(split, "calibration rows"))]
        count = round(CALIBRATING * len(train))
        parts.append((order[count:], order[:count], test))
    rows = [fit for fit, _, _ in parts for _ in range(MEMBERS)]
    model = nescio.train(
        lambda: nets.mlp(x.shape[1], 2, widths=(50,)),
        (x, y),
        loss=losses.nll(heads.gaussian()),
        members=len(rows),
        rows=rows,
        epochs=epochs,
        batch_size=32,
        learning_rate=0.01,
        standardize=True,
        standardize_targets=True,
        progress=False,
    )
    found = []
    for split, (fit, old, new) in enumerate(parts):
        own = model.choose(range(split * MEMBERS, (split + 1) * MEMBERS))
        said = {"fit": own(x[fit]), "old": own(x[old]), "new": own(x[new])}
        wide = {part: one.to(torch.float64) for part, one in said.items()}
        noise = nescio.metrics.rmse(wide["fit"], y[fit])
        data: Any = {"old": wide["old"], "old_y": y[old].double()}
        data |= {"new": wide["new"], "new_y": y[new].double()}
        found.append(Case(**data, noise=noise, scale=float(y.std()), seed=split))
    return found


def measured(tried: list[Case], method: Method, miscoverage: float) -> dict[str, float]:
    """Coverage and width over all splits, and how far the coverage is from its law."""
    covered, widths, total, mean, variance = 0, [], 0, 0.0, 0.0
    for case in tried:
        low, high = method(case, miscoverage)
        y = case.new_y[:, 0].numpy()
        slack = 1e-9 * case.scale  # others round their ends
        covered += int(((low - slack <= y) & (y <= high + slack)).sum())
        widths.append(float(np.mean(high - low)) / case.scale)
        n, m = len(case.old_y), len(y)
        if method is default:  # the others chose the kind
            n = chosen(case, miscoverage).options["samples"]
        rank = min(math.ceil((n + 1) * (1 - miscoverage)), n)
        a, b = rank, n + 1 - rank  # coverage of one calibration set: Beta(a, b)
        total, mean = total + m, mean + m * a / (a + b)
        variance += m * a * b * (a + b + m) / ((a + b) ** 2 * (a + b + 1))
    return {
        "coverage": covered / total,
        "expected": mean / total,
        "z": (covered - mean) / math.sqrt(variance),
        "width": float(np.mean(widths)),
    }


def main() -> None:
    """Print a table per set, and write docs/regression-intervals.json after a full run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--miscoverage", type=float, default=0.1)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--splits", type=int, default=None)
    parser.add_argument("--save", action="store_true", help="write docs/regression-intervals.json")
    options = parser.parse_args()
    found: dict[str, Any] = {}
    for name in options.sets:
        tried = cases(name, epochs=options.epochs, splits=options.splits)
        found[name] = {}
        for title, method in METHODS.items():
            try:
                found[name][title] = measured(tried, method, options.miscoverage)
            except ImportError as error:
                print(f"{title}: not installed ({error})")
        _print(name, tried, found[name])
    if options.save:
        about = {**vars(options), "machine": machine()}
        write_json(ROOT / "docs" / "regression-intervals.json", {"about": about, "sets": found})


def _print(name: str, tried: list[Case], rows: Mapping[str, Mapping[str, float]]) -> None:
    best = min(row["width"] for row in rows.values())
    old, new = len(tried[0].old_y), len(tried[0].new_y)
    print(f"\n{name}: {len(tried)} splits, {old} calibration and {new} test rows each")
    print(f"{'method':<20} {'coverage':>9} {'law':>7} {'z':>6} {'width':>7} {'of best':>8}")
    for title, row in rows.items():
        numbers = f"{row['coverage']:9.4f} {row['expected']:7.4f} {row['z']:6.2f}"
        print(f"{title:<20} {numbers} {row['width']:7.3f} {row['width'] / best:8.3f}")


if __name__ == "__main__":
    main()
