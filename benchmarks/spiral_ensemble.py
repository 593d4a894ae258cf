"""The practical's spiral ensemble: 4 networks 2-150-150-3, 300 full-batch steps on 3,000 points.

All sides decay the weights: the practical by their norm, the others by its square, at equal cost.
The practical's evaluation of the ensemble after every step is left out.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import jax_practical as practical
from benchmarks.timing import Benchmark, Numbers, Side, seconds, use_threads

MEMBERS, SIZES, STEPS, RATE, DECAY = 4, (2, 150, 150, 3), 300, 0.1, 1e-3
POINTS = 1000  # a class
WARM_UP = 5  # steps

BENCHMARK = Benchmark(
    __name__,
    f"spiral ensemble: {MEMBERS} networks {'-'.join(map(str, SIZES))}, {STEPS} steps",
    peers=(
        Side("torch loop", "torch_loop"),
        Side("JAX practical", "jax_practical", "jax"),
    ),
    quick={"steps": 10},
)


def spirals() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Three arms of the practical's spiral."""
    rng = np.random.default_rng(0)
    radius = np.linspace(0, 1, POINTS)
    arms = []
    for label in range(SIZES[-1]):
        angle = np.linspace(8 * label, 8 * (label + 1), POINTS)
        angle += 0.3 * rng.normal(size=POINTS) * (radius + 1)
        arms.append(np.stack([radius * np.sin(angle), radius * np.cos(angle)], 1))
    return np.concatenate(arms).astype(np.float32), np.repeat(np.arange(SIZES[-1]), POINTS)


def nescio_side(steps: int = STEPS) -> Numbers:
    import torch

    import nescio

    use_threads()
    x, y = (torch.from_numpy(part) for part in spirals())

    def train(epochs: int) -> None:
        nescio.train(
            lambda: nescio.nets.mlp(SIZES[0], SIZES[-1], widths=SIZES[1:-1]),
            (x, y),
            loss=nescio.losses.weight_decay(nescio.losses.nll(), strength=DECAY),
            members=MEMBERS,
            epochs=epochs,
            batch_size=None,
            learning_rate=RATE,
            seed=0,
            progress=False,
        )

    train(WARM_UP)
    return {"warm": seconds(lambda: train(steps))}


def torch_loop(steps: int = STEPS) -> Numbers:
    """Plain PyTorch: one network after the other."""
    import torch
    from torch import nn

    use_threads()
    x, y = (torch.from_numpy(part) for part in spirals())
    inputs, *hidden, outputs = SIZES

    def train(steps: int) -> None:
        for member in range(MEMBERS):
            torch.manual_seed(member)
            net = nn.Sequential(
                nn.Linear(inputs, hidden[0]),
                nn.ReLU(),
                nn.Linear(hidden[0], hidden[1]),
                nn.ReLU(),
                nn.Linear(hidden[1], outputs),
            )
            optimizer = torch.optim.Adam(net.parameters(), lr=RATE, weight_decay=DECAY)
            for _ in range(steps):
                optimizer.zero_grad()
                torch.autograd.backward(nn.functional.cross_entropy(net(x), y))
                optimizer.step()

    train(WARM_UP)
    return {"warm": seconds(lambda: train(steps))}


def jax_practical(steps: int = STEPS) -> Numbers:
    """The practical's way: all networks in turn at every step, the points shuffled each time."""
    j = practical.load()
    points, labels = spirals()
    x, y = j.numpy.asarray(points), j.numpy.asarray(labels)
    wanted = j.jax.nn.one_hot(y, SIZES[-1])
    adam = practical.adam(j, _jax_loss(j), RATE)

    def train(steps: int) -> None:
        keys = [j.jax.random.PRNGKey(member) for member in range(MEMBERS)]
        states = [adam.start(practical.initial_layers(j, SIZES, key, 0.1)) for key in keys]
        key = j.jax.random.PRNGKey(0)
        for _ in range(steps):
            for member in range(MEMBERS):
                key, own = j.jax.random.split(key)
                inputs, _, targets = _shuffled(j, (x, y, wanted), own)
                layers = adam.layers(states[member])
                layers, states[member], _ = adam.update(layers, inputs, targets, states[member])
        j.jax.block_until_ready(states)

    train(WARM_UP)
    return {"warm": seconds(lambda: train(steps))}


def _shuffled(j: practical.Jax, arrays: tuple[Any, ...], key: Any) -> list[Any]:
    order = j.jax.random.permutation(key, j.numpy.arange(len(arrays[0])))
    return [j.numpy.take(array, order, axis=0) for array in arrays]


def _jax_loss(j: practical.Jax) -> Any:
    """The practical's loss: the log probabilities averaged over samples and classes."""

    def predict(layers: Any, x: Any) -> Any:
        return practical.outputs(j, layers, x)

    def loss(layers: Any, inputs: Any, targets: Any) -> Any:
        scores = j.jax.vmap(predict, in_axes=(None, 0))(layers, inputs)
        logs = scores - j.jax.scipy.special.logsumexp(scores, axis=1)[:, None]
        return DECAY * j.optimizers.l2_norm(layers) - j.numpy.mean(logs * targets)

    return loss
