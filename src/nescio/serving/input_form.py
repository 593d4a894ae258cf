"""What a guard reads, and how numbers and cells that were sent become that."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nescio.core import Bundle, Inputs, NescioError, Shape, as_batch, layout_hint, unknown
from nescio.data import Columns, read_table
from nescio.detectors import as_rows, recorded_nets
from nescio.guards import Guard, RegressionGuard
from nescio.nets import columns_of, reads_tokens
from nescio.serving.body_limits import wrong_inputs

LOGITS, PROBABILITIES, FEATURES = "logits", "probabilities", "features"
COLORS = {1: "gray", 3: "color"}


@dataclass(frozen=True, eq=False, kw_only=True)
class InputForm:
    """What a guard reads.

    shape: of one input; None: any.
    kinds: number types of several tensors, by name; empty: there is one tensor.
    tokens: whether inputs are whole numbers.
    columns: how the rows of a table become numbers; None: they are numbers.
    names: of the columns of a table of numbers; empty: they have none.
    classes: of a network that runs elsewhere, how many logits it gave; 0: another network.
    wide: whether the network computes in double precision.
    """

    shape: Shape | None
    kinds: Mapping[str, str]
    tokens: bool
    columns: Columns | None
    names: tuple[str, ...]
    classes: int
    wide: bool

    @property
    def parts(self) -> Mapping[str, tuple[int, ...]]:
        """Shapes of several tensors, by name; empty: there is one tensor."""
        return self.shape if isinstance(self.shape, dict) else {}

    @property
    def by_name(self) -> tuple[str, ...]:
        """Names of the columns of a table; empty: inputs are not of a table."""
        return self.names if self.columns is None else self.columns.names

    @property
    def image(self) -> tuple[tuple[int, int], str] | None:
        """Size and mode of images; None: inputs are none."""
        if not isinstance(self.shape, tuple) or len(self.shape) != 3 or self.tokens:
            return None
        colors, height, width = self.shape
        return ((height, width), COLORS[colors]) if colors in COLORS else None

    @property
    def said(self) -> str:
        """What is expected, for messages."""
        if self.parts:
            shapes = ", ".join(f"{name} {_shown(one)}" for name, one in self.parts.items())
            return f"several tensors by name: {shapes}"
        if self.columns is not None:
            return f"rows of a table, objects with the columns {', '.join(self.columns.names)}"
        what = "whole numbers" if self.tokens else "numbers"
        return f"{what} of shape {_shown(self.shape)}" if isinstance(self.shape, tuple) else what

    def numbers(self, array: NDArray[Any]) -> Tensor:
        """Inputs `(N, ...)` of one tensor from an `array` of them."""
        if self.parts:
            raise wrong_inputs(f"one array was sent, the guard reads {self.said}")
        _check_numbers(array, "the inputs")
        if array.ndim < 2 or array.size == 0 or not self._fits(array.shape[1:]):
            raise wrong_inputs(self._unfit(array))
        if self.tokens:
            return _whole(array, "the inputs")
        if array.dtype == np.uint8:
            return self._of_bytes(array)
        with np.errstate(over="ignore"):  # infinity is not finite, so it is OOD
            found = torch.from_numpy(np.array(array, dtype=np.float32, order="C"))
        if self.columns is not None:
            self._check_encoded(found, self.columns)
        return found

    def bundle(self, arrays: Mapping[str, NDArray[Any]]) -> Bundle:
        """Inputs of several tensors from `arrays` by name."""
        _check_names(arrays, tuple(self.parts), "inputs")
        found = {name: self._part(name, arrays[name]) for name in self.parts}
        if len({len(part) for part in found.values()}) > 1:
            counts = {name: len(part) for name, part in found.items()}
            raise wrong_inputs(f"each tensor needs one row per input; the rows are {counts}")
        return Bundle(found)

    def table(self, cells: Mapping[str, Any]) -> Tensor:
        """Inputs `(N, F)` from columns of `cells` by name; None and NaN are missing."""
        known = (*self.by_name, *self._beside)
        _check_names(cells, self.by_name, "columns", allowed=known)
        own = {name: cells[name] for name in self.by_name}
        try:
            if self.columns is not None:
                return self.columns.numbers(own)
            numbers = list(read_table(own).columns.values())
        except NescioError as error:
            raise wrong_inputs(str(error)) from None
        for name, values in zip(own, numbers, strict=True):
            if values.dtype.kind != "f":
                raise wrong_inputs(f"column {name!r} holds text; the guard reads numbers in it")
        with np.errstate(over="ignore"):
            return torch.from_numpy(np.stack(numbers, axis=1).astype(np.float32))

    def records(self, rows: Sequence[Any]) -> Tensor:
        """Inputs `(N, F)` from `rows` of a table, objects with a value for each column."""
        names, beside = self.by_name, set(self._beside)
        known = set(names)
        for place, row in enumerate(rows):
            if not isinstance(row, dict):
                raise wrong_inputs(f"row {place} is not an object; expected {self.said}")
            if row.keys() != known and row.keys() - beside != known:
                _check_names(row, names, f"columns of row {place}", allowed=(*names, *beside))
        return self.table({name: [row[name] for row in rows] for name in names})

    def recorded(self, arrays: Mapping[str, NDArray[Any]]) -> Tensor:
        """Inputs of a guard of `arrays`: logits or probabilities, and features."""
        known = (LOGITS, PROBABILITIES, FEATURES)
        for name, array in arrays.items():
            if name not in known:
                raise wrong_inputs(unknown("array", name, known))
            _check_numbers(array, name)
        if (LOGITS in arrays) == (PROBABILITIES in arrays):
            raise wrong_inputs("give logits or probabilities, one of them, and features if any")
        sure = PROBABILITIES in arrays
        first = arrays[PROBABILITIES if sure else LOGITS]
        try:
            rows, nets = as_rows(first, arrays.get(FEATURES), probabilities=sure)
        except NescioError as error:
            raise wrong_inputs(str(error)) from None
        classes = len(nets[0].logit_columns)
        if classes != self.classes or not self._fits(tuple(rows.shape[1:])):
            raise wrong_inputs(
                f"{classes} classes and {rows.shape[1]} numbers per input were sent; the guard "
                f"reads {self.classes} classes, and {_shown(self.shape)} numbers in all"
            )
        return rows

    @property
    def _beside(self) -> tuple[str, ...]:
        """Columns of the table beside the inputs, which may be sent with the others."""
        if self.columns is None:
            return ()
        target = () if self.columns.target is None else (self.columns.target,)
        return (*self.columns.ids, *target)

    def _fits(self, shape: tuple[int, ...]) -> bool:
        return self.shape is None or shape == self.shape

    def _unfit(self, array: NDArray[Any]) -> str:
        """What is wrong with the shape of an array, and what to do."""
        hint = ""
        if array.shape == self.shape:
            hint = "; of one input send a list with one row: [[...]]"
        elif array.size and array.ndim > 1:
            hint = layout_hint(torch.empty(array.shape, device="meta"))
        shape = f"({', '.join(map(str, ('N', *(self.shape or ['...']))))})"
        return (
            f"the inputs have shape {array.shape}; the guard reads {self.said}, so all of them "
            f"together have {shape}, with one row per input{hint}"
        )

    def _of_bytes(self, array: NDArray[Any]) -> Tensor:
        if array.ndim != 4:
            raise wrong_inputs(
                f"the inputs are uint8 of shape {array.shape}; only images (N, C, H, W) may be; "
                "scale others as the network expects, often x / 255, and send floats"
            )
        dtype = torch.float64 if self.wide else torch.float32
        return as_batch(torch.from_numpy(np.array(array, order="C")), dtype)

    def _check_encoded(self, x: Tensor, columns: Columns) -> None:
        """Refuse numbers that no row of the table is encoded as."""
        widths = [width for _, width in columns.layout]
        for one, own in zip(columns.columns, x.split(widths, 1), strict=True):
            marks = ((own == 0) | (own == 1)).all(1) & (own.sum(1) == 1)
            if one.kind == "categorical" and not marks.all():
                raise wrong_inputs(
                    f"the numbers of the categorical column {one.name!r} must be 0, but for one 1; "
                    f"better send {self.said}"
                )

    def _part(self, name: str, array: NDArray[Any]) -> Tensor:
        """One of several tensors."""
        kind: torch.dtype = getattr(torch, self.kinds[name])
        if kind != torch.bool or array.dtype != np.bool_:
            _check_numbers(array, name)
        shape = self.parts[name]
        if array.ndim != 1 + len(shape) or array.size == 0 or array.shape[1:] != shape:
            raise wrong_inputs(f"{name} has shape {array.shape}; expected (N, ...) of {shape}")
        if kind.is_floating_point:  # in single precision, as files are read
            with np.errstate(over="ignore"):
                return torch.from_numpy(np.array(array, dtype=np.float32, order="C"))
        found = _whole(array, name).to(kind)
        if kind != torch.int64 and not np.array_equal(found.numpy(), array):
            raise wrong_inputs(f"{name} holds numbers that are no {self.kinds[name]}")
        return found


_FORMS: "WeakKeyDictionary[Any, InputForm]" = WeakKeyDictionary()


def form_of(guard: Guard | RegressionGuard) -> InputForm:
    """What a `guard` reads; found out once."""
    found = _FORMS.get(guard)
    if found is None:
        found = _FORMS[guard] = _form(guard)
    return found


def _form(guard: Guard | RegressionGuard) -> InputForm:
    if not isinstance(guard, Guard | RegressionGuard):
        raise NescioError(
            f"guards that decide about each input are served, not a {type(guard).__name__}"
        )
    if not guard.nets:
        raise NescioError(
            "this guard was made from activations and has no network; make it from the network, "
            "nescio.guard(net, ...), or from nescio.recorded(logits, ...)"
        )
    if guard.by == "groups":
        raise NescioError("this guard was made with groups, which a request does not say")
    net = guard.nets[0]
    shape = None if guard.range is None else guard.range.shape
    columns, names = columns_of(net), tuple(guard.notes.get("columns", ()))
    kept = recorded_nets(net)
    return InputForm(
        shape=shape,
        kinds={} if guard.range is None else guard.range.kinds,
        tokens=reads_tokens(net),
        columns=columns,
        names=names if columns is None and shape == (len(names),) else (),
        classes=len(kept[0].logit_columns) if kept else 0,
        wide=any(t.dtype == torch.float64 for t in net.state_dict().values()),
    )


def row_digests(inputs: Inputs) -> list[str]:
    """A fingerprint of each input as the guard reads it: type, shape and bytes of its numbers."""
    parts = inputs.parts if isinstance(inputs, Bundle) else {"": inputs}
    ready = []
    for name, part in sorted(parts.items()):
        array = part.numpy()
        about = f"{name}{array.dtype.str}{array.shape[1:]}".encode()
        size = array.itemsize * math.prod(array.shape[1:])
        ready.append((about, np.ascontiguousarray(array).data.cast("B"), size))
    found = []
    for row in range(len(inputs)):
        total = hashlib.blake2b(digest_size=16)
        for about, numbers, size in ready:
            total.update(about)
            total.update(numbers[row * size : (row + 1) * size])
        found.append(total.hexdigest())
    return found


def _check_numbers(array: NDArray[Any], name: str) -> None:
    """Refuse what holds no real numbers."""
    if array.dtype.kind == "b":
        raise wrong_inputs(f"{name} must be real numbers, got truth values; send 0 and 1")
    if array.dtype.kind not in "iuf":
        raise wrong_inputs(f"{name} must be real numbers, got {array.dtype}")


def _whole(array: NDArray[Any], name: str) -> Tensor:
    """Whole numbers as int64."""
    if array.dtype.kind not in "iub":
        raise wrong_inputs(f"{name} must be whole numbers, such as tokens, got {array.dtype}")
    if array.dtype.kind == "u" and array.size and array.max() > np.iinfo(np.int64).max:
        raise wrong_inputs(f"{name} holds {array.max()}, which is beyond 64 bits with a sign")
    return torch.from_numpy(np.array(array, dtype=np.int64, order="C"))


def _check_names(
    given: Mapping[str, Any],
    wanted: Sequence[str],
    what: str,
    *,
    allowed: Sequence[str] | None = None,
) -> None:
    """Refuse names that are missing or unknown."""
    known = wanted if allowed is None else allowed
    for name in given:
        if name not in known:
            raise wrong_inputs(f"{what}: {unknown('name', str(name), known)}")
    missing = [name for name in wanted if name not in given]
    if missing:
        more = "; of a missing value send null" if what.startswith("columns") else ""
        raise wrong_inputs(f"{what}: {', '.join(missing)} not given{more}")


def _shown(shape: Shape | None) -> str:
    return "any" if shape is None else str(shape)
