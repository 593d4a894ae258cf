"""What a step of `nescio.stepper` costs beside a plain step of PyTorch, interleaved in one run.

`python -m benchmarks.stepper` prints the best time of each and the ratio, for a 64-unit MLP at
batch 32: one network, and 10 networks at once beside 10 PyTorch steps.
"""

import argparse
import time
from collections.abc import Callable

import torch
from torch import nn

import nescio

INPUTS, WIDTH, CLASSES, BATCH = 16, 64, 4, 32
Step = Callable[[], object]


def net() -> nn.Module:
    return nn.Sequential(
        nn.Linear(INPUTS, WIDTH),
        nn.ReLU(),
        nn.Linear(WIDTH, WIDTH),
        nn.ReLU(),
        nn.Linear(WIDTH, CLASSES),
    )


def data() -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(BATCH, INPUTS, generator=draw)
    return x, torch.randint(CLASSES, (BATCH,), generator=draw)


def torch_steps(members: int) -> Step:
    """model(x), loss.backward(), Adam's step, for each member."""
    x, y = data()
    models = [net() for _ in range(members)]
    rules = [torch.optim.Adam(model.parameters(), lr=1e-3) for model in models]

    def step() -> None:
        for model, rule in zip(models, rules, strict=True):
            rule.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            rule.step()

    return step


def nescio_steps(members: int, loss: nescio.losses.Loss | None = None) -> Step:
    x, y = data()
    state = nescio.stepper(net, members=members, loss=loss)
    return lambda: state.step(x, y)


def train_steps(members: int) -> Step:
    """One epoch of `nescio.train`: an update without a stepper, which begins anew each time."""
    pair = data()
    return lambda: nescio.train(net, pair, members=members, epochs=1, batch_size=None)


def interleaved(sides: dict[str, Step], rounds: int, calls: int) -> dict[str, float]:
    """The best seconds per call of each side, over rounds in turns."""
    best = dict.fromkeys(sides, float("inf"))
    for _ in range(rounds):
        for name, side in sides.items():
            side()
            start = time.perf_counter()
            for _ in range(calls):
                side()
            best[name] = min(best[name], (time.perf_counter() - start) / calls)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--calls", type=int, default=20)
    options = parser.parse_args()
    for members in (1, 10):
        decay = nescio.losses.weight_decay(nescio.losses.nll(), strength=1e-4)
        sides = {
            "torch": torch_steps(members),
            "stepper": nescio_steps(members),
            "stepper, autograd": nescio_steps(members, decay),
            "nescio.train": train_steps(members),
        }
        best = interleaved(sides, options.rounds, options.calls)
        for name, seconds in best.items():
            ratio = seconds / best["torch"]
            print(f"{members:2} member(s)  {name:18} {1e3 * seconds:7.3f} ms  {ratio:5.2f} x torch")


if __name__ == "__main__":
    main()
