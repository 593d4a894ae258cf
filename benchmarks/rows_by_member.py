"""20 splits x 5 members of one data set in one stack, beside 100 members on the same rows.

`python -m benchmarks.rows_by_member` measures both in one run, in turns, and says their ratio. The
networks are those of the regression data sets: 13-50-2, 40 epochs of mini-batches of 100.
"""

import sys
from statistics import median

import torch
from torch import Tensor

import nescio
from benchmarks.timing import Benchmark, Numbers, seconds, use_threads

SPLITS, EACH, POINTS, FEATURES, EPOCHS, BATCH = 20, 5, 506, 13, 40, 100
MEMBERS = SPLITS * EACH

BENCHMARK = Benchmark(
    __name__,
    f"{SPLITS} splits x {EACH} networks {FEATURES}-50-2 in one stack, {EPOCHS} epochs",
    peers=(),
    measures=("warm", "same_rows", "ratio", "folds", "folds_ratio"),
    quick={"epochs": 2, "rounds": 1},
    note="same_rows: 100 networks on one split; folds: 20 folds, whose numbers of rows differ.",
)


def nescio_side(epochs: int = EPOCHS, rounds: int = 7) -> Numbers:
    """Median seconds of each way, the ways in turns; ratios are medians over the turns."""
    use_threads()
    draws = torch.Generator().manual_seed(0)
    x = torch.randn(POINTS, FEATURES, generator=draws)
    y = x[:, :1].sin() + 0.1 * torch.randn(POINTS, 1, generator=draws)
    orders = [torch.randperm(POINTS, generator=draws) for _ in range(SPLITS)]
    splits = [order[: POINTS - POINTS // 10] for order in orders for _ in range(EACH)]
    folds = [_without(fold) for fold in orders[0].tensor_split(SPLITS) for _ in range(EACH)]
    same = [splits[0]] * MEMBERS

    def train(rows: list[Tensor] | None) -> float:
        data = (x, y) if rows is not None else (x[splits[0]], y[splits[0]])
        options = {"standardize": True, "standardize_targets": True, "epochs": epochs}
        return seconds(
            lambda: nescio.train(
                lambda: nescio.nets.mlp(FEATURES, 2, widths=(50,)),
                data,
                loss=nescio.losses.nll(nescio.heads.gaussian()),
                members=MEMBERS,
                batch_size=BATCH,
                rows=rows,
                progress=False,
                **options,
            )
        )

    train(splits)
    ways = {"warm": splits, "same_rows": None, "one_list": same, "folds": folds}
    times = [{name: train(rows) for name, rows in ways.items()} for _ in range(rounds)]
    middle = {name: median(turn[name] for turn in times) for name in ways}
    ratios = {
        f"{name}_ratio": median(turn[name] / turn["same_rows"] for turn in times)
        for name in ("warm", "one_list", "folds")
    }
    return {**middle, **ratios, "ratio": ratios["warm_ratio"]}


def _without(fold: Tensor) -> Tensor:
    """All points but those of a fold."""
    rest = torch.ones(POINTS, dtype=torch.bool)
    rest[fold] = False
    return rest.nonzero()[:, 0]


if __name__ == "__main__":
    print(nescio_side(*map(int, sys.argv[1:])))
