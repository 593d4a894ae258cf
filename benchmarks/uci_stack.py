"""A UCI table, 20 splits x 5 members, 40 epochs: one stack against one network at a time.

Both sides scale inputs and targets by the rows of each split, draw an order for each epoch and make
the same steps of Adam on the Gaussian likelihood. The loop's time is the same for every network, so
it trains some and the time is scaled. The sides take turns; the best of the rounds counts. Needs
the setting NESCIO_DATA: `python -m benchmarks.uci_stack [--table concrete] [--rounds 3]`.
"""

import argparse

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import nescio
from benchmarks.timing import seconds, use_threads
from nescio_papers.data import SplitTable, uci_splits

MEMBERS, HIDDEN, BATCH, RATE = 5, 50, 100, 0.01


def stack(table: SplitTable, epochs: int) -> None:
    """All members of all splits at once."""
    nescio.train(
        lambda: nescio.nets.mlp(table.x.shape[1], 2, widths=(HIDDEN,)),
        (table.x, table.y),
        loss=nescio.losses.nll(nescio.heads.gaussian()),
        members=MEMBERS * len(table),
        rows=[train for train, _ in table.rows for _ in range(MEMBERS)],
        epochs=epochs,
        batch_size=BATCH,
        learning_rate=RATE,
        standardize=True,
        standardize_targets=True,
        progress=False,
    )


def one_network(table: SplitTable, epochs: int, split: int) -> None:
    """Plain PyTorch."""
    rows = table.rows[split][0]
    x, y = _scaled(table.x[rows]), _scaled(table.y[rows])
    net = nn.Sequential(nn.Linear(x.shape[1], HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 2))
    optimizer = torch.optim.Adam(net.parameters(), lr=RATE)
    for _ in range(epochs):
        for batch in torch.randperm(len(x)).split(BATCH):
            optimizer.zero_grad()
            mean, raw = net(x[batch]).chunk(2, dim=1)
            loss = F.gaussian_nll_loss(mean, y[batch], F.softplus(raw) + 1e-6, full=True)
            torch.autograd.backward(loss)
            optimizer.step()


def _scaled(values: Tensor) -> Tensor:
    deviation, mean = values.std(0, correction=0), values.mean(0)
    return (values - mean) / deviation.where(deviation > 0, torch.ones_like(deviation))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.uci_stack", description=__doc__)
    parser.add_argument("--table", default="concrete")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--measured", type=int, default=5, help="networks that the loop trains")
    options = parser.parse_args()
    use_threads()
    table = uci_splits(options.table)
    networks = MEMBERS * len(table)
    stack(table, 1)
    one_network(table, 1, 0)
    together, alone = [], []
    for _ in range(options.rounds):
        together.append(seconds(lambda: stack(table, options.epochs)))
        for split in range(options.measured):
            work = seconds(lambda split=split: one_network(table, options.epochs, split))  # type: ignore[misc]
            alone.append(work)
    ours, loop = min(together), min(alone) * networks
    print(
        f"{options.table}, {networks} networks, {options.epochs} epochs: one stack {ours:.2f} s, "
        f"a loop {loop:.1f} s (best of {len(alone)} networks, times {networks}), ratio "
        f"{loop / ours:.1f}"
    )


if __name__ == "__main__":
    main()
