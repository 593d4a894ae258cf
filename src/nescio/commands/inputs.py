"""What the words of a command stand for: inputs block by block, and labelled data of any kind."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nescio.activations import Activations
from nescio.arguments import inputs_named, labelled, named
from nescio.data.streams import Stream, array_stream, is_streamed, open_stream
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

    columns: those that the network reads, of a table that says nothing else.
    """
    found = named(text)
    if not Path(found.source).exists() or not is_streamed(found.source):
        if Path(found.source).suffix and ":" not in found.source and "/" in found.source:
            raise NescioError(f"there is no file {found.source}; check the name")
        return array_stream(inputs_named(text), name=text)
    options = dict(found.options)
    if columns and is_table(found.source) and not {"columns", "without"} & options.keys():
        options["columns"] = list(columns)
    stream = open_stream(found.source, **options)
    return stream.changed(found.change, text) if found.changes else stream


def detector_named(text: str) -> Callable[[Activations], Detector]:
    """What makes the detector that `knn,k=10` stands for, from training activations."""
    (found,) = contestants([text], members=1, vectors=True)
    return found.ready


def labelled_data(
    text: str, *, target: str | None = None, part: str = "test"
) -> tuple[Tensor, Tensor, tuple[str, ...] | None]:
    """Inputs, labels and the names of the columns, if there are any.

    target: the column of a table that holds the class, a whole number.
    """
    found = named(text)
    if not is_table(found.source):
        if target is not None:
            raise NescioError(f"--target names a column of a table; {found.source} is none")
        return *labelled(text, part), None
    options: dict[str, Any] = dict(found.options)
    everything = open_stream(found.source, **{k: v for k, v in options.items() if k == "header"})
    assert everything.columns is not None
    if target is None:
        raise NescioError(
            f"say which column of {found.source} holds the class: --target NAME; its columns: "
            f"{', '.join(everything.columns)}"
        )
    chosen_columns(Path(found.source), everything.columns, target, None)
    if "columns" not in options:
        options["without"] = ",".join(filter(None, [str(options.get("without") or ""), target]))
    inputs = open_stream(found.source, **options)
    kept = {k: v for k, v in options.items() if k == "header"}
    classes = open_stream(found.source, columns=[target], **kept)
    x, values = (next(stream.blocks(ALL))[1] for stream in (inputs, classes))
    y = values[:, 0]
    if not (y.isfinite().all() and (y == y.round()).all() and (y >= 0).all()):
        odd = y[~(y.isfinite() & (y == y.round()) & (y >= 0))][0]
        raise NescioError(
            f"column {target!r} of {found.source} must hold classes 0, 1, 2, ..., got {float(odd)}"
        )
    return x, y.to(torch.int64), inputs.columns
