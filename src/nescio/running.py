"""A recipe on a data set, from names to a saved predictor: what `nescio train` does."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from nescio import data, heads
from nescio.data import Dataset
from nescio.errors import NescioError
from nescio.evaluate import as_classification, quality
from nescio.networks import factory_named
from nescio.prediction import Prediction, Regression
from nescio.predictors import Predictor
from nescio.recipes import Recipe, recipe_options
from nescio.registry import calibrators, nets, recipes
from nescio.saving import save_predictor
from nescio.training import train


@dataclass(frozen=True, eq=False)
class Done:
    """A finished run."""

    dataset: Dataset
    predictor: Predictor
    epochs: tuple[int, ...]  # trained, by member


def run_recipe(
    name: str,
    data_name: str,
    net_name: str | None,
    run: str | Path,
    settings: Mapping[str, str] | None = None,
    *,
    calibrate: str | None = None,
    seed: int = 0,
    **options: Any,
) -> Done:
    """Train a recipe on a data set, calibrate it if asked to, and save it in the run folder."""
    dataset = data.load(data_name)
    head = heads.categorical() if dataset.task == "classification" else heads.gaussian()
    recipe: Recipe = recipes[name](head, **read_settings(name, settings or {}))
    if calibrate is not None:
        calibrators[calibrate]
        if dataset.validation is None:
            raise NescioError(f"--calibrate needs validation data; {data_name} has none")
    model = train(
        _factory(net_name, dataset, recipe),
        dataset.train,
        loss=recipe.loss,
        members=recipe.members,
        validation=dataset.validation,
        seed=seed,
        run=run,
        **options,
    )
    predictor = recipe.predictor(model)
    if calibrate is not None:
        predictor = calibrators[calibrate](predictor, dataset.validation)
    save_predictor(predictor, model, run)
    epochs = model.history.stopped if model.history else ()
    return Done(dataset, predictor, epochs)


def read_settings(name: str, settings: Mapping[str, str]) -> dict[str, Any]:
    """Options of a recipe from text, as the numbers they are."""
    known = recipe_options(name)
    read = {}
    for key, text in settings.items():
        if key not in known:
            names = ", ".join(f"{k}={v}" for k, v in known.items()) or "none"
            raise NescioError(f"the recipe {name!r} has no option {key!r}; its options: {names}")
        try:
            read[key] = int(text) if isinstance(known[key], int) else float(text)
        except ValueError as error:
            raise NescioError(f"the option {key!r} must be a number, got {text!r}") from error
    return read


def _factory(name: str | None, dataset: Dataset, recipe: Recipe) -> Callable[[], nn.Module]:
    if name is not None and ":" in name:
        return factory_named(name)
    inputs = dataset.features if len(dataset.features) > 1 else dataset.features[0]
    if dataset.classes is not None:
        outputs = dataset.classes
    else:
        outputs = recipe.loss.head.width * dataset.train[1].shape[1]
    build = nets[name or "mlp"]
    return lambda: build(inputs, outputs, dropout=recipe.dropout)


def report(done: Done) -> str:
    """A few lines on how the predictor does on the test part."""
    part, name = (done.dataset.test, "test") if done.dataset.test else (done.dataset.train, "train")
    assert part is not None
    prediction = done.predictor(part[0])
    numbers = _numbers(prediction, part[1])
    lines = [f"{key:>22}  {value:.4f}" for key, value in numbers.items()]
    epochs = f"{prediction.members} member(s), epochs trained: {_range(done.epochs)}"
    return "\n".join([f"{done.dataset.name}, {len(part[0])} {name} cases; {epochs}", *lines])


def _numbers(prediction: Prediction, target: torch.Tensor) -> dict[str, float]:
    if isinstance(prediction, Regression):
        wide = prediction.to(torch.float64)
        error = (wide.mixture_mean - target).square().sum(-1).mean().sqrt().item()
        return {"nll": -wide.log_prob(target.double()).mean().item(), "rmse": error}
    return quality(as_classification(prediction), target)


def _range(epochs: tuple[int, ...]) -> str:
    low, high = min(epochs, default=0), max(epochs, default=0)
    return str(low) if low == high else f"{low} to {high}"
