"""What a recurrent network costs beside PyTorch's `nn.GRU`, whose fused steps have no masks.

`python -m benchmarks.recurrent` prints the best processor time of an evaluation of 500 sequences of
50 steps, and of 10 passes of MC dropout, over that of `nn.GRU`.
"""

import time
from collections.abc import Callable

import torch
from torch import nn

from nescio import models, nets

CHANNELS, LENGTH, WIDTH, CLASSES, SEQUENCES, ROUNDS = 4, 50, 32, 3, 500, 7


class Plain(nn.Module):
    """The same network of PyTorch's own layers."""

    def __init__(self) -> None:
        super().__init__()
        self.recurrent = nn.GRU(CHANNELS, WIDTH, batch_first=True)
        self.last = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits from the last state."""
        logits: torch.Tensor = self.last(self.recurrent(x)[1][0])
        return logits


def best(call: Callable[[], object]) -> float:
    """The shortest processor time of some calls."""
    found = []
    with torch.no_grad():
        for _ in range(ROUNDS):
            started = time.process_time()
            call()
            found.append(time.process_time() - started)
    return min(found)


def main() -> None:
    """Print each time and its ratio."""
    torch.manual_seed(0)
    steps = torch.randn(SEQUENCES, CHANNELS, LENGTH)
    x = torch.cat([steps, torch.ones(SEQUENCES, 1, LENGTH)], 1)
    plain = Plain().eval()
    net = nets.gru((CHANNELS + 1, LENGTH), CLASSES, width=WIDTH, dropout=0.1).eval()
    sides: dict[str, Callable[[], object]] = {
        "nn.GRU": lambda: plain(steps.mT),
        "nets.gru": lambda: net(x),
        "nets.gru, 10 passes of MC dropout": lambda: models.mc_dropout(net, passes=10)(x),
    }
    least = best(sides["nn.GRU"])
    for name, call in sides.items():
        took = best(call)
        print(f"{name:36} {1000 * took:8.1f} ms {took / least:6.2f} x")


if __name__ == "__main__":
    main()
