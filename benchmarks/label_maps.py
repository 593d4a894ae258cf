"""Label maps: metrics of 10 million pixels, and a training step beside a plain loop of PyTorch.

`python -m benchmarks.label_maps` prints seconds (the shortest of some runs, the two sides of the
step in turns) and the memory that the metrics allocate.
"""

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import nescio
from benchmarks.timing import seconds
from nescio import losses, metrics, nets

IGNORED = 255


def of_metrics() -> None:
    """Seconds and memory of metrics on maps of 10 million pixels, a fifth of them ignored."""
    rng = np.random.default_rng(0)
    shape, classes = (100, 250, 400), 11
    probs = rng.random((*shape, classes), dtype=np.float32)
    probs /= probs.sum(-1, keepdims=True)
    labels = rng.integers(classes, size=shape).astype(np.uint8)
    labels[:, :50] = IGNORED
    confidence, hit = probs.max(-1), probs.argmax(-1) == labels
    correct = metrics.mark_ignored(hit, labels, ignore_index=IGNORED)
    some: dict[str, Any] = {"ignore_index": IGNORED}
    calls: dict[str, Callable[[], Any]] = {
        "ece, flat, nothing ignored": lambda: metrics.ece(confidence.ravel(), hit.ravel()),
        "ece, maps, nothing ignored": lambda: metrics.ece(confidence, hit),
        "ece, maps, a fifth ignored": lambda: metrics.ece(confidence, correct, **some),
        "nll, maps, a fifth ignored": lambda: metrics.nll(probs, labels, **some),
        "accuracy, maps, a fifth ignored": lambda: metrics.accuracy(probs, labels, **some),
    }
    for name, call in calls.items():
        best = min(seconds(call) for _ in range(3))
        tracemalloc.start()
        call()
        peak = tracemalloc.get_traced_memory()[1] / 2**20
        tracemalloc.stop()
        print(f"{name:32}  {best:6.2f} s   {peak:5.0f} MB")
    print(f"the probabilities take {probs.nbytes / 2**20:.0f} MB")


def of_a_step() -> None:
    """A step of one network on label maps, ours and PyTorch's, in turns."""
    x = torch.rand(8, 3, 90, 120)
    y = torch.randint(11, (8, 90, 120))
    y[:, :9] = IGNORED

    def make() -> nn.Module:
        return nets.dilated_cnn((3, 90, 120), 11)

    net = make()
    optimizer = torch.optim.Adam(net.parameters())

    def plain() -> None:
        optimizer.zero_grad()
        F.cross_entropy(net(x), y, ignore_index=IGNORED).backward()
        optimizer.step()

    stepper = nescio.stepper(make, loss=losses.nll(ignore_index=IGNORED))
    times = [(seconds(plain), seconds(lambda: stepper.step(x, y))) for _ in range(8)]
    theirs, ours = (min(side) for side in zip(*times, strict=True))
    print(f"a step: nescio {ours:.3f} s, PyTorch {theirs:.3f} s, ratio {ours / theirs:.2f}")


if __name__ == "__main__":
    of_metrics()
    of_a_step()
