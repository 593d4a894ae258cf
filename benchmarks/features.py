"""Features that a network of width 512 gives for MNIST; without the data, a mixture like them."""

from typing import TYPE_CHECKING

from benchmarks.timing import ROOT

if TYPE_CHECKING:
    from torch import Tensor

WIDTH, EPOCHS = 512, 2
FOLDER = ROOT / ".venv" / "features"  # made once, by the first process that asks


def trained(bank: int, queries: int) -> "tuple[Tensor, Tensor]":
    """Features of as many training images, and of others that the network was not trained on."""
    import numpy as np
    import torch

    path = FOLDER / f"{'mnist' if is_mnist() else 'mixture'}-{bank}-{queries}.npy"
    if not path.exists():
        found = _of_mnist(bank, queries) if is_mnist() else _mixture(bank + queries)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        with part.open("wb") as file:
            np.save(file, found.numpy())
        part.rename(path)
    rows = torch.from_numpy(np.load(path))
    return rows[:bank], rows[bank:]


def is_mnist() -> bool:
    """Whether the images are there."""
    from nescio import data
    from nescio.core import NescioError

    try:
        return bool(data.load("mnist"))
    except NescioError:
        return False


def _of_mnist(bank: int, queries: int) -> "Tensor":
    import torch

    import nescio

    mnist = nescio.data.load("mnist")
    assert mnist.test is not None
    (x, y), (other, _) = mnist.train, mnist.test
    images = torch.cat([x, other])[: bank + queries]
    net = nescio.train(
        lambda: nescio.nets.mlp((1, 28, 28), 10, widths=(WIDTH, WIDTH)),
        (x[:bank], y[:bank]),
        epochs=EPOCHS,
        batch_size=128,
        progress=False,
    ).member(0)
    seen = nescio.observe(net, images, progress=False)
    return seen.features[seen.layer()][0]


def _mixture(samples: int) -> "Tensor":
    """Ten classes; the j-th direction varies as 1 / j; then a ReLU, as a hidden layer has."""
    import torch

    torch.manual_seed(0)
    scale = 1 / torch.arange(1, WIDTH + 1)
    turn = torch.linalg.qr(torch.randn(WIDTH, WIDTH)).Q
    centers = 2 * torch.randn(10, WIDTH) * scale
    rows: Tensor = torch.randn(samples, WIDTH) * scale + centers[torch.arange(samples) % 10]
    return torch.relu(rows @ turn)
