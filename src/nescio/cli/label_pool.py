"""The pool of `nescio label`: its items, its tests and its model, read from what the folder says.

The folder has the pool and its journal (`Pool`), the guesses that were shown with the questions,
the learning curve, and the newest model. Answers are in the journal before anything is trained; a
model is named after the labels it was trained on, so a training that was killed is resumed, and
one that is out of date is seen.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nescio.applications import active_learning as al
from nescio.cli.data_names import dataset_named, inputs_named, labeled, named, stream_named
from nescio.cli.networks import factory_named, on_device
from nescio.cli.options import note, warnings_as_notes
from nescio.cli.table_rows import ALL
from nescio.cli.work.train import fit_recipe, recipe_named
from nescio.core import (
    NescioError,
    digest,
    generator,
    load,
    load_manifest,
    owned,
    save_manifest,
)
from nescio.core.registry import datasets
from nescio.data import Columns as Encoding
from nescio.data import Dataset, Table, learn_columns, read_table, readers

Pair = tuple[Tensor, Tensor]  # inputs and labels
GUESSES, CURVE, MODELS = "guesses.json", "curve.json", "models"
BATCH = 32  # samples of a training step


@dataclass(frozen=True, eq=False, kw_only=True)
class Items:
    """The items of a pool, as networks and as people read them."""

    x: Tensor  # (N, ...) what networks read
    ids: Sequence[str] | None  # None: their numbers
    table: Table | None = None  # rows that the network reads
    encoding: Encoding | None = None  # of these rows
    shown: Table | None = None  # rows with all their columns, for people

    @property
    def hashed(self) -> Any:
        """What the pool knows its items by."""
        return self.x if self.table is None else self.table

    @property
    def pictures(self) -> bool:
        """Whether people see images."""
        return self.x.ndim == 4


def read_items(text: str, encoding: Encoding | None = None) -> Items:
    """The items that DATA name: a table, a folder of images, arrays, or a set's training part."""
    given = named(text)
    if given.table:
        return _read_rows(text, encoding)
    if given.source in datasets:
        return Items(x=dataset_named(text).train[0], ids=None)
    stream = stream_named(text)
    if stream.files is None:
        return Items(x=inputs_named(text) if given.whole_file else _whole(stream), ids=None)
    x = _whole(stream)
    good = [at for at in range(len(x)) if at not in stream.unreadable]
    for why in stream.unreadable.values():
        note(f"left out: {why}")
    return Items(x=x[good] if stream.unreadable else x, ids=[stream.files[at] for at in good])


def _whole(stream: Any) -> Tensor:
    return torch.cat([block for _, block in stream.blocks(ALL)])


def _read_rows(text: str, encoding: Encoding | None) -> Items:
    """Rows of a table; the first column of keep= has their ids."""
    given = named(text)
    options = given.options
    table = read_table(given.source, **given.header)
    ids = readers.listed(options.get("keep"))
    names = (options.get("columns"), options.get("without"), ids)
    chosen = readers.chosen_columns(Path(given.source), table.names, *names)
    if encoding is None:
        with warnings_as_notes():
            encoding = learn_columns(table.only(*(table.names[at] for at in chosen)))
    rows = table.only(*encoding.names)
    words = None if not ids else [_cell(value) for value in table[ids[0]]]
    return Items(x=encoding.encode(rows).x, ids=words, table=rows, encoding=encoding, shown=table)


def _cell(value: Any) -> str:
    """A cell as people read it."""
    if isinstance(value, (float, np.floating)):
        return "" if np.isnan(value) else f"{value:.15g}"
    return str(value)


@dataclass(frozen=True, eq=False, kw_only=True)
class Project:
    """A pool with the settings of `nescio label start`."""

    pool: al.Pool
    items: Items

    @staticmethod
    def start(folder: str, data_name: str, settings: Mapping[str, Any]) -> "Project":
        """A new one; `settings` are what the other commands need to know."""
        items = read_items(data_name)
        about = {**settings, "data": _absolute(data_name), "test": _absolute(settings["test"])}
        about["columns"] = None if items.encoding is None else items.encoding.manifest()
        about["test_index"] = _drawn(len(items.x), settings["test_size"], settings["seed"])
        classes = settings["classes"] or _classes_of(data_name, settings["test"])
        pool = al.Pool.create(folder, items.hashed, ids=items.ids, classes=classes, about=about)
        return Project(pool=pool, items=items)

    @staticmethod
    def open(folder: str | Path) -> "Project":
        """The one in a folder; items that changed since are refused."""
        if not (Path(folder) / "pool.json").is_file():
            raise NescioError(f"{folder} holds no pool; make one: nescio label start {folder} DATA")
        pool = al.Pool.open(folder)
        if "data" not in pool.about:
            raise NescioError(f"{folder} is a pool of Python; `nescio label start` makes others")
        columns = pool.about["columns"]
        items = read_items(
            pool.about["data"], None if columns is None else Encoding.from_manifest(columns)
        )
        pool.check(items.hashed, items.ids)
        return Project(pool=pool, items=items)

    @property
    def address(self) -> str:
        """What a file of questions names the pool by: its folder, and what is in it."""
        return f"{self.pool.folder.resolve()}#{self.pool.key}"

    @cached_property
    def about(self) -> Mapping[str, Any]:
        """The settings of the start."""
        return self.pool.about

    @property
    def trained_on(self) -> tuple[Tensor, Tensor]:
        """Index and label of what is answered and not there to test on."""
        index, labels = self.pool.labeled
        apart = torch.isin(index, torch.tensor(self.about["test_index"], dtype=torch.long))
        return index[~apart], labels[~apart]

    @cached_property
    def test(self) -> Pair | None:
        """Samples to test on: those of --test, or those of the pool that were drawn for it."""
        if self.about["test"] is not None:
            return _test_data(
                self.about["test"], self.about["target"], self.pool.classes, self.items.encoding
            )
        index, labels = self.pool.labeled
        apart = torch.isin(index, torch.tensor(self.about["test_index"], dtype=torch.long))
        return (self.items.x[index[apart]], labels[apart]) if apart.any() else None

    @property
    def curve(self) -> list[dict[str, Any]]:
        """The steps so far: labels, the model, the test samples, and those it gets wrong."""
        path = self.pool.folder / CURVE
        if not path.exists():
            return []
        steps: list[dict[str, Any]] = load_manifest(path, "label_curve")["steps"]
        return steps

    def step(self) -> dict[str, Any] | None:
        """The newest step, trained first where labels came since; None: not yet two classes."""
        index, labels = self.trained_on
        if len(labels.unique()) < 2:
            return None
        name = f"{len(index)}-{digest(index, labels)[:8]}"
        tested = 0 if self.test is None else len(self.test[0])
        test = None if self.test is None else digest(*self.test)
        steps = self.curve
        if steps and steps[-1]["model"] == name and steps[-1]["test"] == test:
            return steps[-1]
        with owned(self.pool.folder, wait=0.0):
            predictor = self._fit(name, self.items.x[index], labels)
            wrong: list[int] = []
            if self.test is not None:
                found = predictor(self.test[0]).labels.cpu() != self.test[1]
                wrong = found.nonzero()[:, 0].tolist()
            now = {"labels": len(index), "model": name, "test": test}
            now |= {"tested": tested, "wrong": wrong}
            save_manifest(self.pool.folder / CURVE, {"kind": "label_curve", "steps": [*steps, now]})
        for old in (self.pool.folder / MODELS).iterdir():  # the curve names the new one by now
            if old.name != name:
                shutil.rmtree(old, ignore_errors=True)
        return now

    def _fit(self, name: str, x: Tensor, labels: Tensor) -> Any:
        """The recipe of the settings, trained in the folder of the model."""
        about = self.about
        batches = -(-len(x) // BATCH)
        dataset = Dataset(
            name=str(self.pool.folder),
            train=(x, labels),
            validation=None,
            test=None,
            classes=len(self.pool.classes),
            columns=self.items.encoding,
        )
        done = fit_recipe(
            recipe_named(about["recipe"], about["options"]),
            dataset,
            about["net"],
            self.model_folder(name),
            epochs=-(-about["updates"] // batches),
            batch_size=BATCH,
            learning_rate=about["learning_rate"],
            standardize=about["standardize"],
            seed=about["seed"],
        )
        return done.predictor

    def model_folder(self, name: str) -> Path:
        """The run folder of a step's model."""
        return self.pool.folder / MODELS / name

    def predictor(self) -> Any:
        """The newest model; None where there are no labels of two classes."""
        step = self.step()
        if step is None:
            return None
        net = self.about["net"]
        own = factory_named(net) if net is not None and ":" in net else None
        return on_device(load(self.model_folder(step["model"]), net=own))

    @property
    def guesses(self) -> dict[str, dict[str, Any]]:
        """What the model said about each item when it was asked, by id."""
        path = self.pool.folder / GUESSES
        found: dict[str, dict[str, Any]] = {}
        if path.exists():
            found = load_manifest(path, "label_guesses")["guesses"]
        return found

    def save_guesses(self, more: Mapping[str, Mapping[str, Any]]) -> None:
        """Remember what the model said with new questions."""
        with owned(self.pool.folder, wait=10.0):
            every = {**self.guesses, **more}
            path = self.pool.folder / GUESSES
            save_manifest(path, {"kind": "label_guesses", "guesses": every})

    def row(self, index: int) -> dict[str, str]:
        """The row of an item, of a table or of a short vector, as people read it."""
        if (table := self.items.shown) is not None:
            return {name: _cell(table[name][index]) for name in table.names}
        x = self.items.x[index]
        return {f"x{at}": f"{v:.6g}" for at, v in enumerate(x.tolist())} if x.ndim == 1 else {}


def _absolute(text: str | None) -> str | None:
    """A name of data that means the same from any folder."""
    if text is None or not Path(named(text).source).exists():
        return text
    source = named(text).source
    return str(Path(source).resolve()) + text[len(source) :]


def _drawn(items: int, count: int, seed: int) -> list[int]:
    """Items to test on, drawn at random, so that their errors are those of the whole pool."""
    if count >= items:
        raise NescioError(f"--test-size {count} leaves nothing of {items} items to train on")
    order = torch.randperm(items, generator=generator(seed, "label test"))
    drawn: list[int] = order[:count].sort().values.tolist()
    return drawn


def _classes_of(data_name: str, test_name: str | None) -> list[str] | int:
    """The classes of a data set, of folders or of labels to test on; otherwise they are asked."""
    for text in filter(None, (test_name, data_name)):
        given = named(text)
        if given.source in datasets:
            return dataset_named(text).classes or 0
    if test_name is not None and Path(named(test_name).source).is_dir():
        return _folders(test_name)
    if test_name is not None and named(test_name).whole_file:
        return max(2, int(labeled(test_name)[1].max()) + 1)
    raise NescioError("name the classes that people may answer: --class-names cat,dog,other")


def _folders(text: str) -> list[str]:
    return sorted(path.name for path in Path(named(text).source).iterdir() if path.is_dir())


def _test_data(
    text: str, target: str | None, classes: Sequence[str], encoding: Encoding | None
) -> Pair:
    """Samples with labels, as indices of the classes of the pool."""
    if Path(named(text).source).is_dir():
        whole, folders = dataset_named(text), _folders(text)
        if unknown := [name for name in folders if name not in classes]:
            raise NescioError(
                f"--test has a folder {unknown[0]!r}, which is not one of the classes"
            )
        parts = [part for part in (whole.train, whole.validation, whole.test) if part is not None]
        at = torch.tensor([list(classes).index(name) for name in folders])
        return torch.cat([x for x, _ in parts]), at[torch.cat([y for _, y in parts])]
    x, y = labeled(text, target=target, names=list(classes), columns=encoding)
    if y.is_floating_point() or y.ndim != 1 or not _within(y, len(classes)):
        raise NescioError(
            f"the labels of --test must be classes 0 to {len(classes) - 1}, one for each sample"
        )
    return x, y


def _within(y: Tensor, classes: int) -> bool:
    return bool(((y >= 0) & (y < classes)).all())
