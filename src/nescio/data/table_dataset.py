"""A data set from a table: one column is the target, the others are encoded."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nescio.core import NescioError
from nescio.data.dataset import Dataset, split
from nescio.data.encoding import Columns, learn_columns
from nescio.data.readers import row_of
from nescio.data.readers.stream import Names, chosen_columns, first_of, listed, places_of
from nescio.data.table import Values, read_table

CLASSES = 50  # different whole numbers of a target, up to which they are classes


def dataset_from_table(
    path: str | Path,
    *,
    target: str | None = None,
    columns: Names = None,
    without: Names = None,
    keep: Names = None,
    header: bool | None = None,
    class_names: Sequence[str] | None = None,
    regression: bool = False,
    encoding: Columns | None = None,
    seed: int = 0,
) -> Dataset:
    """Read a .csv (also .gz, .xz) or .parquet file as a data set, split 80 / 10 / 10 by `seed`.

    target: the column to predict. Text, and up to 50 different whole numbers from 0 on, are
    classes; other numbers make a regression. columns, without, keep: of the others, those that are
    inputs, or are not; those in `keep` are ids. class_names: of a target that holds text, in the
    order of the classes; alphabetical without it. regression: whole numbers are not classes.
    encoding: of a model; without it, it is learned from the training rows (`learn_columns`).
    """
    path = Path(path)
    table = read_table(path, header=header)
    target = target or (None if encoding is None else encoding.target)
    if target is None:
        raise NescioError(
            f"say which column of {path} is to be predicted: --target NAME, or target=; its "
            f"columns: {first_of(table.names)}"
        )
    places_of(path, table.names, target)
    chosen = chosen_columns(path, table.names, columns, without, [*listed(keep), target])
    names = [table.names[place] for place in chosen if table.names[place] != target]
    options = {} if header is None else {"header": header}
    targets, classes = _targets(path, table[target], target, class_names, regression, options)
    rows = torch.arange(len(table))[:, None]  # split like inputs
    parts = [None if part is None else part[0][:, 0] for part in split((rows, targets), seed)]
    inputs = table.only(*names, *(name for name in listed(keep) if name not in names))
    if encoding is None:
        assert parts[0] is not None
        learned = learn_columns(inputs.rows(parts[0].numpy()), ids=listed(keep))
        own = tuple(classes) if isinstance(classes, list) else ()
        encoding = replace(learned, target=target, classes=own)
    x = encoding.encode(table if columns is None else inputs).x
    train, validation, test = (None if part is None else (x[part], targets[part]) for part in parts)
    assert train is not None
    count = len(classes) if isinstance(classes, list) else classes
    return Dataset(path.stem, train, validation, test, count, encoding)


def _targets(
    path: Path,
    values: Values,
    target: str,
    names: Sequence[str] | None,
    regression: bool,
    options: dict[str, Any],
) -> tuple[Tensor, list[str] | int | None]:
    """Targets, and the names of the classes, their number, or None for a regression."""
    text = values.dtype.kind != "f"
    holes = values == "" if text else np.isnan(values)
    if holes.any():
        where = row_of(path, int(holes.argmax()), **options)
        raise NescioError(
            f"the target {target!r} of {path} is empty in {int(holes.sum())} rows (first in "
            f"{where}); leave these rows out"
        )
    different = np.unique(values)
    if text:
        known = list(names) if names is not None else [str(name) for name in different]
        if regression or (names is None and len(known) > CLASSES):
            _refuse_strays(path, values, target, options)
            raise NescioError(
                f"the target {target!r} of {path} holds {len(different)} different texts, such as "
                f"{str(different[0])!r}; expected numbers, or up to {CLASSES} classes "
                "(--class-names takes more)"
            )
        strange = [str(name) for name in different if name not in known]
        if strange:
            raise NescioError(
                f"the target {target!r} of {path} holds {first_of(strange)}, expected one of "
                f"{first_of(known)}"
            )
        number = {name: index for index, name in enumerate(known)}
        return torch.tensor([number[str(value)] for value in values]), known
    whole = bool((different == different.round()).all() and different[0] >= 0)
    if whole and not regression and len(different) <= CLASSES:
        count = int(different[-1]) + 1
        return torch.from_numpy(values.astype(np.int64)), max(count, len(names or ()))
    return torch.from_numpy(values.astype(np.float32))[:, None], None


def _refuse_strays(path: Path, values: Values, target: str, options: dict[str, Any]) -> None:
    """Name the first value that is not a number, where most of them are."""
    strays = np.array([not _is_number(value) for value in values])
    if 2 * strays.sum() < len(strays):
        row = int(strays.argmax())
        raise NescioError(
            f"the target {target!r} of {path} holds {str(values[row])!r} in "
            f"{row_of(path, row, **options)}, and numbers in most rows; correct or remove "
            f"{'it' if strays.sum() == 1 else f'the {int(strays.sum())} rows without a number'}"
        )


def _is_number(text: Any) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
