"""Networks and comparisons of a run, each kept in its own folder."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from nescio import losses, nets
from nescio.core import NescioError, digest
from nescio.evaluation import Comparison
from nescio.evaluation.compare.ood_inputs import Probe, describe
from nescio.losses import Loss
from nescio.models.model import Model
from nescio.training.train import train
from nescio_papers.kit import InData, Settings, folder_of, photographs, spread
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


def residual(
    settings: Settings,
    part: str,
    name: str,
    in_dist: InData,
    *,
    loss: Loss | None = None,
    start: Model | None = None,
    epochs: int | None = None,
) -> Model:
    """ResNet-20 for photographs, trained once and kept.

    loss: what it learns beside weight decay; None: cross-entropy.
    start: a trained one to start from, at a smaller rate and with crops without black edges.
    epochs: passes through the images; None: those of a network that starts anew.
    """

    def make(data: InData) -> nn.Module:
        return photographs.residual_network(data.shape, data.classes)

    sizes = budget(settings)
    tuned = {} if start is None else {"start": start, **photographs.TUNED}
    return trained(
        settings,
        part,
        f"{name}-resnet-20",
        replace(in_dist, train=spread(in_dist.train, sizes.residual_images)),
        epochs=epochs or sizes.residual_epochs,
        loss=photographs.decayed(loss or losses.nll()),
        make=make,
        **{**photographs.OPTIONS, **tuned},
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
