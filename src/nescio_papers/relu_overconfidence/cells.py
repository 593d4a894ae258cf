"""What a run keeps: every trained network, and every cell of table 1, each in a file of its own.

A killed run goes on: a network from its checkpoint, the table from the first cell that is missing.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor

from nescio.core import DataSet, Prediction, Row, digest, kept, make_folder
from nescio.evaluation import Comparison, compare
from nescio.evaluation.compare import Absent
from nescio.evaluation.compare.ood_inputs import Probe, describe
from nescio.models.model import Model
from nescio.training.train import train
from nescio_papers.kit import InData, Settings, folder_of, slug
from nescio_papers.relu_overconfidence.blocks import Block
from nescio_papers.relu_overconfidence.budgets import budget
from nescio_papers.relu_overconfidence.methods import RECIPES
from nescio_papers.relu_overconfidence.stronger import Stronger


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained network and how long that took; None where the training was interrupted."""

    model: Model
    seconds: float | None

    @property
    def digest(self) -> str:
        """A fingerprint of the weights."""
        return digest(*(tensor for _, tensor in sorted(self.model.tensors.items())))

    @cached_property
    def remembering(self) -> "Remembering":
        """The same as a predictor that answers the same inputs only once."""
        return Remembering(self.model)


@dataclass(frozen=True, eq=False)
class Remembering:
    """A model that keeps its answers: the test images are asked about in every row of a table."""

    model: Model
    known: dict[str, Prediction] = field(default_factory=dict)

    def __call__(self, x: Tensor) -> Prediction:
        key = digest(x)
        if key not in self.known:
            self.known[key] = self.model(x)
        return self.known[key]

    def answer(self, x: Tensor) -> Prediction:
        """With gradients, for attacks."""
        return self.model.answer(x)


def trained(settings: Settings, block: Block, column: str, in_dist: InData) -> Trained:
    """The network of a column, trained once for all parts."""
    recipe, x, sizes = RECIPES[block.name], in_dist.train[0], budget(settings)
    loss = recipe.losses[column](x, settings.seed)
    folder = folder_of(settings, block.part) / slug(column)
    return timed_training(
        lambda: train(
            lambda: recipe.net(in_dist.shape, in_dist.classes),
            in_dist.train,
            loss=loss,
            epochs=sizes.epochs[block.name],
            batch_size=sizes.batch,
            seed=settings.seed,
            run=folder,
            checkpoint_seconds=60,
            progress=False,
            **recipe.options,
        ),
        folder,
    )


def difference(settings: Settings, block: Block, in_dist: InData) -> str:
    """What differs from the paper's networks, in words."""
    epochs, images = budget(settings).epochs[block.name], len(in_dist.train[0])
    return f"{RECIPES[block.name].words}, {images:,} training images, {epochs} of 100 epochs"


def timed_training(run: Callable[[], Model], folder: Path) -> Trained:
    """Train in a folder, and write down the seconds if nothing came between."""
    path, before = folder / "seconds.json", folder.exists() and any(folder.iterdir())
    start = time.monotonic()
    model = run()
    seconds = None if before else round(time.monotonic() - start, 1)
    return Trained(model, kept(path, {}, lambda: seconds))


def cell(
    settings: Settings,
    block: Block,
    column: str,
    network: Trained,
    in_dist: InData,
    row: str,
    probe: Probe | Stronger,
) -> Comparison:
    """One predictor on one row: read if it was measured before, otherwise measured and kept."""
    text = probe.description if isinstance(probe, Stronger) else describe(probe)
    options: dict[str, Any] = {
        "name": block.name,
        "resamples": budget(settings).resamples,
        "seed": settings.seed,
    }
    key = {
        "weights": network.digest,
        "in_dist": digest(*in_dist.test),
        "ood": digest(probe) if isinstance(probe, Tensor) else text,
        **options,
    }
    folder = folder_of(settings, block.part) / "cells"
    path = make_folder(folder) / f"{slug(column)}--{slug(row)}.json"

    def make() -> dict[str, Any]:
        given = probe.make(network.model, in_dist) if isinstance(probe, Stronger) else probe
        none = isinstance(given, Tensor) and not len(given)
        rows = {row: Absent(text) if none else given}
        subject = {column: network.remembering}
        table = compare(subject, in_dist.test, rows, task="confidence", progress=False, **options)
        if isinstance(probe, Stronger):  # as many inputs as each network gets wrong
            own = DataSet(name=row, kind="adversarial", description=text)
            sets = tuple(own if one.name == row else one for one in table.sets)
            table = replace(table, sets=sets)
        if none:
            count = Row(subject=column, data=row, metric="samples", value=0.0)
            table = replace(table, rows=(*table.rows, count))
        return table.to_json()

    return Comparison.from_json(kept(path, key, make))
