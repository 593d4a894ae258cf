"""The door for data: whatever takes data reads it here, in batches or whole.

Data are an array `(N, ...)`, a pair `(x, y)`, a mapping of arrays, a nescio `Table` or another
table of numbers, a torch `Dataset`, a `DataLoader` or another iterable of batches, a `Stream` of a
file, or an OOD source with a count. Inputs x are an array, a tuple of arrays or a mapping of
arrays; the labels of a mapping stand under `labels` or `label`. `batches` gives one batch at a
time, `read` reads the same batches to the end, `as_network_inputs` takes inputs without labels.

Whole numbers become floats, unless the network reads tokens or there are several tensors. Images
of uint8 stay bytes until `nescio.core.as_batch` divides them by 255.
"""

import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.utils import data as torch_data

from nescio.core import Bundle, Inputs, NescioError, Shape, as_inputs, as_tensor, joined, shape_of
from nescio.data.dataset import Dataset
from nescio.data.ood import OODSource
from nescio.data.readers.stream import Stream, exactly
from nescio.data.table import Table, is_frame, read_table

Batch: TypeAlias = tuple[Inputs, Tensor | None]  # inputs (n, ...), labels (n,)
Raw: TypeAlias = Iterator[
    tuple[Any, Any]
]  # the same as they come; labels None where there are none
LABELS = ("labels", "label")  # where a mapping has them
BATCH = 256  # samples
MEMORY = 16_000_000_000  # bytes that reading whole may take
FORMS = (
    "an array (N, ...), a pair (x, y), a mapping of arrays, a DataLoader or other iterable of "
    "batches x or (x, y), or an OOD source with count="
)
ONCE = (
    "these data can be read only once, as a generator can, and were read before; give a list of "
    "batches or a DataLoader"
)


@dataclass(frozen=True, eq=False, kw_only=True)
class Batches:
    """Batches of checked inputs and labels."""

    of: str  # " of" and the name of the data, for messages
    most: int | None  # samples, or more than there are; None: unknown
    whole: Inputs | None  # all inputs, where they are in memory as they are needed
    raw: Callable[[], Raw]
    convert: Callable[[Any, str], Inputs]
    labels: Any  # None: those that come with the data; False: none; or one per sample
    count: int | None
    targets: bool  # whether labels may have any shape (n, ...)
    fixed: bool  # whether all batches must have one shape
    once: bool  # whether they can be read only once
    begun: list[Iterator[Batch]] = field(default_factory=list)
    ahead: list[Batch] = field(default_factory=list)  # read, and not yet given

    @property
    def first(self) -> Batch:
        """The first batch, before the batches are gone through, which begins with it."""
        if not self.ahead:
            self.ahead.append(next(self._open()))
        return self.ahead[0]

    def __iter__(self) -> Iterator[Batch]:
        if self.ahead:
            yield self.ahead.pop()
            yield from self.begun[-1]
        else:
            yield from self._open()

    def _open(self) -> Iterator[Batch]:
        if self.once and self.begun:
            raise NescioError(ONCE)
        self.begun.append(self._read())
        return self.begun[-1]

    def _read(self) -> Iterator[Batch]:
        start, labeled, shape = 0, None, None
        for given, targets in self.raw():
            x = self.convert(given, f"the inputs from sample {start}{self.of}")
            shape = self._same_shape(shape, x)
            y = None
            if targets is not None and self.labels is not False:
                y = _labels(targets, len(x), targets=self.targets)
            if labeled not in (None, y is not None):
                raise NescioError("some batches have labels and some have none; give all or none")
            labeled = y is not None
            if isinstance(self.labels, Tensor):
                y = self.labels[start : start + len(x)]
            if self.count is not None:
                x, y = x[: self.count - start], None if y is None else y[: self.count - start]
            start += len(x)
            yield x, y
            if start == self.count:
                break
        self._check(start)

    def _same_shape(self, before: Shape | None, x: Inputs) -> Shape:
        now = shape_of(x)
        if before is not None and isinstance(before, dict) != isinstance(now, dict):
            raise NescioError("some batches are one tensor and some are several; give one form")
        if isinstance(before, dict) and isinstance(now, dict) and before.keys() != now.keys():
            raise NescioError(
                f"batches have different keys: {', '.join(before)}, then {', '.join(now)}"
            )
        if self.fixed and before not in (None, now):
            raise NescioError(
                f"batches have different shapes per sample: {before}, then {now}; resize or pad "
                "all of them alike, to one length for example"
            )
        return now

    def _check(self, samples: int) -> None:
        """Whether there were as many samples as was said."""
        if not samples:
            raise NescioError("there is no data: no batch came; a generator can be used only once")
        if self.count is not None and samples < self.count:
            raise NescioError(f"count={self.count}, but there are {samples} samples")
        if isinstance(self.labels, Tensor) and samples != len(self.labels):
            raise NescioError(f"{samples} inputs but {len(self.labels)} labels; one per sample")


def batches(
    data: Any,
    *,
    name: str | None = None,
    labels: Any = None,
    count: int | None = None,
    batch_size: int = BATCH,
    dtype: torch.dtype | None = None,
    tokens: bool = False,
    finite: bool = True,
    fixed: bool = True,
    targets: bool = False,
) -> Batches:
    """Data of any form as batches; those of a loader stay as they are.

    name: of the data, for messages.
    labels: one per sample, where the data come without; False leaves those of the data out.
    count: only the first samples. dtype: of floats; None: as they are. tokens: whether whole
    numbers of a tensor stay whole. finite: refuse NaN and infinity. fixed: refuse batches of
    different shapes. targets: labels may have any shape `(n, ...)`.

    >>> [(x.shape, y) for x, y in batches((torch.zeros(3, 2), [0, 1, 1]), batch_size=2)]
    [(torch.Size([2, 2]), tensor([0, 1])), (torch.Size([1, 2]), tensor([1]))]
    """
    if isinstance(data, Batches):
        return data
    if batch_size < 1 or (count is not None and count < 1):
        raise NescioError("batch_size and count must be at least 1")
    if labels is not None and labels is not False:
        labels = as_tensor(labels, "labels")
        labels = _labels(labels, len(labels) if labels.ndim else 0, targets=targets)
    data = _prepared(data)
    raw, most = _raw(data, count, batch_size)
    if count is not None:
        most = count if most is None else min(most, count)
    return Batches(
        of=f" of {name}" if name else "",
        most=most,
        whole=_whole(data, dtype, count),
        raw=raw,
        convert=partial(_converted, dtype=dtype, tokens=tokens, finite=finite),
        labels=labels,
        count=count,
        targets=targets,
        fixed=fixed,
        once=isinstance(data, Iterator),
    )


def read(
    data: Any,
    *,
    name: str = "the data",
    labels: bool = True,
    dtype: torch.dtype | None = None,
    tokens: bool = False,
    memory: int = MEMORY,
) -> tuple[Any, Any]:
    """All inputs and labels of data of any form, in memory; arrays are not copied.

    name: of the data, for messages. labels: whether there must be some; otherwise they may be
    None. dtype, tokens: as for `batches`. memory: bytes that the data may take.
    """
    if labels and isinstance(data, list) and len(data) == 2 and not _are_batches(data):
        data = tuple(data)
    xs, ys, size = [], [], 0
    options: dict[str, Any] = {"name": name, "dtype": dtype, "tokens": tokens, "targets": True}
    for x, y in batches(data, batch_size=1 << 62, **options):
        if labels and y is None:
            raise NescioError(
                f"{name} must have labels: a pair (x, y), a loader of such pairs, or mappings with "
                f"the key {LABELS[0]!r}; {_what(data)} has none"
            )
        size += x.nbytes
        if size > memory:
            raise NescioError(
                f"{name} is read into memory and takes more than {memory:,} bytes, which is the "
                "limit; give fewer samples"
            )
        xs.append(x)
        ys.append(y)
    return joined(xs), None if ys[0] is None else joined(ys)


def as_network_inputs(
    value: Any,
    name: str = "inputs",
    *,
    dtype: torch.dtype | None = torch.float32,
    tokens: bool = False,
    finite: bool = True,
) -> Any:
    """Inputs without labels, checked: a tensor, or a bundle of several; bytes stay bytes."""
    value = _prepared(value)
    if isinstance(value, Mapping):
        value = _split(value)[0]
    return _converted(value, name, dtype=dtype, tokens=tokens, finite=finite)


def input_batches(value: Any, **options: Any) -> Iterator[Any]:
    """Inputs without labels, a batch at a time; a tuple of arrays is one sample set, not (x, y).

    options: of `batches`.
    """
    data = (value, None) if isinstance(value, tuple) and several(value) else value
    return (x for x, _ in batches(data, labels=False, **options))


def loaded_stream(data: Any) -> Stream:
    """Batches of a loader as a stream, to be read once; nothing tells them from others."""
    source = batches(data, labels=False, finite=False)
    first, _ = source.first
    each = max(1, first.nbytes // max(1, first.numel()))
    return Stream(
        f"a {type(data).__name__}",
        shape_of(first),
        None,
        {"loader": uuid.uuid4().hex},
        lambda _, size: exactly((x for x, _ in source), size),
        bytes_each=each,
    )


def several(value: Any) -> bool:
    """Whether inputs are several arrays: a mapping, or a tuple of arrays."""
    arrays = isinstance(value, tuple) and all(map(_is_array, value)) and len(value) > 0
    return isinstance(value, Bundle | Mapping) or (arrays and all(v.ndim for v in value))


def _converted(
    given: Any, name: str, *, dtype: torch.dtype | None, tokens: bool, finite: bool
) -> Inputs:
    """Inputs as a tensor or a bundle of them, of the number types a network reads."""
    one = partial(_tensor, dtype=dtype, finite=finite)
    if not several(given):
        return one(given, name, whole=tokens)
    parts = given.parts if isinstance(given, Bundle) else given
    items = parts.items() if isinstance(parts, Mapping) else enumerate(parts)
    return Bundle({str(key): one(part, f"{name}, {key!r}", flat=True) for key, part in items})


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
        return as_inputs(x[:, None], name, dtype=dtype or x.dtype)[:, 0]
    if dtype is None:
        dtype = x.dtype if x.is_floating_point() else torch.float32
    return as_inputs(x, name, dtype=dtype, keep_bytes=True, finite=finite)


def _prepared(data: Any) -> Any:
    """Tables as arrays of numbers; a file's stream as its blocks."""
    if isinstance(data, tuple) and len(data) == 2 and _is_table(data[0]):
        return _prepared(data[0]), data[1]
    if _is_table(data):
        data = read_table(data)
        text = [name for name in data.names if data[name].dtype.kind != "f"]
        if text:
            raise NescioError(
                f"the column {text[0]!r} holds text; encode the table first: "
                "learn_columns(train).encode(table).x"
            )
        return np.stack([data[name] for name in data.names], 1)
    return data


def _is_table(value: Any) -> bool:
    """Whether it is a table of nescio, pandas or Arrow."""
    return isinstance(value, Table) or is_frame(value)


def _raw(data: Any, count: int | None, size: int) -> tuple[Callable[[], Raw], int | None]:
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
        return _slices(*_split(data), size)
    if isinstance(data, tuple) and len(data) == 2 and not _are_batches(data):
        return _slices(_split(data[0])[0], data[1], size)
    if _is_array(data) or hasattr(data, "__array__") or _is_nested(data):
        return _slices(data, None, size)
    if isinstance(data, torch_data.Dataset):
        data = torch_data.DataLoader(data, batch_size=min(size, 1024))
    if isinstance(data, str | bytes | Mapping) or not hasattr(data, "__iter__"):
        raise NescioError(f"data must be {FORMS}; got {_what(data)}")
    return lambda: map(_pair, data), _most(data)


def _slices(x: Any, y: Any, size: int) -> tuple[Callable[[], Raw], int]:
    """Batches of arrays in memory; a memory-mapped one is not read as a whole."""
    if several(x):
        parts = x.parts if isinstance(x, Bundle) else x
        items = parts.items() if isinstance(parts, Mapping) else enumerate(parts)
        x = Bundle({str(name): as_tensor(part, f"inputs, {name!r}") for name, part in items})
    elif not _is_array(x):
        x = as_tensor(x, "inputs")
    if getattr(x, "ndim", 2) < 1 or not len(x):
        raise NescioError(f"inputs are empty, shape {shape_of(x)}")
    labels = None if y is None else as_tensor(y, "labels")
    if labels is not None and labels.ndim and len(labels) != len(x):
        raise NescioError(f"{len(x)} inputs but {len(labels)} labels; one per sample")

    def parts_of() -> Raw:
        for start in range(0, len(x), size):
            span = slice(start, start + size)
            yield x[span], None if labels is None else labels[span]

    return parts_of, len(x)


def _whole(data: Any, dtype: torch.dtype | None, count: int | None) -> Inputs | None:
    """All inputs without a copy, where they are in memory as they are needed."""
    x = data[0] if isinstance(data, tuple) and data else data
    if isinstance(x, np.ndarray) and x.flags.writeable and not isinstance(x, np.memmap):
        x = as_tensor(x, "inputs")
    ready = isinstance(x, Tensor) and x.dtype in (torch.uint8, dtype)
    return x.detach()[:count] if ready else None


def _is_array(value: Any) -> bool:
    return isinstance(value, Tensor | np.ndarray)


def _are_batches(pair: Any) -> bool:
    """Whether two things are two batches, rather than inputs and labels."""
    batch = [isinstance(v, tuple | list) and any(map(_is_array, v)) for v in pair]
    return all(batch) or all(isinstance(v, Mapping) for v in pair)


def _is_nested(value: Any) -> bool:
    """Whether it is an array in lists of numbers."""
    inner = value
    while isinstance(inner, list | tuple) and inner:
        inner = inner[0]
    return inner is not value and isinstance(inner, int | float | np.number)


def _split(batch: Any) -> tuple[Any, Any]:
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
        return _split(batch)
    if isinstance(batch, tuple | list) and len(batch) == 1:
        return _split(batch[0])
    if isinstance(batch, tuple | list) and len(batch) == 2:
        inputs = tuple(batch[0]) if isinstance(batch[0], list) else batch[0]  # torch collates so
        return _split(inputs)[0] if several(inputs) else batch[0], batch[1]
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
    parts = x.values() if isinstance(x, Mapping) else x if several(x) else [x]
    return max(len(part) for part in parts) if not isinstance(x, Bundle) else len(x)


def _total(data: OODSource, count: int | None) -> int:
    if count is None and data.size is None:
        raise NescioError(f"{data.name!r} is endless; say how many inputs to take: count=1000")
    if count is not None and data.size is not None and count > data.size:
        raise NescioError(f"count={count}, but {data.name!r} has {data.size} inputs")
    return count or data.size or 0


def _labels(value: Any, samples: int, *, targets: bool) -> Tensor:
    labels = as_tensor(value, "labels")
    if targets and labels.ndim and len(labels) == samples:
        return labels
    labels = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
    if labels.shape != (samples,):
        raise NescioError(
            f"labels must be ({samples},), one per sample, got {tuple(labels.shape)}; use "
            ".argmax(1) of one-hot rows; labels=False leaves them out"
        )
    return labels if labels.is_floating_point() else labels.long()


def _what(data: Any) -> str:
    shape = f" of shape {tuple(data.shape)}" if _is_array(data) else ""
    return f"a {type(data).__name__}{shape}"
