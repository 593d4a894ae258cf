"""A predictor whose answers go through a calibration."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeAlias

import torch
from torch import Tensor, nn

from nescio.calibration.map import Apply, Map, State, as_classification, fit, fits, maps
from nescio.core import (
    Classification,
    Prediction,
    Saved,
    answer,
    as_targets,
    load,
    readers,
)
from nescio.core.files import MODEL
from nescio.core.registry import calibrators, predictors
from nescio.data import door
from nescio.models import Member, Predictor, networks, plain
from nescio.models.predictor import check_model, save_settings, settings_of

P = ParamSpec("P")
Fitted: TypeAlias = Callable[Concatenate[Classification, Tensor, P], State]
Calibrator: TypeAlias = Callable[Concatenate[Predictor | nn.Module, Any, P], "Calibrated"]


@dataclass(frozen=True, eq=False)
class Calibrated:
    """Answers of `inner`, calibrated by `map`."""

    inner: Predictor
    map: Map

    def networks(self) -> list[Member]:
        """Those of `inner` with scaled logits; temperature and Platt scaling only."""
        return [self._scaled(member) for member in networks(self.inner)]

    def _scaled(self, member: Member) -> Member:
        before = member.intercept or (0.0,) * self.map.classes
        shift = tuple(b * self.slope + s for b, s in zip(before, self.intercept, strict=True))
        return replace(member, slope=member.slope * self.slope, intercept=shift)

    @property
    def temperature(self) -> float:
        """What the logits are divided by."""
        return self.map.temperature

    @property
    def slope(self) -> float:
        """What the logits are multiplied by."""
        return self.map.slope

    @property
    def intercept(self) -> tuple[float, ...]:
        """What is added to the logits, one number per class."""
        return self.map.intercept

    def __call__(self, x: Any) -> Prediction:
        return self.map(self.inner(x))

    def answer(self, x: Tensor) -> Prediction:
        """The prediction in one go, with gradients with respect to the inputs."""
        return self.map(answer(self.inner, x))

    def save(self, folder: str | Path) -> Path:
        """Write the model, and beside it how it is sampled and calibrated."""
        model: Any = self.inner
        model.save(folder)
        about, state = self.map.manifest(), self.map.state
        return save_settings(folder, **settings_of(folder), calibration=about, state=state)


def map_of(predictor: Predictor) -> Map | None:
    """The calibration that the answers of a predictor go through, None where there is none."""
    found = getattr(predictor, "map", None)
    return found if isinstance(found, Map) else None


@readers.named("predictor")
def _read(saved: Saved, *, net: nn.Module | None = None) -> Predictor:
    """The predictor of the model beside the file."""
    check_model(saved.path, saved.manifest)
    model: Predictor = load(saved.path.with_name(MODEL), kind="model", net=net)
    sampler, about = saved.manifest["sampler"], saved.manifest["calibration"]
    if sampler is not None:
        model = predictors[sampler](model, **saved.manifest["sampling"])
    return model if about is None else Calibrated(model, Map.from_manifest(about, saved.tensors))


def calibration(apply: Apply) -> Callable[[Fitted[P]], Calibrator[P]]:
    """Register a function that fits a calibration, and how what it fits is applied.

    The public function of the same name and options takes a predictor and calibration data.
    """

    def register(fitted: Fitted[P]) -> Calibrator[P]:
        name: str = fitted.__name__

        @wraps(fitted)
        def build(
            predictor: Predictor | nn.Module, data: Any, *args: P.args, **options: P.kwargs
        ) -> Calibrated:
            del args  # all options are keywords
            return calibrated(name, predictor, data, **options)

        own = list(inspect.signature(fitted).parameters.values())[2:]
        first = list(inspect.signature(calibrated).parameters.values())[1:3]
        build.__signature__ = inspect.Signature([*first, *own])  # type: ignore[attr-defined]
        fits.named(name)(fitted)
        maps.named(name)(apply)
        return calibrators.register(build)  # type: ignore[return-value]

    return register


def calibrated(
    name: str, predictor: Predictor | nn.Module, data: Any, **options: Any
) -> Calibrated:
    """A predictor with the calibration of a name, fitted on calibration data."""
    predictor = plain(predictor) if isinstance(predictor, nn.Module) else predictor
    x, y = door.read(data, name="calibration data")
    prediction = as_classification(predictor(x))
    labels = as_targets(y, len(prediction), task="classification")
    return Calibrated(predictor, fit(name, prediction, labels, **options))


def scaled(predictor: Predictor, slope: float, intercept: tuple[float, ...]) -> Calibrated:
    """A predictor with member logits `slope * z + intercept`, numbers known beforehand."""
    numbers = {"weight": slope, "intercept": intercept}
    state = {name: torch.tensor(value, dtype=torch.float64) for name, value in numbers.items()}
    return Calibrated(predictor, Map(name="platt", options={}, state=state, classes=len(intercept)))
