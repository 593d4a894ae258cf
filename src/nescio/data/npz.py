"""Data from numpy's .npz files: the way in for everybody's own arrays."""

from pathlib import Path

import torch
from torch import Tensor

from nescio.data.archive import Arrays, demand, inputs, read_arrays, targets
from nescio.data.dataset import Dataset, Part, split
from nescio.errors import NescioError

PARTS = ("train", "validation", "test")


def arrays_of(path: str | Path) -> list[str]:
    """The names of the arrays in a file."""
    return read_arrays(path, set())[1]


def read_npz(path: str | Path) -> tuple[Tensor, Tensor | None]:
    """Read the inputs `x` and, where the file has them, the targets `y`.

    x becomes float32 (N, ...). uint8 is taken for images: (N, C, H, W) stays as it is, until the
    batch; any other shape is divided by 255. Integer y becomes int64 labels (N,), floating-point y
    float32 targets (N, D).
    """
    arrays, found = read_arrays(path, {"x", "y"})
    demand(path, found, {"x"})
    if "y" in arrays:
        return _pair(path, arrays, "")
    return inputs(f"x in {path}", arrays["x"]), None


def dataset_from_npz(path: str | Path, *, seed: int = 0) -> Dataset:
    """Read a data set: `x` and `y` to be split, or `x_train`, `y_train` and further parts.

    `x`, `y` are split 80 / 10 / 10 in an order given by `seed` (below ten cases all are for
    training). Ready parts are `x_train`, `y_train` and, where there are any, `x_validation`,
    `y_validation`, `x_test`, `y_test`; then `seed` changes nothing. Numbers are read as by
    `read_npz`; integer y makes a classification of max + 1 classes, so write counts as floats
    for a regression.
    """
    ready = {f"{letter}_{part}" for part in PARTS for letter in "xy"}
    arrays, found = read_arrays(path, {"x", "y"} | ready)
    if not ready & arrays.keys():
        demand(path, found, {"x", "y"})
        parts = dict(zip(PARTS, split(_pair(path, arrays, ""), seed), strict=True))
    elif {"x", "y"} & arrays.keys():
        raise NescioError(
            f"{path} holds both whole data and ready parts ({', '.join(sorted(arrays))}); "
            "expected one of the two: leave the other out"
        )
    else:
        demand(path, found, {"x_train", "y_train"})
        parts = {part: _ready(path, arrays, found, part) for part in PARTS}
    train = parts["train"]
    assert train is not None
    return Dataset(
        Path(path).stem, train, parts["validation"], parts["test"], _classes(path, parts)
    )


def _ready(path: str | Path, arrays: Arrays, found: list[str], part: str) -> Part | None:
    pair = {f"x_{part}", f"y_{part}"}
    if not pair & arrays.keys():
        return None
    demand(path, found, pair)
    return _pair(path, arrays, f"_{part}")


def _pair(path: str | Path, arrays: Arrays, suffix: str) -> Part:
    x = inputs(f"x{suffix} in {path}", arrays[f"x{suffix}"])
    y = targets(f"y{suffix} in {path}", arrays[f"y{suffix}"])
    if len(x) != len(y):
        raise NescioError(
            f"x{suffix} and y{suffix} in {path} must have the same length, got {len(x)} "
            f"and {len(y)}"
        )
    return x, y


def _classes(path: str | Path, parts: dict[str, Part | None]) -> int | None:
    targets_given = [part[1] for part in parts.values() if part is not None]
    kinds = {y.dtype for y in targets_given}
    if len(kinds) > 1:
        raise NescioError(
            f"{path} has integer y in one part and floating-point y in another; expected labels "
            "in all parts, or targets in all"
        )
    if kinds == {torch.float32}:
        return None
    classes = max(2, 1 + max(int(y.max()) for y in targets_given))
    cases = sum(map(len, targets_given))
    if classes > max(2, cases):
        raise NescioError(
            f"y in {path} has labels up to {classes - 1} for {cases} cases; number the classes "
            "0, 1, 2, ... (numpy.unique(y, return_inverse=True) does), or use floats to regress"
        )
    return classes
