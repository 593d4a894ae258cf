"""Solving with the Hessian: exactly by Cholesky factors, or by conjugate gradients on products."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from nescio.applications.influence.objective import Objective
from nescio.applications.influence.quantities import Quantity, Tested
from nescio.core import Head, Inputs, NescioError

MEMORY = 4_000_000_000  # bytes that a Hessian and its factor may take
SEEN = 2000  # parameters up to which the smallest eigenvalue is computed for a message


class Problem(Protocol):
    """An objective near its minimum, as solvers and influence read it."""

    @property
    def samples(self) -> int: ...
    @property
    def targets(self) -> Tensor: ...
    @property
    def objective(self) -> Objective: ...
    @property
    def head(self) -> Head: ...
    @property
    def size(self) -> int: ...
    @property
    def penalty(self) -> Tensor: ...
    def value_and_gradient(self) -> tuple[Tensor, Tensor]: ...
    def hessian(self) -> Tensor: ...
    def hessian_product(self, vectors: Tensor) -> Tensor: ...
    def products(self, vectors: Tensor) -> Tensor: ...
    def gradients(self, rows: Tensor) -> Tensor: ...
    def named(self, vectors: Tensor) -> dict[str, Tensor]: ...
    def read(self, data: Any, *, labels: bool) -> tuple[Inputs, Tensor | None]: ...
    def tested(self, data: Any, on: Quantity, target: object) -> Tested: ...
    def rise(self, vector: Tensor, inputs: Inputs, targets: Tensor) -> Tensor: ...


Solve = Callable[[Tensor], Tensor]  # (T, P) -> (T, P)


def check_memory(size: int, memory: int) -> None:
    """Refuse a Hessian that takes more than `memory` bytes."""
    needed = 2 * 8 * size**2
    if needed > memory:
        raise NescioError(
            f"the Hessian of {size:,} parameters and its factor take {needed:,} bytes, above "
            f"memory={memory:,}; use solver='cg', which holds vectors only, or allow more memory"
        )


def factored(hessian: Tensor, damping: float) -> Tensor:
    """The Cholesky factor of a Hessian plus `damping` on its diagonal; it is overwritten."""
    hessian.diagonal().add_(damping)
    factor: Tensor
    factor, failed = torch.linalg.cholesky_ex(hessian)
    if not int(failed) and _is_regular(factor):
        return factor
    if not hessian.isfinite().all():
        raise NescioError("the Hessian has NaN or infinite entries; look at inputs and weights")
    least = "a Cholesky factor does not exist"
    if len(hessian) <= SEEN:
        least = f"its smallest eigenvalue is {float(torch.linalg.eigvalsh(hessian)[0]):.3g}"
    raise NescioError(
        f"the Hessian is not positive definite: {least} (damping={damping:g}), so the weights are "
        "not at a strict minimum. Give weight_decay= above 0 (and train with it, or refit=True), "
        "or damping= above the size of the most negative eigenvalue"
    )


def _is_regular(factor: Tensor) -> bool:
    """Whether the pivots differ from zero by more than rounding."""
    pivots = factor.diagonal().square()
    return bool(pivots.min() > len(factor) * torch.finfo(factor.dtype).eps * pivots.max())


@dataclass(frozen=True, eq=False)
class Exact:
    """Solutions by the Cholesky factor `(P, P)` of the Hessian."""

    factor: Tensor

    def __call__(self, vectors: Tensor) -> Tensor:
        return torch.cholesky_solve(vectors.T, self.factor).T

    def whitened(self, vectors: Tensor) -> Tensor:
        """Vectors `(T, P)` whose squared lengths are v' H^-1 v."""
        found: Tensor = torch.linalg.solve_triangular(self.factor, vectors.T, upper=False)
        return found.T


@dataclass(frozen=True, kw_only=True)
class ConjugateGradients:
    """Solutions by conjugate gradients on products with the Hessian plus damping."""

    product: Solve
    damping: float
    tolerance: float  # of the residual, as a share of the right-hand side
    iterations: int
    precondition: Solve | None = None  # solutions with a similar matrix

    def __call__(self, vectors: Tensor) -> Tensor:
        found, residual = conjugate_gradients(
            lambda v: self.product(v) + self.damping * v,
            vectors,
            tolerance=self.tolerance,
            iterations=self.iterations,
            precondition=self.precondition,
        )
        if not residual <= self.tolerance:
            raise NescioError(
                f"conjugate gradients did not converge: after {self.iterations} iterations the "
                f"residual is {residual:.3g} of the right-hand side, above tolerance="
                f"{self.tolerance:g}; give more iterations=, or damping= above {self.damping:g}"
            )
        return found


@torch.no_grad()
def conjugate_gradients(
    product: Solve,
    vectors: Tensor,
    *,
    tolerance: float,
    iterations: int,
    precondition: Solve | None = None,
) -> tuple[Tensor, float]:
    """Solutions `(T, P)`, each with its own step lengths, and the largest relative residual.

    precondition: solutions with a similar matrix, which make the iterations fewer.
    """
    near = precondition or (lambda rest: rest)
    found, rest = torch.zeros_like(vectors), vectors.clone()
    norms = vectors.norm(dim=1).clamp_min(torch.finfo(vectors.dtype).tiny)
    direction = near(rest)
    lengths = (rest * direction).sum(1)
    for _ in range(iterations):
        moving = rest.norm(dim=1) > tolerance * norms
        if not moving.any():
            break
        image = product(direction)
        curvature = (direction * image).sum(1)
        if (curvature <= 0)[moving].any():
            raise NescioError(
                "the Hessian is not positive definite: conjugate gradients met a direction with "
                f"curvature {_least(curvature, direction, moving):.3g} per unit length; give "
                "damping= above its size, or weight_decay= above 0 (and train with it)"
            )
        step = torch.where(moving, lengths / curvature, 0.0)[:, None]
        found, rest = found + step * direction, rest - step * image
        nearer = near(rest)
        before, lengths = lengths, (rest * nearer).sum(1)
        share = torch.where(moving, lengths / before, 0.0)[:, None]
        direction = nearer + share * direction
    true = vectors - product(found)  # the recursion drifts
    return found, float((true.norm(dim=1) / norms).max())


def _least(curvature: Tensor, direction: Tensor, moving: Tensor) -> float:
    return float((curvature / direction.square().sum(1))[moving].min())
