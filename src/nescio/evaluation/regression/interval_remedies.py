"""What would help a regression: intervals calibrated on other samples, the guard, other networks.

All numbers are of 90 % intervals on samples that fitted nothing; lengths are in units of the
standard deviation of the test targets.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from nescio import conformal, metrics
from nescio.conformal import binomial_interval
from nescio.core import NescioError, Regression
from nescio.evaluation.audit.remedies_section import (
    RESAMPLES,
    Gain,
    Remedies,
    TriedRemedy,
)
from nescio.evaluation.audit.sections import NUMBERS, Material, section
from nescio.evaluation.regression.regression_quality import predicted, scale_of
from nescio.evaluation.regression.spread_section import METHODS
from nescio.models import ensemble

HELD = 0.9  # of the targets that intervals should hold
OFF, SCORE, RMSE = "coverage off 90 %", "interval score", "RMSE"  # of all of them, less is better
Array = NDArray[Any]


@section("interval remedies", title="What would help the intervals", place=28, tasks=(NUMBERS,))
def interval_remedies(material: Material) -> Remedies:
    """Conformal intervals, the guard, other predictors and their ensemble, on other samples."""
    trial = _Trial(material)
    others = list(material.predictors)[1:]
    tried: dict[str, Callable[[], TriedRemedy]] = {
        **{f"{name} intervals": partial(trial.conformal, name) for name in METHODS},
        "guard": trial.guard,
        "ensemble": trial.together,
        **{name: partial(trial.instead, name) for name in others},
    }
    found, missing = [], {}
    for name, make in tried.items():
        try:
            found.append(make())
        except NescioError as error:
            missing[name] = str(error)
    return Remedies(remedies=tuple(found), not_tried=missing)


@dataclass(frozen=True, eq=False)
class _Told:
    """What a predictor says about the samples that measure: one row each."""

    missed: Array  # the share of its targets outside their intervals
    score: Array
    squared: Array  # mean squared error over targets

    def numbers(self) -> dict[str, tuple[Callable[..., float], tuple[Array, ...]]]:
        """The function of each measure, and what it reads."""
        return {OFF: (_off, (self.missed,)), SCORE: (_mean, (self.score,)),
                RMSE: (_root, (self.squared,))}  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Trial:
    """Remedies for the first predictor."""

    material: Material

    @cached_property
    def y(self) -> Tensor:
        return self.material.held.measured[1].cpu().double()

    @cached_property
    def now(self) -> Regression:
        """What the first predictor says."""
        rows = self.material.held.rows.cpu()
        assert isinstance(self.material.prediction, Regression)
        found = self.material.prediction[rows]
        assert isinstance(found, Regression)
        return found

    def told(self, prediction: Regression, low: Tensor, high: Tensor) -> _Told:
        unit, y = scale_of(self.y).deviation, self.y
        low, high = low.cpu().double(), high.cpu().double()
        if not (low.isfinite().all() and high.isfinite().all()):
            raise NescioError("too few samples fit it: intervals are infinite")
        missed = ((y < low) | (y > high)).double().mean(-1)
        score = metrics.interval_values(low / unit, high / unit, y / unit, 1 - HELD).mean(-1)
        squared = ((prediction.mixture_mean.cpu().double() - y) / unit).square().mean(-1)
        return _Told(missed.numpy(), score.numpy(), squared.numpy())

    def own(self, prediction: Regression) -> _Told:
        """With the intervals that a predictor has by itself."""
        tail = (1 - HELD) / 2
        return self.told(prediction, prediction.quantile(tail), prediction.quantile(1 - tail))

    def gains(self, then: _Told, *of: str) -> dict[str, Gain]:
        before, after = self.own(self.now).numbers(), then.numbers()
        return {name: _gain(*before[name], after[name][1], self.material.seed) for name in of}

    def conformal(self, name: str) -> TriedRemedy:
        """Intervals calibrated on the samples that fit."""
        material = self.material
        assert material.predictor is not None
        x, y = material.held.fitting
        fitted = getattr(conformal, name)(predicted(material.predictor, x), y, miscoverage=1 - HELD)
        then = self.told(self.now, *fitted(self.now))
        how = f"conformal, calibrated on {len(y):,} samples, with a guaranteed coverage of 90 %"
        gains = self.gains(then, OFF, SCORE)
        return TriedRemedy(name=f"{name} intervals", how=how, samples=len(self.y), gains=gains)

    def guard(self) -> TriedRemedy:
        """The errors of its answers against all."""
        decisions = self.material.decisions
        if self.material.guard is None or decisions is None:
            raise NescioError("there is no guard here; its section says why")
        answered = decisions.answered.cpu().numpy()
        if not answered.any():
            raise NescioError("it answers none of the samples")
        squared = self.own(self.now).squared
        every = np.ones_like(answered)
        gain = _gain(_among, (squared, every), (squared, answered), self.material.seed)
        return TriedRemedy(
            name="guard",
            how="abstains where the intervals are wide or the input is OOD",
            samples=len(self.y),
            gains={RMSE: gain},
            coverage=binomial_interval(int(answered.sum()), len(answered)),
        )

    def together(self) -> TriedRemedy:
        """The mixture of all predictors that were given."""
        given = self.material.predictors
        if len(given) < 2:
            raise NescioError("one predictor was given; give several to try their mixture")
        how = f"the mixture of {', '.join(given)}"
        return self._asked("ensemble", how, ensemble(list(given.values())))

    def instead(self, name: str) -> TriedRemedy:
        """Another predictor in its place."""
        return self._asked(name, "in place of the first", self.material.predictors[name])

    def _asked(self, name: str, how: str, predictor: Any) -> TriedRemedy:
        told = self.own(predicted(predictor, self.material.held.measured[0]))
        gains = self.gains(told, OFF, SCORE, RMSE)
        return TriedRemedy(name=name, how=how, samples=len(self.y), gains=gains)


def _gain(
    metric: Callable[..., float], now: tuple[Array, ...], then: tuple[Array, ...], seed: int
) -> Gain:
    found = metrics.metric_test(metric, then, now, resamples=RESAMPLES, seed=seed)
    ends: Any = {"change": found.value, "low": found.low, "high": found.high}
    return Gain(now=metric(*now), then=metric(*then), **ends)


def _off(missed: Array) -> float:
    """How far the share of targets that intervals hold is from the wish."""
    return abs(1 - float(missed.mean()) - HELD)


def _mean(values: Array) -> float:
    return float(values.mean())


def _root(squared: Array) -> float:
    return float(np.sqrt(squared.mean()))


def _among(squared: Array, chosen: Array) -> float:
    """The root mean squared error of the chosen samples; 0 where a resample has none."""
    return _root(squared[chosen]) if chosen.any() else 0.0
