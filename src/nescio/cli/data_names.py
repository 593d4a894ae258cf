"""The data that arguments name: labeled, inputs alone, a block at a time, OOD."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from nescio import data
from nescio.cli.named_data import Named as Named
from nescio.cli.named_data import named as named
from nescio.cli.options import note
from nescio.cli.table_rows import ALL, Columns, by_name, ids_of, labeled_rows
from nescio.cli.table_rows import input_columns as input_columns
from nescio.cli.table_rows import names_of as names_of
from nescio.core import NescioError, as_inputs, digest
from nescio.core.registry import datasets, ood_sources
from nescio.data import Dataset, ood
from nescio.data.readers import (
    Stream,
    array_stream,
    is_streamed,
    is_there,
    open_stream,
)
from nescio.data.readers.stream import first_of
from nescio.guards import Guard, MapGuard, RegressionGuard
from nescio.models import encoding_of, innermost, takes_tokens
from nescio.training import Pair, Source


def dataset_named(text: str, **options: Any) -> Dataset:
    """All parts of a data set; options: of its reader, beside those in the text."""
    given = named(text)
    options = {**given.options, **options}
    if given.table:
        return data.load(given.source, **options)
    if given.source not in datasets and not Path(given.source).exists():
        import nescio_papers.data  # noqa: F401  its data sets have names too
    whole = data.load(given.source, **options)
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
    numbers: bool = False,
) -> Pair:
    """Inputs and labels: x and y of an .npz, a part of a data set, or the rows of a table.

    target: the column of a table that holds the class, a whole number or one of `names`, which are
    in the order of the network's outputs. numbers: of a regression, where targets are numbers;
    several columns are then several targets.
    """
    given = named(text)
    if given.table:
        return labeled_rows(given, target, names, columns, numbers=numbers)
    if target is not None and columns is None:  # --data are not a table either
        raise NescioError(f"--target names a column of a table; {given.source} is none")
    if given.whole_file:
        x, y = given.read(whole=True)
        if y is None:
            raise NescioError(f"{given.source} has no labels: add an array y to the file")
        return x, y
    pair: Pair | None = getattr(dataset_named(text), part)
    if pair is None or not len(pair[0]):
        raise NescioError(f"the data set {text!r} has no {part} part")
    return pair


def ignored_in(text: str) -> int | None:
    """The label that a data set with a name leaves out; files do not say it."""
    given = named(text)
    return None if given.table or given.whole_file else dataset_named(text).ignore_index


def inputs_named(text: str, columns: Columns = None) -> Tensor:
    """Inputs alone: x of an .npz, a table, or the test inputs of a data set."""
    given = named(text)
    if given.table:
        x: Tensor = next(stream_named(text, columns).blocks(ALL))[1]
        return x
    return given.read(whole=True)[0] if given.whole_file else labeled(text)[0]


def stream_named(text: str, columns: Columns = None) -> Stream:
    """Inputs block by block: a file or a folder with its options, or the test part of a set."""
    given = named(text)
    path = Path(given.source)
    there = is_there(path)
    if not there and (is_streamed(path) or ("/" in given.source and path.suffix)):
        raise NescioError(f"there is no file {given.source}; check the name")
    if not there or not (path.suffix or is_streamed(path)):
        return array_stream(inputs_named(text), name=text)
    ids = ids_of(given, columns)
    options = {**given.options, "keep": ids} if ids else given.options
    stream = open_stream(path, **by_name(given, options, columns))
    return stream.changed(given.change, text) if given.changes else stream


def guarded_stream(text: str, made: Guard | RegressionGuard | MapGuard) -> Stream:
    """Inputs of a guard block by block; a note says where it has no names of columns."""
    columns = encoding_of(made.nets[0] if made.nets else None) or made.notes.get("columns")
    stream = stream_named(text, columns)
    if columns is None and stream.columns is not None:
        note(
            f"columns are taken in this order: {first_of(stream.columns)}; this guard was not made "
            "from a table and has no names to compare"
        )
    return stream


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


def data_to_test(
    net: Any, name: str, read: Callable[[str, str], Pair] = labeled, part: str = "test"
) -> Pair:
    """The labeled data of a name; only the test part where a run was trained on the rest."""
    trained_on = getattr(innermost(net), "notes", {}).get("data")
    inner = innermost(net)
    dataset = None if trained_on is None else _as_in_training(name, inner)
    if dataset is None or dataset.test is None or digest(*dataset.train) != trained_on:
        return read(name, part)
    count = len(dataset.test[0])
    note(f"the run was trained on {name}: only its {count} test samples count")
    return dataset.test


def _as_in_training(name: str, net: Any) -> Dataset | None:
    """A file with all its rows, split as training splits it; None: it is not one."""
    encoding, whole = encoding_of(net), named(name).whole_file
    if not whole and (not named(name).table or encoding is None):
        return None
    try:
        if whole or encoding is None:
            tokens = named(name).source.endswith(".npz") and takes_tokens(net)
            return dataset_named(name, tokens=True) if tokens else dataset_named(name)
        return dataset_named(name, encoding=encoding, class_names=list(encoding.classes) or None)
    except (
        NescioError
    ):  # too few rows, one class, or without the target: whoever reads it will say so
        return None


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


def ood_by_name(texts: Sequence[str], read: Callable[[str], tuple[str, Any]]) -> dict[str, Any]:
    """OOD data of several options; a name stands for one of them."""
    found: dict[str, Any] = {}
    for text in texts:
        name, inputs = read(text)
        if name in found:
            raise NescioError(
                f"{name!r} is named twice among --ood and --near; name it once, or other data "
                "NAME=DATA"
            )
        found[name] = inputs
    return found


def ood_named(
    text: str,
    shape: tuple[int, ...],
    train: Tensor | None,
    *,
    count: int,
    seed: int,
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
    numbers = as_inputs(train, "training inputs", keep_bytes=True)
    return name or rest, (ood_sources[rest](numbers, **options), count)


def outliers(text: str) -> Source:
    """Inputs to be unsure on, for training: a data set, or noise made of the training inputs."""
    if text in ood_sources and _made_of_inputs(text):
        return ood_sources[text]
    if named(text).whole_file:
        return ood.another(as_inputs(inputs_named(text), text, keep_bytes=True), text)
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
