"""What a data argument stands for: a data set, a file or a folder, and how it is changed.

Data are named by a data set, or the path of an .npz file, a table or a folder of images, and after
colons how they are changed: `cifar10:gray:crop=28`, `letters:without=OISZ`, `test.csv:without=id`.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nescio import data
from nescio.cli.options import note
from nescio.core import NescioError, digest
from nescio.core.registry import YES_NO, datasets, ood_sources
from nescio.data import Dataset, ood
from nescio.data.readers import (
    Stream,
    array_stream,
    columns_of,
    is_streamed,
    is_table,
    open_stream,
    row_of,
)
from nescio.data.readers.arrays import arrays_of
from nescio.data.readers.raw_rows import is_number, number
from nescio.data.readers.stream import chosen_columns, first_of, listed
from nescio.guards import Guard
from nescio.models import innermost
from nescio.training.loop import Pair
from nescio.training.recipes import Source

SIZED = ("crop", "pad")
CHANGES: dict[str, Any] = {name: getattr(data, name) for name in ("gray", "color", *SIZED)}
ALL = 1 << 30  # samples of a block: all of them
Columns = Sequence[str] | None  # names of the columns that the network reads, in its order


@dataclass(frozen=True)
class Named:
    """A data argument, read: where the data come from, options of their reader, changes."""

    source: str
    options: Mapping[str, Any]
    changes: tuple[tuple[str, tuple[Any, ...]], ...]

    @property
    def whole_file(self) -> bool:
        """Whether it is an .npz file of inputs `x` that nobody has split."""
        return self.source.endswith(".npz") and "x" in arrays_of(self.source)

    @property
    def table(self) -> bool:
        """Whether it is a .csv or .parquet file."""
        return is_table(self.source)

    @property
    def header(self) -> dict[str, Any]:
        """The option of a .csv that says whether its first row names the columns."""
        return {name: value for name, value in self.options.items() if name == "header"}

    def change(self, x: Tensor) -> Tensor:
        """The inputs after all changes."""
        for name, sizes in self.changes:
            x = CHANGES[name](x, *sizes)
        return x

    def read(self) -> tuple[Tensor, Tensor | None]:
        """All inputs of a whole file, changed, and its targets, if it has any."""
        if self.options:
            words = ", ".join(f"{name}={value}" for name, value in self.options.items())
            raise NescioError(
                f"{self.source} is taken as a whole here, so nothing can be done with {words}; "
                "leave it out (gray, color, crop=SIZE and pad=SIZE change images)"
            )
        x, y = data.read_npz(self.source)
        return self.change(x), y


def named(text: str) -> Named:
    """Read `NAME:CHANGE:...`; a word that is not a change is an option of the data set."""
    if Path(text).exists():
        return Named(text, {}, ())
    source, *words = text.split(":")
    options, changes = {}, []
    for word in words:
        name, equals, value = word.partition("=")
        if name in CHANGES and (name in SIZED) == bool(equals):
            changes.append((name, (_size(word, value),) if equals else ()))
        elif name and name not in CHANGES and value:
            options[name] = int(value) if value.isdigit() else YES_NO.get(value, value)
        else:
            raise NescioError(
                f"cannot read {word!r} in {text!r}; expected gray, color, crop=SIZE, pad=SIZE or "
                "OPTION=VALUE of the data set, for example cifar10:gray:crop=28"
            )
    return Named(source, options, tuple(changes))


def _size(word: str, text: str) -> tuple[int, int]:
    sides = text.split("x")
    if not all(side.isdigit() for side in sides) or len(sides) > 2:
        raise NescioError(f"{word!r} needs a size in pixels: 28, or 28x32 (height x width)")
    return int(sides[0]), int(sides[-1])


def dataset_named(text: str) -> Dataset:
    """All parts of a data set."""
    given = named(text)
    if given.source not in datasets and not Path(given.source).exists():
        import nescio_papers.data  # noqa: F401  its data sets have names too
    whole = data.load(given.source, **given.options)
    if not given.changes:
        return whole
    parts = {name: getattr(whole, name) for name in ("train", "validation", "test")}
    parts = {n: part and (given.change(part[0]), part[1]) for n, part in parts.items()}
    return replace(whole, name=text, **parts)


def labeled(
    text: str,
    part: str = "test",
    *,
    target: str | None = None,
    names: Sequence[str] | None = None,
    columns: Columns = None,
) -> Pair:
    """Inputs and labels: x and y of an .npz, a part of a data set, or the rows of a table.

    target: the column of a table that holds the class, a whole number or one of `names`, which are
    in the order of the network's outputs.
    """
    given = named(text)
    if given.table:
        return _labeled_rows(given, target, names, columns)
    if target is not None and columns is None:  # --data are not a table either
        raise NescioError(f"--target names a column of a table; {given.source} is none")
    if given.whole_file:
        x, y = given.read()
        if y is None:
            raise NescioError(f"{given.source} has no labels: add an array y to the file")
        return x, y
    pair: Pair | None = getattr(dataset_named(text), part)
    if pair is None or not len(pair[0]):
        raise NescioError(f"the data set {text!r} has no {part} part")
    return pair


def inputs_named(text: str, columns: Columns = None) -> Tensor:
    """Inputs alone: x of an .npz, a table, or the test inputs of a data set."""
    given = named(text)
    if given.table:
        x: Tensor = next(stream_named(text, columns).blocks(ALL))[1]
        return x
    return given.read()[0] if given.whole_file else labeled(text)[0]


def stream_named(text: str, columns: Columns = None) -> Stream:
    """Inputs block by block: a file or a folder with its options, or the test part of a set."""
    given = named(text)
    path = Path(given.source)
    if not path.exists() and (is_streamed(path) or ("/" in given.source and path.suffix)):
        raise NescioError(f"there is no file {given.source}; check the name")
    if not path.exists() or not (path.suffix or is_streamed(path)):
        return array_stream(inputs_named(text), name=text)
    stream = open_stream(path, **_by_name(given, given.options, columns))
    return stream.changed(given.change, text) if given.changes else stream


def guarded_stream(text: str, made: Guard) -> Stream:
    """Inputs of a guard block by block; a note says where it has no names of columns."""
    columns = made.notes.get("columns")
    stream = stream_named(text, columns)
    if columns is None and stream.columns is not None:
        note(
            f"columns are taken in this order: {first_of(stream.columns)}; this guard was not made "
            "from a table and has no names to compare"
        )
    return stream


def input_columns(text: str, target: str | None) -> tuple[str, ...] | None:
    """The columns of a table that are inputs, in their order; None for other data."""
    given = named(text)
    path, options = Path(given.source), given.options
    if not given.table or not path.exists():
        return None
    known = columns_of(path, **given.header) or ()
    without = [*listed(options.get("keep")), *listed(target)]
    chosen = chosen_columns(path, known, options.get("columns"), options.get("without"), without)
    return tuple(known[index] for index in chosen)


def _by_name(given: Named, options: Mapping[str, Any], columns: Columns) -> dict[str, Any]:
    """Options with which a table has these columns, in this order; one that lacks some is refused.

    columns= of other names stays: so a table that names its columns otherwise can be read.
    """
    path = Path(given.source)
    if columns is None or not given.table:
        return dict(options)
    asked = {name: options.get(name) for name in ("columns", "without")}
    known = columns_of(path, **given.header) or ()
    chosen = [known[index] for index in chosen_columns(path, known, **asked)]
    if asked["columns"] is not None and set(chosen) != set(columns):
        return dict(options)
    chosen_columns(path, chosen, columns, None)  # all there?
    rest = {name: value for name, value in options.items() if name not in asked}
    return {**rest, "columns": list(columns)}


def _labeled_rows(
    given: Named, target: str | None, names: Sequence[str] | None, columns: Columns
) -> Pair:
    path, options = Path(given.source), dict(given.options)
    known = columns_of(path, **given.header) or ()
    if target is None:
        raise NescioError(
            f"say which column of {path} holds the class: --target NAME; its columns: "
            f"{', '.join(known)}"
        )
    chosen_columns(path, known, target, None)
    if target in listed(options.get("columns")):
        raise NescioError(
            f"{target!r} holds the class, so it is not an input; leave it out of columns="
        )
    options["keep"] = [*listed(options.get("keep")), target]
    stream = open_stream(path, **_by_name(given, options, columns))
    x: Tensor = next(stream.blocks(ALL))[1]
    assert stream.kept is not None
    words = np.char.strip(stream.kept(0, len(x))[target])
    return x, torch.from_numpy(_classes(given, target, words, names))


def _classes(
    given: Named, target: str, words: NDArray[np.str_], names: Sequence[str] | None
) -> NDArray[np.int64]:
    """Classes as whole numbers, given as such or by name."""
    distinct, index = np.unique(words, return_inverse=True)
    text = [word for word in distinct.tolist() if not is_number(word)]

    def first(wrong: NDArray[np.bool_]) -> str:
        row = int(np.flatnonzero(wrong[index])[0])
        where = row_of(given.source, row, **given.header)
        return f"column {target!r} of {given.source} holds {str(words[row])!r} in {where}"

    if not text:
        values = np.array([number(word) for word in distinct.tolist()])
        good = np.isfinite(values) & (values == np.round(values)) & (values >= 0)
        if not good.all():
            raise NescioError(f"{first(~good)}; it must hold classes 0, 1, 2, ...")
        return np.asarray(values[index], np.int64)
    if names is None:
        raise NescioError(
            f"{first(np.isin(distinct, text))}; write classes as 0, 1, ..., or name them in the "
            f"order of the network's outputs: --class-names {first_of(text).replace(', ', ',')}"
        )
    strange = ~np.isin(distinct, names)
    if strange.any():
        raise NescioError(f"{first(strange)}, expected one of --class-names {', '.join(names)}")
    return np.array([list(names).index(word) for word in distinct.tolist()], np.int64)[index]


def one_file(one: str, two: str) -> bool:
    """Whether both names stand for all samples of one .npz file, or of one table."""
    files = [Path(named(name).source).resolve() for name in (one, two)]
    return (named(one).whole_file or named(one).table) and files[0] == files[1]


def separate_parts(name: str) -> tuple[Pair, Pair]:
    """The parts of one file to test on and to train on: what trains must not test."""
    if named(name).table:
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


def data_to_test(net: Any, name: str, read: Callable[[str, str], Pair] = labeled) -> Pair:
    """The labeled data of a name; only the test part where a run was trained on the rest."""
    trained_on = getattr(innermost(net), "notes", {}).get("data")
    if trained_on is not None and named(name).whole_file:
        dataset = dataset_named(name)
        if digest(*dataset.train) == trained_on and dataset.test is not None:
            count = len(dataset.test[0])
            note(f"the run was trained on {name}: only its {count} test samples count")
            return dataset.test
    return read(name, "test")


def ood_data(
    text: str, shape: tuple[int, ...], read: Callable[[str], Tensor] = inputs_named
) -> tuple[str, Tensor]:
    """The name and the inputs of `NAME=DATA`, or of `DATA` alone, which is its own name."""
    name, equals, rest = text.partition("=")
    if not equals or ":" in name:  # an equals sign further on belongs to a change
        name, rest = text, text
    if not name or not rest:
        raise NescioError(f"--ood takes DATA or NAME=DATA, each name once, got {text!r}")
    x = read(rest)
    check_fit(rest, x, shape)
    return name, x


def ood_named(
    text: str,
    shape: tuple[int, ...],
    train: Tensor | None,
    *,
    count: int,
    seed: int = 0,
    read: Callable[[str], Tensor] = inputs_named,
) -> tuple[str, Any]:
    """The same, or an OOD source of `nescio list ood_sources`, made of the training inputs."""
    name, _, rest = text.rpartition("=")
    if rest not in ood_sources:
        return ood_data(text, shape, read)
    options = {"seed": seed} if "seed" in inspect.signature(ood_sources[rest]).parameters else {}
    if "shape" in inspect.signature(ood_sources[rest]).parameters:
        return name or rest, (ood_sources[rest](shape, **options), count)
    if not _made_of_inputs(rest):
        raise NescioError(f"{rest} cannot be made of inputs alone; use it in Python")
    if train is None:
        raise NescioError(f"{rest} is made of training inputs; give --train")
    return name or rest, (ood_sources[rest](train, **options), count)


def outliers(text: str) -> Source:
    """Inputs to be unsure on, for training: a data set, or noise made of the training inputs."""
    if text in ood_sources and _made_of_inputs(text):
        return ood_sources[text]
    if named(text).whole_file:
        return ood.another(inputs_named(text), text)
    try:
        whole = dataset_named(text)
    except NescioError as error:
        made = ", ".join(name for name in ood_sources if _made_of_inputs(name))
        raise NescioError(f"{error}. Made of the training inputs: {made}") from None
    part = whole.train if len(whole.train[0]) or whole.test is None else whole.test
    return ood.another(part[0], text)


def _made_of_inputs(name: str) -> bool:
    """Whether an OOD source needs the training inputs and nothing else."""
    parameters = inspect.signature(ood_sources[name]).parameters.values()
    return [p.name for p in parameters if p.default is p.empty] == ["x"]


def check_fit(text: str, x: Tensor, shape: tuple[int, ...]) -> None:
    """Refuse inputs of another shape, and say which change makes them fit."""
    given = tuple(x.shape[1:])
    if given == shape:
        return
    hint = _changes(given, shape)
    what = f"say {text}:{hint}" if hint else "no change of nescio makes them fit"
    raise NescioError(f"{text} has inputs of shape {given}, the data {shape}; {what}")


def _changes(given: tuple[int, ...], shape: tuple[int, ...]) -> str:
    """Changes that make one shape the other, as they are written; empty where there are none."""
    if len(given) != 3 or len(shape) != 3:
        return ""
    colors = {(1, 1): [], (3, 3): [], (3, 1): ["gray"], (1, 3): ["color"]}
    words: list[str] | None = colors.get((given[0], shape[0]))
    room = [have - want for have, want in zip(given[1:], shape[1:], strict=True)]
    if words is None or min(room) < 0 < max(room):
        return ""
    size = str(shape[1]) if shape[1] == shape[2] else f"{shape[1]}x{shape[2]}"
    if any(room):
        words = [*words, f"{'crop' if max(room) > 0 else 'pad'}={size}"]
    return ":".join(words)
