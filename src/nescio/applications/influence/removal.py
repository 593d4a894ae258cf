"""The removal of training samples: on their own loss (self-influence), and on the weights."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from nescio.applications.influence.minimum import Minimum, fit
from nescio.applications.influence.solvers import Exact
from nescio.core import as_tensor, check_indices

NUMBERS = 1 << 23  # float64 numbers of the gradients that are held at a time


@torch.no_grad()
def self_influence(source: Any, train: Any = None, **options: Any) -> Tensor:
    """How much the loss of each training sample rises when it is removed, `(N,)`.

    It is g' H^-1 (g + the gradient of the weight decay) / n: large for samples that only they
    themselves explain, such as those with a wrong label. Where the Hessian is factored, no system
    is solved for a sample.

    source: a network, or what `fit` made of it and its training data.
    train: the training data `(x, y)`; None where `source` is what `fit` made.
    options: options of `fit`.
    """
    minimum = source if isinstance(source, Minimum) else fit(source, train, **options)
    problem = minimum.problem
    shift = minimum.solve(problem.penalty[None])[0]
    found = shift.new_empty(problem.samples)
    for rows in _parts(problem.samples, problem.size):
        gradients = problem.gradients(rows)
        if isinstance(minimum.solve, Exact):
            squares = minimum.solve.whitened(gradients).square().sum(1)
        else:
            squares = (minimum.solve(gradients) * gradients).sum(1)
        found[rows] = squares + gradients @ shift
    return found / problem.samples


@torch.no_grad()
def parameter_change(minimum: Minimum, index: Any) -> Mapping[str, Tensor]:
    """How the removal of single training samples would move the weights, by name, `(K, ...)`.

    Of a layer that was fitted again it is the change from its weights after that.

    minimum: a network at its minimum, as `fit` returns it.
    index: indices of the training samples, `(K,)`.
    """
    rows, problem = as_tensor(index, "index"), minimum.problem
    check_indices(rows, problem.samples, "index")
    gradients = problem.gradients(rows.long()) + problem.penalty
    return problem.named(minimum.solve(gradients) / problem.samples)


def _parts(samples: int, size: int) -> tuple[Tensor, ...]:
    index: Tensor = torch.arange(samples)
    return tuple(index.split(max(1, NUMBERS // size)))
