"""Few labels and unlabeled inputs on the command line: `--labels`, `--unlabeled`."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nescio.cli import options as opt
from nescio.cli.data_names import inputs_named, labeled, named
from nescio.cli.options import note
from nescio.core import NescioError, generator
from nescio.data import Dataset, readers


def unlabeled_inputs(text: str, dataset: Dataset, table: Mapping[str, Any]) -> Tensor:
    """The inputs that --unlabeled names, without labels.

    dataset: what is trained on, whose columns those of a table must be; table: its options.
    """
    given = named(text)
    if given.table:
        target = table.get("target")
        known = readers.columns_of(Path(given.source), **given.header) or ()
        if target in known and target not in given.options.get("without", "").split(","):
            raise NescioError(
                f"{given.source} has the column {target!r}, which is the label; --unlabeled takes "
                f"inputs alone: leave the column out, {text}:without={target}, or give the rows "
                "that have it as --data"
            )
        return inputs_named(text, dataset.columns).to(opt.device())
    if not given.whole_file:
        x = labeled(text, "train")[0]
        note(f"unlabeled inputs: {len(x)} of the training part of {text}, without their labels")
        return x.to(opt.device())
    x, y = given.read()
    if y is not None:
        raise NescioError(
            f"{given.source} has labels, an array y; --unlabeled takes inputs alone: save x "
            "without y, np.savez(path, x=x), or give the labeled samples as --data"
        )
    return x.to(opt.device())


def few_labels(dataset: Dataset, count: int | None, seed: int) -> Dataset:
    """The data set with `count` labeled training samples, equally many of each class."""
    if count is None:
        return dataset
    x, y = dataset.train
    if dataset.classes is None or y.ndim > 1:
        raise NescioError("--labels draws equally many samples of each class; there are no classes")
    each, rest = divmod(count, dataset.classes)
    groups = [torch.where(y == label)[0] for label in range(dataset.classes)]
    if rest or not each or each > min(map(len, groups)):
        most = min(map(len, groups)) * dataset.classes
        raise NescioError(
            f"--labels is a multiple of the {dataset.classes} classes, up to {most} here: "
            f"equally many of each class, got {count}"
        )
    draws = generator(seed, "labels")
    chosen = torch.cat(
        [own[torch.randperm(len(own), generator=draws)[:each].to(own.device)] for own in groups]
    )
    return replace(dataset, train=(x[chosen], y[chosen]))
