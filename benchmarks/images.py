"""Convolutional networks: an ensemble of LeNets, and an attack on one, against ordinary code.

The peers get the network as its author writes it: convolution, ReLU, pooling, in NCHW.
"""

import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from benchmarks.timing import Benchmark, Numbers, Side, cold_and_warm, seconds, use_threads

if TYPE_CHECKING:
    from torch import Tensor, nn

MEMBERS, BATCH, STEPS, RATE = 5, 128, 16, 1e-3
IMAGES, RADIUS, SIZE, MOVES = 256, 0.3, 0.01, 40

BENCHMARKS = (
    Benchmark(
        __name__,
        f"{MEMBERS} LeNets, {STEPS} batches of {BATCH} images of 28x28",
        peers=(
            Side("loop over modules, default Adam", "loop_default"),
            Side("loop over modules, fused Adam", "loop_fused"),
        ),
        ours="train_lenets",
        quick={"steps": 2},
    ),
    Benchmark(
        __name__,
        f"PGD on a LeNet, {IMAGES} images, {MOVES} steps, linf {RADIUS}",
        peers=(
            Side("torchattacks", "torchattacks_pgd", needs="torchattacks"),
            Side("foolbox", "foolbox_pgd", needs="eagerpy"),
            Side("by hand, weights frozen", "hand_pgd"),
        ),
        ours="nescio_pgd",
        quick={"images": 32, "moves": 2},
        rounds=5,
        note="Every side starts at the images and raises the loss of the label; `loss` in the JSON "
        "file is the mean cross-entropy it reached, in float64.",
    ),
)


def train_lenets(steps: int = STEPS) -> Numbers:
    import nescio

    use_threads()
    data = _noise(steps)
    return cold_and_warm(
        lambda: nescio.train(
            nescio.nets.lenet,
            data,
            loss=nescio.losses.nll(),
            members=MEMBERS,
            epochs=1,
            batch_size=BATCH,
            learning_rate=RATE,
            seed=0,
            progress=False,
        )
    )


def loop_default(steps: int = STEPS) -> Numbers:
    return _loop(steps, fused=None)


def loop_fused(steps: int = STEPS) -> Numbers:
    return _loop(steps, fused=True)


def _loop(steps: int, fused: bool | None) -> Numbers:
    """Plain PyTorch: one network after the other, each with its own order of the images."""
    import torch
    from torch.nn import functional as F

    use_threads()
    x, y = _noise(steps)

    def train_all() -> None:
        for _ in range(MEMBERS):
            net = _lenet()
            optimizer = torch.optim.Adam(net.parameters(), lr=RATE, fused=fused)
            for batch in torch.randperm(len(x)).split(BATCH):
                optimizer.zero_grad()
                F.cross_entropy(net(x[batch]), y[batch]).backward()
                optimizer.step()

    return cold_and_warm(train_all)


def nescio_pgd(images: int = IMAGES, moves: int = MOVES) -> Numbers:
    from nescio import attacks

    net, x, y = _victim(images)
    raised = attacks.label_loss(net)

    def attack(moves: int) -> "Tensor":
        return attacks.pgd(raised, x, y, radius=RADIUS, step=SIZE, steps=moves, start="input").x

    return _attacked(net, attack, y, moves)


def torchattacks_pgd(images: int = IMAGES, moves: int = MOVES) -> Numbers:
    torchattacks: Any = import_module("torchattacks")
    net, x, y = _victim(images)

    def attack(moves: int) -> "Tensor":
        own = torchattacks.PGD(net, eps=RADIUS, alpha=SIZE, steps=moves, random_start=False)
        return own(x, y)  # type: ignore[no-any-return]

    return _attacked(net, attack, y, moves)


def foolbox_pgd(images: int = IMAGES, moves: int = MOVES) -> Numbers:
    for name in ("git", "requests"):  # only its collection of models needs them
        if find_spec(name) is None:
            sys.modules[name] = ModuleType(name)
            setattr(sys.modules[name], "Repo", None)  # noqa: B010
    foolbox: Any = import_module("foolbox")
    net, x, y = _victim(images)
    model = foolbox.PyTorchModel(net, bounds=(0, 1))

    def attack(moves: int) -> "Tensor":
        own = foolbox.attacks.LinfPGD(abs_stepsize=SIZE, steps=moves, random_start=False)
        return own(model, x, y, epsilons=RADIUS)[1]  # type: ignore[no-any-return]

    return _attacked(net, attack, y, moves)


def hand_pgd(images: int = IMAGES, moves: int = MOVES) -> Numbers:
    import torch
    from torch.nn import functional as F

    net, x, y = _victim(images)
    net.requires_grad_(False)

    def attack(moves: int) -> "Tensor":
        moved = x.clone()
        for _ in range(moves):
            leaf = moved.requires_grad_()
            (slope,) = torch.autograd.grad(F.cross_entropy(net(leaf), y, reduction="sum"), leaf)
            moved = (moved.detach() + SIZE * slope.sign()).clamp(x - RADIUS, x + RADIUS)
            moved = moved.clamp(0, 1)
        return moved

    return _attacked(net, attack, y, moves)


def _attacked(
    net: "nn.Module", attack: "Callable[[int], Tensor]", y: "Tensor", moves: int
) -> Numbers:
    """Seconds of an attack, and the mean loss it reached."""
    import torch
    from torch.nn import functional as F

    attack(2)
    found: list[Tensor] = []
    time = seconds(lambda: found.append(attack(moves)))
    with torch.no_grad():
        loss = F.cross_entropy(net.double()(found[0].double()), y).item()
    return {"warm": time, "loss": loss}


def _victim(images: int) -> "tuple[nn.Module, Tensor, Tensor]":
    """A LeNet after two epochs on the embedded digits, enlarged to 28x28, and some of them."""
    import torch
    from torch.nn import functional as F

    import nescio

    use_threads()
    small, labels = nescio.data.digits(seed=0).train
    x = F.interpolate(small, (28, 28), mode="bilinear")
    net = _lenet()
    optimizer = torch.optim.Adam(net.parameters(), RATE)
    for batch in torch.arange(len(x)).repeat(2).split(BATCH):
        optimizer.zero_grad()
        F.cross_entropy(net(x[batch]), labels[batch]).backward()
        optimizer.step()
    return net.eval(), x[:images].contiguous(), labels[:images]


def _lenet() -> "nn.Module":
    import torch
    from torch import nn

    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(3136, 1024), nn.ReLU(), nn.Linear(1024, 10),
    )  # fmt: skip


def _noise(steps: int) -> "tuple[Tensor, Tensor]":
    import torch

    torch.manual_seed(0)
    return torch.rand(steps * BATCH, 1, 28, 28), torch.randint(10, (steps * BATCH,))
