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

import torch
from torch import Tensor

from nescio.core import Inputs, NescioError, Shape, as_tensor, joined, refuse_maps, shape_of
from nescio.data.encoding import Columns
from nescio.data.forms import LABELS as LABELS
from nescio.data.forms import (
    Raw,
    all_inputs,
    are_batches,
    converted,
    described,
    prepared,
    raw_batches,
    split_labels,
    stacked,
)
from nescio.data.forms import is_rows as is_rows
from nescio.data.forms import several as several
from nescio.data.readers.stream import Stream, exactly, first_of

Batch: TypeAlias = tuple[Inputs, Tensor | None]  # inputs (n, ...), labels (n,)
BATCH = 256  # samples
MEMORY = 16_000_000_000  # bytes that reading whole may take


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
            raise NescioError(
                "these data can be read only once, as a generator can, and were read before; give "
                "a list of batches or a DataLoader"
            )
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
    columns: Columns | None = None,
    shape: tuple[int, ...] | None = None,
) -> Batches:
    """Data of any form as batches; those of a loader stay as they are.

    name: of the data, for messages.
    labels: one per sample, where the data come without; False leaves those of the data out.
    count: only the first samples. dtype: of floats; None: as they are. tokens: whether whole
    numbers of a tensor stay whole. finite: refuse NaN and infinity. fixed: refuse batches of
    different shapes. targets: labels may have any shape `(n, ...)`. columns: how tables become
    numbers; without it they must hold numbers. shape: of one sample, where it is known: a list of
    such arrays is samples, not batches.

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
    data = stacked(prepared(data, columns), shape)
    raw, most = raw_batches(data, count, batch_size)
    if count is not None:
        most = count if most is None else min(most, count)
    return Batches(
        of=f" of {name}" if name else "",
        most=most,
        whole=all_inputs(data, dtype, count),
        raw=raw,
        convert=partial(converted, dtype=dtype, tokens=tokens, finite=finite, columns=columns),
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
    columns: Columns | None = None,
) -> tuple[Any, Any]:
    """All inputs and labels of data of any form, in memory; arrays are not copied.

    name: of the data, for messages. labels: whether there must be some; otherwise they may be
    None. dtype, tokens, columns: as for `batches`. memory: bytes that the data may take.
    """
    if labels and isinstance(data, list) and len(data) == 2 and not are_batches(data):
        data = tuple(data)
    xs, ys, size = [], [], 0
    options: dict[str, Any] = {"name": name, "dtype": dtype, "tokens": tokens, "columns": columns}
    for x, y in batches(data, batch_size=1 << 62, targets=True, **options):
        if labels and y is None:
            raise NescioError(
                f"{name} must have labels: a pair (x, y), a loader of such pairs, or mappings with "
                f"the key {LABELS[0]!r}; {described(data)} has none"
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
    columns: Columns | None = None,
) -> Any:
    """Inputs without labels, checked: a tensor, or a bundle of several; bytes stay bytes."""
    value = stacked(prepared(value, columns), None)
    if isinstance(value, Mapping):
        value = split_labels(value)[0]
    found = converted(value, name, dtype=dtype, tokens=tokens, finite=finite)
    if columns is not None and isinstance(found, Tensor) and found.shape[1:] != (columns.width,):
        raise NescioError(
            f"the network encodes the columns of a table ({first_of(columns.names)}) as "
            f"{columns.width} numbers, got an array {tuple(found.shape)}; give a table with these "
            "columns: a data frame, nescio.data.read_table(...), or rows by name"
        )
    return found


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


def _labels(value: Any, samples: int, *, targets: bool) -> Tensor:
    labels = as_tensor(value, "labels")
    if targets and labels.ndim and len(labels) == samples:
        return labels
    refuse_maps(labels)
    labels = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
    if labels.shape != (samples,):
        raise NescioError(
            f"labels must be ({samples},), one per sample, got {tuple(labels.shape)}; use "
            ".argmax(1) of one-hot rows; labels of every step, (N, T), go with ignore_index= where "
            "that is an option (docs/methods/segmentation.md); labels=False leaves them out"
        )
    return labels if labels.is_floating_point() else labels.long()
