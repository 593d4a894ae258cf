"""The forms that data come in: tables, arrays and loaders, each as batches of raw inputs."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.utils import data as torch_data

from nescio.core import Bundle, Inputs, NescioError, as_inputs, as_tensor, shape_of
from nescio.data.dataset import Dataset
from nescio.data.encoding import Columns
from nescio.data.ood import OODSource
from nescio.data.readers.stream import Stream
from nescio.data.table import is_frame, read_table

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
    given: Any,
    name: str,
    *,
    dtype: torch.dtype | None,
    tokens: bool,
    finite: bool,
    columns: Columns | None = None,
) -> Inputs:
    """Inputs as a tensor or a bundle of them, of the number types a network reads."""
    if is_rows(given, columns):  # a batch of a loader
        given = as_numbers(given, columns)
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


def prepared(data: Any, columns: Columns | None = None) -> Any:
    """Tables as arrays of numbers, encoded by `columns`; other data as they are."""
    if isinstance(data, tuple) and len(data) == 2 and not are_batches(data):
        x, y = data
        return (prepared(x, columns), y) if is_rows(x, columns) else data
    if not is_rows(data, columns):
        return data
    if isinstance(data, Mapping) and set(LABELS) & set(data):
        rows, y = split_labels(data)
        return prepared(rows, columns), y
    return as_numbers(data, columns)


def stacked(data: Any, shape: tuple[int, ...] | None) -> Any:
    """A list of samples, arrays of one `shape` without a sample axis, as one array.

    Without a known shape, vectors of one length are samples: a batch has more axes.
    """
    if not isinstance(data, list) or not data or not all(map(_is_array, data)):
        return data
    if {tuple(row.shape) for row in data} != {shape or tuple(data[0].shape[:1])}:
        return data
    return torch.stack([as_tensor(row, "inputs") for row in data])


def is_rows(value: Any, columns: Columns | None) -> bool:
    """Whether it is a table; for a network with columns also arrays or records by their names."""
    if columns is None or is_frame(value):
        return is_frame(value)
    if isinstance(value, list):
        return (
            bool(value)
            and all(isinstance(row, Mapping) for row in value)
            and not any(map(_is_array, value[0].values()))
        )
    named = getattr(getattr(value, "dtype", None), "names", None)  # a structured array
    return isinstance(value, Mapping) or named is not None


def as_numbers(rows: Any, columns: Columns | None) -> Any:
    """The rows of a table as numbers `(N, F)`."""
    if columns is not None:
        return columns.numbers(_by_column(rows, columns) if isinstance(rows, list) else rows)
    table = read_table(rows)
    text = [name for name in table.names if table[name].dtype.kind != "f"]
    if text:
        raise NescioError(
            f"the column {text[0]!r} holds text; learn how to encode the table from its training "
            "rows, columns = learn_columns(train), and give the network with it, "
            "nescio.nets.encoded(net, columns)"
        )
    return np.stack([table[name] for name in table.names], 1)


def _by_column(records: Any, columns: Columns) -> dict[str, list[Any]]:
    """Records as columns; what some of them lack is missing, what none has is an error."""
    given = {name for record in records for name in record}
    if absent := [name for name in columns.names if name not in given]:
        raise NescioError(
            f"no record has the column {absent[0]!r}; they have "
            f"{', '.join(sorted(map(str, given)))}. Of a value that is missing give None"
        )
    return {name: [record.get(name) for record in records] for name in columns.names}


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
