"""From the names of a recipe, data and a network to a trained and saved predictor."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import click
from torch import Tensor, nn

from nescio.calibration import map_of
from nescio.cli import options as opt
from nescio.cli.data_names import dataset_named, named, outliers
from nescio.cli.networks import factory_named
from nescio.cli.trained import Done, report
from nescio.cli.unlabeled import few_labels, unlabeled_inputs
from nescio.core import (
    MODEL,
    Head,
    NescioError,
    heads,
    load,
    options_for,
    owned_folder,
    parse,
    setting,
    unknown,
)
from nescio.core.registry import calibrators, nets, recipes, spelled
from nescio.data import Dataset, augmentation
from nescio.data.readers.stream import listed
from nescio.models import Model, Predictor, as_head, with_head
from nescio.models.predictor import save_settings, unfinished
from nescio.nets import encoded, needed_by, reads_tokens
from nescio.training import Recipe
from nescio.training import train as train_model

TITLES = {"ceda": "CEDA", "acet": "ACET"}
LARGE = 28  # pixels of a side from which an image needs more than digit_cnn
AUGMENTS: dict[str, tuple[Callable[..., augmentation.Augment], Callable[[str], Any] | None]] = {
    "crops": (augmentation.crops, int),
    "mirrored_crops": (partial(augmentation.crops, edge="mirror"), int),
    "mirrors": (augmentation.mirrors, None),
    "noise": (augmentation.noise, float),
    "affine": (augmentation.affine, float),
    "colors": (augmentation.colors, float),
}


def train_named(
    recipe: str, data_name: str, net_name: str | None, run: str, **options: Any
) -> None:
    """Train what the words of the command name, and say how it does on the test part."""
    opt.resumable()
    words = dict(setting(option) for option in options.pop("options"))
    options["batch_size"] = options["batch_size"] or None
    names = listed(options.pop("class_names")) or None
    options["engine"] = opt.engine_named(options["engine"], options.pop("address"))
    table = {name: options.pop(name) for name in ("target", "regression")}
    table["class_names"] = names
    done = run_recipe(recipe, data_name, net_name, run, words, table=table, **options)
    click.echo(report(done))
    net = f" --net {net_name}" if net_name and ":" in net_name else ""
    new = f"new{Path(named(data_name).source).suffix}" if named(data_name).table else "new.npz"
    out = "predictions.csv" if done.dataset.train[1].ndim < 3 else "predictions.npz"
    click.echo(f"saved; use it with: nescio predict {run}{net} --data {new} --out {out}")


def run_recipe(
    name: str,
    data_name: str,
    net_name: str | None,
    run: str | Path,
    words: Mapping[str, str] | None = None,
    *,
    head: str | None = None,
    table: Mapping[str, Any] | None = None,
    ignore_index: int | None = None,
    seed: int = 0,
    labels: int | None = None,
    unlabeled: str | None = None,
    **options: Any,
) -> Done:
    """Train a recipe on a data set that is named; see `fit_recipe` for the other options.

    table: the options of the reader of a table. labels: how many labeled samples to train on.
    unlabeled: the name of inputs without labels.
    """
    reading = _of_table(data_name, table or {}) | _of_arrays(data_name, ignore_index)
    reading |= {"tokens": True} if _takes_tokens(net_name, data_name) else {}
    with opt.warnings_as_notes():
        dataset = _on_device(dataset_named(data_name, **reading))
    ignore_index = dataset.ignore_index  # a data set with a name may have one of its own
    others = None if unlabeled is None else unlabeled_inputs(unlabeled, dataset, table or {})
    dataset = few_labels(dataset, labels, seed)
    if not len(dataset.train[0]):
        raise NescioError(f"{data_name} has no training part; it is there to test on")
    recipe = recipe_named(name, words or {}, _head(head, net_name, dataset))
    own: dict[str, Any] = {"ignore_index": ignore_index, "unlabeled": others, "seed": seed}
    return fit_recipe(recipe, dataset, net_name, run, **own, **options)


def fit_recipe(
    recipe: Recipe,
    dataset: Dataset,
    net_name: str | None,
    run: str | Path,
    *,
    calibrate: str | None = None,
    augment: str | None = None,
    ignore_index: int | None = None,
    start: str | None = None,
    **options: Any,
) -> Done:
    """Train a recipe on a data set in memory, and save it in the run folder, calibrated if asked.

    start: the folder of the run to start from. options: of `nescio.train`.
    """
    loss = recipe.loss_for(dataset.train[0])
    if calibrate is not None:
        calibrators[calibrate]
        if dataset.validation is None:
            raise NescioError(f"--calibrate needs validation data; {dataset.name} has none")
    make_net = _factory(net_name, dataset, recipe, loss.head)
    before = None if start is None else _before(start, make_net)
    with owned_folder(run), unfinished(run):
        model = train_model(
            make_net,
            dataset.train,
            start=before,
            loss=loss,
            members=recipe.members,
            validation=dataset.validation,
            augment=augments(augment),
            ignore_index=ignore_index,
            run=run,
            **options,
        )
        predictor = recipe.predictor(model)
        if calibrate is not None:
            predictor = calibrators[calibrate](
                predictor, dataset.validation, ignore_index=ignore_index
            )
        fitted = map_of(predictor)
        settings: dict[str, Any] = {"sampler": recipe.sampler, "sampling": recipe.sampling}
        if fitted is not None:
            settings |= {"calibration": fitted.manifest(), "state": fitted.state}
        save_settings(run, **settings)
    epochs = model.history.stopped if model.history else ()
    return Done(dataset, predictor, epochs)


def _before(folder: str, make_net: Callable[[], nn.Module]) -> Model:
    """The model of a finished run, to start from."""
    path = Path(folder) / MODEL
    if not path.is_file():
        raise NescioError(
            f"--start takes the folder of a finished run of `nescio train`; {folder} has no {MODEL}"
        )
    before: Model = load(path, kind="model", net=make_net())
    return before


def _on_device(dataset: Dataset) -> Dataset:
    """A data set where --device says; members are trained where their data are."""
    if opt.device().type == "cpu":
        return dataset
    parts = {name: getattr(dataset, name) for name in ("train", "validation", "test")}
    moved: dict[str, Any] = {
        name: part and tuple(tensor.to(opt.device()) for tensor in part)
        for name, part in parts.items()
    }
    return replace(dataset, **moved)


def _head(given: str | None, net_name: str | None, dataset: Dataset) -> Head:
    """The head that is named; otherwise by the targets and, of two classes, by the network."""
    if given is not None:
        head = as_head(given)
        if head.task != dataset.task:
            raise NescioError(
                f"--head {given} is for {head.task}, and {dataset.name} is a {dataset.task}; "
                "labels are integers, the targets of a regression floats"
            )
        return head
    if dataset.task == "regression":
        return heads.gaussian()
    if dataset.classes == 2 and net_name is not None and ":" in net_name:
        try:
            found = with_head(_reading_tables(factory_named(net_name), dataset)(), dataset.train)
        except TypeError:  # it wants arguments
            return heads.categorical()
        return found.head if isinstance(found, Model) else heads.categorical()
    return heads.categorical()


def _of_table(data_name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a table that were given; other data have none."""
    given = {name: value for name, value in options.items() if value}
    if given and not named(data_name).table:
        name = next(iter(given)).replace("_", "-")
        raise NescioError(f"--{name} is about a .csv or .parquet file; {data_name} is not one")
    return given


def _of_arrays(data_name: str, ignore_index: int | None) -> dict[str, Any]:
    """The options of arrays that were given; other data have none."""
    if ignore_index is None:
        return {}
    if not named(data_name).source.endswith(".npz"):
        raise NescioError(f"--ignore-index is about labels in an .npz file; {data_name} is not one")
    return {"ignore_index": ignore_index}


def _takes_tokens(net_name: str | None, data_name: str) -> bool:
    """Whether whole numbers of an .npz file are tokens: the network has an embedding."""
    if net_name is None or not named(data_name).source.endswith(".npz"):
        return False
    if ":" not in net_name:
        return "vocabulary" in parse(net_name)[1]
    factory = factory_named(net_name)
    return not needed_by(factory) and reads_tokens(factory())


def _factory(
    name: str | None, dataset: Dataset, recipe: Recipe, head: Head
) -> Callable[[], nn.Module]:
    if name is not None and ":" in name:
        return _reading_tables(factory_named(name), dataset)
    shape = dataset.features
    inputs = shape if len(shape) > 1 else shape[0]
    outputs = head.width * (dataset.classes or dataset.train[1].shape[1])
    outputs = 1 if head.name == "binary" else outputs
    words: Mapping[str, str] = {}
    if name is not None:
        name, words = parse(name)
    if recipe.net is not None and name not in (None, recipe.net):
        raise NescioError(
            f"the recipe needs a {recipe.net}, got {name}; leave --net out, or give a network of "
            "your own as package.module:factory"
        )
    name = name or recipe.net or default_net(shape, maps=dataset.train[1].ndim > 2)
    build = partial(nets[name], **options_for(nets[name], words))
    if recipe.dropout and "dropout" not in inspect.signature(build).parameters:
        raise NescioError(f"the recipe needs dropout, and {name} has none; choose another --net")
    dropout = {"dropout": recipe.dropout} if recipe.dropout and "dropout" not in words else {}
    return _reading_tables(lambda: build(inputs, outputs, **dropout), dataset)


def _reading_tables(factory: Callable[..., nn.Module], dataset: Dataset) -> Callable[[], nn.Module]:
    """The factory, of networks with the encoding of a table; it may take the number of inputs."""
    columns = dataset.columns
    if columns is None:
        return factory
    width = [columns.width] if needed_by(factory) else []
    return lambda: encoded(factory(*width), columns)


def default_net(shape: Sequence[int], *, maps: bool = False) -> str:
    """The network for inputs of a shape where none is named: images get convolutions.

    maps: whether each pixel has a label.
    """
    if maps and len(shape) == 3:
        return "dilated_cnn"
    if len(shape) != 3:
        return "mlp"
    return "small_cnn" if min(shape[1:]) >= LARGE else "digit_cnn"


def augments(text: str | None) -> tuple[augmentation.Augment, ...]:
    """Augmentations from `crops,mirrors`, or `crops=2` for another width than 4."""
    steps = []
    for word in text.split(",") if text else []:
        name, equals, value = word.strip().partition("=")
        name = spelled(name, AUGMENTS)
        if name not in AUGMENTS:
            raise NescioError(unknown("augmentation", name, AUGMENTS))
        make, number = AUGMENTS[name]
        try:
            steps.append(make(*([number(value)] if equals and number else [value] * bool(equals))))
        except (TypeError, ValueError):
            raise NescioError(
                "--augment takes mirrors, crops=PIXELS, mirrored_crops=PIXELS, affine=DEGREES, "
                "colors=BRIGHTNESS and noise=DEVIATION, or these without a number, got "
                f"{word!r}"
            ) from None
    return tuple(steps)


def recipe_named(name: str, words: Mapping[str, str], head: Head | None = None) -> Recipe:
    """A recipe with its options from text."""
    recipe: Recipe = recipes[name](head, **options_for(recipes[name], words, {"ood": outliers}))
    return recipe


@dataclass(frozen=True)
class Remedy:
    """A recipe to train beside a network, and how it is called in the report."""

    title: str
    folder: str
    recipe: Recipe


def remedy(text: str) -> Remedy:
    """Read `acet`, or with options `acet,radius=0.1,steps=5`; hyphens stand for underscores."""
    name, words = parse(text)
    recipe = recipe_named(name, words)
    if recipe.net is not None or recipe.dropout:
        raise NescioError(
            f"the recipe {name!r} needs a network of its own; train it with: nescio train {name}"
        )
    pairs = [f"{key}={value}" for key, value in words.items()]
    title = ", ".join([TITLES.get(name, name.replace("_", " ")), *pairs])
    folder = "".join(c if c.isalnum() or c in ".=-" else "_" for c in ",".join([name, *pairs]))
    return Remedy(title, folder, recipe)


def remedies_named(texts: Sequence[str], taken: Sequence[str] = ()) -> list[Remedy]:
    """Read several, each once; `taken` are titles that the report has without them."""
    remedies = [remedy(text) for text in texts]
    titles = [*taken, *(one.title for one in remedies)]
    for one in remedies:
        if titles.count(one.title) > 1:
            raise NescioError(f"--recipe takes each recipe once, got {one.title!r} again")
    return remedies


def train_remedy(
    chosen: Remedy,
    make_net: Callable[[], nn.Module],
    data: tuple[Tensor, Tensor],
    *,
    run: str | Path | None = None,
    **options: Any,
) -> Predictor:
    """Train a recipe on `data`; with `run`, in a folder that `nescio predict` takes."""
    recipe = chosen.recipe
    folder = None if run is None else Path(run) / chosen.folder
    loss = recipe.loss_for(data[0])
    made = {"loss": loss, "members": recipe.members, "run": folder, **options}
    if folder is None:
        return recipe.predictor(train_model(make_net, data, **made))
    with owned_folder(folder), unfinished(folder):
        model = train_model(make_net, data, **made)
        save_settings(folder, sampler=recipe.sampler, sampling=recipe.sampling)
    return recipe.predictor(model)
