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
    """What the removal of each training sample would change about test samples.

    values: change of the quantity when training sample n is removed, `(T, N)`.
    on: the quantity: loss, logit, confidence, margin, or a function's name.
    value: the quantity now, `(T,)`.
    target: class whose logit, confidence or margin it is, `(T,)`.
    predicted: predicted classes, `(T,)`, or outputs of a regression, `(T, O)`.
    test_labels: labels of the test samples, `(T,)`.
    labels: labels of the training samples, `(N,)`.
    residual: |H s - g| / |g|, the largest over the test samples.
    gradient_norm: norm of the gradient of the objective at the weights examined.
    damping: what was added to the diagonal of the Hessian.
    objective: what the weights minimize, in words.
    parameters: last or all.
    refit: how far the last layer was moved to its minimum; None: it was not.
    """

    values: Tensor
    on: str
    value: Tensor
    target: Tensor | None
    predicted: Tensor
    test_labels: Tensor | None
    labels: Tensor
    residual: float
    gradient_norm: float
    damping: float
    objective: str
    parameters: str
    refit: Refit | None

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
        """The most helpful training samples of each test sample, `(T, count)`, best first.

        count: number of training samples.
        """
        return _top(self.help, count)

    def harmful(self, count: int = 5) -> Tensor:
        """The most harmful training samples of each test sample, `(T, count)`, worst first.

        count: number of training samples.
        """
        return _top(-self.help, count)

    def words(self, count: int = 3) -> list[str]:
        """A paragraph for each test sample: its quantity, and who helps and who harms.

        count: number of helpful and of harmful training samples to name.
        """
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
    train: the training data `(x, y)` in any form that nescio reads.
    test: test samples `(x, y)`; the labels are needed where the loss is asked for.
    on: the quantity: `"loss"`, `"logit"`, `"confidence"` (a probability), `"margin"` (a logit less
      the largest other), or a function of outputs `(T, O)`.
    target: class whose logit, confidence or margin it is, `(T,)`; None: the predicted one.
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
    options = dict(locals())
    for name in ("source", "train", "test", "on", "target"):
        del options[name]
    return at_minimum(fit(source, train, **options), test, on=on, target=target)


@torch.no_grad()
def at_minimum(
    minimum: Minimum, test: Any, *, on: Quantity = "loss", target: Any = None
) -> Influence:
    """The influence on test samples, of a network that was fitted before.

    minimum: a network at its minimum, as `fit` returns it.
    test: test samples `(x, y)`; the labels are needed where the loss is asked for.
    on: the quantity: `"loss"`, `"logit"`, `"confidence"` (a probability), `"margin"` (a logit less
      the largest other), or a function of outputs `(T, O)`.
    target: class whose logit, confidence or margin it is, `(T,)`; None: the predicted one.
    """
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
