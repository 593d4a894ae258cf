"""The three norms that Lipschitz constants are measured in."""

import torch
from torch import Tensor

from nescio.core import NescioError, unknown

ORDERS = {"l2": 2.0, "linf": torch.inf, "l1": 1.0}


def check_norm(norm: str) -> str:
    """The name of a norm, or an error."""
    if norm not in ORDERS:
        raise NescioError(unknown("norm", norm, ORDERS))
    return norm


def operator_norm(matrices: Tensor, norm: str) -> Tensor:
    """How much matrices `(..., C, D)` stretch at most: `(...)`."""
    found: Tensor = torch.linalg.matrix_norm(matrices, ORDERS[norm])
    return found


def vector_norm(vectors: Tensor, norm: str) -> Tensor:
    """The length of each vector `(..., D)`: `(...)`."""
    found: Tensor = torch.linalg.vector_norm(vectors, ORDERS[norm], dim=-1)
    return found
