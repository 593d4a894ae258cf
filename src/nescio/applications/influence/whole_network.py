"""All trained weights of a network: gradients and products with the Hessian by autograd, float64.

Samples are read some at a time, and what a block has computed is freed before the next.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor, nn

from nescio.applications.influence.objective import Objective
from nescio.applications.influence.quantities import Quantity, Tested, asked_for
from nescio.applications.influence.samples import read
from nescio.core import Bundle, Head, Inputs, NescioError, check_labels
from nescio.models import Member
from nescio.nets import arguments, copied, entering, reads_tokens, selected

ROWS = 16  # rows of a Hessian that are computed together


@dataclass(frozen=True, eq=False, kw_only=True)
class WholeNetwork:
    """The objective as a function of all trained weights of a network, one vector."""

    net: nn.Module  # a copy in float64 and in evaluation mode
    head: Head
    weight: Tensor  # (P,)
    inputs: Inputs
    targets: Tensor
    objective: Objective
    batch_size: int

    @property
    def samples(self) -> int:
        """N, the number of training samples."""
        return len(self.inputs)

    @property
    def size(self) -> int:
        """P, the number of parameters."""
        return len(self.weight)

    @property
    def penalty(self) -> Tensor:
        """The gradient of the weight decay, `(P,)`."""
        return 2 * self.objective.decay * self.weight

    @cached_property
    def _shapes(self) -> dict[str, torch.Size]:
        return {name: weight.shape for name, weight in trained(self.net).items()}

    def named(self, vectors: Tensor) -> dict[str, Tensor]:
        """Vectors `(..., P)` as the weights of the network by name, `(..., *shape)`."""
        sizes = [shape.numel() for shape in self._shapes.values()]
        parts = vectors.split(sizes, -1)
        before = vectors.shape[:-1]
        return {
            name: part.reshape(*before, *shape)
            for (name, shape), part in zip(self._shapes.items(), parts, strict=True)
        }

    def read(self, data: Any, *, labels: bool) -> tuple[Inputs, Tensor | None]:
        """Inputs, and labels or targets, of data of any form."""
        return read(self.net, self.head, data, labels=labels)

    def outputs(self, weight: Tensor, inputs: Inputs) -> Tensor:
        """Raw outputs `(B, O)` at some weights `(P,)`."""
        tokens = reads_tokens(self.net)
        x = entering(inputs, self.weight.device, torch.float64, tokens=tokens)
        result = torch.func.functional_call(self.net, self.named(weight), *arguments(self.net, x))
        found = selected(result)
        if found.ndim != 2:
            raise NescioError(
                f"influence reads outputs (samples, outputs), the network gives "
                f"{tuple(found.shape)}; label maps are not supported"
            )
        return found

    def scores(self, weight: Tensor, inputs: Inputs, targets: Tensor) -> Tensor:
        """The scores `(B,)` of samples."""
        return self.objective.scores(self.outputs(weight, inputs), targets)

    def blocks(self) -> Iterator[tuple[slice, Inputs, Tensor]]:
        """Rows, inputs and targets of some samples at a time."""
        for start in range(0, self.samples, self.batch_size):
            rows = slice(start, start + self.batch_size)
            yield rows, self.inputs[rows], self.targets[rows]

    def value_and_gradient(self) -> tuple[Tensor, Tensor]:
        """The objective and its gradient `(P,)`."""
        total, gradient = self.weight.new_zeros(()), torch.zeros_like(self.weight)
        for _, inputs, targets in self.blocks():
            weight = self.weight.clone().requires_grad_()
            with torch.enable_grad():
                score = self.scores(weight, inputs, targets).sum()
                gradient += torch.autograd.grad(score, weight)[0]
            total += score.detach()
        value = total / self.samples + self.objective.decay * self.weight.square().sum()
        return value, gradient / self.samples + self.penalty

    def hessian(self) -> Tensor:
        """The Hessian of the objective, `(P, P)`, a few rows at a time."""
        one = torch.eye(self.size, dtype=torch.float64, device=self.weight.device)
        matrix = self.hessian_product(one)
        return (matrix + matrix.T) / 2

    def hessian_product(self, vectors: Tensor) -> Tensor:
        """The Hessian times vectors `(T, P)`, without the matrix."""
        total = torch.zeros_like(vectors)
        for _, inputs, targets in self.blocks():
            weight = self.weight.clone().requires_grad_()
            with torch.enable_grad():
                score = self.scores(weight, inputs, targets).sum()
                (slope,) = torch.autograd.grad(score, weight, create_graph=True)
                for start in range(0, len(vectors), ROWS):
                    rows = slice(start, start + ROWS)
                    total[rows] += _pulled(slope, weight, vectors[rows])
        return total / self.samples + 2 * self.objective.decay * vectors

    def products(self, vectors: Tensor) -> Tensor:
        """Vectors `(T, P)` times the gradient of the score of each sample, `(T, N)`.

        They are derivatives of the scores along the vectors: no gradient of a sample is held.
        """
        found = vectors.new_empty(len(vectors), self.samples)
        for rows, inputs, targets in self.blocks():
            along = partial(self.scores, inputs=inputs, targets=targets)
            for index, vector in enumerate(vectors):
                found[index, rows] = torch.func.jvp(along, (self.weight,), (vector,))[1]
        return found

    def gradients(self, rows: Tensor) -> Tensor:
        """The gradients `(K, P)` of the scores of some samples, by index."""
        inputs, targets = self.inputs[rows], self.targets[rows]
        parts = inputs.parts if isinstance(inputs, Bundle) else {"": inputs}

        def score(weight: Tensor, sample: dict[str, Tensor], target: Tensor) -> Tensor:
            one = {name: part[None] for name, part in sample.items()}
            x = Bundle(one) if isinstance(inputs, Bundle) else one[""]
            return self.scores(weight, x, target[None])[0]

        each = torch.func.vmap(torch.func.grad(score), in_dims=(None, 0, 0))
        found: Tensor = each(self.weight, dict(parts), targets)
        return found

    def tested(self, data: Any, on: Quantity, target: object) -> Tested:
        """What is asked about test data at the present weights."""
        inputs, labels = self.read(data, labels=False)
        with torch.no_grad():
            spans = range(0, len(inputs), self.batch_size)
            parts = [self.outputs(self.weight, inputs[i : i + self.batch_size]) for i in spans]
        outputs = torch.cat(parts)
        if labels is not None and self.head.task == "classification":
            classes = self.head.logits(outputs).shape[-1]
            labels = check_labels(labels, classes, (len(inputs),))
        asked = asked_for(
            on, outputs, labels, head=self.head, objective=self.objective, target=target
        )
        value, slopes = asked.slopes(outputs)
        gradients = [
            self._back(inputs[rows], slopes[rows]) for rows in torch.arange(len(inputs)).split(ROWS)
        ]
        return Tested(asked=asked, outputs=outputs, value=value, gradients=torch.cat(gradients))

    def _back(self, inputs: Inputs, slopes: Tensor) -> Tensor:
        """Slopes in the outputs of samples `(B, O)` as gradients in the weights `(B, P)`."""
        weight = self.weight.clone().requires_grad_()
        with torch.enable_grad():
            along = (self.outputs(weight, inputs) * slopes).sum(1)
            one = torch.eye(len(slopes), dtype=slopes.dtype, device=slopes.device)
            return _pulled(along, weight, one)

    def rise(self, vector: Tensor, inputs: Inputs, targets: Tensor) -> Tensor:
        """A vector `(P,)` times the summed gradients of scores, with gradients in the inputs."""
        weight = self.weight.clone().requires_grad_()
        scores = self.scores(weight, inputs, targets)
        (slope,) = torch.autograd.grad(scores.sum(), weight, create_graph=True)
        return slope @ vector


def _pulled(values: Tensor, weight: Tensor, vectors: Tensor) -> Tensor:
    """The gradients of vectors `(T, K)` times values `(K,)` in the weights, `(T, P)`."""
    if not values.requires_grad:
        return vectors.new_zeros(len(vectors), len(weight))
    (found,) = torch.autograd.grad(
        values,
        weight,
        grad_outputs=vectors,
        is_grads_batched=True,
        retain_graph=True,
        materialize_grads=True,
    )
    return found


def trained(net: nn.Module) -> dict[str, Tensor]:
    """The weights that training changes, by name; all of a network that is frozen as a whole."""
    every: dict[str, Tensor] = dict(net.named_parameters())
    return {name: w for name, w in every.items() if w.requires_grad} or every


def whole_network(
    member: Member, train: Any, objective: Objective, *, batch_size: int
) -> WholeNetwork:
    """The problem of all weights of a network, which is copied."""
    net = copied(member.net).double().eval()
    for module in net.modules():
        if hasattr(module, "inplace"):
            setattr(module, "inplace", False)  # noqa: B010, the data must stay
    inputs, targets = read(net, member.head, train, labels=True)
    assert targets is not None
    weight = torch.cat([weight.detach().flatten() for weight in trained(net).values()])
    problem = WholeNetwork(
        net=net,
        head=member.head,
        weight=weight,
        inputs=inputs,
        targets=targets,
        objective=objective,
        batch_size=batch_size,
    )
    if member.head.task == "classification":
        with torch.no_grad():
            outputs = problem.outputs(weight, inputs[:1])
        classes = member.head.logits(outputs).shape[-1]
        return replace(problem, targets=check_labels(targets, classes, (len(inputs),)))
    return problem
