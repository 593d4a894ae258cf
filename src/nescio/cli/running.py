"""A recipe on a data set, from names to a saved predictor: what `nescio train` does."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nescio.calibration import Calibrated, temperature
from nescio.calibration.saving import save_settings
from nescio.cli.data_names import (
    augments,
    check_fit,
    dataset_named,
    labeled,
    named,
    ood_data,
    ood_named,
)
from nescio.cli.data_names import inputs_named as inputs_named
from nescio.cli.data_names import settings as read_settings
from nescio.cli.network_files import factory_named
from nescio.cli.remedies import remedies_named, train_remedy
from nescio.core import Head, NescioError, Prediction, Regression, digest, heads
from nescio.core.registry import calibrators, nets, recipes
from nescio.data import Dataset
from nescio.data.readers import is_table
from nescio.detectors import tuned_odin
from nescio.detectors.observe.pooling import Pool
from nescio.evaluation import Audit, DetectorComparison, audit, compare_detectors
from nescio.evaluation.answers import quality, see
from nescio.evaluation.audit.audit import RAYS, STEPS, check_attack
from nescio.evaluation.compare.contestants import TUNING
from nescio.evaluation.compare.scored import observe_given
from nescio.models import Predictor, mc_dropout
from nescio.models.mc_dropout import MCDropout
from nescio.models.model import Model
from nescio.nets import Output
from nescio.nets.factory import made_by, rebuild
from nescio.nets.standardize import is_scaled
from nescio.training.loop import Pair
from nescio.training.recipes import Recipe
from nescio.training.train import train

EPOCHS = 20  # of a recipe beside an audited network
LARGE = 28  # pixels of a side from which an image needs more than digit_cnn


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
    augment: str | None = None,
    seed: int = 0,
    **options: Any,
) -> Done:
    """Train a recipe on a data set, calibrate it if asked to, and save it in the run folder."""
    dataset = dataset_named(data_name)
    x = dataset.train[0]
    if not len(x):
        raise NescioError(f"{data_name} has no training part; it is there to test on")
    head = heads.categorical() if dataset.task == "classification" else heads.gaussian()
    recipe: Recipe = recipes[name](head, **read_settings(name, settings or {}))
    loss = recipe.loss_for(x)
    if calibrate is not None:
        calibrators[calibrate]
        if dataset.validation is None:
            raise NescioError(f"--calibrate needs validation data; {data_name} has none")
    model = train(
        _factory(net_name, dataset, recipe, loss.head),
        dataset.train,
        loss=loss,
        members=recipe.members,
        validation=dataset.validation,
        augment=augments(augment),
        seed=seed,
        run=run,
        **options,
    )
    predictor = recipe.predictor(model)
    if calibrate is not None:
        predictor = calibrators[calibrate](predictor, dataset.validation)
    fitted = predictor if isinstance(predictor, Calibrated) else None
    save_settings(run, sampler=recipe.sampler, sampling=recipe.sampling, calibrated=fitted)
    epochs = model.history.stopped if model.history else ()
    return Done(dataset, predictor, epochs)


def _factory(
    name: str | None, dataset: Dataset, recipe: Recipe, head: Head
) -> Callable[[], nn.Module]:
    if name is not None and ":" in name:
        return factory_named(name)
    shape = dataset.features
    inputs = shape if len(shape) > 1 else shape[0]
    if dataset.classes is not None:
        outputs = dataset.classes
    else:
        outputs = head.width * dataset.train[1].shape[1]
    name = name or recipe.net or default_net(shape)
    build = nets[name]
    if recipe.dropout and "dropout" not in inspect.signature(build).parameters:
        raise NescioError(f"the recipe needs dropout, and {name} has none; choose another --net")
    dropout = {"dropout": recipe.dropout} if recipe.dropout else {}
    return lambda: build(inputs, outputs, **dropout)


def default_net(shape: Sequence[int]) -> str:
    """The network for inputs of a shape where none is named: images get convolutions."""
    if len(shape) != 3:
        return "mlp"
    return "small_cnn" if min(shape[1:]) >= LARGE else "digit_cnn"


def audit_files(
    net: Any,
    data_name: str | None,
    *,
    train_path: str | None = None,
    validation_path: str | None = None,
    ood: Sequence[str] = (),
    recipe: Sequence[str] = (),
    factory: str | None = None,
    run: str | Path | None = None,
    epochs: int = EPOCHS,
    passes: int | None = None,
    rays: int = RAYS,
    attack_steps: int = STEPS,
    attack_radius: float | None = None,
    seed: int = 0,
    read: Callable[[str, str], Pair] = labeled,
    read_inputs: Callable[[str], Tensor] = inputs_named,
    note: Callable[[str], None] = print,
) -> Audit:
    """Audit a network or predictor on files: what `nescio audit NETWORK` does.

    recipe: trained beside the network, on the data of `train_path`, in folders within `run`.
    factory: `package.module:factory` that makes the network anew, where it is not nescio's own.
    read: labeled data by name and part. read_inputs: inputs by name.
    """
    if data_name is None:
        raise NescioError("say what to test on: --data test.npz (arrays x and y), or a data set")
    check_attack(attack_steps, attack_radius)
    remedies = remedies_named(recipe)
    if validation_path is not None and _one_file(data_name, validation_path):
        raise NescioError(
            f"--data and --validation are one file, {validation_path}: a temperature must not be "
            "fitted to the samples it is tested on; give other cases, or ready parts in that file "
            "(x_train, y_train, x_validation, ..., x_test, ...)"
        )
    if remedies and train_path is None:
        raise NescioError(
            "--recipe trains a network; say on what: --train train.npz, or a data set"
        )
    train_data: Pair | None = None
    if remedies and _one_file(data_name, str(train_path)):
        test, train_data = _apart(data_name, note)
    else:
        test = _test_part(net, data_name, note, read)
        if train_path is not None:
            train_data = read(train_path, "train")
    shape = tuple(test[0].shape[1:])
    others: dict[str, Any] = {}
    for text in ood:
        name, inputs = ood_data(text, shape, read_inputs)
        if name in others:
            raise NescioError(f"--ood takes each name once, got {name!r} again")
        others[name] = inputs
    predictors: dict[str, Any] = {"network": net}
    validation = None if validation_path is None else read(validation_path, "validation")
    if validation is not None:
        predictors["temperature"] = temperature(net, validation)
    if passes is not None:
        predictors["MC dropout"] = mc_dropout(net, passes=passes, seed=seed)
    for chosen in remedies:
        assert train_data is not None
        check_fit(str(train_path), train_data[0], shape)
        make_net, standardize = _anew(net, factory)
        note(f"training {chosen.title} on {len(train_data[0])} samples, {epochs} epochs")
        options: dict[str, Any] = {"epochs": epochs, "seed": seed, "standardize": standardize}
        predictors[chosen.title] = train_remedy(
            chosen, make_net, train_data, run=run, schedule="cosine", **options
        )
    findings = audit(
        predictors,
        test,
        train=train_data,
        validation=validation,
        ood=others,
        rays=rays,
        attack_steps=attack_steps,
        attack_radius=attack_radius,
        seed=seed,
    )
    return findings if run is None else findings.bound_for(run, net=factory)


def compare_files(
    net: Any,
    data_name: str | None,
    *,
    train_path: str | None = None,
    ood: Sequence[str] = (),
    near: Sequence[str] = (),
    detector: Sequence[str] = (),
    tune: str | None = None,
    passes: int | None = None,
    layer: Sequence[str] = (),
    pool: Pool = "mean",
    output: str | None = None,
    resamples: int = 500,
    seed: int = 0,
    note: Callable[[str], None] = print,
) -> DetectorComparison:
    """Compare detectors of a network on files: what `nescio compare NETWORK` does.

    near, ood: OOD data, those near the in-distribution data and the others; what stands in both is
    near. tune: OOD data that ODIN is tuned on, of which 500 inputs are taken, beside 500 for
    training. output: an index or a key of what the network returns; digits are an index.
    """
    if data_name is None:
        raise NescioError("say what to test on: --data test.npz (arrays x and y), or a data set")
    if not (near or ood):
        raise NescioError("say what the network does not know: --ood DATA or --near DATA")
    test = _test_part(net, data_name, note)
    shape = tuple(test[0].shape[1:])
    fitted = labeled(train_path, "train") if train_path else None
    if fitted is None:
        note("no --train: only detectors without a fit are compared")
    elif _one_file(data_name, str(train_path)):
        test, fitted = _apart(data_name, note)
    x = None if fitted is None else fitted[0]
    count = len(test[0])
    others: dict[str, Any] = {}
    close: dict[str, None] = {}  # in the order in which they were given
    for place, text in enumerate((*near, *ood)):
        name, given = ood_named(text, shape, x, count=count, seed=seed)
        others.setdefault(name, given)
        close |= {name: None} if place < len(near) else {}
    inner = _innermost(net)
    where: Output = int(output) if output is not None and output.isdigit() else output
    predictors = {} if inner is net else {"predictor": net}
    if passes is not None:
        predictors["MC dropout"] = mc_dropout(inner, passes=passes, seed=seed)
    chosen: dict[str, Any] = {text: text for text in detector or ("all",)}
    if tune is not None:
        name, given = ood_named(tune, shape, x, count=TUNING, seed=seed + 1)
        held = observe_given(inner, name, given, pool=pool, output=where)[:TUNING]
        chosen[f"odin, tuned on {name}"] = lambda seen: tuned_odin(seen[:TUNING], held, name=name)
    return compare_detectors(
        inner,
        test,
        others,
        train=fitted,
        near=tuple(close),
        detectors=chosen,
        predictors=predictors,
        layers=list(layer) or None,
        pool=pool,
        output=where,
        resamples=resamples,
        seed=seed,
    )


def _one_file(one: str, two: str) -> bool:
    """Whether both names stand for all samples of one .npz file, or of one table."""
    files = [Path(named(name).source).resolve() for name in (one, two)]
    return (named(one).whole_file or is_table(files[0])) and files[0] == files[1]


def _apart(name: str, note: Callable[[str], None]) -> tuple[Pair, Pair]:
    """The parts of one file to test on and to train on: what trains must not test."""
    if is_table(named(name).source):
        raise NescioError(
            f"--data and --train are one file, {name}: what trains must not test; give two files"
        )
    both = dataset_named(name)
    if both.test is None:
        raise NescioError(
            f"--data and --train are one file, {name}, of {len(both.train[0])} samples; it takes "
            "ten to set some apart for testing: give more, or another file to test on"
        )
    note(f"{name} serves both: {len(both.train[0])} samples train, {len(both.test[0])} test")
    return both.test, both.train


def _anew(net: Any, factory: str | None) -> tuple[Callable[[], nn.Module], bool]:
    """What makes a network like `net` from another start, and whether its inputs are scaled."""
    inner = _innermost(net)
    whole: Any = inner.net if isinstance(inner, Model) else inner
    scaled = is_scaled(whole) and not isinstance(net, nn.Module)  # by training, not by a factory
    if factory is not None:
        return factory_named(factory), scaled
    made = made_by(whole[1] if scaled else whole)
    return lambda: rebuild(made), scaled


def _innermost(net: Any) -> Any:
    """The model or network behind scaled logits and sampled passes."""
    if isinstance(net, Calibrated):
        return _innermost(net.predictor)
    return net.nets[0] if isinstance(net, MCDropout) else net


def _test_part(
    net: Any,
    name: str,
    note: Callable[[str], None],
    read: Callable[[str, str], Pair] = labeled,
) -> Pair:
    """The labeled data of a name; only the test part where a run was trained on the rest."""
    inner = net.predictor if isinstance(net, Calibrated) else net
    trained_on = getattr(inner, "notes", {}).get("data")
    if trained_on is not None and named(name).whole_file:
        dataset = dataset_named(name)
        if digest(*dataset.train) == trained_on and dataset.test is not None:
            note(
                f"the run was trained on {name}: only its {len(dataset.test[0])} test samples count"
            )
            return dataset.test
    return read(name, "test")


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
    about = f"{done.dataset.name}: {_about(done.dataset)}; {len(part[0])} {name} samples; {epochs}"
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
