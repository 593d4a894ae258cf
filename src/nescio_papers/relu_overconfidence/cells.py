"""What a run keeps: every trained network, and every cell of table 1, each in its own file.

A killed run resumes: a network from its checkpoint, the table from the first cell that is missing.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nescio.core import DataSet, Floats, Prediction, Row, digest, kept, make_folder
from nescio.core.registry import measures
from nescio.evaluation import Comparison, compare
from nescio.evaluation.answers import as_classification
from nescio.evaluation.compare import Absent
from nescio.evaluation.compare.ood_inputs import Probe, describe, pieces
from nescio.models.model import Model
from nescio.training.train import train
from nescio_papers.kit import InData, Settings, folder_of, slug
from nescio_papers.relu_overconfidence.blocks import Block
from nescio_papers.relu_overconfidence.budgets import Stated, budget
from nescio_papers.relu_overconfidence.methods import PLAIN, RECIPES
from nescio_papers.relu_overconfidence.published import TRAINING_IMAGES
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


def trained(
    settings: Settings, block: Block, column: str, in_dist: InData, seed: int = 0
) -> Trained:
    """The network of a column, trained once for all parts.

    seed: which of the seeds of the budget, from 0.
    """
    recipe, plan = RECIPES[block.name], plan_of(settings, block, column)
    x, y = (part[: plan.images] for part in in_dist.train)
    options, drawn = dict(plan.options), settings.seed + seed
    before = recipe.start.get(column)
    first = trained(settings, block, before, in_dist, seed) if before is not None else None
    if first is not None:
        options["start"] = first.model
    folder = folder_of(settings, block.part) / of_seed(column, seed)
    last = timed_training(
        lambda: train(
            lambda: recipe.nets.get(column, recipe.net)(in_dist.shape, in_dist.classes),
            (x, y),
            loss=recipe.losses[column](x, drawn),
            epochs=plan.epochs,
            batch_size=budget(settings).batch,
            seed=drawn,
            run=folder,
            checkpoint_seconds=60,
            progress=False,
            **options,
        ),
        folder,
    )
    if first is None or before in recipe.columns:
        return last
    both = (first.seconds, last.seconds)  # a round of the same training
    return replace(last, seconds=None if None in both else sum(filter(None, both)))


@dataclass(frozen=True)
class ColumnPlan:
    """How long a network trains, on how many images, and with which options."""

    images: int
    epochs: int
    options: Mapping[str, Any]


def plan_of(settings: Settings, block: Block, column: str) -> ColumnPlan:
    """The budget of a column: that of its block, its stated one, or that of its recipe."""
    recipe, sizes = RECIPES[block.name], budget(settings)
    options = {**recipe.options, **recipe.own.get(column, {})}
    most = sizes.epochs[block.name]
    own = options.pop("epochs", most)
    epochs = min(own, most) if settings.quick else own
    stated = sizes.stated.get(column, Stated(sizes.train[block.name], epochs))
    return ColumnPlan(stated.images, stated.epochs, options)


def seeds_of(settings: Settings, block: Block, column: str) -> range:
    """The seeds that a column is trained with."""
    return range(min(RECIPES[block.name].seeds.get(column, 1), budget(settings).seeds))


def of_seed(column: str, seed: int) -> str:
    """The name of the files of a column; those of the first seed have no number."""
    return f"{slug(column)}-{seed}" if seed else slug(column)


def difference(settings: Settings, block: Block, in_dist: InData) -> str:
    """What differs from the paper's networks, in words."""
    recipe, images = RECIPES[block.name], len(in_dist.train[0])
    rounds = [one for one in recipe.start.values() if one not in recipe.columns]
    plans = {name: plan_of(settings, block, name) for name in (*recipe.columns, *rounds)}
    usual = plans[PLAIN].epochs
    there = TRAINING_IMAGES[block.name]
    of = f" of {there:,}" if images < there else ""
    words = f"{recipe.words}, {images:,}{of} training images, {usual} of 100 epochs"
    others = [
        f"{column}: {min(plan.images, images):,} images, {plan.epochs} epochs"
        + (f" from the network of {recipe.start[column]}" if column in recipe.start else "")
        for column, plan in plans.items()
        if plan.epochs != usual or plan.images < images or column in recipe.start
    ]
    return "; ".join([words, *others])


def timed_training(run: Callable[[], Model], folder: Path) -> Trained:
    """Train in a folder, and write down the seconds if nothing came between."""
    path, before = folder / "seconds.json", folder.exists() and any(folder.iterdir())
    start = time.monotonic()
    model = run()
    seconds = None if before else round(time.monotonic() - start, 1)
    return Trained(model, kept(path, {}, lambda: seconds))


@dataclass(frozen=True, eq=False)
class TableCell:
    """One predictor on one row: its numbers, and the score of each input."""

    table: Comparison
    scores: Floats  # less the log-odds of the most probable class: larger is further out


@dataclass(frozen=True, eq=False)
class Recorder:
    """A predictor that writes down the score of every input it is asked about."""

    model: Remembering
    scores: list[Tensor] = field(default_factory=list)

    def __call__(self, x: Tensor) -> Prediction:
        prediction = self.model(x)
        self.scores.append(measures["log_odds"](as_classification(prediction)))
        return prediction

    def answer(self, x: Tensor) -> Prediction:
        """With gradients, for attacks; not written down."""
        return self.model.answer(x)


def cell(
    settings: Settings,
    block: Block,
    column: str,
    network: Trained,
    in_dist: InData,
    row: str,
    probe: Probe | Stronger,
    seed: int = 0,
) -> TableCell:
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
        "holds": "scores",
        **options,
    }

    def make() -> dict[str, Any]:
        given = probe.make(network.model, in_dist) if isinstance(probe, Stronger) else probe
        none = isinstance(given, Tensor) and not len(given)
        rows, subject = {row: Absent(text) if none else given}, Recorder(network.remembering)
        table = compare(
            {column: subject}, in_dist.test, rows, task="confidence", progress=False, **options
        )
        if isinstance(probe, Stronger):  # as many inputs as each network gets wrong
            own = DataSet(name=row, kind="adversarial", description=text)
            sets = tuple(own if one.name == row else one for one in table.sets)
            table = replace(table, sets=sets)
        if none:
            count = Row(subject=column, data=row, metric="samples", value=0.0)
            table = replace(table, rows=(*table.rows, count))
        asked = torch.cat(subject.scores)[len(in_dist.test[0]) :]
        return {"table": table.to_json(), "scores": _written(asked)}

    found = kept(_path(settings, block, column, seed, row), key, make)
    return TableCell(
        Comparison.from_json(found["table"]), np.array(found["scores"], dtype=np.float64)
    )


@dataclass(frozen=True, eq=False)
class OnData:
    """One predictor on the test images of its own block."""

    scores: Floats
    wrong: NDArray[np.bool_]


def on_data(
    settings: Settings, block: Block, column: str, network: Trained, in_dist: InData, seed: int = 0
) -> OnData:
    """The score of each test image, and whether its label is wrong; kept."""
    x, y = in_dist.test
    key = {"weights": network.digest, "in_dist": digest(x, y)}

    def make() -> dict[str, Any]:
        recorder = Recorder(network.remembering)
        with torch.no_grad():
            answers = [as_classification(recorder(piece)) for piece in pieces(x)]
        labels = torch.cat([one.log_probs.argmax(-1) for one in answers])
        return {
            "scores": _written(torch.cat(recorder.scores)),
            "wrong": (labels != y).nonzero()[:, 0].tolist(),
        }

    found = kept(_path(settings, block, column, seed, block.name), key, make)
    wrong = np.zeros(len(x), dtype=bool)
    wrong[found["wrong"]] = True
    return OnData(np.array(found["scores"], dtype=np.float64), wrong)


def _path(settings: Settings, block: Block, column: str, seed: int, row: str) -> Path:
    folder = make_folder(folder_of(settings, block.part) / "cells")
    return folder / f"{of_seed(column, seed)}--{slug(row)}.json"


def _written(scores: Tensor) -> list[float]:
    """Seven digits: those of float32."""
    return [float(f"{score:.7g}") for score in scores.tolist()]
