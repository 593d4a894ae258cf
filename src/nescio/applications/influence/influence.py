"""Influence functions (Cook and Weisberg, 1980; Koh and Liang, 2017): what a sample does.

With g_i the gradient of the objective's i-th term, weight decay included, and H its Hessian at the
minimum, removing sample i of n moves the weights by about H^-1 g_i / n, and a quantity q of a test
sample by about (dq)' H^-1 g_i / n.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nescio.applications.influence.influence_words import examined_words, test_words
from nescio.applications.influence.minimum import LIMIT, Minimum, Refit, fit
from nescio.applications.influence.quantities import Quantity
from nescio.applications.influence.solvers import MEMORY
from nescio.core import Head, NescioError
from nescio.losses import Loss
from nescio.nets import Output


@dataclass(frozen=True, eq=False, kw_only=True)
class Influence:
    """What the removal of each training sample would change about test samples."""

    values: Tensor  # (T, N): the change of the quantity when training sample n is removed
    on: str  # the quantity: loss, logit, confidence, margin, or a function's name
    value: Tensor  # (T,) the quantity now
    target: Tensor | None  # (T,) the class whose logit, confidence or margin it is
    predicted: Tensor  # (T,) classes, or outputs (T, O) of a regression
    test_labels: Tensor | None  # (T,)
    labels: Tensor  # (N,) of the training samples
    residual: float  # |H s - g| / |g|, the largest over the test samples
    gradient_norm: float  # of the objective at the weights examined
    damping: float  # that was added to the diagonal of the Hessian
    objective: str  # what the weights minimize, in words
    parameters: str  # last or all
    refit: Refit | None  # how far the last layer was moved to its minimum; None: it was not

    def __repr__(self) -> str:
        tests, samples = self.values.shape
        return f"Influence({samples} training samples on the {self.on} of {tests} test samples)"

    @property
    def help(self) -> Tensor:
        """How much each training sample helps, `(T, N)`: positive is helpful, negative harmful.

        A helpful sample keeps a loss low, or a logit, a confidence or a margin high: without it
        the loss rises, the others fall.
        """
        return self.values if self.on == "loss" else -self.values

    def helpful(self, count: int = 5) -> Tensor:
        """The most helpful training samples of each test sample, `(T, count)`, best first."""
        return _top(self.help, count)

    def harmful(self, count: int = 5) -> Tensor:
        """The most harmful training samples of each test sample, `(T, count)`, worst first."""
        return _top(-self.help, count)

    def words(self, count: int = 3) -> list[str]:
        """A paragraph for each test sample: its quantity, and who helps and who harms."""
        return [test_words(self, index, count) for index in range(len(self.values))]

    def examined(self) -> str:
        """What was examined, and how precisely, in words."""
        return examined_words(self)


def _top(values: Tensor, count: int) -> Tensor:
    samples = values.shape[1]
    if not 1 <= count <= samples:
        raise NescioError(f"count must be from 1 to {samples}, the training samples, got {count}")
    return values.topk(count, dim=1).indices


def influence(
    source: Any,
    train: Any,
    test: Any,
    *,
    on: Quantity = "loss",
    target: Any = None,
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
) -> Influence:
    """What the removal of each training sample would change about test samples, `(T, N)`.

    source: an `nn.Module`, or a nescio model with one member.
    train: the training data `(x, y)` in any form that nescio reads. test: samples, with labels
    where the loss is asked for.
    on: "loss", "logit", "confidence" (a probability), "margin" (a logit less the largest other), or
    a function of outputs `(T, O)`. target: the class of the last three; the predicted one by
    default.
    parameters: "last", the last linear layer on fixed features, or "all".
    solver: "exact", by the Hessian in float64, or "cg", conjugate gradients on products with it,
    up to the relative residual `tolerance` within `iterations`.
    damping: added to the diagonal of the Hessian. weight_decay: its strength in the objective,
    times the sum of squares of all weights, as in `losses.weight_decay`; torch's optimizers write
    twice that number. loss: its data term. Both are those of the training by default, if the model
    knows them.
    refit: whether the last layer is first fitted to its minimum by Newton steps; the answers are
    then about that layer, and `Influence.refit` says how far predictions moved. By default it is,
    and a weight decay of 1e-4 is taken if the training had none. False: a network whose gradient
    norm is above `limit` is refused.
    head, output: of a module, as for `nescio.observe`. batch_size: samples at a time where all
    parameters are examined. memory: bytes that the Hessian and its factor may take.
    """
    options = dict(locals())
    for name in ("source", "train", "test", "on", "target"):
        del options[name]
    return at_minimum(fit(source, train, **options), test, on=on, target=target)


@torch.no_grad()
def at_minimum(
    minimum: Minimum, test: Any, *, on: Quantity = "loss", target: Any = None
) -> Influence:
    """The influence on test samples, of a network that was fitted before."""
    tested = minimum.problem.tested(test, on, target)
    solutions = minimum.solve(tested.gradients)
    residual = _residual(minimum, solutions, tested.gradients)
    head, outputs = minimum.problem.head, tested.outputs
    classes = head.task == "classification"
    return Influence(
        values=minimum.removal(solutions),
        on=tested.asked.name,
        value=tested.value,
        target=tested.asked.target,
        predicted=head.logits(outputs).argmax(-1) if classes else outputs,
        test_labels=tested.asked.labels,
        labels=minimum.problem.targets,
        residual=residual,
        gradient_norm=minimum.gradient_norm,
        damping=minimum.damping,
        objective=minimum.problem.objective.description,
        parameters=minimum.parameters,
        refit=minimum.refit,
    )


def _residual(minimum: Minimum, solutions: Tensor, vectors: Tensor) -> float:
    """|H s - g| / |g|, by products with the Hessian, not by its factor."""
    image = minimum.problem.hessian_product(solutions) + minimum.damping * solutions
    norms = vectors.norm(dim=1).clamp_min(torch.finfo(vectors.dtype).tiny)
    return float(((image - vectors).norm(dim=1) / norms).max())
