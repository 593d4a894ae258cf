"""Inputs moved away from the data on purpose (Ulmer and Cina, 2021, section 4)."""

import operator
from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from nescio.core import NescioError
from nescio.core.registry import corruptions

Factors: TypeAlias = float | Sequence[float] | Tensor
Shift: TypeAlias = Callable[[Tensor, Factors], Tensor]


@corruptions.register
def scaling(features: int | Sequence[int] | None = None) -> Shift:
    """Multiply some features by a factor: one axis, several, or (None) the whole input.

    Features are places in the flattened input; negative ones count from the end. The result is
    a function of inputs (N, ...) and a factor, or A factors for a result (A, N, ...).

    >>> scaling(0)(torch.tensor([[1.0, 2.0]]), [1.0, 10.0])
    tensor([[[ 1.,  2.]],
    <BLANKLINE>
            [[10.,  2.]]])
    """
    chosen = None if features is None else _places(features)

    def scaled(x: Tensor, alpha: Factors) -> Tensor:
        """`x` with the chosen features multiplied by `alpha`."""
        factors = _factors(alpha, x)
        if chosen is None:
            table = factors.unsqueeze(-1).expand(*factors.shape, x[0].numel())
        else:
            _check_range(chosen, x)
            table = factors.new_ones(*factors.shape, x[0].numel())
            table[..., chosen] = factors.unsqueeze(-1)
        return x * table.reshape(*factors.shape, 1, *x.shape[1:])

    return scaled


def _places(features: int | Sequence[int]) -> list[int]:
    several = features if isinstance(features, Sequence) else [features]
    try:
        places = [operator.index(place) for place in several]
    except TypeError:
        raise NescioError(
            f"`features` must be None, a whole number or several, got {features!r}"
        ) from None
    if not places:
        raise NescioError("`features` is empty; name at least one, or give None for all")
    return places


def _factors(alpha: Factors, x: Tensor) -> Tensor:
    """One factor () or several (A,), in the type and on the device of `x`."""
    if not x.is_floating_point() or x.ndim < 2 or x.numel() == 0:
        raise NescioError(
            f"x must be floating-point of shape (N, ...) and not empty, got {x.dtype} of shape "
            f"{tuple(x.shape)}; convert it with .float(), one row per sample"
        )
    factors = torch.as_tensor(alpha, dtype=x.dtype, device=x.device)
    if factors.ndim > 1 or factors.numel() == 0:
        raise NescioError(
            f"alpha must be a number or a one-dimensional series, got shape {tuple(factors.shape)}"
        )
    if not factors.isfinite().all():
        raise NescioError(
            f"alpha must be finite in {x.dtype}, got {alpha}; the limit itself is "
            "geometry's far_field"
        )
    return factors


def _check_range(places: list[int], x: Tensor) -> None:
    size = x[0].numel()
    wrong = [place for place in places if not -size <= place < size]
    if wrong:
        raise NescioError(
            f"feature {wrong[0]} is out of range: inputs of shape {tuple(x.shape[1:])} have "
            f"{size} features, numbered 0..{size - 1}"
        )
