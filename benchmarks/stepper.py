"""What a step of `nescio.stepper` costs beside a plain step of PyTorch, interleaved in one run.

`python -m benchmarks.stepper` prints the best time of each and the ratio, for a 64-unit MLP at
batch 32: one network, and 10 networks at once beside 10 PyTorch steps. With ReLU the gradients are
in closed form, with tanh and with dropout they come from autograd.
"""

import argparse
import time
from collections.abc import Callable

import torch
from torch import nn

import nescio

INPUTS, WIDTH, CLASSES, BATCH = 16, 64, 4, 32
Step = Callable[[], object]
Make = Callable[[], nn.Module]


def relu() -> nn.Module:
    return mlp(nn.ReLU)


def tanh() -> nn.Module:
    return mlp(nn.Tanh)


def dropout() -> nn.Module:
    return mlp(lambda: nn.Sequential(nn.ReLU(), nn.Dropout(0.1)))


def mlp(between: Callable[[], nn.Module]) -> nn.Module:
    first, second, last = (INPUTS, WIDTH), (WIDTH, WIDTH), (WIDTH, CLASSES)
    return nn.Sequential(
        nn.Linear(*first), between(), nn.Linear(*second), between(), nn.Linear(*last)
    )


def data() -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(BATCH, INPUTS, generator=draw)
    return x, torch.randint(CLASSES, (BATCH,), generator=draw)


def torch_steps(make: Make, members: int) -> Step:
    """model(x), loss.backward(), Adam's step, for each member."""
    x, y = data()
    models = [make() for _ in range(members)]
    rules = [torch.optim.Adam(model.parameters(), lr=1e-3) for model in models]

    def step() -> None:
        for model, rule in zip(models, rules, strict=True):
            rule.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            rule.step()

    return step


def nescio_steps(make: Make, members: int) -> Step:
    x, y = data()
    state = nescio.stepper(make, members=members)
    return lambda: state.step(x, y)


def train_steps(make: Make, members: int) -> Step:
    """One epoch of `nescio.train`: an update without a stepper, which begins anew each time."""
    pair = data()
    return lambda: nescio.train(make, pair, members=members, epochs=1, batch_size=None)


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
        for make in (relu, tanh, dropout):
            sides = {"torch": torch_steps(make, members), "stepper": nescio_steps(make, members)}
            if make is relu:
                sides["nescio.train"] = train_steps(make, members)
            best = interleaved(sides, options.rounds, options.calls)
            for name, seconds in best.items():
                ratio = f"{1e3 * seconds:7.3f} ms  {seconds / best['torch']:5.2f} x torch"
                print(f"{members:2} member(s)  {make.__name__:8} {name:13} {ratio}", flush=True)


if __name__ == "__main__":
    main()
