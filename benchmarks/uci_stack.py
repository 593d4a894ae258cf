"""A UCI table, 20 splits x 5 members, 40 epochs: one stack against one network at a time.

Both sides scale inputs and targets by the rows of each split, draw an order for each epoch and make
the same steps of Adam on the Gaussian likelihood. The loop's time is the same for every network, so
it trains some and the time is scaled. Needs the setting NESCIO_DATA.
"""

from typing import Any

from benchmarks.timing import Benchmark, Numbers, Side, cold_and_warm, seconds, use_threads

TABLE, MEMBERS, HIDDEN, EPOCHS, BATCH, RATE = "concrete", 5, 50, 40, 100, 0.01
MEASURED = 10  # networks

BENCHMARK = Benchmark(
    __name__,
    f"{TABLE}, 20 splits x {MEMBERS} networks, {EPOCHS} epochs, batches of {BATCH}",
    peers=(Side("loop over networks, Adam", "loop"),),
    quick={"epochs": 2, "measured": 2},
    note=f"The loop trained {MEASURED} of the 100 networks; its time is scaled.",
)


def nescio_side(epochs: int = EPOCHS, measured: int = MEASURED) -> Numbers:
    import nescio

    del measured  # all networks are trained
    use_threads()
    splits = _splits()
    loss = nescio.losses.nll(nescio.heads.gaussian())
    times = cold_and_warm(
        lambda: nescio.train(
            lambda: nescio.nets.mlp(splits.x.shape[1], 2, widths=(HIDDEN,)),
            (splits.x, splits.y),
            loss=loss,
            members=MEMBERS * len(splits),
            rows=[train for train, _ in splits.rows for _ in range(MEMBERS)],
            epochs=epochs,
            batch_size=BATCH,
            learning_rate=RATE,
            standardize=True,
            standardize_targets=True,
            progress=False,
        )
    )
    return {**times, "networks_measured": MEMBERS * len(splits)}


def loop(epochs: int = EPOCHS, measured: int = MEASURED) -> Numbers:
    """Plain PyTorch: one network after the other."""
    import torch
    from torch import nn

    use_threads()
    splits = _splits()
    torch.manual_seed(0)

    def train_one(split: int) -> None:
        rows = splits.rows[split][0]
        x, y = (_scaled(t[rows]) for t in (splits.x, splits.y))
        net = nn.Sequential(nn.Linear(x.shape[1], HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 2))
        optimizer = torch.optim.Adam(net.parameters(), lr=RATE)
        for _ in range(epochs):
            for batch in torch.randperm(len(x)).split(BATCH):
                optimizer.zero_grad()
                mean, raw = net(x[batch]).chunk(2, dim=1)
                variance = nn.functional.softplus(raw) + 1e-6
                loss = nn.functional.gaussian_nll_loss(mean, y[batch], variance, full=True)
                torch.autograd.backward(loss)
                optimizer.step()

    def train_some() -> None:
        for number in range(measured):
            train_one(number % len(splits))

    train_one(0)
    every = MEMBERS * len(splits)
    return {"warm": seconds(train_some) * every / measured, "networks_measured": measured}


def _splits() -> Any:
    from nescio_papers.data import uci_splits

    return uci_splits(TABLE)


def _scaled(values: Any) -> Any:
    deviation, mean = values.std(0, correction=0), values.mean(0)
    return (values - mean) / deviation.where(deviation > 0, deviation + 1)
