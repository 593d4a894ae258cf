"""Changing one training image within an linf radius so that the retrained head errs on others.

Koh and Liang (2017, section 5.2): x <- clip(x + step * sign of the influence of its pixels), and
the head is trained again after every step. Images stay bytes: steps are whole levels of 255.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nescio_papers.robust_deep_learning.poisoning_head import Head
from nescio_papers.robust_deep_learning.poisoning_task import Task

LIKELY = 60  # training images whose pixels are looked at
SHARE = 8  # a step is this part of the radius, at least one level


@dataclass(frozen=True, eq=False, kw_only=True)
class Poisoned:
    """A training image changed, and what the retrained head makes of the targets."""

    index: int  # of the training image
    image: Tensor  # (3, 32, 32) bytes
    radius: int  # of 255, that was allowed
    head: Head
    margins: Tensor  # (T,) of the targets, negative where they are now wrong

    @property
    def flipped(self) -> Tensor:
        """Which targets are now wrong, `(T,)`."""
        return self.margins < 0


def candidates(task: Task, targets: Tensor, signs: Tensor, count: int) -> list[int]:
    """The training images whose pixels, to first order, lower the margins most, best first.

    A change by one level could lower the sum of the margins by the absolute influence of the
    pixels, summed up. It is computed for the images whose features have the most influence.
    """
    pull = _pull(task.head, targets, signs)
    every = task.head.slopes(pull, torch.arange(len(task.train)))
    likely = every.norm(dim=1).argsort(descending=True, stable=True)[:LIKELY]
    gains = task.slopes(task.train.x[likely], every[likely]).abs().flatten(1).sum(1)
    return [int(i) for i in likely[gains.argsort(descending=True, stable=True)[:count]]]


def attacked(
    task: Task, targets: Tensor, signs: Tensor, chosen: Sequence[int], radius: int, steps: int
) -> Poisoned:
    """The best attack on targets `(T, d)` by one of the chosen images: most wrong, then the lowest.

    The first that makes all targets wrong ends the search.
    """
    best: Poisoned | None = None
    for index in chosen:
        found = _attack(task, targets, signs, index, radius, steps)
        if best is None or _rank(found) > _rank(best):
            best = found
        if bool(best.flipped.all()):
            break
    assert best is not None
    return best


def _rank(found: Poisoned) -> tuple[int, float]:
    return int(found.flipped.sum()), -float(found.margins.sum())


def _pull(head: Head, targets: Tensor, signs: Tensor) -> Tensor:
    """The direction of the weights that raises the number of targets that are right, smoothed.

    It is the gradient of the sum of sigmoids of the margins: those near 0 count most.
    """
    margins = signs * head.logits(targets)
    return (signs * margins.sigmoid() * (-margins).sigmoid()) @ targets


def _attack(
    task: Task, targets: Tensor, signs: Tensor, index: int, radius: int, steps: int
) -> Poisoned:
    """The best of the images on the way."""
    clean = task.train.x[index].short()
    low, high = (clean - radius).clamp_min(0), (clean + radius).clamp_max(255)
    here = best = changed(task, task.head, targets, signs, index, clean.byte(), radius)
    for _ in range(steps):
        if bool(here.flipped.all()):
            break
        by_feature = here.head.slopes(_pull(here.head, targets, signs), torch.tensor([index]))
        slope = task.slopes(here.image[None], by_feature)[0]
        step = max(1, radius // SHARE) * slope.sign().short()
        image = torch.clamp(here.image.short() - step, low, high).byte()
        here = changed(task, here.head, targets, signs, index, image, radius)
        best = here if _rank(here) > _rank(best) else best
    return best


def changed(
    task: Task, near: Head, targets: Tensor, signs: Tensor, index: int, image: Tensor, radius: int
) -> Poisoned:
    """What the head, trained again with an image in place of another, makes of the targets.

    near: a head to start from, of the same images but this one.
    """
    head = near.moved(index, task.features(image[None])[0])
    margins = signs * head.logits(targets)
    return Poisoned(index=index, image=image, radius=radius, head=head, margins=margins)
