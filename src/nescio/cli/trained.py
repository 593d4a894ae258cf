"""A finished run of `nescio train`, and how its predictor does on the test part."""

from dataclasses import dataclass

import torch

from nescio.core import Regression
from nescio.data import Dataset
from nescio.evaluation.answers import maps_quality, quality, see
from nescio.metrics import mixture_nll, rmse
from nescio.models import Predictor


@dataclass(frozen=True, eq=False)
class Done:
    """A finished run."""

    dataset: Dataset
    predictor: Predictor
    epochs: tuple[int, ...]  # trained, by member


def report(done: Done) -> str:
    """A few lines on how the predictor does on the test part."""
    part, name = (done.dataset.test, "test") if done.dataset.test else (done.dataset.train, "train")
    assert part is not None
    if done.dataset.task == "classification" and part[1].ndim > 1:
        members, numbers = maps_quality(done.predictor, part, done.dataset.ignore_index)
    elif done.dataset.task == "classification":
        predictions = see(done.predictor, part[0])
        members, numbers = predictions.members, quality(predictions, part[1])
    else:
        prediction, target = done.predictor(part[0]).to(torch.float64), part[1].double()
        assert isinstance(prediction, Regression)
        members, mean = prediction.members, prediction.mixture_mean
        numbers = {"nll": mixture_nll(prediction, target), "rmse": rmse(mean, target)}
        if target.shape[1] > 1:
            columns = zip(mean.T, target.T, strict=True)
            numbers |= {f"rmse, target {i}": rmse(*pair) for i, pair in enumerate(columns)}
    lines = [f"{key:>22}  {value:.4f}" for key, value in numbers.items()]
    least, most = min(done.epochs, default=0), max(done.epochs, default=0)
    trained = str(least) if least == most else f"{least} to {most}"
    epochs = f"{members} member(s), epochs trained: {trained}"
    about = f"{done.dataset.name}: {_about(done.dataset)}; {len(part[0])} {name} samples; {epochs}"
    return "\n".join([about, *lines])


def _about(dataset: Dataset) -> str:
    """What the targets were taken for, and which classes never occur."""
    y = dataset.train[1]
    if dataset.classes is None:
        return f"regression, {y.shape[1]} target(s)"
    absent = sorted(set(range(dataset.classes)) - set(y.unique().tolist()))
    maps = f", label maps {tuple(y.shape[1:])}" if y.ndim > 1 else ""
    shown = str(absent[:5])[1:-1] + f" and {len(absent) - 5} others" * (len(absent) > 5)
    never = f", of which {shown} never occur in training" if absent else ""
    return f"{dataset.classes} classes{never}{maps}"
