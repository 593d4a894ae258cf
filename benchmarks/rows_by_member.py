"""20 splits x 5 members of one data set in one stack, beside 100 members on the same rows.

`python -m benchmarks.rows_by_member [EPOCHS] [ROUNDS]` measures in one run, in turns: "splits", 20
random splits; "same_rows", all members on one split, without `rows`; "one_list", the same by
`rows`; "folds", 20 folds, whose numbers of rows differ. Ratios are to "same_rows". The networks are
those of the regression data sets: 13-50-2, 40 epochs of mini-batches of 100. On a busy machine the
seconds of the processor ("cpu") are steadier than those of the clock.
"""

import sys
import time
from statistics import median

import torch
from torch import Tensor

import nescio
from benchmarks.timing import Numbers, seconds, use_threads

SPLITS, EACH, POINTS, FEATURES, EPOCHS, BATCH = 20, 5, 506, 13, 40, 100
MEMBERS = SPLITS * EACH


def measured(epochs: int = EPOCHS, rounds: int = 7) -> Numbers:
    """Median seconds of each way, the ways in turns; ratios are medians over the turns."""
    use_threads()
    draws = torch.Generator().manual_seed(0)
    x = torch.randn(POINTS, FEATURES, generator=draws)
    y = x[:, :1].sin() + 0.1 * torch.randn(POINTS, 1, generator=draws)
    orders = [torch.randperm(POINTS, generator=draws) for _ in range(SPLITS)]
    splits = [order[: POINTS - POINTS // 10] for order in orders for _ in range(EACH)]
    folds = [_without(fold) for fold in orders[0].tensor_split(SPLITS) for _ in range(EACH)]
    same = [splits[0]] * MEMBERS

    def train(rows: list[Tensor] | None) -> dict[str, float]:
        data = (x, y) if rows is not None else (x[splits[0]], y[splits[0]])
        start = time.process_time()
        clock = seconds(
            lambda: nescio.train(
                lambda: nescio.nets.mlp(FEATURES, 2, widths=(50,)),
                data,
                loss=nescio.losses.nll(nescio.heads.gaussian()),
                members=MEMBERS,
                batch_size=BATCH,
                rows=rows,
                epochs=epochs,
                standardize=True,
                standardize_targets=True,
                progress=False,
            )
        )
        return {"clock": clock, "cpu": time.process_time() - start}

    train(splits)
    ways = {"splits": splits, "same_rows": None, "one_list": same, "folds": folds}
    turns = [{name: train(rows) for name, rows in ways.items()} for _ in range(rounds)]
    found = {name: median(turn[name]["clock"] for turn in turns) for name in ways}
    for kind in ("clock", "cpu"):
        for name in ("splits", "one_list", "folds"):
            ratios = [turn[name][kind] / turn["same_rows"][kind] for turn in turns]
            found[f"{name}, ratio by {kind}"] = median(ratios)
    return found


def _without(fold: Tensor) -> Tensor:
    """All points but those of a fold."""
    rest = torch.ones(POINTS, dtype=torch.bool)
    rest[fold] = False
    return rest.nonzero()[:, 0]


if __name__ == "__main__":
    print(measured(*map(int, sys.argv[1:])))
