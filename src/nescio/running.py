"""A recipe on a data set, from names to a saved predictor: what `nescio train` does."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from nescio import data, heads
from nescio.auditing import RAYS, Audit, audit
from nescio.calibration import Scaled, temperature
from nescio.checkpoints import digest
from nescio.data import Dataset
from nescio.data.npz import arrays_of
from nescio.errors import NescioError
from nescio.evaluate import quality, see
from nescio.loop import Pair
from nescio.model import Model
from nescio.networks import factory_named
from nescio.prediction import Prediction, Regression
from nescio.predictors import Predictor, mc_dropout
from nescio.recipes import Recipe, recipe_options
from nescio.registry import calibrators, nets, recipes
from nescio.saving import save_settings
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
    scaled = predictor if isinstance(predictor, Scaled) else None
    save_settings(run, sampler=recipe.sampler, sampling=recipe.sampling, scaled=scaled)
    epochs = model.history.stopped if model.history else ()
    return Done(dataset, predictor, epochs)


def audit_files(
    net: Any,
    data_name: str | None,
    *,
    train_path: str | None = None,
    validation_path: str | None = None,
    outside: Sequence[str] = (),
    passes: int | None = None,
    rays: int = RAYS,
    seed: int = 0,
    note: Callable[[str], None] = print,
) -> Audit:
    """Audit a network or predictor on files: what `nescio audit NETWORK` does."""
    if data_name is None:
        raise NescioError("say what to test on: --data test.npz (arrays x and y), or a data set")
    test = _test_part(net, data_name, note)
    named: dict[str, Any] = {"network": net}
    if validation_path is not None:
        named["temperature"] = temperature(net, _labelled(validation_path))
    if passes is not None:
        named["MC dropout"] = mc_dropout(net, passes=passes, seed=seed)
    others: dict[str, Any] = {}
    for text in outside:
        name, equals, path = text.partition("=")
        if not (equals and name) or name in others:
            raise NescioError(f"--outside takes NAME=FILE, each name once, got {text!r}")
        others[name] = inputs_named(path)
    train_data = _labelled(train_path) if train_path else None
    return audit(named, test, train=train_data, outside=others, rays=rays, seed=seed)


def _test_part(net: Any, name: str, note: Callable[[str], None]) -> Pair:
    """The labelled data of a name; only the test part where a run was trained on the rest."""
    model = net.predictor if isinstance(net, Scaled) else net
    trained_on = model.notes.get("data") if isinstance(model, Model) else None
    if name.endswith(".npz") and trained_on is not None and "x_test" not in arrays_of(name):
        dataset = data.load(name)
        if digest(*dataset.train) == trained_on and dataset.test is not None:
            note(f"the run was trained on {name}: only its {len(dataset.test[0])} test cases count")
            return dataset.test
    return _labelled(name)


def _labelled(name: str) -> Pair:
    """Inputs and labels: x and y of an .npz, or the test part of a data set."""
    if name.endswith(".npz") and "x" in arrays_of(name):
        x, y = data.read_npz(name)
        if y is None:
            raise NescioError(f"{name} has no labels: add an array y to the file")
        return x, y
    part = data.load(name).test
    if part is None:
        raise NescioError(f"the data set {name!r} has no test part")
    return part


def inputs_named(name: str) -> torch.Tensor:
    """Inputs alone: x of an .npz, or the test inputs of a data set."""
    if name.endswith(".npz") and "x" in arrays_of(name):
        return data.read_npz(name)[0]
    return _labelled(name)[0]


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
    build = nets[name or recipe.net]
    return lambda: build(inputs, outputs, dropout=recipe.dropout)


def report(done: Done) -> str:
    """A few lines on how the predictor does on the test part."""
    part, name = (done.dataset.test, "test") if done.dataset.test else (done.dataset.train, "train")
    assert part is not None
    if done.dataset.task == "classification":
        seen = see(done.predictor, part[0])
        members, numbers = seen.members, quality(seen, part[1])
    else:
        prediction = done.predictor(part[0]).to(torch.float64)
        members, numbers = prediction.members, _errors(prediction, part[1].double())
    lines = [f"{key:>22}  {value:.4f}" for key, value in numbers.items()]
    epochs = f"{members} member(s), epochs trained: {_range(done.epochs)}"
    about = f"{done.dataset.name}: {_about(done.dataset)}; {len(part[0])} {name} cases; {epochs}"
    return "\n".join([about, *lines])


def _about(dataset: Dataset) -> str:
    """What the targets were taken for, and which classes never occur."""
    y = dataset.train[1]
    if dataset.classes is None:
        return f"regression, {y.shape[1]} target(s)"
    absent = sorted(set(range(dataset.classes)) - set(y.unique().tolist()))
    if not absent:
        return f"{dataset.classes} classes"
    return f"{dataset.classes} classes, of which {str(absent[:5])[1:-1]} never occur in training"


def _errors(prediction: Prediction, target: torch.Tensor) -> dict[str, float]:
    assert isinstance(prediction, Regression)
    error = (prediction.mixture_mean - target).square().sum(-1).mean().sqrt().item()
    return {"nll": -prediction.log_prob(target).mean().item(), "rmse": error}


def _range(epochs: tuple[int, ...]) -> str:
    low, high = min(epochs, default=0), max(epochs, default=0)
    return str(low) if low == high else f"{low} to {high}"
