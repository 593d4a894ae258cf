"""What the words of a command stand for: inputs block by block, and labeled data of any kind."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nescio.cli.data_names import inputs_named, labeled, named
from nescio.core import NescioError
from nescio.data.readers import (
    Stream,
    array_stream,
    columns_of,
    is_streamed,
    is_table,
    open_stream,
    row_of,
)
from nescio.data.readers.csv import is_number, number
from nescio.data.readers.stream import chosen_columns, first_of, listed
from nescio.detectors import Detector
from nescio.detectors.activations import Activations
from nescio.evaluation.compare.contestants import contestants

ALL = 1 << 30  # samples of a block: all of them


def stream_named(text: str, *, columns: Sequence[str] | None = None) -> Stream:
    """Inputs by name: a file or a folder with its options, or the test part of a data set.

    columns: those that the network reads, in its order.
    """
    found = named(text)
    path = Path(found.source)
    if not path.exists() and (is_streamed(path) or ("/" in found.source and path.suffix)):
        raise NescioError(f"there is no file {found.source}; check the name")
    if not path.exists() or not (path.suffix or is_streamed(path)):
        return array_stream(inputs_named(text), name=text)
    stream = open_stream(path, **_by_name(path, found.options, columns))
    return stream.changed(found.change, text) if found.changes else stream


def _by_name(
    path: Path, options: Mapping[str, Any], columns: Sequence[str] | None
) -> dict[str, Any]:
    """Options with which a table has these columns, in this order; one that lacks some is refused.

    columns= of other names is kept: so a table that names its columns otherwise is read.
    """
    if columns is None or not is_table(path.name):
        return dict(options)
    asked = {name: options.get(name) for name in ("columns", "without")}
    known = columns_of(path, header=options.get("header")) or ()
    chosen = [known[place] for place in chosen_columns(path, known, **asked)]
    if asked["columns"] is not None and set(chosen) != set(columns):
        return dict(options)
    chosen_columns(path, chosen, columns, None)  # all there?
    kept = {name: value for name, value in options.items() if name not in asked}
    return {**kept, "columns": list(columns)}


def all_inputs(text: str, *, columns: Sequence[str] | None = None) -> Tensor:
    """Inputs of a table, with its columns by name, or of other data, all at once."""
    if not is_table(named(text).source):
        return inputs_named(text)
    x: Tensor = next(stream_named(text, columns=columns).blocks(ALL))[1]
    return x


def said_columns(stream: Stream, columns: Sequence[str] | None) -> str | None:
    """What to say where a guard without names of columns reads a table."""
    if columns is not None or stream.columns is None:
        return None
    return (
        f"columns are taken in this order: {first_of(stream.columns)}; this guard was not made "
        "from a table and has no names to compare"
    )


def detector_named(text: str) -> Callable[[Activations], Detector]:
    """What makes the detector that `knn,k=10` stands for, from training activations."""
    (found,) = contestants([text], members=1, vectors=True)
    return found.ready


def labeled_data(
    text: str,
    *,
    target: str | None = None,
    part: str = "test",
    columns: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
) -> tuple[Tensor, Tensor, tuple[str, ...] | None]:
    """Inputs, labels and the names of the columns, if there are any.

    target: the column of a table that holds the class, a whole number or one of `names`.
    columns: those of other data, which a table is to have too, in their order.
    names: of the classes, in the order of the network's outputs.
    """
    found = named(text)
    if not is_table(found.source):
        if target is not None and columns is None:  # nor is what came before
            raise NescioError(f"--target names a column of a table; {found.source} is none")
        return *labeled(text, part), None
    path, options = Path(found.source), dict(found.options)
    kept = {name: value for name, value in options.items() if name == "header"}
    known = columns_of(path, **kept) or ()
    if target is None:
        raise NescioError(
            f"say which column of {path} holds the class: --target NAME; its columns: "
            f"{', '.join(known)}"
        )
    chosen_columns(path, known, target, None)
    if target in listed(options.get("columns")):
        raise NescioError(
            f"{target!r} holds the class, so it is no input; leave it out of columns="
        )
    options["keep"] = [*listed(options.get("keep")), target]
    inputs = open_stream(path, **_by_name(path, options, columns))
    _, x = next(inputs.blocks(ALL))
    assert inputs.kept is not None
    words = np.char.strip(inputs.kept(0, len(x))[target])
    return x, torch.from_numpy(_classes(path, target, words, names, **kept)), inputs.columns


def _classes(
    path: Path, target: str, words: NDArray[np.str_], names: Sequence[str] | None, **header: Any
) -> NDArray[np.int64]:
    """Classes as whole numbers, given as such or by name."""
    distinct, places = np.unique(words, return_inverse=True)
    text = [word for word in distinct.tolist() if not is_number(word)]

    def first(wrong: NDArray[np.bool_]) -> str:
        row = int(np.flatnonzero(wrong[places])[0])
        where = row_of(path, row, **header)
        return f"column {target!r} of {path} holds {str(words[row])!r} in {where}"

    if not text:
        values = np.array([number(word) for word in distinct.tolist()])
        good = np.isfinite(values) & (values == np.round(values)) & (values >= 0)
        if not good.all():
            raise NescioError(f"{first(~good)}; it must hold classes 0, 1, 2, ...")
        found: NDArray[np.int64] = values.astype(np.int64)[places]
        return found
    if names is None:
        raise NescioError(
            f"{first(np.isin(distinct, text))}; write classes as 0, 1, ..., or name them in the "
            f"order of the network's outputs: --class-names {first_of(text).replace(', ', ',')}"
        )
    unknown = ~np.isin(distinct, names)
    if unknown.any():
        raise NescioError(f"{first(unknown)}, expected one of --class-names {', '.join(names)}")
    return np.array([list(names).index(word) for word in distinct.tolist()], np.int64)[places]


def input_columns(text: str, target: str | None) -> tuple[str, ...] | None:
    """The columns of a table that are inputs, in their order; None: it is no table."""
    found = named(text)
    path, options = Path(found.source), found.options
    if not is_table(path.name) or not path.exists():
        return None
    known = columns_of(path, header=options.get("header")) or ()
    without = [*listed(options.get("keep")), *listed(target)]
    places = chosen_columns(path, known, options.get("columns"), options.get("without"), without)
    return tuple(known[place] for place in places)


def audit_readers(
    text: str | None, target: str | None, class_names: str | None
) -> tuple[tuple[str, ...] | None, dict[str, Any]]:
    """The columns of test data that are a table, and what reads all data of an audit like them."""
    columns = None if text is None else input_columns(text, target)
    names = listed(class_names) or None

    def read(other: str, part: str) -> tuple[Tensor, Tensor]:
        return labeled_data(other, target=target, part=part, columns=columns, names=names)[:2]

    return columns, {"read": read, "read_inputs": partial(all_inputs, columns=columns)}
