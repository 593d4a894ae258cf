"""What a small change of a training sample does to test samples (Koh and Liang, 2017, section 2.2).

If sample z of n is replaced by z + d, the weights move by about -H^-1 (d/dx g_z) d / n, and a
quantity q of a test sample by -(dq)' H^-1 (d/dx g_z) d / n: the rows of this matrix.
"""

from typing import Any

import torch
from torch import Tensor

from nescio.applications.influence.minimum import Minimum
from nescio.applications.influence.quantities import Quantity
from nescio.core import Inputs, NescioError, as_batch


def perturbation(
    minimum: Minimum,
    test: Any,
    samples: Any,
    *,
    on: Quantity = "loss",
    target: Any = None,
    together: bool = False,
) -> Tensor:
    """How a quantity of test samples changes with the inputs of training samples, by gradients.

    The result is `(T, K, ...)`: the change of the quantity per unit of each input of each of the K
    `samples`, as the network reads inputs. A step along it raises the quantity after the network is
    trained again.

    minimum: a network at its minimum, as `fit` returns it.
    test: test samples `(x, y)`; the labels are needed where the loss is asked for.
    samples: training samples `(x, y)`, floats or image bytes (255 is 1).
    on: the quantity: `"loss"`, `"logit"`, `"confidence"` (a probability), `"margin"` (a logit less
      the largest other), or a function of outputs `(T, O)`.
    target: class whose logit, confidence or margin it is, `(T,)`; None: the predicted one.
    together: whether to sum over the test samples, to `(K, ...)`.
    """
    inputs, targets = minimum.problem.read(samples, labels=True)
    if targets is None:
        raise NescioError("training samples must have labels: samples=(x, y)")
    x = _numbers(inputs)
    tested = minimum.problem.tested(test, on, target)
    with torch.no_grad():
        gradients = tested.gradients.sum(0, keepdim=True) if together else tested.gradients
        solutions = minimum.solve(gradients)
    found = torch.stack([_pulled(minimum, vector, x, targets) for vector in solutions])
    return found[0] if together else found


def _pulled(minimum: Minimum, vector: Tensor, x: Tensor, targets: Tensor) -> Tensor:
    """Minus the gradient in the inputs of a solution times the gradients of samples, over n."""
    parts = []
    for rows in torch.arange(len(x)).split(256):
        inputs = x[rows].clone().requires_grad_()
        with torch.enable_grad():
            rise = minimum.problem.rise(vector, inputs, targets[rows])
            parts.append(torch.autograd.grad(rise, inputs)[0])
    return -torch.cat(parts) / minimum.problem.samples


def _numbers(inputs: Inputs) -> Tensor:
    """Inputs that have a gradient: one tensor of floats."""
    if not isinstance(inputs, Tensor) or not (
        inputs.is_floating_point() or inputs.dtype == torch.uint8
    ):
        raise NescioError(
            "a perturbation is of inputs that are one array of numbers; tokens and several inputs "
            "have no small changes: use influence(...), which is about removing samples"
        )
    return as_batch(inputs, torch.float64)
