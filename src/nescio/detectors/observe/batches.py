"""Data of any form, a batch at a time: arrays, pairs, loaders, OOD sources."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils import data as torch_data

from nescio.core import NescioError, as_inputs, as_tensor
from nescio.data import Dataset, OODSource

Batch = tuple[Tensor, Tensor | None]  # inputs (n, ...), labels (n,)
Raw = Iterator[tuple[Any, Any]]  # the same as they come; labels None where there are none
FORMS = (
    "an array (N, ...), a pair (x, y), a DataLoader or other iterable of batches x or (x, y), or "
    "an OOD source with count="
)


@dataclass(frozen=True, eq=False)
class Batches:
    """Batches of checked inputs and labels, to be gone through once."""

    most: int | None  # samples, or more than there are; None: unknown
    whole: Tensor | None  # all inputs, where they are one tensor already
    dtype: torch.dtype  # of floats
    tokens: bool  # whether whole numbers stay whole
    raw: Callable[[], Raw]
    labels: Any  # None: those that come with the data; False: none; or one per sample
    count: int | None

    def __iter__(self) -> Iterator[Batch]:
        start, labeled = 0, None
        for given, targets in self.raw():
            where = f"the inputs from sample {start}"
            x = self._inputs(given, where)
            y = None if targets is None or self.labels is False else _labels(targets, len(x))
            if labeled not in (None, y is not None):
                raise NescioError("some batches have labels and some have none; give all or none")
            labeled = y is not None
            if self.labels is not None and self.labels is not False:
                y = self.labels[start : start + len(x)]
            if self.count is not None:
                x, y = x[: self.count - start], None if y is None else y[: self.count - start]
            start += len(x)
            yield x, y
            if start == self.count:
                break
        self._check(start)

    def _check(self, samples: int) -> None:
        """Whether there were as many samples as was said."""
        if not samples:
            raise NescioError("there is no data: no batch came; a generator can be used only once")
        if self.count is not None and samples < self.count:
            raise NescioError(f"count={self.count}, but there are {samples} samples")
        if isinstance(self.labels, Tensor) and samples != len(self.labels):
            raise NescioError(f"{samples} inputs but {len(self.labels)} labels; one per sample")

    def _inputs(self, given: Any, where: str) -> Tensor:
        x = as_tensor(given, where)
        if self.tokens and not (x.is_floating_point() or x.dtype == torch.uint8) and x.ndim > 1:
            return x
        if x.dtype == self.dtype and x.ndim > 1 and len(x) and x.sum().isfinite():
            return x  # what is checked below, in a fifth of the time
        return as_inputs(x, where, dtype=self.dtype, keep_bytes=True)


def as_batches(
    data: Any,
    *,
    labels: Any = None,
    count: int | None = None,
    batch_size: int,
    dtype: torch.dtype,
    tokens: bool,
) -> Batches:
    """Data of any form as batches; those of a loader stay as they are."""
    if batch_size < 1 or (count is not None and count < 1):
        raise NescioError("batch_size and count must be at least 1")
    if labels is not None and labels is not False:
        labels = as_tensor(labels, "labels")
        labels = _labels(labels, len(labels) if labels.ndim else 0)
    raw, most = _raw(data, count, batch_size)
    if labels is None and isinstance(data, tuple) and len(data) == 2 and data[1] is not None:
        samples, targets = len(data[0]), len(data[1])
        if samples != targets:
            raise NescioError(f"{samples} inputs but {targets} labels; one per sample")
    if count is not None:
        most = count if most is None else min(most, count)
    return Batches(most, _whole(data, dtype, count), dtype, tokens, raw, labels, count)


def _raw(data: Any, count: int | None, size: int) -> tuple[Callable[[], Raw], int | None]:
    """Batches as they come, and how many samples there are at most."""
    if isinstance(data, Dataset):
        raise NescioError(f"{data.name!r} is a whole data set; give a part of it: data.test")
    if isinstance(data, OODSource):
        total = _total(data, count)
        spans = [torch.arange(i, min(i + size, total)) for i in range(0, total, size)]
        return lambda: ((data(span), None) for span in spans), total
    if isinstance(data, tuple) and len(data) == 2 and not _is_pair(data[0]):
        return _slices(_array(data[0]), data[1], size)
    if isinstance(data, Tensor) or hasattr(data, "__array__") or _is_nested(data):
        return _slices(_array(data), None, size)
    if isinstance(data, torch_data.Dataset):
        data = torch_data.DataLoader(data, batch_size=size)
    if isinstance(data, str | bytes | dict) or not hasattr(data, "__iter__"):
        raise NescioError(f"data must be {FORMS}; got a {type(data).__name__}")
    return lambda: map(_pair, data), _most(data)


def _whole(data: Any, dtype: torch.dtype, count: int | None) -> Tensor | None:
    """All inputs without a copy, where they are in memory as they are kept."""
    x = data[0] if isinstance(data, tuple) and data else data
    if isinstance(x, np.ndarray) and x.flags.writeable and not isinstance(x, np.memmap):
        x = as_tensor(x, "inputs")
    kept = isinstance(x, Tensor) and x.dtype in (torch.uint8, dtype)
    return x.detach()[:count] if kept else None


def _slices(x: Any, y: Any, size: int) -> tuple[Callable[[], Raw], int]:
    if getattr(x, "ndim", 2) < 1 or not len(x):
        raise NescioError(f"inputs are empty, shape {tuple(x.shape)}")
    targets = None if y is None else as_tensor(y, "labels")

    def parts() -> Raw:
        for start in range(0, len(x), size):
            span = slice(start, start + size)
            yield x[span], None if targets is None else targets[span]

    return parts, len(x)


def _array(value: Any) -> Any:
    """Something that is sliced along its samples; a memory-mapped array is not read as a whole."""
    return value if isinstance(value, Tensor | np.ndarray) else as_tensor(value, "inputs")


def _is_pair(value: Any) -> bool:
    """Whether it is a batch (x, y), so that a tuple of two is two batches."""
    return isinstance(value, tuple) and any(isinstance(v, Tensor | np.ndarray) for v in value)


def _is_nested(value: Any) -> bool:
    """Whether it is an array in lists of numbers."""
    inner = value
    while isinstance(inner, list | tuple) and inner:
        inner = inner[0]
    return inner is not value and isinstance(inner, int | float | np.number)


def _pair(batch: Any) -> tuple[Any, Any]:
    """Inputs and labels of a batch of a loader."""
    if isinstance(batch, Tensor) or hasattr(batch, "__array__"):
        return batch, None
    if isinstance(batch, tuple | list) and len(batch) in (1, 2):
        return batch[0], batch[1] if len(batch) == 2 else None
    kind = f"{type(batch).__name__} of {len(batch)}" if hasattr(batch, "__len__") else str(batch)
    raise NescioError(
        f"a batch must be x or (x, y), got a {kind}; take them out first: "
        "((b[0], b[1]) for b in loader)"
    )


def _most(data: Any) -> int | None:
    """How many samples a loader or a list of batches has at most, where it can be known."""
    if isinstance(data, list | tuple):
        return sum(len(_pair(batch)[0]) for batch in data)
    if not isinstance(data, torch_data.DataLoader) or data.batch_size is None:
        return None
    try:
        return len(data) * data.batch_size
    except TypeError:  # a stream
        return None


def _total(data: OODSource, count: int | None) -> int:
    if count is None and data.size is None:
        raise NescioError(f"{data.name!r} is endless; say how many inputs to take: count=1000")
    if count is not None and data.size is not None and count > data.size:
        raise NescioError(f"count={count}, but {data.name!r} has {data.size} inputs")
    return count or data.size or 0


def _labels(value: Any, samples: int) -> Tensor:
    labels = as_tensor(value, "labels")
    labels = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
    if labels.shape != (samples,):
        raise NescioError(
            f"labels must be ({samples},), one per sample, got {tuple(labels.shape)}; use "
            ".argmax(1) of one-hot rows; labels=False leaves them out"
        )
    return labels if labels.is_floating_point() else labels.long()


def peeked(batches: Iterable[Batch]) -> tuple[Batch, Iterator[Batch]]:
    """The first batch, and all of them."""
    rest = iter(batches)
    first = list(islice(rest, 1))
    if not first:
        raise NescioError("there is no data: no batch came; a generator can be used only once")

    def everything() -> Iterator[Batch]:
        yield first[0]
        yield from rest

    return first[0], everything()
