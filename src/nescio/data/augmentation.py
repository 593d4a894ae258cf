"""Random changes of training images that keep their class: crops and mirrors.

Each member draws from the generator of (seed, member, epoch, step), as everything does.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from nescio.core import NescioError, Rng


@dataclass(frozen=True)
class Augment:
    """A random change of a batch of images `(B, C, H, W)`, floats or bytes."""

    description: str
    change: Callable[[Tensor, torch.Generator], Tensor]
    least: int = 1  # pixels an image must have each way


def crops(pad: int = 4) -> Augment:
    """Shift each image by up to `pad` pixels each way; zeros come in at the edges."""
    if isinstance(pad, bool) or not isinstance(pad, int) or pad < 1:
        raise NescioError(f"pad must be a whole number from 1 up, got {pad!r}")

    def change(x: Tensor, source: torch.Generator) -> Tensor:
        samples, _, height, width = x.shape
        corner = torch.randint(2 * pad + 1, (2, samples), generator=source).to(x.device)
        # Every window is a view; choosing one for each image is one copy of the batch.
        windows = F.pad(x, (pad, pad, pad, pad)).unfold(2, height, 1).unfold(3, width, 1)
        return windows[torch.arange(samples, device=x.device), :, corner[0], corner[1]]

    return Augment(f"crops({pad})", change, least=pad + 1)


def mirrors() -> Augment:
    """Swap left and right in about half of the images."""

    def change(x: Tensor, source: torch.Generator) -> Tensor:
        chosen = torch.randint(2, (len(x),), generator=source).to(x.device).bool()
        return torch.where(chosen[:, None, None, None], x.flip(3), x)

    return Augment("mirrors()", change)


def augment(steps: Sequence[Augment], x: Tensor, rng: Rng) -> Tensor:
    """Each member's images `(M, B, C, H, W)`, changed by every step in turn."""
    moved = []
    for images, source in zip(x.unbind(0), rng.generators("augment"), strict=True):
        for step in steps:
            was, images = images, step.change(images, source)
            if images.shape != was.shape or images.dtype != was.dtype:
                raise NescioError(
                    f"{step.description} made {images.dtype} {tuple(images.shape)} of {was.dtype} "
                    f"{tuple(was.shape)}; an augmentation keeps type and shape (bytes stay bytes)"
                )
        moved.append(images)
    return torch.stack(moved)


def check_augments(steps: object, features: Sequence[int]) -> tuple[Augment, ...]:
    """The steps as a tuple, if they fit inputs of this shape."""
    chosen = [] if steps is None else [steps] if isinstance(steps, Augment) else steps
    if not isinstance(chosen, Sequence) or not all(isinstance(step, Augment) for step in chosen):
        raise NescioError("augment takes crops(), mirrors(), or a list of them")
    if chosen and len(features) != 3:
        raise NescioError(
            f"augmentation needs images (channels, height, width), got inputs {tuple(features)}"
        )
    for step in chosen:
        if step.least > min(features[1:]):
            raise NescioError(
                f"{step.description} would push images of {features[1]} x {features[2]} pixels "
                "out of sight; use a smaller one"
            )
    return tuple(chosen)
