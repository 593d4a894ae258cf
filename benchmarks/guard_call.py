"""One input through a guard, in bare forward passes: `python -m benchmarks.guard_call`.

A digit through a small convolutional network and a row through a small dense one; the guard's call
and the network's alone are measured in turn, and the ratio of the best of many is given.
"""

import argparse
import time
from collections.abc import Callable

import torch
from torch import nn

import nescio
from nescio import nets
from nescio.core import quiet

GOALS = {("digit", "energy"): 5.0, ("row", "default"): 20.0}


def labeled(net: nn.Module, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs with labels drawn from what the network says, made surer."""
    with torch.no_grad():
        return x, torch.multinomial((8 * net.eval()(x)).softmax(1), 1)[:, 0]


def best(calls: list[Callable[[], object]], rounds: int, repeats: int = 2) -> list[float]:
    """Seconds of each call, the best of many rounds in which they take turns."""
    times = [float("inf")] * len(calls)
    for _ in range(rounds):
        for index, call in enumerate(calls):
            start = time.perf_counter()
            for _ in range(repeats):
                call()
            times[index] = min(times[index], (time.perf_counter() - start) / repeats)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.guard_call", description=__doc__)
    parser.add_argument("--rounds", type=int, default=600)
    options = parser.parse_args()
    torch.manual_seed(0)
    networks = {
        "digit": (nets.small_cnn((1, 28, 28), 10), torch.rand(1500, 1, 28, 28)),
        "row": (nets.mlp(8, 3, widths=(50, 50)), torch.randn(1500, 8)),
    }
    for name, (net, x) in networks.items():
        for detector in (None, "energy", "msp"):
            with quiet():
                guard = nescio.guard(
                    net, labeled(net, x), train=(x + 0.01)[:1000], detector=detector, risk=0.5
                )
            one, plain = x[:1], net.eval()
            with torch.no_grad():
                for _ in range(20):
                    guard(one), plain(one)
                bare, whole = best([lambda: plain(one), lambda: guard(one)], options.rounds)  # noqa: B023
            goal = GOALS.get((name, detector or "default"))
            print(
                f"{name}, {detector or 'default'}: {1e6 * whole:.0f} us, {whole / bare:.1f} passes "
                f"of {1e6 * bare:.0f} us" + (f" (goal: {goal:g})" if goal else "")
            )


if __name__ == "__main__":
    main()
