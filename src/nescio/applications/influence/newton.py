"""The minimum of a convex objective of the last layer, by Newton steps in float64.

Steps come from conjugate gradients on all samples, made fast by the Hessian of some of them.
"""

import torch

from nescio.applications.influence.linear_head import LinearHead
from nescio.applications.influence.solvers import Exact, Problem, conjugate_gradients, factored
from nescio.core import NescioError

STEPS = 200
HALVINGS = 40
DECREASE = 1e-4  # of the Armijo condition
DIRECT = 2500  # parameters up to which a Hessian of some samples is made in each step
SOME = 4096  # samples
PRECISION = 1e-2  # times the limit: where the steps end


@torch.no_grad()
def refitted(head: LinearHead, limit: float) -> tuple[LinearHead, int]:
    """The last layer at the minimum, and the number of steps to it; 0 where it is there already."""
    value, gradient = head.value_and_gradient()
    for steps in range(STEPS):
        norm = float(gradient.norm())
        if norm <= (limit if steps == 0 else PRECISION * limit):
            return head, steps
        step = _direction(head, gradient)
        slope = float(step @ gradient)
        length = 1.0
        for _ in range(HALVINGS):
            there = head.moved(length * step)
            after, new = there.value_and_gradient()
            if after <= value + DECREASE * length * slope or new.norm() < 0.5 * norm:
                break
            length /= 2
        else:
            if norm <= limit:  # as small as rounding allows
                return head, steps
            break
        head, value, gradient = there, after, new
    raise NescioError(
        f"the last layer did not reach a minimum: its gradient norm is {float(gradient.norm()):.3g}"
        f" after {steps + 1} Newton steps, above limit={limit:g}; give a larger weight_decay="
    )


def _direction(head: LinearHead, gradient: torch.Tensor) -> torch.Tensor:
    """Minus the inverse Hessian times the gradient, nearly."""
    found, _ = conjugate_gradients(
        head.hessian_product,
        gradient[None],
        tolerance=min(0.1, float(gradient.norm()) ** 0.5),
        iterations=1000,
        precondition=preconditioner(head, 0.0),
    )
    return -found[0]


def preconditioner(problem: Problem, damping: float) -> Exact | None:
    """Solutions with the Hessian of a last layer on some of the samples; None: it is too large."""
    if not isinstance(problem, LinearHead) or problem.size > DIRECT:
        return None
    some = problem.thinned(SOME)
    try:
        return Exact(factored(some.hessian(), damping))
    except NescioError:
        if some.samples == problem.samples:
            raise
        return None  # some of the samples may leave out what all of them know
