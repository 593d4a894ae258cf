"""The data and the trained networks: digits that ship with the library, and MNIST where it is."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from nescio import nets
from nescio.core import NescioError, as_batch
from nescio.data import Dataset, digits, mnist, uniform_noise
from nescio.data.sets.catalogue import data_folder
from nescio.models.model import Model
from nescio.training.train import train
from nescio_papers.kit import Settings

CONV, MLP, NARROW = "convolutions", "mlp", "mlp, 6 units a layer"
DIGITS, MNIST = "digits", "MNIST"


@dataclass(frozen=True, eq=False)
class World:
    """A data set and the networks trained on it; member i of a model is the training of seed i."""

    name: str
    data: Dataset
    models: Mapping[str, Model]  # float32, as trained

    @property
    def test(self) -> tuple[Tensor, Tensor]:
        """Images and labels that nothing was trained on."""
        assert self.data.test is not None
        return self.data.test

    def noise(self, count: int, seed: int) -> Tensor:
        """Uniform noise images in [0, 1]^d."""
        return uniform_noise(count, self.data.features, seed=seed)


def members(model: Model, which: Sequence[int]) -> Model:
    """Some of the networks of a model."""
    tensors = {name: tensor[list(which)] for name, tensor in model.tensors.items()}
    return Model(model.net, tensors, model.head)


def accuracies(model: Model, test: tuple[Tensor, Tensor]) -> list[float]:
    """Of each member by itself."""
    x, y = test
    labels = model.outputs(x).argmax(-1)
    return [(row == y).double().mean().item() for row in labels]


def has_mnist() -> bool:
    """Whether the files of MNIST are at hand."""
    try:
        data_folder("mnist")
    except NescioError:
        return False
    return True


def worlds(settings: Settings) -> tuple[World, ...]:
    """The worlds at hand, trained once for all parts."""
    both = (digit_world(settings), mnist_world(settings)) if has_mnist() else None
    return both or (digit_world(settings),)


@cache
def digit_world(settings: Settings) -> World:
    """The 8 x 8 digits: the small convolutional network, an MLP and one that is too narrow."""
    data = digits(seed=settings.seed)
    seeds = 2 if settings.quick else 5
    few = 8 if settings.quick else 30
    models = {
        CONV: _fit(lambda: nets.digit_cnn(), data, seeds, settings, epochs=few),
        MLP: _fit(lambda: nets.mlp(data.features, 10), data, seeds, settings, epochs=40),
        NARROW: _fit(
            lambda: nets.mlp(data.features, 10, widths=(6, 6, 6)),
            data,
            5,  # small, and no two are alike
            settings,
            epochs=200,
            learning_rate=1e-2,
        ),
    }
    return World(DIGITS, data, models)


@cache
def mnist_world(settings: Settings) -> World:
    """MNIST: strided convolutions, and an MLP."""
    data = _floats(mnist(validation=0), 5000 if settings.quick else None)
    seeds, epochs = (1, 1) if settings.quick else (3, 4)
    made: dict[str, Callable[[], nn.Module]] = {
        CONV: strided,
        MLP: lambda: nets.mlp(data.features, 10, widths=(200, 200)),
    }
    models = {
        name: _fit(make, data, seeds, settings, epochs=epochs, batch_size=128)
        for name, make in made.items()
    }
    return World(MNIST, data, models)


def _floats(data: Dataset, samples: int | None) -> Dataset:
    """The data set with images as floats, which the geometry reads, of some training samples."""
    x, y = data.train
    assert data.test is not None
    train = (as_batch(x[:samples]), y[:samples])
    return Dataset(
        name=data.name,
        train=train,
        validation=None,
        test=(as_batch(data.test[0]), data.test[1]),
        classes=data.classes,
    )


def strided() -> nn.Module:
    """Two 3x3 convolutions of stride 2 and two linear layers, for 28 x 28 pixels."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * 49, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )


def _fit(
    make: Callable[[], nn.Module], data: Dataset, seeds: int, settings: Settings, **how: Any
) -> Model:
    chosen = {"learning_rate": 2e-3, "schedule": "cosine", "progress": False, **how}
    where = settings.engine
    return train(make, data.train, members=seeds, seed=settings.seed, engine=where, **chosen)


def wide(model: Model) -> Model:
    """The model in float64."""
    return model.to(torch.float64)
