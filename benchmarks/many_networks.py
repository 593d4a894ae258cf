"""100 networks 8-50-2 on 1,000 points: 40 epochs of mini-batches of 100.

The peers' time is the same for every member, so they train some and the time is scaled.
"""

from benchmarks.timing import Benchmark, Numbers, Side, cold_and_warm, seconds, use_threads

MEMBERS, SIZES, POINTS, EPOCHS, BATCH, RATE = 100, (8, 50, 2), 1000, 40, 100, 1e-3
MEASURED = 20  # members

BENCHMARK = Benchmark(
    __name__,
    f"{MEMBERS} networks {'-'.join(map(str, SIZES))}, {EPOCHS} epochs of {POINTS // BATCH} batches",
    peers=(
        Side("loop, default Adam", "loop_default"),
        Side("loop, fused Adam", "loop_fused"),
    ),
    quick={"epochs": 2, "measured": 4},
    note=f"The loops trained {MEASURED} of the {MEMBERS} networks; their time is scaled.",
)


def nescio_side(epochs: int = EPOCHS, measured: int = MEASURED) -> Numbers:
    import torch

    import nescio

    del measured  # all members are trained
    use_threads()
    torch.manual_seed(0)
    x = torch.randn(POINTS, SIZES[0])
    y = (x.sum(1) > 0).long()
    times = cold_and_warm(
        lambda: nescio.train(
            lambda: nescio.nets.mlp(SIZES[0], SIZES[-1], widths=SIZES[1:-1]),
            (x, y),
            loss=nescio.losses.nll(),
            members=MEMBERS,
            epochs=epochs,
            batch_size=BATCH,
            learning_rate=RATE,
            seed=0,
            progress=False,
        )
    )
    return {**times, "members_measured": MEMBERS}


def loop_default(epochs: int = EPOCHS, measured: int = MEASURED) -> Numbers:
    return _loop(epochs, measured, fused=None)


def loop_fused(epochs: int = EPOCHS, measured: int = MEASURED) -> Numbers:
    return _loop(epochs, measured, fused=True)


def _loop(epochs: int, measured: int, fused: bool | None) -> Numbers:
    """Plain PyTorch: one network after the other, each with its own order of the points."""
    import torch
    from torch import nn

    use_threads()
    torch.manual_seed(0)
    x = torch.randn(POINTS, SIZES[0])
    y = (x.sum(1) > 0).long()

    def train_one() -> None:
        net = nn.Sequential(nn.Linear(*SIZES[:2]), nn.ReLU(), nn.Linear(*SIZES[1:]))
        optimizer = torch.optim.Adam(net.parameters(), lr=RATE, fused=fused)
        for _ in range(epochs):
            for batch in torch.randperm(POINTS).chunk(POINTS // BATCH):
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(net(x[batch]), y[batch])
                torch.autograd.backward(loss)
                optimizer.step()

    def train_all() -> None:
        for _ in range(measured):
            train_one()

    train_one()
    total = seconds(train_all)
    return {"warm": total * MEMBERS / measured, "members_measured": measured}
