"""Off the data: the spread of a regression on OOD sets, along rays and under attack."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nescio import data, metrics
from nescio.attacks import pgd
from nescio.core import (
    DataSet,
    Inputs,
    NescioError,
    NotFiniteError,
    Regression,
    answer,
    generator,
)
from nescio.data.ranges import Units, near, units_of
from nescio.evaluation.audit.findings import Separation
from nescio.evaluation.audit.ood_section import has_range
from nescio.evaluation.regression.regression_findings import (
    DETECTOR,
    ErrorAttack,
    Spread,
    SpreadAlongRay,
    SpreadOnSet,
    UnderAttack,
)
from nescio.evaluation.regression.regression_quality import CENTRAL, Scale, predicted
from nescio.models import Predictor

ADVERSARIAL = "attacked test samples"
NOTHING = Spread(deviation=None, distance=None)
Scores = dict[str, NDArray[Any]]
Extra = Callable[[Any], NDArray[Any]] | None  # inputs to the scores of a detector


@dataclass(frozen=True, eq=False)
class Told:
    """What is stored of predictions for any inputs: measures `(N,)`, and two medians.

    Where predictions are not finite, as far from the data, the medians are None, and only a
    detector has scores.
    """

    spread: Spread
    scores: Scores


Look = Callable[..., Told]  # inputs, and whether a detector reads them too


def told(prediction: Regression, scale: Scale, extra: NDArray[Any] | None = None) -> Told:
    """The measures of a regression, larger where it is less certain; `extra`: a detector's."""
    parts = {
        "total_variance": prediction.mixture_variance,
        "aleatoric_variance": prediction.aleatoric,
        "epistemic_variance": prediction.epistemic,
    }
    scores = {name: scale.spread(part).square().numpy() for name, part in parts.items()}
    if extra is not None:
        scores[DETECTOR] = extra
    far = scale.distance(prediction.mixture_mean - scale.mean)
    spread = np.sqrt(scores["total_variance"])
    return Told(Spread(deviation=float(np.median(spread)), distance=far.median().item()), scores)


def against(own: Told, other: Told) -> SpreadOnSet:
    """The medians on an OOD set, and how well each measure tells it from the test data."""
    measures = {}
    for name, score in other.scores.items():
        ranking = metrics.rank(own.scores[name], score)
        measures[name] = Separation(
            auroc=ranking.auroc, aupr=ranking.aupr, fpr_at_95_tpr=ranking.fpr_at_tpr(0.95)
        )
    return SpreadOnSet(**vars(other.spread), measures=measures)


def along_ray(
    look: Look,
    x: Tensor,
    own: Told,
    alphas: Sequence[float],
    tick: Callable[[], None] = lambda: None,
) -> tuple[SpreadAlongRay, SpreadOnSet]:
    """Medians and separation along alpha * x, and of the last alpha with the detector too."""
    shift = data.scaling()
    seen = []
    for alpha in alphas:
        seen.append(look(shift(x, alpha), alpha == alphas[-1]))
        tick()
    names = [name for name in own.scores if name != DETECTOR]
    areas = [{n: _area(own.scores[n], one.scores.get(n)) for n in names} for one in seen]
    found = SpreadAlongRay(
        alpha=tuple(alphas),
        deviation=tuple(one.spread.deviation for one in seen),
        distance=tuple(one.spread.distance for one in seen),
        auroc={name: tuple(area[name] for area in areas) for name in names},
    )
    return found, against(own, seen[-1])


def _area(own: NDArray[Any], other: NDArray[Any] | None) -> float | None:
    return None if other is None else metrics.auroc(own, other)


@dataclass(frozen=True, eq=False, kw_only=True)
class AttackOnMeans:
    """Test samples, which gradient ascent on the error moves, in units of the data's range."""

    data: DataSet
    x: Tensor
    y: Tensor
    units: Units
    options: dict[str, Any]

    def on(self, predictor: Predictor, scale: Scale) -> ErrorAttack:
        """What becomes of errors, intervals and spread within the radius."""

        def objective(shares: Tensor, y: Tensor) -> Tensor:
            found = answer(predictor, self.units.inputs(shares))
            assert isinstance(found, Regression)
            unit = scale.deviation.to(found.mean)
            return ((found.mixture_mean - y.to(found.mean)) / unit).square().mean(-1)

        try:
            start = self.units.shares(self.x)
            room: dict[str, Any] = {
                "low": min(0.0, start.min().item()),
                "high": max(1.0, start.max().item()),
            }
            found = pgd(objective, start, self.y, **room, **self.options)
        except NescioError as error:
            return ErrorAttack(skipped=str(error))
        before, after = (predicted(predictor, x) for x in (self.x, self.units.inputs(found.x)))
        scores = [told(one, scale).scores["total_variance"] for one in (before, after)]
        return ErrorAttack(
            samples=len(self.x),
            before=_attacked(before, self.y, scale),
            after=_attacked(after, self.y, scale),
            auroc=metrics.auroc(*scores),
            blind=found.blind.double().mean().item(),
        )


def _attacked(prediction: Regression, y: Tensor, scale: Scale) -> UnderAttack:
    held = np.abs(2 * metrics.pit(prediction, y) - 1) <= CENTRAL
    error = scale.distance(y - prediction.mixture_mean)
    return UnderAttack(
        error=error.square().mean().sqrt().item(),
        deviation=told(prediction, scale).spread.deviation or 0.0,
        coverage=float(held.mean()),
    )


def attack_on_means(
    pair: tuple[Tensor, Tensor],
    known: Tensor,
    steps: int,
    radius: float | None,
    *,
    count: int,
    seed: int,
) -> AttackOnMeans | None:
    """The attack on some test samples, drawn; none without steps, and on tokens."""
    x, y = pair
    if not steps or not has_range(x):
        return None
    rows = torch.randperm(len(x), generator=generator(seed, "attacked"))[:count].sort().values
    reach = near(radius, known)
    how = f"radius {reach:g}, {steps} step{'s' if steps > 1 else ''}"
    where = DataSet(name=ADVERSARIAL, kind="adversarial", samples=len(rows), description=how)
    options = {"radius": reach, "steps": steps, "seed": seed}
    return AttackOnMeans(data=where, x=x[rows], y=y[rows], units=units_of(known), options=options)


def _finite(function: Callable[[Any], Any], x: Inputs) -> Any:
    """What a function says of inputs; None where that is not finite."""
    try:
        return function(x)
    except NotFiniteError:
        return None


def look_with(predictor: Predictor, scale: Scale, extra: Extra) -> Look:
    """What tells the measures of inputs, with those of a detector where it is asked for."""

    def look(x: Inputs, detector: bool = True) -> Told:
        found = _finite(extra, x) if extra and detector else None
        prediction = _finite(partial(predicted, predictor), x)
        if prediction is not None:
            return told(prediction, scale, found)
        return Told(NOTHING, {} if found is None else {DETECTOR: found})

    return look
