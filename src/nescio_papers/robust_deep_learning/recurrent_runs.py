"""Recurrent networks with three kinds of dropout: how they are trained, and what they get wrong.

All seeds of a kind train in one stack, each on another draw of the training data; the rest of them
says when to stop, and which share to drop.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from nescio import nets
from nescio.core import generator, predictive_entropy
from nescio.data import Dataset
from nescio.data.dataset import Part
from nescio.metrics import accuracy, auroc, nll
from nescio.models import Model, mc_dropout
from nescio.training.train import train
from nescio_papers.kit import Sample, Settings, folder_of, full_and_quick, sample, size, slug

PART = "recurrent"
VARIATIONAL, NAIVE, NONE = "variational", "naive", "none"
KINDS = (VARIATIONAL, NAIVE, NONE)
SHARES = (0.25, 0.5)  # dropped, to choose from
WIDTH, DEPTH = 32, 2
VALIDATION = 0.3  # of the training data, to choose by
LEARNING_RATE, CLIP = 0.01, 1.0
TOGETHER = 6  # steps of GunPoint that are averaged: 150 become 25


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The sizes of a run."""

    seeds: int = size(10, quick=2)
    passes: int = size(20, quick=2)
    longer: float = size(1.0, quick=0.03)  # of the epochs below
    samples: int | None = size(None, quick=40)  # of each part


FULL, QUICK = full_and_quick(Budget)


@dataclass(frozen=True, kw_only=True)
class SequenceTask:
    """A data set, and how all kinds train on it."""

    name: str
    train: Part
    test: Part
    classes: int
    epochs: int  # at most
    patience: int
    batch_size: int

    @property
    def drops_inputs(self) -> bool:
        """Whether inputs are dropped: a single channel under one mask is a whole sequence."""
        return self.train[0].shape[1] > 2

    def net(self, kind: str, share: float) -> Any:
        """A factory of networks."""
        return partial(
            nets.gru,
            tuple(self.train[0].shape[1:]),
            self.classes,
            width=WIDTH,
            depth=DEPTH,
            dropout=share,
            dropout_kind=VARIATIONAL if kind == NONE else kind,
            input_dropout=None if self.drops_inputs else 0.0,
        )


SETS: Mapping[str, Mapping[str, Any]] = {
    "italy_power_demand": {"epochs": 80, "patience": 20, "batch_size": 20},
    "gun_point": {"epochs": 160, "patience": 80, "batch_size": 10},
    "japanese_vowels": {"epochs": 100, "patience": 20, "batch_size": 50},
}


def task_of(settings: Settings, name: str, dataset: Dataset) -> SequenceTask:
    """A data set as all kinds see it."""
    sizes = QUICK if settings.quick else FULL
    assert dataset.test is not None
    assert dataset.classes is not None
    parts = [
        (averaged(x) if name == "gun_point" else x, y) for x, y in (dataset.train, dataset.test)
    ]
    own: dict[str, Any] = dict(SETS[name])
    own["epochs"] = max(2, round(sizes.longer * own["epochs"]))
    few = [(x[: sizes.samples], y[: sizes.samples]) for x, y in parts]
    return SequenceTask(name=name, train=few[0], test=few[1], classes=dataset.classes, **own)


def averaged(x: Tensor) -> Tensor:
    """Sequences with the mean of every six steps, marks too."""
    found: Tensor = x.unflatten(2, (-1, TOGETHER)).mean(-1)
    return found


@dataclass(frozen=True, eq=False, kw_only=True)
class KindOutcome:
    """What the networks of one kind of dropout do on the test data, by seed."""

    model: Model
    share: float  # dropped
    epochs: Sample  # after which each network was best
    validation: float  # mean NLL on the validation samples, of the best epochs
    errors: Sample
    nll: Sample  # of the mean over passes
    off: Sample  # NLL with dropout off
    fitted: Sample  # the same on the training samples
    failure_auroc: Sample  # by the entropy of the mean

    def numbers(self) -> dict[str, Any]:
        """As plain numbers, for JSON."""
        chosen = {"share": self.share, "validation_nll": self.validation}
        names = ("epochs", "errors", "nll", "off", "fitted", "failure_auroc")
        keys = ("epochs", "error", "nll", "nll_dropout_off", "training_nll", "failure_auroc")
        found = {key: getattr(self, n).numbers() for n, key in zip(names, keys, strict=True)}
        return {**chosen, **found}


def outcome_of(settings: Settings, task: SequenceTask, kind: str) -> KindOutcome:
    """Networks with the share of dropout that is best on the validation samples, tested."""
    shares = (0.0,) if kind == NONE else SHARES
    trained = {share: fitted(settings, task, kind, share) for share in shares}
    share = min(shares, key=lambda one: validation(trained[one]))
    model, sizes = trained[share], QUICK if settings.quick else FULL
    y = task.test[1]
    plain: Any = model(task.test[0])
    passes, given = 1, plain
    if share:
        passes = sizes.passes
        given = mc_dropout(model, passes=passes, seed=settings.seed)(task.test[0])
    own = [given.choose(range(seed * passes, (seed + 1) * passes)) for seed in range(sizes.seeds)]
    assert model.history is not None
    return KindOutcome(
        model=model,
        share=share,
        epochs=sample(model.history.best),
        validation=validation(model),
        errors=sample(1 - accuracy(one.probs, y) for one in own),
        nll=sample(nll(one.probs, y) for one in own),
        off=sample(nll(plain.choose([seed]).probs, y) for seed in range(sizes.seeds)),
        fitted=sample(_training_nll(settings, task, model)),
        failure_auroc=sample(ranked(one, y) for one in own),
    )


def _training_nll(settings: Settings, task: SequenceTask, model: Model) -> list[float]:
    """The NLL of each seed's network on the samples that it was trained on, dropout off."""
    x, y = task.train
    answers: Any = model(x)
    rows = _orders(settings, task)[0]
    return [nll(answers.choose([seed]).probs[own], y[own]) for seed, own in enumerate(rows)]


def validation(model: Model) -> float:
    """The mean NLL of the best epochs of all members on their validation samples, dropout off."""
    assert model.history is not None
    assert model.history.validation is not None
    return float(model.history.validation.double().nan_to_num(torch.inf).amin(0).mean())


def ranked(prediction: Any, y: Tensor) -> float:
    """How well the entropy tells wrong answers from right ones; 0.5 where all are the same."""
    wrong = prediction.labels != y
    entropy = predictive_entropy(prediction)
    return auroc(entropy[~wrong], entropy[wrong]) if 0 < wrong.sum() < len(y) else 0.5


def fitted(settings: Settings, task: SequenceTask, kind: str, share: float) -> Model:
    """The networks of all seeds in one stack; a stopped training goes on."""
    sizes = QUICK if settings.quick else FULL
    rows, kept_apart = _orders(settings, task)
    return train(
        task.net(kind, share),
        task.train,
        members=sizes.seeds,
        rows=rows,
        validation_rows=kept_apart,
        epochs=task.epochs,
        patience=task.patience,
        batch_size=task.batch_size,
        learning_rate=LEARNING_RATE,
        clip=CLIP,
        standardize=True,
        seed=settings.seed,
        run=folder_of(settings, PART) / slug(f"{task.name} {kind} {share}"),
        progress=False,
    )


def _orders(settings: Settings, task: SequenceTask) -> tuple[Tensor, Tensor]:
    """The samples that each seed trains on, and those that it is chosen by."""
    sizes, count = QUICK if settings.quick else FULL, len(task.train[0])
    fewer = max(1, round(VALIDATION * count))
    orders = torch.stack(
        [
            torch.randperm(count, generator=generator(settings.seed, task.name, seed))
            for seed in range(sizes.seeds)
        ]
    )
    return orders[:, fewer:], orders[:, :fewer]
