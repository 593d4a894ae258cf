"""What both ensembles of the practical share in JAX: dense layers and one jitted step of Adam.

The modules are loaded when asked for, so that no other side pays for them.
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from itertools import pairwise
from typing import Any, NamedTuple


class Jax(NamedTuple):
    jax: Any
    numpy: Any
    optimizers: Any


def load() -> Jax:
    """The parts of JAX in use."""
    names = ("jax", "jax.numpy", "jax.example_libraries.optimizers")
    return Jax(*(import_module(name) for name in names))


def initial_layers(j: Jax, sizes: Sequence[int], key: Any, scale: float) -> list[tuple[Any, Any]]:
    """Normal weights `(out, in)` and biases `(out,)` of every layer."""
    layers = []
    for (before, after), part in zip(
        pairwise(sizes), j.jax.random.split(key, len(sizes)), strict=False
    ):
        weight, bias = j.jax.random.split(part)
        layers.append(
            (
                scale * j.jax.random.normal(weight, (after, before)),
                scale * j.jax.random.normal(bias, (after,)),
            )
        )
    return layers


def outputs(j: Jax, layers: Sequence[tuple[Any, Any]], hidden: Any) -> Any:
    """Outputs of the network for one input; ReLU between the layers."""
    for weight, bias in layers[:-1]:
        hidden = j.jax.nn.relu(j.numpy.dot(weight, hidden) + bias)
    weight, bias = layers[-1]
    return j.numpy.dot(weight, hidden) + bias


class Adam(NamedTuple):
    start: Any  # layers -> state
    layers: Any  # state -> layers
    update: Any  # layers, inputs, targets, state -> layers, state, loss; jitted


def adam(j: Jax, loss: Callable[[Any, Any, Any], Any], rate: float) -> Adam:
    """Adam as the practical calls it: the step index stays at 0."""
    start, move, layers = j.optimizers.adam(rate)

    def update(params: Any, inputs: Any, targets: Any, state: Any) -> tuple[Any, Any, Any]:
        value, slopes = j.jax.value_and_grad(loss)(params, inputs, targets)
        state = move(0, slopes, state)
        return layers(state), state, value

    return Adam(start, layers, j.jax.jit(update))
