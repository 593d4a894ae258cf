"""The networks of part `stability`: trained on the same digits, one behind a scattering."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from nescio import nets
from nescio.core import as_batch
from nescio.training.train import train
from nescio_papers.kit import InData, Settings, folder_of, full_and_quick, size

PART = "stability"
Labeled = tuple[Tensor, Tensor]
PLAIN, FIXED = "small_cnn", "scattering"


@dataclass(frozen=True)
class Sizes:
    """The sizes of a run."""

    train: int = size(10_000, quick=300)
    test: int = size(1_000, quick=30)
    epochs: int = size(12, quick=2)
    toy_epochs: int = size(200, quick=10)
    points: int = size(300, quick=6)  # digits with local constants
    segments: int = size(4, quick=2)
    draws: int = size(600, quick=20)  # pairs of the sampled bound
    deformed: int = size(250, quick=8)  # digits that are deformed


FULL, QUICK = full_and_quick(Sizes)


def sizes_of(settings: Settings) -> Sizes:
    """The sizes of a run."""
    return QUICK if settings.quick else FULL


def digit_networks(settings: Settings, sizes: Sizes, images: InData) -> dict[str, nn.Module]:
    """Three networks of class logits by name."""
    shape, classes = images.shape, images.classes
    return {
        "mlp": _trained(settings, sizes, "mlp", lambda: nets.mlp(shape, classes), images.train),
        PLAIN: _trained(
            settings, sizes, PLAIN, lambda: nets.small_cnn(shape, classes), images.train
        ),
        FIXED: _scattering(settings, sizes, images),
    }


def _scattering(settings: Settings, sizes: Sizes, images: InData) -> nn.Module:
    """The fixed front end runs once on the training images; the layer behind it is trained."""

    def whole() -> nn.Sequential:
        made = nets.scattering(images.shape, images.classes)
        assert isinstance(made, nn.Sequential)
        return made

    front = whole()[0]
    features = _features(front, images.train[0])
    labeled = (features, images.train[1])
    trained = _trained(settings, sizes, FIXED, lambda: whole()[1:], labeled)
    return nn.Sequential(front, *trained.children()).eval()


@torch.no_grad()
def _features(front: nn.Module, x: Tensor) -> Tensor:
    return torch.cat([front(as_batch(part)) for part in x.split(64)])


def _trained(
    settings: Settings, sizes: Sizes, name: str, make: Callable[[], nn.Module], data: Labeled
) -> nn.Module:
    model = train(
        make,
        data,
        epochs=sizes.epochs,
        learning_rate=1e-3,
        schedule="cosine",
        seed=settings.seed,
        run=folder_of(settings, PART) / name,
        checkpoint_seconds=60,
        progress=False,
    )
    return model.member(0).eval()
