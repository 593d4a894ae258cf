"""A first hour with an installed nescio: `python smoke.py` where there is only the wheel.

It audits and guards a network of its own in an empty folder, scores a file and loads what it saved.
"""

import contextlib
import inspect
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import nn

import nescio


def make_net() -> nn.Module:
    """The network of someone who just installed nescio."""
    return nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2))


def main() -> None:
    """Run the commands; the first that fails ends it."""
    source = Path(nescio.__file__)
    assert "site-packages" in source.parts, f"{source} is not an installed package"
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        prepare()
        run("--version")
        run("--help")
        run("list", "detectors")
        run("audit", "--explain")
        run("audit", "--schema")
        run("init", "--out", "script.py")
        own = ("own:make_net", "--weights", "w.pt")
        few = ("--budget", "quick", "--attack-steps", "0", "--out", "page")
        run("audit", *own, "--data", "test.npz", "--train", "train.npz", *few, codes=(0, 2, 3))
        page = Path("page/audit.html").read_text()
        assert "<html" in page
        run("guard", *own, "--calibration", "calibration.npz", "--out", "guard.safetensors")
        run("score", "guard.safetensors", "test.npz", "--net", own[0], "--out", "decisions.csv")
        assert len(Path("decisions.csv").read_text().splitlines()) == 401
        guard = nescio.load("guard.safetensors", net=make_net)
        print(guard(torch.tensor([[0.0, 0.0], [99.0, 99.0]])).decision)
    print(f"nescio {nescio.__version__}: smoke test passed")


def run(*words: str, codes: tuple[int, ...] = (0,)) -> None:
    """Run a nescio command of this environment."""
    command = [str(Path(sys.executable).parent / "nescio"), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in codes, f"{' '.join(words)}\n{done.stdout}{done.stderr}"
    print(f"nescio {' '.join(words)}: {done.returncode}", flush=True)


def prepare() -> None:
    """A network, its weights and three files of half-moons."""
    moons = nescio.data.half_moons(train=400, validation=400, test=400)
    parts = {"train": moons.train, "calibration": moons.validation, "test": moons.test}
    for name, (x, y) in parts.items():
        np.savez(f"{name}.npz", x=x.numpy(), y=y.numpy())
    Path("own.py").write_text(f"from torch import nn\n\n\n{inspect.getsource(make_net)}")
    torch.manual_seed(0)
    net = make_net()
    optimizer = torch.optim.Adam(net.parameters(), 0.02)
    for _ in range(200):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(moons.train[0]), moons.train[1]).backward()
        optimizer.step()
    torch.save(net.state_dict(), "w.pt")


if __name__ == "__main__":
    main()
