"""The forms that data come in: tables, arrays and loaders, each as batches of raw inputs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils import data as torch_data

from nescio.core import Bundle, Inputs, NescioError, as_inputs, as_tensor, shape_of, unknown
from nescio.data.dataset import Dataset
from nescio.data.ood import OODSource
from nescio.data.readers.csv import MISSING, csv_words
from nescio.data.readers.stream import Stream

Values = NDArray[Any]


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """Columns by name, each with one value per row: numbers, or text. NaN and "" are missing."""

    columns: Mapping[str, Values]  # float64 (N,), or text (N,)

    def __post_init__(self) -> None:
        for name, values in self.columns.items():
            if not isinstance(values, np.ndarray) or values.dtype.kind not in "fU":
                raise NescioError(f"column {name!r} is raw; make a table with read_table")
        lengths = {name: len(values) for name, values in self.columns.items()}
        if not lengths or not min(lengths.values()):
            raise NescioError("a table needs at least one column and one row")
        if len(set(lengths.values())) > 1:
            raise NescioError(f"columns of a table must have one length, got {lengths}")

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __repr__(self) -> str:
        return f"Table({len(self)} rows; {', '.join(self.columns)})"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self.columns)

    def __getitem__(self, name: str) -> Values:
        """One column."""
        if name not in self.columns:
            raise NescioError(unknown("column", name, self.columns))
        return self.columns[name]

    def rows(self, chosen: Any) -> "Table":
        """Some of the rows: a slice, indices or a mask."""
        return Table({name: values[chosen] for name, values in self.columns.items()})

    def only(self, *names: str) -> "Table":
        """Some of the columns, in this order."""
        return Table({name: self[name] for name in names})

    def without(self, *names: str) -> "Table":
        """All columns but some."""
        for name in names:
            self[name]  # known?
        return Table({name: v for name, v in self.columns.items() if name not in names})

    def changed(self, **columns: Any) -> "Table":
        """The same with some columns replaced or added."""
        return Table({**self.columns, **{name: column(name, v) for name, v in columns.items()}})


def read_table(
    source: Any,
    *,
    names: Sequence[str] | None = None,
    header: bool | None = None,
    missing: Sequence[str] = MISSING,
) -> Table:
    """A table from a CSV file (plain, .gz or .xz), a dict of arrays, a structured array or a frame.

    names: of the columns, where the file has no header. header: whether the first row holds names;
    None: see `is_header`. Without either, columns are 0, 1, ... missing: texts that stand for no
    value; blanks around a value do not count. A column whose values are all numbers holds numbers.
    A frame is a table of pandas or Arrow.
    """
    if isinstance(source, Table):
        return source
    if names is not None and header:
        raise NescioError("give names= for a file without a header, or header=True, not both")
    if isinstance(source, (str, Path)):
        source = csv_words(source, names=names, header=header)
    if isinstance(source, np.ndarray):
        if source.dtype.names is None:
            raise NescioError(
                f"an array of a table must be structured, with named fields, got {source.dtype}; "
                'give a dict of arrays: {"age": ages, ...}'
            )
        source = {name: source[name] for name in source.dtype.names}
    if not isinstance(source, Mapping) and is_frame(source):
        labels = getattr(source, "column_names", None) or source.columns
        source = {label: source[label] for label in labels}
    if not isinstance(source, Mapping):
        raise NescioError(
            "a table is read from the path of a CSV file, a dict of arrays, a structured array or "
            f"a table of pandas or Arrow, got {type(source).__name__}"
        )
    return Table({str(name): column(str(name), v, missing) for name, v in source.items()})


def is_frame(value: Any) -> bool:
    """Whether it is a table of nescio, pandas or Arrow."""
    names = hasattr(value, "columns") or hasattr(value, "column_names")
    return isinstance(value, Table) or (names and hasattr(value, "__array__"))


def column(name: str, values: Any, missing: Sequence[str] = MISSING) -> Values:
    """Values as numbers with NaN, or as text with ""; None, NaN and the marks are missing."""
    try:
        array = np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as error:
        raise NescioError(
            f"column {name!r} is not an array of one value per row: {error}"
        ) from None
    if array.ndim != 1:
        raise NescioError(f"column {name!r} must be (N,), got shape {array.shape}")
    if array.dtype.kind in "biuf":
        return _finite(name, array.astype(np.float64))
    if array.dtype.kind not in "OUST":
        raise NescioError(
            f"column {name!r} must hold numbers or text, got {array.dtype}; of dates make numbers, "
            "such as days since the first"
        )
    cells = array.tolist()
    try:
        known = {value: _text(value) for value in set(cells)}  # few different ones, often
    except (TypeError, UnicodeDecodeError) as error:
        raise NescioError(f"column {name!r} must hold numbers or text: {error}") from None
    marks = set(missing)
    holes = {value for value, text in known.items() if text in marks}
    try:
        numbers = {v: np.nan if v in holes else float(text) for v, text in known.items()}
    except ValueError:
        return np.array(["" if value in holes else known[value] for value in cells])
    return _finite(name, np.array([numbers[value] for value in cells], dtype=np.float64))


def _text(value: Any) -> str:
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return ""
    if isinstance(value, (bool, np.bool_)):
        return str(int(value))  # as a column of truth values without holes
    return value.decode().strip() if isinstance(value, bytes) else str(value).strip()


def _finite(name: str, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    if np.isinf(numbers).any():
        row = int(np.isinf(numbers).nonzero()[0][0])
        raise NescioError(
            f"column {name!r} holds infinity (first in row {row}); a missing value is NaN: "
            "repair it"
        )
    return numbers


Raw: TypeAlias = Iterator[tuple[Any, Any]]  # inputs and labels as they come; None: no labels
LABELS = ("labels", "label")  # where a mapping has them
FORMS = (
    "an array (N, ...), a pair (x, y), a mapping of arrays, a DataLoader or other iterable of "
    "batches x or (x, y), or an OOD source with count="
)


def several(value: Any) -> bool:
    """Whether inputs are several arrays: a mapping, or a tuple of arrays."""
    arrays = isinstance(value, tuple) and all(map(_is_array, value)) and len(value) > 0
    return isinstance(value, Bundle | Mapping) or (arrays and all(v.ndim for v in value))


def parts_of(value: Any) -> list[tuple[str, Any]]:
    """Several arrays with their names; those of a tuple are 0, 1, ..."""
    parts = value.parts if isinstance(value, Bundle) else value
    items = parts.items() if isinstance(parts, Mapping) else enumerate(parts)
    return [(str(name), part) for name, part in items]


def converted(
    given: Any, name: str, *, dtype: torch.dtype | None, tokens: bool, finite: bool
) -> Inputs:
    """Inputs as a tensor or a bundle of them, of the number types a network reads."""
    one = partial(_tensor, dtype=dtype, finite=finite)
    if not several(given):
        return one(given, name, whole=tokens)
    parts = parts_of(given)
    return Bundle({key: one(part, f"{name}, {key!r}", flat=True) for key, part in parts})


def _tensor(
    given: Any,
    name: str,
    *,
    dtype: torch.dtype | None,
    finite: bool,
    whole: bool = True,
    flat: bool = False,
) -> Tensor:
    """One tensor; whole: integers stay integers; flat: one number per sample will do."""
    x = as_tensor(given, name)
    if x.ndim > (0 if flat else 1) and len(x):
        floats = x.is_floating_point()
        if whole and not floats and x.dtype != torch.uint8 and not x.is_complex():
            return x
        if floats and dtype in (None, x.dtype) and (not finite or x.sum().isfinite()):
            return x  # what is checked below, in a fifth of the time
    if flat and x.ndim == 1:
        return as_inputs(x[:, None], name, dtype=dtype or x.dtype, finite=finite)[:, 0]
    if dtype is None:
        dtype = x.dtype if x.is_floating_point() else torch.float32
    return as_inputs(x, name, dtype=dtype, keep_bytes=True, finite=finite)


def prepared(data: Any) -> Any:
    """Tables as arrays of numbers; a file's stream as its blocks."""
    if isinstance(data, tuple) and len(data) == 2 and is_frame(data[0]):
        return prepared(data[0]), data[1]
    if is_frame(data):
        data = read_table(data)
        text = [name for name in data.names if data[name].dtype.kind != "f"]
        if text:
            raise NescioError(
                f"the column {text[0]!r} holds text; encode the table first: "
                "learn_columns(train).encode(table).x"
            )
        return np.stack([data[name] for name in data.names], 1)
    return data


def raw_batches(data: Any, count: int | None, size: int) -> tuple[Callable[[], Raw], int | None]:
    """Batches as they come, and how many samples there are at most."""
    if isinstance(data, Dataset):
        raise NescioError(f"{data.name!r} is a whole data set; give a part of it: data.test")
    if isinstance(data, OODSource):
        total = _total(data, count)
        spans = [torch.arange(i, min(i + size, total)) for i in range(0, total, size)]
        return lambda: ((data(span), None) for span in spans), total
    if isinstance(data, Stream):
        return lambda: ((x, None) for _, x in data.blocks(min(size, 1 << 16))), data.total
    if isinstance(data, Bundle) or (isinstance(data, Mapping) and data):
        return _slices(*split_labels(data), size)
    if isinstance(data, tuple) and len(data) == 2 and not are_batches(data):
        return _slices(split_labels(data[0])[0], data[1], size)
    if _is_array(data) or hasattr(data, "__array__") or _is_nested(data):
        return _slices(data, None, size)
    if isinstance(data, torch_data.Dataset):
        data = torch_data.DataLoader(data, batch_size=min(size, 1024))
    if isinstance(data, str | bytes | Mapping) or not hasattr(data, "__iter__"):
        raise NescioError(f"data must be {FORMS}; got {described(data)}")
    return lambda: map(_pair, data), _most(data)


def _slices(x: Any, y: Any, size: int) -> tuple[Callable[[], Raw], int]:
    """Batches of arrays in memory; a memory-mapped one is not read as a whole."""
    if several(x):
        x = Bundle({name: as_tensor(part, f"inputs, {name!r}") for name, part in parts_of(x)})
    elif not _is_array(x):
        x = as_tensor(x, "inputs")
    if getattr(x, "ndim", 2) < 1 or not len(x):
        shape = shape_of(x) if isinstance(x, Bundle) else tuple(x.shape)
        raise NescioError(f"inputs are empty, shape {shape}; give at least one sample")
    labels = None if y is None else as_tensor(y, "labels")
    if labels is not None and labels.ndim and len(labels) != len(x):
        raise NescioError(f"{len(x)} inputs but {len(labels)} labels; one per sample")

    def slices() -> Raw:
        for start in range(0, len(x), size):
            span = slice(start, start + size)
            yield x[span], None if labels is None else labels[span]

    return slices, len(x)


def all_inputs(data: Any, dtype: torch.dtype | None, count: int | None) -> Inputs | None:
    """All inputs without a copy, where they are in memory as they are needed."""
    x = data[0] if isinstance(data, tuple) and data else data
    if isinstance(x, np.ndarray) and x.flags.writeable and not isinstance(x, np.memmap):
        x = as_tensor(x, "inputs")
    ready = isinstance(x, Tensor) and x.dtype in (torch.uint8, dtype)
    return x.detach()[:count] if ready else None


def _is_array(value: Any) -> bool:
    return isinstance(value, Tensor | np.ndarray)


def are_batches(pair: Any) -> bool:
    """Whether two things are two batches, rather than inputs and labels."""
    batch = [isinstance(v, tuple | list) and any(map(_is_array, v)) for v in pair]
    return all(batch) or all(isinstance(v, Mapping) for v in pair)


def _is_nested(value: Any) -> bool:
    """Whether it is an array in lists of numbers."""
    inner = value
    while isinstance(inner, list | tuple) and inner:
        inner = inner[0]
    return inner is not value and isinstance(inner, int | float | np.number)


def split_labels(batch: Any) -> tuple[Any, Any]:
    """The inputs of a mapping and its labels; other inputs have none."""
    if not isinstance(batch, Mapping):
        return batch, None
    inputs = {str(name): value for name, value in batch.items() if name not in LABELS}
    if not inputs:
        raise NescioError(f"a mapping of inputs has no key but {', '.join(batch)}; give inputs too")
    return inputs, next((batch[name] for name in LABELS if name in batch), None)


def _pair(batch: Any) -> tuple[Any, Any]:
    """A loader's batch as inputs and labels."""
    if _is_array(batch) or isinstance(batch, Bundle | Mapping):
        return split_labels(batch)
    if isinstance(batch, tuple | list) and len(batch) == 1:
        return split_labels(batch[0])
    if isinstance(batch, tuple | list) and len(batch) == 2:
        inputs = tuple(batch[0]) if isinstance(batch[0], list) else batch[0]  # torch collates so
        return split_labels(inputs)[0] if several(inputs) else batch[0], batch[1]
    kind = f"{type(batch).__name__} of {len(batch)}" if hasattr(batch, "__len__") else str(batch)
    raise NescioError(
        f"a batch must be x or (x, y), got a {kind}; take them out first: "
        "((b[0], b[1]) for b in loader); several inputs are a tuple, ((b[0], b[1]), b[2])"
    )


def _most(data: Any) -> int | None:
    """How many samples a loader or a list of batches has at most, where it can be known."""
    if isinstance(data, list | tuple):
        return sum(_length(_pair(batch)[0]) for batch in data)
    if not isinstance(data, torch_data.DataLoader) or data.batch_size is None:
        return None
    try:
        return len(data) * data.batch_size
    except TypeError:  # a stream
        return None


def _length(x: Any) -> int:
    return max(len(part) for _, part in parts_of(x)) if several(x) else len(x)


def _total(data: OODSource, count: int | None) -> int:
    if count is None and data.size is None:
        raise NescioError(f"{data.name!r} is endless; say how many inputs to take: count=1000")
    if count is not None and data.size is not None and count > data.size:
        raise NescioError(f"count={count}, but {data.name!r} has {data.size} inputs")
    return count or data.size or 0


def described(data: Any) -> str:
    shape = f" of shape {tuple(data.shape)}" if _is_array(data) else ""
    return f"a {type(data).__name__}{shape}"
