"""A loss in units of the range of the data, for networks that read inputs as they are."""

from dataclasses import replace

from torch import Tensor

from nescio.core import Inputs, Rng, only_tensor
from nescio.data.ranges import Units
from nescio.losses.loss import Batch, Loss
from nescio.nets.stack import Forward, Stack, Tensors


def in_units(units: Units, loss: Loss) -> Loss:
    """A loss that reads inputs in `units`, for networks that read them as they are."""
    if units.natural:
        return loss

    def step(forward: Forward, batch: Batch, rng: Rng) -> Tensor:
        behind = replace(forward, architecture=_Behind(forward.architecture, units))
        low, high = units.shares(batch.low), units.shares(batch.high)
        return loss(behind, replace(batch, x=units.shares(batch.x), low=low, high=high), rng)

    return loss.with_step(f"{loss.description} in {units.description}", step)


class _Behind(Stack):
    """Networks that are given inputs in units."""

    def __init__(self, inner: Stack, units: Units) -> None:
        self.inner, self.units = inner, units
        self.net, self.trained, self._layers = inner.net, inner.trained, inner._layers

    def __call__(self, tensors: Tensors, x: Inputs, rng: Rng | None = None) -> Tensor:
        return self.inner(tensors, self.units.inputs(only_tensor(x, "a loss")), rng)
