"""Inputs of several tensors, as networks with two inputs and Transformers read them."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor

from nescio.core.checks import as_batch
from nescio.core.errors import NescioError

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
