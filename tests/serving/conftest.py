"""A small guard of half-moons, its files, and a service of it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import nescio


def make_guard(seed: int) -> Any:
    moons = nescio.data.half_moons(seed=seed, train=300)
    torch.manual_seed(seed)
    net = nescio.nets.mlp(2, 2, widths=[16])
    optimizer = torch.optim.Adam(net.parameters(), 0.05)
    for _ in range(60):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(moons.train[0]), moons.train[1]).backward()
        optimizer.step()
    settings: dict[str, Any] = {"detector": "mahalanobis", "risk": 0.1}
    return nescio.guard(net, moons.test, train=moons.train, **settings)


@pytest.fixture(scope="session")
def moon_guards() -> list[Any]:
    """Two guards of the same shape."""
    return [make_guard(seed) for seed in (0, 1)]


@pytest.fixture(scope="session")
def moon_files(moon_guards: list[Any], tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Their files."""
    home = tmp_path_factory.mktemp("guards")
    return [
        guard.save(home / f"{at}.safetensors", weights=True) for at, guard in enumerate(moon_guards)
    ]


@pytest.fixture(scope="session")
def moon_rows() -> Tensor:
    """Inputs: most like the data, some far away, one of them not finite."""
    x = nescio.data.half_moons(seed=5, train=60).train[0]
    return torch.cat([x, x[:3] + 50, torch.tensor([[float("nan"), 0.0]])])


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Start a service; it ends with the test."""
    from contextlib import ExitStack

    from nescio.serving import ServiceSettings, run_in_thread

    monkeypatch.setattr("nescio.guards.steady.SIZES", (1, 2, 16, 255))  # the probe is fast

    with ExitStack() as stack:

        def start(guards: Any, *, log: Any = "here", **options: Any) -> Any:
            own = {
                n: options.pop(n)
                for n in ("keys", "readers", "tls_cert", "tls_key")
                if n in options
            }
            where = tmp_path / "log.db" if log == "here" else log
            settings = ServiceSettings(port=0, **options)
            return stack.enter_context(run_in_thread(guards, log=where, settings=settings, **own))

        yield start
