"""The last linear layer on fixed features: gradients and Hessian in closed form, in float64.

With outputs z = W h + b, the gradient of a score is (ds/dz) x h and its Hessian
(d2s/dz2) x h h': both need the derivatives of the score in its few outputs only.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from nescio.applications.influence.head_reading import HeadReading
from nescio.applications.influence.objective import Objective
from nescio.applications.influence.quantities import Quantity, Tested, asked_for
from nescio.applications.influence.samples import read
from nescio.core import Head, Inputs, progress

NUMBERS = 1 << 22  # float64 numbers of a block of samples
LONG = 4000  # parameters from which the Hessian takes long enough to show progress
FEW_OUTPUTS = 32  # up to which the second derivatives in the outputs are a matrix for each sample


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearHead:
    """The objective as a function of the last layer, a matrix (O, F) with the bias as a column."""

    features: Tensor  # (N, F) as the network gives them, without the column of ones
    targets: Tensor  # (N,) or (N, D)
    weight: Tensor  # (O, F) or (O, F + 1) float64
    has_bias: bool
    objective: Objective
    reading: HeadReading

    @property
    def head(self) -> Head:
        """How the outputs are read."""
        return self.reading.head

    @property
    def samples(self) -> int:
        """N, the number of training samples."""
        return len(self.features)

    @property
    def size(self) -> int:
        """P, the number of parameters."""
        return self.weight.numel()

    @property
    def penalty(self) -> Tensor:
        """The gradient of the weight decay, `(P,)`."""
        return 2 * self.objective.decay * self.weight.flatten()

    def moved(self, step: Tensor) -> "LinearHead":
        """The same with other weights: `step` is `(P,)`."""
        return replace(self, weight=self.weight + step.view_as(self.weight))

    def extended(self, features: Tensor) -> Tensor:
        """Features in float64, with a column of ones where the layer has a bias."""
        features = features.double()
        return F.pad(features, (0, 1), value=1.0) if self.has_bias else features

    def blocks(self, wide: int = 1) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """Rows, features and targets of some samples at a time; wide: numbers held for each."""
        size = max(1, NUMBERS // max(self.weight.shape[1], wide))
        for start in range(0, self.samples, size):
            rows = slice(start, start + size)
            yield rows, self.extended(self.features[rows]), self.targets[rows]

    def slopes(self, features: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Scores `(B,)` and their derivatives in the outputs `(B, O)`."""
        outputs = (features @ self.weight.T).requires_grad_()
        with torch.enable_grad():
            scores = self.objective.scores(outputs, targets)
            (slopes,) = torch.autograd.grad(scores.sum(), outputs)
        return scores.detach(), slopes

    def curvatures(self, features: Tensor, targets: Tensor) -> Tensor:
        """Second derivatives of the scores in the outputs, `(B, O, O)`."""
        outputs = (features @ self.weight.T).requires_grad_()
        with torch.enable_grad():
            scores = self.objective.scores(outputs, targets)
            (slopes,) = torch.autograd.grad(scores.sum(), outputs, create_graph=True)
            rows = [_derivative(slopes[:, one].sum(), outputs) for one in range(slopes.shape[1])]
        return torch.stack(rows, 1)

    def value_and_gradient(self) -> tuple[Tensor, Tensor]:
        """The objective and its gradient `(P,)`."""
        total = self.weight.new_zeros(())
        gradient = torch.zeros_like(self.weight)
        for _, features, targets in self.blocks():
            scores, slopes = self.slopes(features, targets)
            total += scores.sum()
            gradient += slopes.T @ features
        value = total / self.samples + self.objective.decay * self.weight.square().sum()
        return value, gradient.flatten() / self.samples + self.penalty

    def hessian(self) -> Tensor:
        """The Hessian of the objective, `(P, P)`."""
        outputs, width = self.weight.shape
        total = self.weight.new_zeros(outputs, width, outputs, width)
        label = f"Hessian of {self.size:,} parameters, {2 * total.nbytes:,} bytes with its factor"
        with progress(self.samples, label, show=None if self.size >= LONG else False) as advance:
            for _, features, targets in self.blocks(max(self.size, outputs**2)):
                curvatures, turned = self.curvatures(features, targets), features.T.contiguous()
                for one in range(outputs):  # a product for each row of blocks, from the diagonal on
                    rest = (curvatures[:, one, one:, None] * features[:, None]).flatten(1)
                    total[one, :, one:] += (turned @ rest).view(width, -1, width)
                advance(len(features), str)
        for one in range(outputs):
            for other in range(one):
                total[one, :, other] = total[other, :, one].T
        matrix = total.view(self.size, self.size).div_(self.samples)
        matrix.diagonal().add_(2 * self.objective.decay)
        return matrix

    def thinned(self, samples: int) -> "LinearHead":
        """The same with about this number of samples, evenly spaced, or all of fewer."""
        step = max(1, self.samples // samples)
        return replace(self, features=self.features[::step], targets=self.targets[::step])

    def hessian_product(self, vectors: Tensor) -> Tensor:
        """The Hessian times vectors `(T, P)`, without the matrix."""
        shaped = vectors.view(len(vectors), *self.weight.shape)
        total, outputs = torch.zeros_like(shaped), len(self.weight)
        few = outputs**2 if outputs <= FEW_OUTPUTS else outputs
        for _, features, targets in self.blocks(max(shaped[..., 0].numel(), few)):
            along = torch.einsum("bf,tof->bot", features, shaped)
            images = self._curved(features, targets, along)
            total += torch.einsum("bot,bf->tof", images, features)
        return total.view_as(vectors) / self.samples + 2 * self.objective.decay * vectors

    def _curved(self, features: Tensor, targets: Tensor, along: Tensor) -> Tensor:
        """Second derivatives of the scores times directions of the outputs, `(B, O, T)`."""
        _, count, vectors = along.shape
        if count <= min(vectors, FEW_OUTPUTS):  # a derivative for each output, not each vector
            return self.curvatures(features, targets) @ along
        outputs = (features @ self.weight.T).requires_grad_()
        with torch.enable_grad():
            scores = self.objective.scores(outputs, targets)
            (slopes,) = torch.autograd.grad(scores.sum(), outputs, create_graph=True)
            images = [_derivative((slopes * one).sum(), outputs) for one in along.unbind(-1)]
        return torch.stack(images, -1)

    def products(self, vectors: Tensor) -> Tensor:
        """Vectors `(T, P)` times the gradient of the score of each sample, `(T, N)`."""
        shaped = vectors.view(len(vectors), *self.weight.shape)
        found = vectors.new_empty(len(vectors), self.samples)
        for rows, features, targets in self.blocks(shaped[..., 0].numel()):
            _, slopes = self.slopes(features, targets)
            found[:, rows] = torch.einsum("bf,tof,bo->tb", features, shaped, slopes)
        return found

    def gradients(self, rows: Tensor) -> Tensor:
        """The gradients `(K, P)` of the scores of some samples, by index."""
        features = self.extended(self.features[rows])
        _, slopes = self.slopes(features, self.targets[rows])
        return (slopes[:, :, None] * features[:, None]).flatten(1)

    def named(self, vectors: Tensor) -> dict[str, Tensor]:
        """Vectors `(..., P)` as weight and bias of the layer, by their names in the network."""
        shaped = vectors.reshape(*vectors.shape[:-1], *self.weight.shape)
        name = self.reading.parameter
        if not self.has_bias:
            return {f"{name}weight": shaped}
        return {f"{name}weight": shaped[..., :-1], f"{name}bias": shaped[..., -1]}

    def tested(self, data: Any, on: Quantity, target: object) -> Tested:
        """What is asked about test data at the present weights."""
        features, labels = self.reading.seen(data, labels=False)
        wide = self.extended(features)
        outputs = wide @ self.weight.T
        asked = asked_for(
            on, outputs, labels, head=self.head, objective=self.objective, target=target
        )
        value, slopes = asked.slopes(outputs)
        gradients = (slopes[:, :, None] * wide[:, None]).flatten(1)
        return Tested(asked=asked, outputs=outputs, value=value, gradients=gradients)

    def read(self, data: Any, *, labels: bool) -> tuple[Inputs, Tensor | None]:
        """Inputs, and labels or targets, of data of any form."""
        return read(self.reading.member.net, self.head, data, labels=labels)

    def rise(self, vector: Tensor, inputs: Inputs, targets: Tensor) -> Tensor:
        """A vector `(P,)` times the summed gradients of scores, with gradients in the inputs."""
        wide = self.extended(self.reading.entering(inputs))
        outputs = wide @ self.weight.T
        scores = self.objective.scores(outputs, targets)
        (slopes,) = torch.autograd.grad(scores.sum(), outputs, create_graph=True)
        return ((wide @ vector.view_as(self.weight).T) * slopes).sum()


def _derivative(value: Tensor, outputs: Tensor) -> Tensor:
    """The derivative of a number in the outputs; of a constant it is zero."""
    if not value.requires_grad:
        return torch.zeros_like(outputs)
    (found,) = torch.autograd.grad(value, outputs, retain_graph=True, materialize_grads=True)
    return found
