"""Influence of 60,000 MNIST images on one test loss, against forward passes of the network.

`python -m benchmarks.influence` prints seconds of CPU, which a busy machine changes little, the
shortest of some runs in turns, and the number of forward passes they are. `--logistic` measures
logistic regression instead: 7,850 parameters, whose Hessian is made and factored, beside conjugate
gradients.
"""

import argparse
import resource
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import nescio
from nescio import data, losses, nets
from nescio.applications.influence import at_minimum, fit, influence, self_influence

DECAY = 1e-4


def seconds(call: Callable[[], Any]) -> float:
    """CPU seconds of a call, of all threads."""
    before = time.process_time()
    call()
    return time.process_time() - before


def shortest(calls: dict[str, Callable[[], Any]], runs: int) -> dict[str, float]:
    """The shortest time of each call, all of them in turns."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(runs):
        for name, call in calls.items():
            times[name].append(seconds(call))
    return {name: min(found) for name, found in times.items()}


def of_the_last_layer(name: str, samples: int, runs: int) -> None:
    """The last layer of a convolutional network for MNIST, after one epoch."""
    mnist = data.load("mnist")
    x, y = (part[:samples] for part in mnist.train)
    test = tuple(part[:1] for part in mnist.test or ())
    loss = losses.weight_decay(losses.nll(), strength=DECAY)
    model = nescio.train(lambda: getattr(nets, name)((1, 28, 28)), (x, y), loss=loss, epochs=1)
    net = model.member(0)
    minimum = fit(net, (x, y), weight_decay=DECAY)
    there = minimum.problem.named(minimum.problem.weight.flatten())  # type: ignore[attr-defined]
    with torch.no_grad():
        for parameter, weight in there.items():
            net.get_parameter(parameter).copy_(weight)

    def forward() -> None:
        with torch.inference_mode():
            for batch in x.split(256):
                net(batch if batch.is_floating_point() else batch / 255)

    found = shortest(
        {
            "one forward pass": forward,
            "observe: the pass that influence makes": lambda: nescio.observe(net, (x, y)),
            "influence, the layer at its minimum": lambda: influence(
                net, (x, y), test, loss=loss, limit=1e-3
            ),
            "the same by conjugate gradients": lambda: influence(
                net, (x, y), test, loss=loss, limit=1e-3, solver="cg"
            ),
            "influence with Newton steps before": lambda: influence(model, (x, y), test),
            "after fit: a test loss": lambda: at_minimum(minimum, test),
            "after fit: self-influence of all samples": lambda: self_influence(minimum),
        },
        runs,
    )
    unit = found["one forward pass"]
    print(f"{name}, {len(x):,} images, {minimum.problem.size:,} parameters; refit {minimum.refit}")
    for what, spent in found.items():
        print(f"{what:46} {spent:8.2f} s  {spent / unit:6.2f} forward passes")


def of_logistic_regression(samples: int) -> None:
    """The exact solver against conjugate gradients, on 7,850 parameters."""
    mnist = data.load("mnist")
    x, y = (part[:samples] for part in mnist.train)
    test = tuple(part[:1] for part in mnist.test or ())
    net = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
    loss = losses.weight_decay(losses.nll(), strength=0.005)
    made: dict[str, Any] = {}
    for solver in ("cg", "exact"):
        options: dict[str, Any] = {"loss": loss, "solver": solver, "limit": 1e-8}
        took = seconds(lambda: made.update({solver: influence(net, (x, y), test, **options)}))  # noqa: B023
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        found = made[solver]
        print(
            f"{solver:6} {took:7.1f} s, memory up to {peak:.1f} GB, gradient norm "
            f"{found.gradient_norm:.2g}, residual {found.residual:.2g}, {found.refit.steps} steps"
        )
    gap = (made["cg"].values - made["exact"].values).abs().max() / made["exact"].values.abs().max()
    print(f"largest difference of the two: {float(gap):.2g} of the largest influence")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logistic", action="store_true")
    parser.add_argument("--net", default="small_cnn", choices=("small_cnn", "lenet", "digit_cnn"))
    parser.add_argument("--samples", type=int, default=60_000)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    if given.logistic:
        of_logistic_regression(given.samples)
    else:
        of_the_last_layer(given.net, given.samples, given.runs)
