"""Dogs and frogs of CIFAR-10, and a frozen network that was trained on the other eight classes."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from nescio.core import as_batch
from nescio.data.augmentation import mirrors
from nescio.evaluation.compare import Absent
from nescio.training.train import train
from nescio_papers.kit import InData, Settings, all_images, folder_of, full_and_quick, size
from nescio_papers.robust_deep_learning.poisoning_head import Head, fitted

PART = "poisoning"  # the folder of unfinished work
DOG, FROG = 5, 6  # of CIFAR-10; dogs have the sign 1
NAMES = {1: "dog", -1: "frog"}
LAYERS = ((32, 2), (64, 1), (64, 2), (128, 1), (128, 2))  # channels and strides of convolutions
DECAY = 1e-5
BATCH = 250  # images at a time


@dataclass(frozen=True)
class Budget:
    """The sizes of a run."""

    others: int = size(50_000, quick=800)  # images of all classes that the network learns from
    epochs: int = size(8, quick=1)
    per_class: int = size(200, quick=20)  # training images of the head
    test: int = size(10_000, quick=200)  # images of all classes
    named: int = size(40, quick=4)  # test images, each attacked by a separate image
    together: int = size(30, quick=5)  # test images attacked by one image
    candidates: int = size(2, quick=1)  # training images that are tried for one test image
    many: int = size(10, quick=2)  # training images that are tried for test images together
    steps: int = size(16, quick=3)
    radii: tuple[int, ...] = size((2, 4, 8, 16, 32), quick=(8, 32))  # of 255
    reference: int = size(1000, quick=40)  # images that the guard is fitted and calibrated on


FULL, QUICK = full_and_quick(Budget)


def budget(settings: Settings) -> Budget:
    """The sizes of this run."""
    return QUICK if settings.quick else FULL


@dataclass(frozen=True, eq=False, kw_only=True)
class Images:
    """Images `(N, 3, 32, 32)` of dogs and frogs, as bytes, and their signs."""

    x: Tensor
    signs: Tensor  # (N,) in float64

    def __getitem__(self, chosen: Tensor | slice) -> "Images":
        return Images(x=self.x[chosen], signs=self.signs[chosen])

    def __len__(self) -> int:
        return len(self.x)


@dataclass(frozen=True, eq=False, kw_only=True)
class Task:
    """A head on the features of a frozen network, the images it learned from, and others."""

    body: nn.Module
    scale: float  # of features: their root mean square length on the training images
    train: Images
    test: Images
    spare: Images  # neither
    head: Head

    def features(self, x: Tensor) -> Tensor:
        """Of images in levels of 0 to 255, in float64 with the constant of the bias, `(N, d)`."""
        return _with_constant(self.body(x.float() / 255).double() / self.scale)

    def slopes(self, x: Tensor, by_feature: Tensor) -> Tensor:
        """The gradient by the pixels, in shares of 255, of sums with `(N, d)`."""
        images = (x.float() / 255).requires_grad_()
        with torch.enable_grad():
            found = self.body(images) * (by_feature[:, :-1] / self.scale).float()
        return torch.autograd.grad(found.sum(), images)[0]

    def tested(self) -> Tensor:
        """The features of the test images."""
        return torch.cat([self.features(part) for part in self.test.x.split(BATCH)])


def made(settings: Settings) -> Task | Absent:
    """The network, trained once and kept, and its head; or what is missing."""
    sizes = budget(settings)
    images = all_images("cifar10", train=sizes.others, test=sizes.test)
    if isinstance(images, Absent):
        return images
    body = _body(settings, images)
    every, test = (_pair(*part) for part in (images.train, images.test))
    train, spare = _parts(every, sizes.per_class)
    raw = torch.cat([body(as_batch(part)) for part in train.x.split(BATCH)]).double()
    scale = float(raw.square().sum(1).mean().sqrt())
    head = fitted(_with_constant(raw / scale), train.signs, DECAY)
    return Task(body=body, scale=scale, train=train, test=test, spare=spare, head=head)


def _body(settings: Settings, images: InData) -> nn.Module:
    """The convolutions of a network that was trained without dogs and frogs, in evaluation mode."""
    x, y = images.train
    apart = (y != DOG) & (y != FROG)
    labels = y[apart] - 2 * (y[apart] > FROG).long()  # 0 to 7: those after the two move down
    model = train(
        _network,
        (x[apart], labels),
        epochs=budget(settings).epochs,
        learning_rate=1e-3,
        schedule="cosine",
        augment=mirrors(),
        seed=settings.seed,
        run=folder_of(settings, PART) / "network",
        checkpoint_seconds=60,
        progress=False,
    )
    net = model.member(0)
    return nn.Sequential(*list(net)[:-1]).requires_grad_(False)  # type: ignore[call-overload]


def _network() -> nn.Module:
    layers: list[nn.Module] = []
    before = 3
    for channels, stride in LAYERS:
        layers += [nn.Conv2d(before, channels, 3, stride=stride, padding=1), nn.ReLU()]
        before = channels
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(before * 4 * 4, 8))


def _pair(x: Tensor, y: Tensor) -> Images:
    """The dogs and frogs among images."""
    both = (y == DOG) | (y == FROG)
    return Images(x=x[both], signs=torch.where(y[both] == DOG, 1.0, -1.0).double())


def _parts(every: Images, per_class: int) -> tuple[Images, Images]:
    """The first images of both classes, and the others."""
    first = torch.zeros(len(every), dtype=torch.bool)
    for sign in NAMES:
        first[(every.signs == sign).nonzero()[:per_class, 0]] = True
    return every[first], every[~first]


def _with_constant(features: Tensor) -> Tensor:
    return torch.cat([features, torch.ones_like(features[:, :1])], 1)
