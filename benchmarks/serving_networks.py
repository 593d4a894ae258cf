"""The networks that `benchmarks.serving` serves: guard files and bodies with one row each."""

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

BODIES = 2000  # different rows, so that nothing is answered from a cache


@dataclass(frozen=True)
class Served:
    """A network as it is served: its factory, its guard file and the rows that are sent."""

    name: str
    factory: str
    guard: Path
    rows: Tensor  # (N, F)

    def bodies(self, file: Path, key: str) -> Path:
        """Write a JSON body with one row per line."""
        lines = [json.dumps({key: [row]}) for row in self.rows.tolist()]
        file.write_text("\n".join(lines) + "\n")
        return file


def digits_net() -> nn.Module:
    """A small network for digits of 8 x 8 pixels."""
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def wide_net() -> nn.Module:
    """A network of two layers of 1024 neurons for 784 inputs."""
    return nn.Sequential(
        nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)
    )


def digits(folder: Path) -> Served:
    """The digits, a trained network and its guard."""
    import nescio

    data = nescio.data.digits()
    assert data.test is not None
    assert data.validation is not None
    train = (data.train[0].flatten(1), data.train[1])
    test = (data.test[0].flatten(1), data.test[1])
    torch.manual_seed(0)
    net = _trained(digits_net(), *train)
    guard = nescio.guard(net, test, train=train, risk=0.05)
    guard.save(folder / "digits.safetensors", weights=True)
    rows = torch.cat([data.validation[0].flatten(1), test[0]])
    rows = rows.repeat(-(-BODIES // len(rows)), 1)[:BODIES]
    return Served("digits", f"{__name__}:digits_net", folder / "digits.safetensors", rows)


def wide(folder: Path) -> Served:
    """Clusters in 784 dimensions, a trained network and its guard."""
    import nescio

    torch.manual_seed(0)
    centers = torch.rand(10, 784)
    y = torch.arange(4000) % 10
    x = (centers[y] + 0.3 * torch.randn(4000, 784)).round(decimals=4)
    net = _trained(wide_net(), x[:2000], y[:2000], steps=20, rate=1e-3)
    guard = nescio.guard(net, (x[2000:3000], y[2000:3000]), train=(x[:2000], y[:2000]), risk=0.05)
    guard.save(folder / "wide.safetensors", weights=True)
    rows = x[3000:].repeat(-(-BODIES // 1000), 1)[:BODIES]
    return Served("wide", f"{__name__}:wide_net", folder / "wide.safetensors", rows)


def _trained(
    net: nn.Module, x: Tensor, y: Tensor, *, steps: int = 100, rate: float = 1e-2
) -> nn.Module:
    optimizer = torch.optim.Adam(net.parameters(), rate)
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
    return net


NETWORKS = {"digits": digits, "wide": wide}
