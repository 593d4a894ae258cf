"""What a network learns from few labels: the methods, and one training of each on all draws."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from nescio import losses
from nescio.core import kept, registry
from nescio.data.dataset import Part
from nescio.losses import Loss
from nescio.models.model import Model
from nescio.training.train import train
from nescio_papers.kit import Sample, Settings, folder_of, sample, slug

PART = "little-labels"
SUPERVISED, PI, TEMPORAL, TEACHER, TRANSFORMATION, VIRTUAL = (
    "supervised",
    "pi_model",
    "temporal_ensembling",
    "mean_teacher",
    "transformation_consistency",
    "virtual_adversarial",
)


@dataclass(frozen=True, kw_only=True)
class Method:
    """A loss by name, None for labels alone, with its options and those of its training."""

    loss: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    costs: int = 1  # of many passes: so many times fewer unlabeled inputs in an update
    length: float = 1.0  # of the training, as a share of the others'

    def make(self) -> Loss:
        """The loss, on top of the negative log-likelihood of the labels."""
        base = losses.nll()
        return base if self.loss is None else registry.losses[self.loss](base, **self.options)


@dataclass(frozen=True, kw_only=True)
class Task:
    """Draws of labeled samples, inputs without labels, and how every method trains on them."""

    name: str
    net: Callable[[], nn.Module]
    labeled: Part  # draw after draw
    draws: int
    unlabeled: Tensor
    test: Part
    unlabeled_size: int  # of an update
    epochs: int
    training: Mapping[str, Any]  # options of all methods


@dataclass(frozen=True, eq=False, kw_only=True)
class Outcome:
    """The networks of a method, one per draw, and what they cost and get wrong."""

    model: Model
    errors: Sample  # shares of the test samples
    updates: int
    cpu_seconds: float | None  # None: the training was resumed

    def numbers(self) -> dict[str, Any]:
        """As plain numbers, for JSON."""
        own = {"updates": self.updates, "cpu_seconds": self.cpu_seconds}
        return {"error": self.errors.numbers(), **own}


def outcome(settings: Settings, task: Task, name: str, method: Method) -> Outcome:
    """One network per draw, all in one stack, and its errors; a stopped training goes on."""
    folder = folder_of(settings, PART) / f"{task.name}-{slug(name)}"
    whole, start = not folder.exists(), time.process_time()
    count, epochs = task.unlabeled_size // method.costs, round(method.length * task.epochs)
    others = {"unlabeled": task.unlabeled, "unlabeled_size": count} if method.loss else {}
    model = train(
        task.net,
        task.labeled,
        loss=method.make(),
        members=task.draws,
        rows=torch.arange(len(task.labeled[0])).view(task.draws, -1),
        seed=settings.seed,
        run=folder,
        progress=False,
        **{**others, **task.training, **method.training},
        epochs=epochs,
    )
    seconds = round(time.process_time() - start, 1) if whole else None
    batch = task.training["batch_size"]
    each = len(task.labeled[0]) // task.draws
    return Outcome(
        model=model,
        errors=_errors(model, *task.test),
        updates=epochs * (1 if batch is None else -(-each // batch)),
        cpu_seconds=kept(folder / "cpu-seconds.json", {}, lambda: seconds),
    )


def _errors(model: Model, x: Tensor, y: Tensor) -> Sample:
    prediction: Any = model(x)
    each = range(prediction.members)
    return sample(float((prediction.choose([i]).labels != y).double().mean()) for i in each)


def stratified(groups: Tensor, count: int, source: torch.Generator) -> Tensor:
    """`count` random samples of every group, group after group, as indices."""
    order = torch.randperm(len(groups), generator=source)
    return torch.cat([order[groups[order] == one][:count] for one in groups.unique()])
