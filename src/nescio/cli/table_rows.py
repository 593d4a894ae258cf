"""Rows of a table that is named on the command line: which columns are read, and the classes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nescio.cli.named_data import Named, named
from nescio.core import NescioError
from nescio.data import Columns as Encoding
from nescio.data import readers
from nescio.data.readers.raw_rows import is_number, number
from nescio.data.readers.stream import chosen_columns, first_of, listed
from nescio.models import encoding_of
from nescio.training import Pair

ALL = 1 << 30  # samples of a block: all of them
Columns = Sequence[str] | Encoding | None  # names of those that a network reads, or how


def input_columns(
    text: str, target: str | None, net: Any = None, aside: Sequence[str] = ()
) -> Columns:
    """The columns of a table that are inputs, in their order; None for other data.

    net: if it reads tables, its encoding. aside: other columns that are not inputs.
    """
    if (encoding := encoding_of(net)) is not None:
        return encoding
    given = named(text)
    path, options = Path(given.source), given.options
    if not given.table or not readers.is_there(path):
        return None
    known = readers.columns_of(path, **given.header) or ()
    without = [*listed(options.get("keep")), *listed(target), *aside]
    chosen = chosen_columns(path, known, options.get("columns"), options.get("without"), without)
    return tuple(known[index] for index in chosen)


def by_name(given: Named, options: Mapping[str, Any], columns: Columns) -> dict[str, Any]:
    """Options with which a table has these columns, in this order; one that lacks some is refused.

    columns= of other names stays: so a table that names its columns otherwise can be read.
    """
    path = Path(given.source)
    if columns is None or not given.table:
        return dict(options)
    if isinstance(columns, Encoding):
        if options.get("columns") is not None:
            raise NescioError(
                f"the network encodes its columns by name, so {path}:columns= has no meaning; it "
                f"reads {first_of(columns.names)}"
            )
        return {**{name: v for name, v in options.items() if name != "without"}, "encode": columns}
    asked = {name: options.get(name) for name in ("columns", "without")}
    known = readers.columns_of(path, **given.header) or ()
    chosen = [known[index] for index in chosen_columns(path, known, **asked)]
    if asked["columns"] is not None and set(chosen) != set(columns):
        return dict(options)
    chosen_columns(path, chosen, columns, None)  # all there?
    rest = {name: value for name, value in options.items() if name not in asked}
    return {**rest, "columns": list(columns)}


def names_of(columns: Columns) -> Sequence[str] | None:
    """Names that a guard has to remember; an encoding it has anyway."""
    return None if isinstance(columns, Encoding) else columns


def ids_of(given: Named, columns: Columns) -> list[str]:
    """The columns that are copied beside the results: those in keep=, and the ids of a model."""
    kept = listed(given.options.get("keep"))
    if not isinstance(columns, Encoding) or not given.table:
        return kept
    known = readers.columns_of(given.source, **given.header) or ()
    return [*kept, *(name for name in columns.ids if name in known and name not in kept)]


def labeled_rows(
    given: Named,
    target: str | None,
    names: Sequence[str] | None,
    columns: Columns,
    *,
    numbers: bool = False,
) -> Pair:
    """Inputs, and classes `(N,)` or, of a regression, numbers `(N, D)`, one per column named."""
    path, options = Path(given.source), dict(given.options)
    known = readers.columns_of(path, **given.header) or ()
    if isinstance(columns, Encoding):
        target, names = target or columns.target, names or columns.classes or None
    what = "the target" if numbers else "the class"
    if target is None:
        raise NescioError(
            f"say which column of {path} holds {what}: --target NAME; its columns: "
            f"{', '.join(known)}"
        )
    wanted = listed(target) if numbers else [target]
    if isinstance(columns, Encoding) and (inputs := [n for n in wanted if n in columns.names]):
        own = f"it predicts {columns.target!r}" if columns.target else "name what it predicts"
        raise NescioError(f"{first_of(inputs)} is an input of the network; {own}")
    for name in wanted:
        chosen_columns(path, known, name, None)
        if name in listed(options.get("columns")):
            raise NescioError(
                f"{name!r} holds {what}, so it is not an input; leave it out of columns="
            )
    options["keep"] = [*listed(options.get("keep")), *wanted]
    stream = readers.open_stream(path, **by_name(given, options, columns))
    x: Tensor = next(stream.blocks(ALL))[1]
    assert stream.kept is not None
    kept = stream.kept(0, len(x))
    words = [np.char.strip(kept[name]) for name in wanted]
    if not numbers:
        return x, torch.from_numpy(_classes(given, target, words[0], names))
    each = [_numbers(given, name, own) for name, own in zip(wanted, words, strict=True)]
    return x, torch.from_numpy(np.stack(each, axis=1))


def _numbers(given: Named, target: str, words: NDArray[np.str_]) -> NDArray[np.float64]:
    """The numbers of a column, all of them finite."""
    values = np.array([number(word) if is_number(word) else np.nan for word in words.tolist()])
    if not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values))[0])
        where = readers.row_of(given.source, row, **given.header)
        raise NescioError(
            f"column {target!r} of {given.source} holds {str(words[row])!r} in {where}; a target "
            "must be a number: correct or remove the row"
        )
    return values


def _classes(
    given: Named, target: str, words: NDArray[np.str_], names: Sequence[str] | None
) -> NDArray[np.int64]:
    """Classes as whole numbers, given as such or by name."""
    distinct, index = np.unique(words, return_inverse=True)
    text = [word for word in distinct.tolist() if not is_number(word)]

    def first(wrong: NDArray[np.bool_]) -> str:
        row = int(np.flatnonzero(wrong[index])[0])
        where = readers.row_of(given.source, row, **given.header)
        return f"column {target!r} of {given.source} holds {str(words[row])!r} in {where}"

    if not text:
        values = np.array([number(word) for word in distinct.tolist()])
        good = np.isfinite(values) & (values == np.round(values)) & (values >= 0)
        if not good.all():
            raise NescioError(
                f"{first(~good)}; it must hold classes 0, 1, 2, ...; of a network that predicts "
                "numbers say how it is read: --head gaussian, or --head fixed_variance"
            )
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
