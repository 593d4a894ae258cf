"""Upper bounds on how much an affine layer stretches: its operator norm in the 2-norm."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

OUTWARD = 1 + 1e-10  # norms are rounded up
BYTES = 64 << 20  # of the matrices of one block of frequencies


def matrix_norm(weight: Tensor) -> float:
    """The largest singular value of a matrix."""
    return float(torch.linalg.matrix_norm(weight.double(), 2)) * OUTWARD


def convolution_norm(
    weight: Tensor,
    sizes: Sequence[int],
    *,
    stride: Sequence[int],
    dilation: Sequence[int],
    groups: int = 1,
) -> float:
    """A bound on the norm of a convolution with zeros around its inputs of `sizes`, never below it.

    Around a torus large enough that nothing wraps, the convolution is the same one, and there it
    is a matrix for each frequency (Sedghi et al., 2019); the largest of their norms is returned.
    With a stride, the inputs are first sorted by their position within it, which changes no norm.
    A transposed convolution is the adjoint of the one with the same weight, of the same norm.

    weight: (out, in / groups, *kernel), of a transposed convolution (in, out / groups, *kernel).
    sizes: of the inputs of the convolution; of a transposed one those of its outputs, or more.
    """
    kernel = _by_position(_dilated(weight.double(), dilation), stride)
    counts = [
        -(-size // step) + taps + 1
        for size, step, taps in zip(sizes, stride, kernel.shape[2:], strict=True)
    ]
    waves = _waves(counts, kernel.shape[2:])  # (frequencies, taps)
    return max(_largest(part, waves) for part in kernel.chunk(groups)) * OUTWARD


def _dilated(weight: Tensor, dilation: Sequence[int]) -> Tensor:
    """The kernel with the zeros that dilation puts between its taps."""
    spread = [(k - 1) * d + 1 for k, d in zip(weight.shape[2:], dilation, strict=True)]
    wide = weight.new_zeros(*weight.shape[:2], *spread)
    taps: list[Any] = [slice(None, None, d) for d in dilation]
    wide[(..., *taps)] = weight
    return wide


def _by_position(weight: Tensor, stride: Sequence[int]) -> Tensor:
    """A strided kernel as one of stride 1, `(out, in * prod(stride), *taps)`."""
    short = [-k % s for k, s in zip(weight.shape[2:], stride, strict=True)]
    weight = F.pad(weight, [n for more in reversed(short) for n in (0, more)])
    for axis, step in enumerate(stride):
        split = weight.unflatten(2 + axis, (-1, step)).movedim(3 + axis, 2)
        weight = split.flatten(1, 2)
    return weight


def _waves(counts: Sequence[int], taps: Sequence[int]) -> Tensor:
    """`exp(-i w t)`, `(frequencies, taps)`; of opposite frequencies of a real kernel one counts."""
    kept = [counts[0] // 2 + 1, *counts[1:]]
    found = torch.ones(1, 1, dtype=torch.complex128)
    for count, keep, length in zip(counts, kept, taps, strict=True):
        turns = torch.arange(keep)[:, None] * torch.arange(length) / count
        found = torch.kron(found, torch.exp(-2j * torch.pi * turns.double()))
    return found


def _largest(kernel: Tensor, waves: Tensor) -> float:
    """The largest norm of the matrices `(out, in)` of a kernel at each frequency."""
    flat = kernel.flatten(2).movedim(2, 0).flatten(1).to(waves.dtype)  # (taps, out * in)
    found = 0.0
    for block in waves.split(max(1, BYTES // (16 * flat.shape[1]))):
        matrices = (block @ flat).unflatten(1, kernel.shape[:2])
        if kernel.shape[0] > kernel.shape[1]:
            matrices = matrices.mT
        squares = torch.linalg.eigvalsh(matrices @ matrices.mH)[:, -1]
        found = max(found, float(squares.max().clamp(min=0).sqrt()))
    return found
