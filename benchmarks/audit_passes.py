"""How many forward passes over the test set an audit costs: `python -m benchmarks.audit_passes`.

A ResNet-18 for images of 64 x 64 pixels counts the images that run through it. Prints JSON: passes,
seconds, and seconds per pass, without attack and rays, and with the defaults.
"""

import argparse
import json
import time
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import nescio

CLASSES = 10


class Block(nn.Module):
    """Two 3x3 convolutions beside a shortcut (He et al., 2016)."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(out)) + self.shortcut(x))


class ResNet18(nn.Module):
    """The network of 11 million weights, which counts the images it sees."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.MaxPool2d(3, 2, 1),
        )  # fmt: skip
        sizes = [width, width, 2 * width, 4 * width, 8 * width]
        self.stages = nn.Sequential(
            *(
                nn.Sequential(Block(a, b, 1 if n == 0 else 2), Block(b, b, 1))
                for n, (a, b) in enumerate(pairwise(sizes))
            )
        )
        self.fc = nn.Linear(8 * width, CLASSES)
        self.count = Count()

    def forward(self, x: Tensor) -> Tensor:
        self.count.images += len(x)
        return self.fc(self.stages(self.stem(x)).mean((2, 3)))  # type: ignore[no-any-return]


class Count:
    """One number for a network and all copies of it."""

    def __init__(self) -> None:
        self.images = 0

    def __deepcopy__(self, _: Any) -> "Count":
        return self


def measure(images: int = 400, size: int = 64, width: int = 64, **options: Any) -> dict[str, float]:
    """Passes over the test set and seconds of one audit."""
    torch.manual_seed(0)
    net = ResNet18(width).eval()
    x, y = torch.rand(images, 3, size, size), torch.randint(CLASSES, (images,))
    net(x[:32])
    start = time.perf_counter()
    with torch.inference_mode():
        for part in x.split(128):
            net(part)
    one = time.perf_counter() - start
    net.count.images = 0
    start = time.perf_counter()
    nescio.audit(net, (x, y), progress=False, **options)
    total = time.perf_counter() - start
    passes = net.count.images / images
    return {"passes": passes, "seconds": total, "seconds_of_one_pass": one, "ratio": total / one}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=400)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--width", type=int, default=64)
    given = vars(parser.parse_args())
    for name, options in {
        "without attack and rays": {"attack_steps": 0, "rays": 0},
        "by default": {},
    }.items():
        print(json.dumps({"audit": name, **given, **measure(**given, **options)}), flush=True)


if __name__ == "__main__":
    main()
