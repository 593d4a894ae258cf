"""Cook's distance (Cook, 1977), from the influence of samples in linear regression.

With leverages h and residuals r, removing sample i moves the weights by exactly 1 / (1 - h_i) times
what influence says, and D_i = r_i^2 h_i / (p s^2 (1 - h_i)^2), where s^2 = sum r^2 / (n - p).
"""

import torch
from torch import Tensor

from nescio.applications.influence.linear_head import LinearHead
from nescio.applications.influence.minimum import Minimum
from nescio.applications.influence.removal import self_influence
from nescio.applications.influence.solvers import Exact
from nescio.core import NescioError


@torch.no_grad()
def leverages(minimum: Minimum) -> Tensor:
    """The leverage of each sample `(N,)`, the diagonal of X (X'X)^-1 X', in linear regression.

    minimum: a network at its minimum, as `fit` returns it.
    """
    problem, solve, curvature = _linear_regression(minimum)
    found = [solve.whitened(wide).square().sum(1) for _, wide, _ in problem.blocks(problem.size)]
    return curvature * torch.cat(found) / problem.samples


@torch.no_grad()
def cooks_distance(minimum: Minimum) -> Tensor:
    """Cook's distance of each sample, `(N,)`: how far all predictions move when it is removed.

    minimum: from `fit`, of a squared error of one target, without weight decay and damping.
    """
    problem, _, curvature = _linear_regression(minimum)
    leverage = leverages(minimum)
    own = self_influence(minimum) / curvature  # r^2 h
    slopes = [problem.slopes(wide, targets)[1] for _, wide, targets in problem.blocks()]
    squares = (torch.cat(slopes)[:, 0] / curvature).square()
    variance = squares.sum() / (problem.samples - problem.size)
    return own / (problem.size * variance * (1 - leverage).square())


def _linear_regression(minimum: Minimum) -> tuple[LinearHead, Exact, float]:
    """The problem, its solver, and the second derivative of its loss; others are refused."""
    problem, solve = minimum.problem, minimum.solve
    if not isinstance(problem, LinearHead) or not isinstance(solve, Exact):
        raise NescioError("Cook's distance needs fit(..., parameters='last', solver='exact')")
    if len(problem.weight) != 1 or problem.head.task != "regression":
        raise NescioError("Cook's distance is of a regression with one target")
    if problem.objective.decay or minimum.damping:
        raise NescioError("Cook's distance is of least squares: weight_decay=0 and damping=0")
    if problem.samples <= problem.size:
        raise NescioError(
            f"{problem.samples} samples do not tell the noise of {problem.size} weights"
        )
    _, wide, targets = next(problem.blocks())
    curvature = problem.curvatures(wide, targets).flatten()
    if not torch.allclose(curvature, curvature[:1].expand_as(curvature)):
        raise NescioError("Cook's distance is of a squared error; this loss is another")
    return problem, solve, float(curvature[0])
