"""The practical's regression ensemble: 6 networks 1-10-6-30-2, 600 full-batch steps of Adam."""

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import jax_practical as practical
from benchmarks.timing import Benchmark, Numbers, Side, cold_and_warm, use_threads

if TYPE_CHECKING:
    from torch import nn

MEMBERS, SIZES, STEPS, RATE, FLOOR = 6, (1, 10, 6, 30, 2), 600, 0.08, 1e-6

BENCHMARK = Benchmark(
    __name__,
    f"regression ensemble: {MEMBERS} networks {'-'.join(map(str, SIZES))}, {STEPS} steps",
    peers=(
        Side("torch loop", "torch_loop"),
        Side("JAX practical", "jax_practical", "jax"),
    ),
    measures=("cold", "warm"),
    quick={"steps": 30},
)


def points() -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """40 points of x**3 with noise of standard deviation 3."""
    rng = np.random.default_rng(173)
    x = rng.uniform(-4, 4, (40, 1))
    return x.astype(np.float32), (x**3 + rng.normal(0, 3, x.shape)).astype(np.float32)


def nescio_side(steps: int = STEPS) -> Numbers:
    import torch

    import nescio

    use_threads()
    x, y = (torch.from_numpy(part) for part in points())
    return cold_and_warm(
        lambda: nescio.train(
            lambda: nescio.nets.mlp(SIZES[0], SIZES[-1], widths=SIZES[1:-1]),
            (x, y),
            loss=nescio.losses.nll(nescio.heads.gaussian()),
            members=MEMBERS,
            epochs=steps,
            batch_size=None,
            learning_rate=RATE,
            seed=0,
            progress=False,
        )
    )


def torch_loop(steps: int = STEPS) -> Numbers:
    """Plain PyTorch: one network after the other."""
    import torch
    from torch.nn.functional import gaussian_nll_loss, softplus

    use_threads()
    x, y = (torch.from_numpy(part) for part in points())

    def train() -> None:
        for member in range(MEMBERS):
            torch.manual_seed(member)
            net = _network()
            optimizer = torch.optim.Adam(net.parameters(), lr=RATE)
            for _ in range(steps):
                mean, spread = net(x).chunk(2, dim=1)
                loss = gaussian_nll_loss(mean, y, softplus(spread) + FLOOR)
                optimizer.zero_grad()
                torch.autograd.backward(loss)
                optimizer.step()

    return cold_and_warm(train)


def _network() -> "nn.Module":
    from torch import nn

    layers: list[nn.Module] = []
    for before, after in pairwise(SIZES):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def jax_practical(steps: int = STEPS) -> Numbers:
    """The practical's way: one jitted step, Python loops over networks and steps."""
    j = practical.load()
    x, y = (j.numpy.asarray(part) for part in points())
    adam = practical.adam(j, _jax_loss(j), RATE)
    scales = np.abs(np.random.default_rng(0).normal(0, 0.1, MEMBERS))

    def train() -> None:
        ensemble = []
        for member, scale in enumerate(scales):
            key = j.jax.random.PRNGKey(10 * member)
            state = adam.start(practical.initial_layers(j, SIZES, key, float(scale)))
            for _ in range(steps):
                layers = adam.layers(state)
                layers, state, _ = adam.update(layers, x, y, state)
            ensemble.append(layers)
        j.jax.block_until_ready(ensemble)

    return cold_and_warm(train)


def _jax_loss(j: practical.Jax) -> Any:
    """The practical reads softplus as a standard deviation, and so does this."""

    def predict(layers: Any, x: Any) -> tuple[Any, Any]:
        mean, spread = j.numpy.split(practical.outputs(j, layers, x), 2)
        return mean, j.jax.nn.softplus(spread) + FLOOR

    def loss(layers: Any, inputs: Any, targets: Any) -> Any:
        mean, deviation = j.jax.vmap(predict, in_axes=(None, 0))(layers, inputs)
        variance = j.numpy.square(deviation)
        density = 0.5 * j.numpy.log(2 * j.numpy.pi * variance)
        return j.numpy.mean(density + j.numpy.square(targets - mean) / (2 * variance))

    return loss
