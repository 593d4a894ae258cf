"""What the words of a command stand for: inputs block by block, and labelled data of any kind."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nescio.activations import Activations
from nescio.arguments import inputs_named, labelled, named
from nescio.data.streams import Stream, array_stream, columns_of, is_streamed, open_stream
from nescio.data.streams.choosing import chosen_columns
from nescio.detecting.contestants import contestants
from nescio.detectors import Detector
from nescio.errors import NescioError

TABLES = (".csv", ".csv.gz", ".csv.xz", ".parquet")
ALL = 1 << 30  # cases of a block: all of them


def is_table(path: str) -> bool:
    """Whether a path is that of a table with named columns."""
    return path.lower().endswith(TABLES)


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


def detector_named(text: str) -> Callable[[Activations], Detector]:
    """What makes the detector that `knn,k=10` stands for, from training activations."""
    (found,) = contestants([text], members=1, vectors=True)
    return found.ready


def labelled_data(
    text: str,
    *,
    target: str | None = None,
    part: str = "test",
    columns: Sequence[str] | None = None,
) -> tuple[Tensor, Tensor, tuple[str, ...] | None]:
    """Inputs, labels and the names of the columns, if there are any.

    target: the column of a table that holds the class, a whole number.
    columns: those of other data, which a table is to have too, in their order.
    """
    found = named(text)
    if not is_table(found.source):
        if target is not None:
            raise NescioError(f"--target names a column of a table; {found.source} is none")
        return *labelled(text, part), None
    path, options = Path(found.source), dict(found.options)
    kept = {name: value for name, value in options.items() if name == "header"}
    known = columns_of(path, **kept) or ()
    if target is None:
        raise NescioError(
            f"say which column of {path} holds the class: --target NAME; its columns: "
            f"{', '.join(known)}"
        )
    chosen_columns(path, known, target, None)
    if "columns" not in options:
        options["without"] = ",".join(filter(None, [str(options.get("without") or ""), target]))
    inputs = open_stream(path, **_by_name(path, options, columns))
    classes = open_stream(path, columns=[target], **kept)
    x, values = (next(stream.blocks(ALL))[1] for stream in (inputs, classes))
    y = values[:, 0]
    if not (y.isfinite().all() and (y == y.round()).all() and (y >= 0).all()):
        odd = y[~(y.isfinite() & (y == y.round()) & (y >= 0))][0]
        raise NescioError(
            f"column {target!r} of {found.source} must hold classes 0, 1, 2, ..., got {float(odd)}"
        )
    return x, y.to(torch.int64), inputs.columns
