"""The U-Net of part `segmentation`: its data, its training, and what it says of the test frames."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

import nescio
from nescio import heads, losses, models, nets
from nescio.core import kept
from nescio.data import CAMVID_CLASSES
from nescio.data.augmentation import affine, colors, mirrors
from nescio.models import Model, UncertaintyMaps
from nescio_papers.kit import InData, Settings, folder_of, full_and_quick, size

IGNORED = len(CAMVID_CLASSES)
TURNED = 4  # every so many frames
RARE = 0.02  # classes with a smaller share of the labeled training pixels


@dataclass(frozen=True)
class Budget:
    """The sizes of a run."""

    train: int | None = size(None, quick=16)  # frames; None: all
    test: int | None = size(None, quick=4)
    epochs: int = size(40, quick=8)
    width: int = size(32, quick=4)
    passes: int = size(50, quick=3)
    resamples: int = size(100, quick=100)


FULL, QUICK = full_and_quick(Budget)


def budget(settings: Settings) -> Budget:
    """The sizes of this run."""
    return QUICK if settings.quick else FULL


@dataclass(frozen=True, eq=False, kw_only=True)
class Trained:
    """The network, and how long it took."""

    model: Model
    cpu_seconds: float | None  # None: the training was resumed

    @property
    def weights(self) -> int:
        """The number of trained weights."""
        net = self.model.networks()[0].net
        return sum(p.numel() for p in net.parameters())


def trained(settings: Settings, images: InData) -> Trained:
    """The U-Net with noisy logits, from its folder where it was trained before."""
    sizes, folder = budget(settings), folder_of(settings, "segmentation") / "unet"
    weights = losses.balanced_weights(images.train[1], IGNORED, ignore_index=IGNORED)
    whole, start = not folder.exists(), time.process_time()
    model = nescio.train(
        lambda: nets.unet(images.shape, 2 * images.classes, width=sizes.width, dropout=0.5, stem=2),
        images.train,
        loss=losses.class_weighted(losses.nll(heads.gaussian_logits()), weights),
        ignore_index=IGNORED,
        epochs=sizes.epochs,
        batch_size=8,
        learning_rate=0.003,
        schedule=warm_cosine,
        average=0.99,
        augment=[affine(0, shift=16, scale=0.4, shear=0.0), mirrors(), colors()],
        seed=settings.seed,
        run=folder,
    )
    seconds = time.process_time() - start if whole else None
    return Trained(model=model, cpu_seconds=kept(folder / "cpu-seconds.json", {}, lambda: seconds))


def warm_cosine(step: int, total: int) -> float:
    """A learning rate that rises in the first tenth of the steps, and falls along a cosine."""
    done = step / total
    return min(1, done / 0.1) * 0.5 * (1 + math.cos(math.pi * max(0, (done - 0.1) / 0.9)))


@dataclass(frozen=True, eq=False, kw_only=True)
class Answers:
    """What the network says of frames: by MC dropout, and with dropout off."""

    x: Tensor  # (N, 3, H, W)
    y: Tensor  # (N, H, W) labels
    sampled: UncertaintyMaps
    plain: UncertaintyMaps
    upside_down: UncertaintyMaps  # every fourth frame turned over, by MC dropout


def answers(settings: Settings, images: InData, model: Model) -> Answers:
    """Maps of all test frames; the seed of the masks is that of the run."""
    passes = budget(settings).passes
    sampler = models.mc_dropout(model, passes=passes, seed=settings.seed)
    x, y = images.test
    return Answers(
        x=x,
        y=y.long(),
        sampled=models.uncertainty_maps(sampler, x, probs=True),
        plain=models.uncertainty_maps(model, x, probs=True),
        upside_down=models.uncertainty_maps(sampler, x[::TURNED].flip(-2)),
    )


def shares(labels: Tensor) -> list[float]:
    """The share of each class among the labeled pixels."""
    counts = torch.bincount(labels.flatten().long(), minlength=IGNORED + 1)[:IGNORED].double()
    return (counts / counts.sum()).tolist()


def rare_classes(shares_of: Sequence[float]) -> list[int]:
    """The classes that are rare in training."""
    return [index for index, share in enumerate(shares_of) if share < RARE]
