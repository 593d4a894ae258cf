"""Leave-one-out retraining, all of it in one stack, beside what influence predicts of it."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nescio.applications.influence import at_minimum, fit
from nescio.core import generator
from nescio.losses import Loss
from nescio.models.model import Model
from nescio.training.train import train
from nescio_papers.kit import Settings, folder_of

PART = "influence"  # the folder of unfinished work
RESAMPLES = 2000  # of the points, for the interval of a correlation
Pair = tuple[Tensor, Tensor]


@dataclass(frozen=True, kw_only=True)
class Task:
    """What is trained, left out and asked: how a network is made, its data, loss and solver."""

    name: str  # of the files
    make: Callable[[], nn.Module]  # in float64
    train: Pair
    test: Pair  # the first that the network gets wrong is asked about
    loss: Loss
    iterations: int  # of L-BFGS, at most
    solve: Mapping[str, Any]  # options of `applications.influence.fit`
    optimizer: str = "lbfgs,memory=30"  # ends at a gradient norm of 1e-8


@dataclass(frozen=True, eq=False, kw_only=True)
class Check:
    """Predicted and actual changes of a test loss when single training samples are left out."""

    predicted: Tensor  # (R,)
    actual: Tensor  # (R,)
    removed: Tensor  # (R,) which training samples; the first half by the largest prediction
    tested: int  # the index of the test sample
    gradient_norm: float  # of the network that was trained on all samples
    retrained_norm: float  # the largest of those trained without one
    parameters: int
    accuracy: float  # of the test samples

    @property
    def halves(self) -> dict[str, slice]:
        """The removed samples: all, those chosen by the prediction, those drawn."""
        half = len(self.removed) // 2
        return {"all": slice(None), "largest": slice(half), "random": slice(half, None)}

    def numbers(self, seed: int) -> dict[str, Any]:
        """Correlations with intervals, and how good the optima are."""
        found = {
            name: correlation(self.predicted[part], self.actual[part], seed)
            for name, part in self.halves.items()
        }
        slope = self.predicted @ self.actual / self.predicted.square().sum()
        return {
            "correlation": found,
            "actual_over_predicted": float(slope),
            "gradient_norm": self.gradient_norm,
            "gradient_norm_retrained": self.retrained_norm,
            "parameters": self.parameters,
            "test_accuracy": self.accuracy,
            "test_index": self.tested,
            "removed": self.removed.tolist(),
            "predicted": self.predicted.tolist(),
            "actual": self.actual.tolist(),
        }


def checked(settings: Settings, task: Task, count: int) -> Check:
    """Train, predict by influence, and retrain without each of `count` samples in one stack."""
    full = trained(settings, task)
    x, y = task.test
    answers = full.outputs(x)[0]
    index = first_wrong(answers, y)
    point = x[index : index + 1], y[index : index + 1]
    predicted = at_minimum(fit(full, task.train, **task.solve), point).values[0]
    removed = chosen(predicted, count, settings.seed)
    again = without(settings, task, full, removed)
    before, after = (_losses(task.loss, model, point) for model in (full, again))
    return Check(
        predicted=predicted[removed],
        actual=after - before,
        removed=removed,
        tested=index,
        gradient_norm=last_norm(full),
        retrained_norm=last_norm(again),
        parameters=sum(weight.numel() for weight in full.net.parameters()),
        accuracy=float((answers.argmax(-1) == y).double().mean()),
    )


def first_wrong(logits: Tensor, labels: Tensor) -> int:
    """The first sample that is misclassified; where none is, that of the least probability."""
    wrong = (logits.argmax(-1) != labels).nonzero()
    own = logits.log_softmax(-1).gather(1, labels[:, None])
    return int(wrong[0, 0]) if len(wrong) else int(own.argmin())


def trained(settings: Settings, task: Task) -> Model:
    """The network of all training samples, at a minimum."""
    return _minimum(settings, task, f"{task.name}--full", task.make)


def without(settings: Settings, task: Task, full: Model, removed: Tensor) -> Model:
    """A member without each of the samples; all start at the minimum of all samples."""
    every = torch.arange(len(task.train[0]))
    rows = torch.stack([every[every != index] for index in removed])
    options: dict[str, Any] = {"members": len(removed), "rows": rows}
    return _minimum(settings, task, f"{task.name}--without", _copies(full), **options)


def _copies(full: Model) -> Callable[[], nn.Module]:
    net = full.member(0)
    return lambda: deepcopy(net)


def _minimum(
    settings: Settings,
    task: Task,
    name: str,
    make: Callable[[], nn.Module],
    **options: Any,
) -> Model:
    return train(
        make,
        task.train,
        loss=task.loss,
        optimizer=task.optimizer,
        batch_size=None,
        epochs=task.iterations,
        seed=settings.seed,
        run=folder_of(settings, PART) / name,
        checkpoint_seconds=60,
        progress=False,
        **options,
    )


def chosen(predicted: Tensor, count: int, seed: int) -> Tensor:
    """Half the samples by the largest absolute prediction, half drawn from the others."""
    order = predicted.abs().argsort(descending=True, stable=True)
    half = count // 2
    others = order[half:]
    draw = torch.randperm(len(others), generator=generator(seed, "removed"))
    return torch.cat([order[:half], others[draw[: count - half]]])


def _losses(loss: Loss, model: Model, point: Pair) -> Tensor:
    """The loss of one sample, by member."""
    outputs = model.outputs(point[0])  # (M, 1, C)
    labels = point[1].expand(len(outputs), 1)
    return loss.score(outputs, labels)[:, 0].detach()


def last_norm(model: Model) -> float:
    """The largest gradient norm at the end of the training, over members."""
    history = model.history
    assert history is not None
    assert history.gradient is not None
    ends = [history.gradient[end - 1, i] for i, end in enumerate(history.stopped)]
    return float(torch.stack(ends).max())


def correlation(first: Tensor, second: Tensor, seed: int) -> dict[str, float]:
    """Pearson's R with its 95 % interval, by resampling the points."""
    draw = torch.randint(
        len(first), (RESAMPLES, len(first)), generator=generator(seed, "correlation")
    )
    value = float(_pearson(first[None], second[None])[0])
    drawn = _pearson(first[draw], second[draw])
    low, high = drawn.nanquantile(torch.tensor([0.025, 0.975]).to(drawn)).tolist()
    return {"value": value, "low": low, "high": high}


def correlation_words(value: Mapping[str, float | None]) -> str:
    """A correlation with its interval; a dash where all changes are the same."""
    if value["value"] is None:
        return "–"
    return f"{value['value']:.4f} ({value['low']:.4f} to {value['high']:.4f})"


def _pearson(first: Tensor, second: Tensor) -> Tensor:
    """Along the last axis."""
    a, b = (x - x.mean(-1, keepdim=True) for x in (first, second))
    return (a * b).sum(-1) / (a.square().sum(-1) * b.square().sum(-1)).sqrt()
