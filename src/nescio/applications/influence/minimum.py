"""Fit: what influence on any test sample needs of a network and its training data, once."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.utils.data import RandomSampler

from nescio.applications.influence.head_reading import head_reading, observed, only_member
from nescio.applications.influence.linear_head import LinearHead
from nescio.applications.influence.newton import preconditioner, refitted
from nescio.applications.influence.objective import objective_of
from nescio.applications.influence.solvers import (
    MEMORY,
    ConjugateGradients,
    Exact,
    Problem,
    check_memory,
    factored,
)
from nescio.applications.influence.whole_network import whole_network
from nescio.core import Head, NescioError, unknown
from nescio.detectors import Activations
from nescio.detectors.observe.network import head_of
from nescio.losses import Loss
from nescio.models import with_head
from nescio.nets import Output

PARAMETERS, SOLVERS = ("last", "all"), ("exact", "cg")
LIMIT = 1e-6  # of the gradient norm


@dataclass(frozen=True, kw_only=True)
class Refit:
    """How far a last layer moved when it was fitted to the minimum, on the training data.

    steps: number of Newton steps.
    gradient_norm: norm of the gradient before.
    changed: share of samples with another predicted class; of a regression 0.
    shift: mean over samples of the largest change of a probability, or of an output.
    """

    steps: int
    gradient_norm: float
    changed: float
    shift: float


@dataclass(frozen=True, eq=False, kw_only=True)
class Minimum:
    """A network at the minimum of its objective, with its Hessian to solve with.

    problem: the objective, its weights and its data.
    parameters: last or all.
    solve: solves systems with the Hessian.
    damping: what was added to the diagonal of the Hessian.
    gradient_norm: norm of the gradient of the objective at the weights.
    refit: how far the last layer was moved to its minimum; None: it was not.
    """

    problem: Problem
    parameters: str
    solve: Exact | ConjugateGradients
    damping: float
    gradient_norm: float
    refit: Refit | None

    def __repr__(self) -> str:
        return (
            f"Minimum({self.problem.size} parameters ({self.parameters}), "
            f"{self.problem.samples} samples, gradient norm {self.gradient_norm:.2g})"
        )

    def removal(self, vectors: Tensor) -> Tensor:
        """Solutions times the effect of removing each sample, `(T, N)`.

        Without sample i of n, and with the mean over the others, the weights move by about H^-1
        (g_i + the gradient of the weight decay) / n.

        vectors: solutions of systems with the Hessian, `(T, P)`.
        """
        products = self.problem.products(vectors)
        return (products + (vectors @ self.problem.penalty)[:, None]) / self.problem.samples


def fit(
    source: Any,
    train: Any,
    *,
    parameters: str = "last",
    solver: str = "exact",
    damping: float = 0.0,
    weight_decay: float | None = None,
    loss: Loss | None = None,
    refit: bool | None = None,
    limit: float = LIMIT,
    head: Head | str | None = None,
    output: Output = None,
    tolerance: float = 1e-8,
    iterations: int = 1000,
    batch_size: int = 256,
    memory: int = MEMORY,
) -> Minimum:
    """A network at its minimum: what influence on any test samples needs.

    source: an `nn.Module`, or a nescio model with one member.
    train: the training data `(x, y)` in any form that nescio reads.
    parameters: `"last"`, the last linear layer on fixed features, or `"all"`.
    solver: `"exact"`, by the Hessian in float64, or `"cg"`, conjugate gradients on products with
      it.
    damping: what is added to the diagonal of the Hessian.
    weight_decay: strength of the weight decay in the objective, times the sum of squares of all
      weights, as in `losses.weight_decay`; torch's optimizers write twice that number. None: that
      of the training, if the model knows it.
    loss: data term of the objective; None: that of the training, if the model knows it.
    refit: whether the last layer is first fitted to its minimum by Newton steps; the answers are
      then about that layer, and `Influence.refit` says how far predictions moved. None: it is, and
      a weight decay of 1e-4 is taken if the training had none. False: a network whose gradient norm
      is above `limit` is refused.
    limit: largest gradient norm of a network that is not fitted again.
    head: how the outputs of modules are read, as for `nescio.observe`.
    output: where the outputs are in what the network returns, as for `nescio.observe`.
    tolerance: relative residual at which conjugate gradients end.
    iterations: largest number of steps of conjugate gradients.
    batch_size: samples at a time where all parameters are examined.
    memory: bytes that the Hessian and its factor may take.
    """
    _check_names(parameters, solver, refit)
    if not damping >= 0 or not limit > 0:
        raise NescioError(f"damping is 0 or more, limit above 0, got {damping} and {limit}")
    if not 0 < tolerance < 1 or not iterations >= 1:
        raise NescioError(
            f"tolerance is between 0 and 1, iterations 1 or more, got {tolerance} and {iterations}"
        )
    _check_order(train)
    if isinstance(train, Activations):
        head = head or head_of(train.about)
    source = with_head(source, train, head=head, output=output)
    said: dict[str, Any] = {"loss": loss, "weight_decay": weight_decay}
    problem: Problem
    if parameters == "last":
        problem, moved = _last_layer(source, train, limit, refit=refit is not False, **said)
    else:
        member, moved = only_member(source), None
        objective = objective_of(source, member.head, refit=False, **said)
        problem = whole_network(member, train, objective, batch_size=batch_size)
    norm = float(problem.value_and_gradient()[1].norm())
    _check_converged(norm, limit, parameters)
    if solver == "exact":
        check_memory(problem.size, memory)
        solve: Exact | ConjugateGradients = Exact(factored(problem.hessian(), damping))
    else:
        solve = ConjugateGradients(
            product=problem.hessian_product,
            damping=damping,
            tolerance=tolerance,
            iterations=iterations,
            precondition=preconditioner(problem, damping),
        )
    made = {"parameters": parameters, "damping": damping, "gradient_norm": norm, "refit": moved}
    return Minimum(problem=problem, solve=solve, **made)  # type: ignore[arg-type]


def _check_order(train: Any) -> None:
    """Refuse a loader with a random order: its positions would name no samples."""
    if isinstance(getattr(train, "sampler", None), RandomSampler):
        raise NescioError(
            "the training data come in a random order, so the index of a sample would mean "
            "nothing; give a DataLoader with shuffle=False, or (x, y)"
        )


def _check_names(parameters: str, solver: str, refit: bool | None) -> None:
    if parameters not in PARAMETERS:
        raise NescioError(unknown("parameters", parameters, PARAMETERS))
    if solver not in SOLVERS:
        raise NescioError(unknown("solver", solver, SOLVERS))
    if refit and parameters == "all":
        raise NescioError("only a last layer is fitted again; leave refit out, or train further")


def _last_layer(
    source: Any,
    train: Any,
    limit: float,
    *,
    refit: bool,
    loss: Loss | None,
    weight_decay: float | None,
) -> tuple[LinearHead, Refit | None]:
    seen = observed(source, train)
    reading = head_reading(source, seen)
    objective = objective_of(source, reading.head, loss, weight_decay, refit=refit)
    features, targets = reading.seen(seen, labels=True)
    assert targets is not None
    problem = LinearHead(
        features=features,
        targets=targets,
        weight=reading.weight,
        has_bias=reading.layer.bias is not None,
        objective=objective,
        reading=reading,
    )
    _check_curved(problem)
    if not refit:
        return problem, None
    before = float(problem.value_and_gradient()[1].norm())
    there, steps = refitted(problem, limit)
    changed, shift = _movement(problem, there)
    return there, Refit(steps=steps, gradient_norm=before, changed=changed, shift=shift)


def _check_curved(problem: LinearHead) -> None:
    """Refuse a loss whose second derivatives are zero: it has kinks in their place."""
    few = problem.thinned(64)
    if not few.curvatures(few.extended(few.features), few.targets).any():
        raise NescioError(
            f"{problem.objective.loss.description} has no curvature, so its Hessian says nothing "
            "about its minimum; use losses.squared_error() or losses.smooth_hinge(), which have"
        )


def _movement(before: LinearHead, after: LinearHead) -> tuple[float, float]:
    """The share of samples whose class changed, and the mean of their largest changes."""
    if before is after:
        return 0.0, 0.0
    changed = shift = 0.0
    for _, features, _ in before.blocks():
        old, new = (features @ one.weight.T for one in (before, after))
        if before.head.task == "classification":
            old, new = (before.head.logits(z).softmax(-1) for z in (old, new))
            changed += float((old.argmax(-1) != new.argmax(-1)).sum())
        shift += float((old - new).abs().amax(-1).sum())
    return changed / before.samples, shift / before.samples


def _check_converged(norm: float, limit: float, parameters: str) -> None:
    if norm <= limit:
        return
    way = (
        "refit=True fits the last layer to its minimum first"
        if parameters == "last"
        else "train to a minimum (optimizer='lbfgs', batch_size=None, float64), or use "
        "parameters='last', which fits the last layer to its minimum"
    )
    raise NescioError(
        f"the network is not at a minimum of its objective: the gradient norm is {norm:.3g}, above "
        f"limit={limit:g}, so what a sample does to the minimum says little about it; {way}. A "
        "wrong loss= or weight_decay= has the same effect; limit= allows more"
    )
