"""Networks and comparisons of a run, each kept in its own folder."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import nn

from nescio import nets
from nescio.core import NescioError, digest
from nescio.evaluation import Comparison
from nescio.evaluation.compare.ood_inputs import Probe, describe
from nescio.losses import Loss
from nescio.models.model import Model
from nescio.training.train import train
from nescio_papers.kit import InData, Settings, folder_of
from nescio_papers.robust_deep_learning.sets import budget

RATE = 2e-3
DROPOUT = 0.5


def trained(
    settings: Settings,
    part: str,
    name: str,
    in_dist: InData,
    *,
    epochs: int,
    members: int = 1,
    dropout: float = 0.0,
    rate: float = RATE,
    loss: Loss | None = None,
    make: Callable[[InData], nn.Module] | None = None,
    **options: Any,
) -> Model:
    """Small convolutional networks on a block, or those of `make`, trained once and kept.

    options: other options of `nescio.train`.
    """

    def small(in_dist: InData) -> nn.Module:
        return nets.small_cnn(in_dist.shape, in_dist.classes, dropout=dropout)

    return train(
        lambda: (make or small)(in_dist),
        in_dist.train,
        loss=loss,
        members=members,
        epochs=epochs,
        batch_size=budget(settings).batch,
        seed=settings.seed,
        run=folder_of(settings, part) / name,
        checkpoint_seconds=60,
        progress=False,
        **{"learning_rate": rate, "schedule": "cosine", **options},
    )


def compared(
    folder: Path, model: Model, key: Any, rows: Mapping[str, Probe], make: Callable[[], Comparison]
) -> Comparison:
    """A comparison that was kept for the same weights, key and OOD sets, or a new one, kept.

    rows: the OOD sets, as `compare` takes them: one may have come since.
    """
    sets = [f"{name}: {describe(row)}" for name, row in rows.items()]
    mark = [weights_digest(model), str(key), *sets]
    try:
        outcome = Comparison.load(folder)
        if outcome.about.key == mark:
            return outcome
    except NescioError:
        pass  # there is none, or it is of another version
    made = make().with_about(key=mark)
    made.save(folder, pictures=False)
    return made


def weights_digest(model: Model) -> str:
    """A fingerprint of the weights."""
    return digest(*(tensor for _, tensor in sorted(model.tensors.items())))


def accuracy(model: Model, in_dist: InData) -> float:
    """The share of test images that the networks together get right."""
    x, y = in_dist.test
    prediction: Any = model(x)
    return float((prediction.labels == y).double().mean())


def one_of(model: Model, index: int) -> Model:
    """One of the networks by itself, as a model."""
    tensors = {name: tensor[index : index + 1] for name, tensor in model.tensors.items()}
    return Model(model.net, tensors, model.head)
