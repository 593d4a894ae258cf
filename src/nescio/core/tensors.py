"""Checks at the public boundary: inputs as tensors or bundles, numbers as arrays; fingerprints."""

import hashlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from numbers import Real
from typing import Any, TypeAlias, TypeGuard

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from nescio.core.errors import NescioError

LARGEST = sys.float_info.max  # of finite numbers

Array = Tensor | np.ndarray[Any, Any]
Numbers: TypeAlias = ArrayLike | Tensor
Floats: TypeAlias = NDArray[np.float64]
Counts: TypeAlias = NDArray[np.int64]
COLORS = (1, 3, 4)  # the numbers of channels that images have
FEWEST = 16  # samples of a part, at least, where there are so many


def as_tensor(value: Any, name: str) -> Tensor:
    """`value` as a tensor (arrays and lists are converted), or an error with its name.

    One from torch.inference_mode is copied: nothing with a gradient may be made of it.
    """
    if isinstance(value, Tensor):
        if not value.is_inference():
            return value.detach() if value.requires_grad else value
        with torch.inference_mode(False):
            return value.clone()
    try:
        array = np.asarray(value)
        odd = not array.dtype.isnative or any(step < 0 for step in array.strides)
        if odd or not array.flags.writeable:  # torch takes none of these as they are
            array = np.array(array, dtype=array.dtype.newbyteorder("="), order="C")
        return torch.as_tensor(array)
    except (TypeError, ValueError) as error:
        raise NescioError(f"{name} must be a tensor or an array of numbers: {error}") from error


def padded(rows: Sequence[Tensor]) -> Tensor:
    """Rows of one length, `(R, n)`: the shorter ones end in zeros."""
    if len({len(row) for row in rows}) == 1:
        return torch.stack(list(rows))  # a fifth of the time
    return pad_sequence(list(rows), batch_first=True)


def as_inputs(
    value: Any,
    name: str = "inputs",
    *,
    dtype: torch.dtype = torch.float32,
    keep_bytes: bool = False,
    finite: bool = True,
) -> Tensor:
    """Inputs `(N, ...)` as floats: not empty, `finite`, with at least one feature axis.

    uint8 of shape `(N, C, H, W)` are images with 255 = 1. With `keep_bytes` they stay bytes, to be
    converted a batch at a time by `as_batch`.
    """
    x = as_tensor(value, name)
    if x.ndim < 2:
        raise NescioError(
            f"{name} must have shape (samples, features, ...), got {tuple(x.shape)}; "
            "a single feature needs an axis: x[:, None]"
        )
    if x.numel() == 0:
        raise NescioError(f"{name} are empty, shape {tuple(x.shape)}")
    if x.dtype == torch.uint8:
        return as_image_bytes(x, name) if keep_bytes else as_batch(as_image_bytes(x, name), dtype)
    if x.is_complex():
        raise NescioError(f"{name} must be real numbers, got {x.dtype}")
    x = x.to(dtype)
    if finite and not x.isfinite().all():
        sample = int((~x.isfinite()).flatten(1).any(1).nonzero()[0])
        raise NescioError(
            f"{name} contain NaN or infinite values (first in sample {sample}); remove or impute "
            "them"
        )
    return x


def as_image_bytes(x: Tensor, name: str) -> Tensor:
    """uint8 as it may come, from memory and from files alike: images `(N, C, H, W)`, 255 is 1.

    Of any other shape nobody says whether 255 is 1: pixels, or ages, or codes of categories.
    """
    if x.ndim != 4:
        channel = "; gray images need a channel axis: x[:, None]" if x.ndim == 3 else ""
        raise NescioError(
            f"{name} are uint8 of shape {tuple(x.shape)}; only images (N, C, H, W) may be"
            f"{channel}; scale others as the network expects, often x / 255, then pass floats"
        )
    return x


def as_batch(x: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Checked inputs as the floats a network reads: bytes are divided by 255."""
    return x.to(dtype).div_(255) if x.dtype == torch.uint8 else x.to(dtype)


def as_labels(y: Tensor) -> Tensor:
    """Checked targets as losses read them: bytes, as `as_targets` leaves label maps, as int64."""
    return y.long() if y.dtype == torch.uint8 else y


def as_targets(
    value: Any, samples: int, *, task: str, dtype: torch.dtype = torch.float32, maps: bool = False
) -> Tensor:
    """Class labels `(N,)` as int64, several labels `(N, K)` so, or targets `(N, D)` as floats.

    maps: class labels may have more axes, `(N, H, W)`; those of uint8 then stay bytes, to be
    converted a batch at a time.
    """
    y = as_tensor(value, "targets")
    if y.ndim == 0 or len(y) != samples:
        raise NescioError(f"{samples} inputs but targets of shape {tuple(y.shape)}; one per sample")
    if task == "classification":
        y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
        if y.is_floating_point() and bool(((y == 0) | (y == 1)).all()):
            y = y.long()  # as torch.nn.BCEWithLogitsLoss wants them
        if maps and y.ndim > 1 and not y.is_floating_point():
            return y if y.dtype == torch.uint8 else y.long()
        if not y.is_floating_point():
            refuse_maps(y)
        if y.is_floating_point() or y.ndim != 1:
            raise NescioError(
                f"class labels must be integers{'' if maps else ' of shape (samples,)'}, got "
                f"{y.dtype} {tuple(y.shape)}; convert floats with .long(), one-hot rows with "
                ".argmax(1); regression needs a regression head"
            )
        return y.long()
    if task == "multilabel":
        if y.ndim != 2 or not ((y == 0) | (y == 1)).all():
            raise NescioError(
                f"several labels are a table (samples, labels) of 0 and 1, got {y.dtype} "
                f"{tuple(y.shape)}"
            )
        return y.long()
    y = (y[:, None] if y.ndim == 1 else y).to(dtype)
    if y.ndim != 2:
        raise NescioError(f"targets must have shape (samples, targets), got {tuple(y.shape)}")
    if not y.isfinite().all():
        raise NescioError("targets contain NaN or infinite values; remove those samples")
    return y


def check_indices(index: Tensor, samples: int, name: str) -> None:
    """Refuse what are not indices of samples, one or more."""
    if index.ndim != 1 or not index.numel():
        raise NescioError(f"{name} must be a list of at least one index, got {tuple(index.shape)}")
    if index.is_floating_point() or index.dtype == torch.bool:
        raise NescioError(
            f"{name} must be whole numbers, indices of samples, got {index.dtype}; of a mask take "
            "mask.nonzero()[:, 0]"
        )
    if index.min() < 0 or index.max() >= samples:
        raise NescioError(
            f"{name} must be in 0..{samples - 1}, got {int(index.min())}..{int(index.max())}"
        )


def refuse_maps(labels: Tensor) -> None:
    """Refuse labels of pixels, where only one label per sample is read."""
    if labels.ndim > 2:
        raise NescioError(
            f"labels have shape {tuple(labels.shape)}, a map for each sample; audits, "
            "comparisons and detectors read one label per sample. For label maps there are "
            "nescio.train, nescio.guard, nescio.calibration, nescio.metrics and nescio.measures, "
            "each with ignore_index=; docs/methods/segmentation.md shows them"
        )


def numbers(name: str, values: Numbers, *, axes: int | None) -> NDArray[Any]:
    """`values` as an array with `axes` axes and at least one entry; half precision widens.

    axes: None: any number of them.
    """
    try:
        array = from_torch(values) if isinstance(values, Tensor) else np.asarray(values)
    except ValueError as error:
        raise NescioError(
            f"`{name}` must be an array or a list of numbers with rows of one length: {error}"
        ) from None
    if array.dtype.kind not in "biuf":
        raise NescioError(f"`{name}` must hold real numbers, got {array.dtype}; convert it first")
    if axes is not None and array.ndim != axes:
        expected = "one-dimensional" if axes == 1 else f"of {axes} axes"
        raise NescioError(f"`{name}` must be {expected}, got shape {array.shape}; reshape it first")
    if array.size == 0:
        raise NescioError(
            f"`{name}` is empty (shape {array.shape}); give at least one sample to measure"
        )
    if array.dtype.kind == "f" and array.dtype.itemsize < 4:
        return array.astype(np.float32)
    return array


def is_whole(value: object, least: int) -> TypeGuard[int]:
    """Whether a value is an int from `least` up; True and False are none."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def is_real(value: object, least: float = -LARGEST, most: float = LARGEST) -> bool:
    """Whether a value is a real number in a range, a finite one; NaN, True and False are none."""
    return isinstance(value, Real) and not isinstance(value, bool) and least <= float(value) <= most


def check_level(level: float) -> None:
    """Refuse a level that is not a share."""
    if not 0 < level < 1:
        raise NescioError(f"`level` must be between 0 and 1, got {level}; 0.95 is usual")


def from_torch(values: Tensor) -> NDArray[Any]:
    """A tensor as an array; half precision widens."""
    small = values.is_floating_point() and values.element_size() < 4  # numpy has no bfloat16
    array: NDArray[Any] = (values.float() if small else values).detach().cpu().numpy()
    return array


Shape: TypeAlias = tuple[int, ...] | dict[str, tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class Bundle:
    """A tuple or a mapping of tensors; along the samples it is used like one tensor.

    The parts of a tuple are named "0", "1", ...

    >>> tokens = Bundle({"ids": torch.arange(6).reshape(3, 2), "mask": torch.ones(3, 2)})
    >>> len(tokens), tokens[1:]["ids"].tolist()
    (3, [[2, 3], [4, 5]])
    """

    parts: Mapping[str, Tensor]

    def __post_init__(self) -> None:
        lengths = {name: len(part) if part.ndim else None for name, part in self.parts.items()}
        if not lengths or None in lengths.values() or len(set(lengths.values())) > 1:
            raise NescioError(
                "inputs of several tensors need one row per sample in each; the numbers of rows "
                f"are {lengths}"
            )

    def __len__(self) -> int:
        return len(next(iter(self.parts.values())))

    def __getitem__(self, chosen: Any) -> Any:
        """One part by name; or some samples: a slice, indices or a mask."""
        if not isinstance(chosen, str):
            return self.map(lambda part: part[chosen])
        if chosen not in self.parts:
            raise NescioError(f"inputs have no {chosen!r}; they have {', '.join(self.parts)}")
        return self.parts[chosen]

    @property
    def is_tuple(self) -> bool:
        """Whether the parts have positions rather than names."""
        return set(self.parts) == set(map(str, range(len(self.parts))))

    @property
    def device(self) -> torch.device:
        """Where the parts live."""
        return next(iter(self.parts.values())).device

    @property
    def nbytes(self) -> int:
        """Of all parts."""
        return sum(part.nbytes for part in self.parts.values())

    def numel(self) -> int:
        """The count of all numbers."""
        return sum(part.numel() for part in self.parts.values())

    def map(self, change: Callable[[Tensor], Tensor]) -> "Bundle":
        """The same with each part changed."""
        return Bundle({name: change(part) for name, part in self.parts.items()})

    def to(self, device: torch.device) -> "Bundle":
        """The same on another device."""
        return self.map(lambda part: part.to(device))

    def detach(self) -> "Bundle":
        """The same without gradients."""
        return self.map(Tensor.detach)

    def clone(self) -> "Bundle":
        """A copy."""
        return self.map(Tensor.clone)

    def split(self, size: int) -> Iterator["Bundle"]:
        """Parts of at most `size` samples."""
        return (self[start : start + size] for start in range(0, len(self), size))

    def unbind(self, _: int = 0) -> tuple["Bundle", ...]:
        """One bundle for each index of the first axis."""
        return tuple(self[index] for index in range(len(self)))

    def rows(self) -> Tensor:
        """All numbers of each sample as one row, `(N, F)` in double precision, by sorted names."""
        parts = (as_batch(part, torch.float64) for _, part in sorted(self.parts.items()))
        return torch.cat([part.reshape(len(part), -1) for part in parts], 1)


Inputs: TypeAlias = Tensor | Bundle


def shape_of(x: Inputs) -> Shape:
    """The shape of one sample; of several tensors, by name."""
    if isinstance(x, Bundle):
        return {name: tuple(part.shape[1:]) for name, part in x.parts.items()}
    return tuple(x.shape[1:])


def layout_hint(x: Inputs) -> str:
    """What to do about images that a network refuses and whose last axis looks like colors."""
    if isinstance(x, Bundle) or x.ndim != 4 or x.shape[3] not in COLORS or x.shape[1] in COLORS:
        return ""
    return (
        "; the images look channels-last (N, H, W, C), the network wants (N, C, H, W): pass "
        "x.permute(0, 3, 1, 2)"
    )


def spans(count: int, size: int) -> list[slice]:
    """`count` samples in parts of `size`; a last part of few is joined to the one before.

    Products of few rows are rounded in another order: so a sample has the same bits in any part.
    """
    starts = list(range(0, count, size))
    if len(starts) > 1 and size >= FEWEST > count - starts[-1]:
        starts.pop()
    return [slice(a, b) for a, b in zip(starts, [*starts[1:], count], strict=True)]


def joined(parts: list[Any]) -> Any:
    """Batches of inputs as one; a single batch is not copied."""
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], Bundle):
        names = parts[0].parts
        return Bundle({name: torch.cat([part.parts[name] for part in parts]) for name in names})
    return torch.cat(parts)


def only_tensor(x: Any, reader: str) -> Tensor:
    """Inputs that are one tensor, for what reads their numbers."""
    if isinstance(x, Bundle):
        raise NescioError(
            f"{reader} reads inputs of one tensor, these have {len(x.parts)} "
            f"({', '.join(x.parts)}); use what reads features or logits instead"
        )
    tensor: Tensor = x
    return tensor


WORDS = 1 << 20  # words of inputs hashed at a time
GOLDEN = -7046029254386353131  # 2^64 over the golden ratio, as int64


def hash_inputs(inputs: Inputs) -> Tensor:
    """A number for each input `(N,)` int64, equal for equal inputs, whatever the batch.

    Floats count as float32, bytes as their share of 255, -0 as 0, so an image has one number in
    all its forms; the order of a mapping's keys does not count. It recognizes data; it does not
    withstand a forger.
    """
    if isinstance(inputs, Bundle):
        parts = (part.reshape(len(part), -1) for _, part in sorted(inputs.parts.items()))
        return _hash(torch.stack(list(map(hash_inputs, parts)), 1))
    if not inputs.numel():
        return torch.zeros(len(inputs), dtype=torch.int64)
    size = max(1, WORDS // inputs[0].numel())
    return torch.cat([_hash(part) for part in inputs.split(size)])


def _hash(inputs: Tensor) -> Tensor:
    bits = inputs.detach().flatten(1).cpu()
    if bits.is_floating_point() or bits.dtype == torch.uint8:
        bits = (as_batch(bits) + 0.0).contiguous()  # -0 is 0
        if bits.shape[1] % 2:
            bits = torch.cat([bits, bits.new_zeros(len(bits), 1)], 1)
        bits = bits.view(torch.int64)
    words = bits.to(torch.int64) * GOLDEN  # a new array, changed in place below
    words ^= words >> 32  # what the product left in the high bits reaches the low ones
    total = (words.mul_(_odd(words.shape[1]))).sum(1) + inputs[0].numel()
    total = (total ^ (total >> 29)) * GOLDEN
    return total ^ (total >> 32)


@lru_cache(maxsize=8)
def _odd(count: int) -> Tensor:
    """Odd numbers that share no pattern with data, one per word."""
    numbers = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0xBF58476D1CE4E5B9)
    numbers ^= numbers >> np.uint64(30)
    numbers *= np.uint64(0x94D049BB133111EB)
    numbers ^= numbers >> np.uint64(27)
    return torch.from_numpy((numbers | np.uint64(1)).view(np.int64))


def digest(*parts: Tensor | str | bytes) -> str:
    """A short fingerprint of the contents of tensors, texts and bytes, in their order."""
    total = hashlib.blake2b(digest_size=8)
    for part in parts:
        if isinstance(part, bytes):
            total.update(f"bytes {len(part)}:".encode())
            total.update(part)
            continue
        if isinstance(part, str):
            total.update(f"text {len(part)}:{part}".encode())
            continue
        total.update(f"{part.dtype}{tuple(part.shape)}".encode())
        if part.numel():
            flat = part.detach().cpu().contiguous().view(-1).view(torch.uint8)
            total.update(flat.numpy().data)
    return total.hexdigest()


TRAINED_ROWS = "trained_rows"  # the note of a model: digests of the rows of its members


def digests_of(rows: Sequence[Tensor]) -> list[str]:
    """A digest of each set of rows that occurs, sorted."""
    return sorted({digest(own.long().cpu().sort().values) for own in rows})
