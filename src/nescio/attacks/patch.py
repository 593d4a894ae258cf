"""A patch to print that misleads a network in random views.

Brown et al. (2017) for a patch that may be anywhere, Evtimov et al. (2017) for stickers that are
glued on an object; both raise the expectation over views (Athalye et al., 2018).
"""

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from nescio.attacks.ascent import Ascent
from nescio.attacks.named import pgd
from nescio.attacks.objectives import answer_of, label_loss
from nescio.attacks.views import NUMBERS, Place, Views, with_patch
from nescio.core import (
    NescioError,
    as_batch,
    as_inputs,
    as_tensor,
    check_indices,
    derive,
    generator,
    write_atomically,
)
from nescio.data import uniform_noise

SHAPES = ("square", "circle", "bars")
DOTS = 1000  # the least width of the PNG, so that a printer does not blur its pixels
INCH = 2.54  # centimeters


@dataclass(frozen=True, eq=False, kw_only=True)
class Patch:
    """A patch, in the 256 levels of a print, and the views it was made for.

    `patch(x)` shows images with it, each in another view; `save_png` writes it to be printed.

    pixels: the patch, `(C, h, w)`, in the units of the inputs.
    mask: 1 where it covers the image, `(h, w)`.
    views: the views that it was made for.
    position: its middle, as shares of height and width, where it is glued on; None: anywhere.
    target: the class it should be taken for; None: any but the right one.
    low, high: range of the pixels of images.
    """

    pixels: Tensor
    mask: Tensor
    views: Views
    position: Place | None
    target: int | None
    low: float = 0.0
    high: float = 1.0

    def __call__(
        self, x: Any, *, views: Views | None = None, seed: int = 1, first: int = 0
    ) -> Tensor:
        """Images with the patch; input i has the view of (seed, first + i).

        x: images, `(N, C, H, W)`.
        views: how far views differ; None: as those that it was made for.
        seed: seed of the random draws.
        first: index of the first image.
        """
        images = as_batch(_images(x), self.pixels.dtype)
        _check_fits(images, self.pixels)
        return with_patch(
            images,
            self.pixels.to(images.device),
            self.mask.to(images),
            views or self.views,
            uniform_noise(len(images), (NUMBERS,), seed=derive(seed, "views"), start=first),
            position=self.position,
            low=self.low,
            high=self.high,
        )

    def gray(self) -> "Patch":
        """A patch of the same shape and views that is gray: what covering an image does alone."""
        middle = torch.full_like(self.pixels, (self.low + self.high) / 2)
        return Patch(**{**vars(self), "pixels": middle})

    def png(self, *, centimeters: float = 10.0) -> bytes:
        """The patch as a PNG to print; transparent outside its mask.

        centimeters: width of the print.
        """
        from PIL import Image

        if not 0 < centimeters < 1000:
            raise NescioError(f"centimeters is the width of the print, above 0, got {centimeters}")
        shares = ((self.pixels - self.low) / (self.high - self.low)).cpu()
        colors = shares.expand(3, -1, -1) if len(shares) == 1 else shares
        layers = torch.cat([colors, self.mask[None].to(colors)])
        levels: Any = (255 * layers).round().byte().movedim(0, -1).numpy()
        times = -(-DOTS // levels.shape[1])
        large = np.repeat(np.repeat(levels, times, 0), times, 1)
        dots = large.shape[1] / (centimeters / INCH)
        file = io.BytesIO()
        Image.fromarray(large, "RGBA").save(file, "PNG", dpi=(dots, dots))
        return file.getvalue()

    def save_png(self, path: str | Path, *, centimeters: float = 10.0) -> Path:
        """Write the PNG to print to the file `path`; returns the path.

        centimeters: width of the print.
        """
        write_atomically(Path(path), self.png(centimeters=centimeters))
        return Path(path)


@torch.inference_mode(False)  # whatever the caller is in
def patch(
    source: object,
    x: Any,
    y: Any = None,
    *,
    target: int | None = None,
    size: float = 0.3,
    mask: Any = "square",
    position: Place | None = None,
    views: Views | None = None,
    steps: int = 300,
    step: float | None = None,
    batch_size: int = 64,
    low: float = 0.0,
    high: float = 1.0,
    seed: int = 0,
    progress: bool | None = False,
) -> Patch:
    """A patch that misleads a network on images, wherever and however it is seen.

    Each step shows it on `batch_size` other images in other views, and raises the mean
    log-probability of success.

    source: an `nn.Module`, a model, or another predictor.
    x: images (N, C, H, W) within [low, high].
    y: their labels; None: the network's own answers.
    target: the class that the patch should be taken for; None: any class but y.
    size: its side, as a share of the shorter side of the images.
    mask: "square", "circle", "bars" (two stickers, as on a stop sign), or 0 and 1 of shape (h, w),
      pixels of the images.
    position: (row, column), from 0 to 1, glues its middle there, and views are of the whole image;
      None: it is anywhere, and views are of the patch alone.
    views: how far views differ; None: `Views()`.
    steps: number of gradient steps.
    step: length of a step; None: 2.5 * (high - low) / steps.
    batch_size: number of images in a step.
    low, high: range of the pixels of images.
    seed: seed of the random draws.
    progress: whether to draw a progress bar; None: where stderr is a terminal.
    """
    images = _images(x)
    kind = torch.float64 if images.dtype == torch.float64 else torch.float32
    shape = _mask(mask, size, images)
    _check_position(position)
    Ascent(radius=None, low=low, high=high).check(images, what="images")
    labels, sign = _labels(source, images, y, target)
    aim, looks = label_loss(source), views or Views()
    made: dict[str, Any] = {"position": position, "low": low, "high": high}
    turn = -1

    def value(pixels: Tensor) -> Tensor:
        """The mean log-probability of success on the next images and views, `(1,)`."""
        nonlocal turn
        turn += 1
        rows = torch.randint(len(images), (batch_size,), generator=generator(seed, "images", turn))
        numbers = uniform_noise(
            batch_size, (NUMBERS,), seed=derive(seed, "patch"), start=turn * batch_size
        )
        shown = as_batch(images[rows.to(images.device)], kind)
        seen = with_patch(shown, pixels[0], shape.to(shown), looks, numbers, **made)
        return F.logsigmoid(sign * aim(seen, labels[rows])).mean()[None]

    middle = torch.full((1, images.shape[1], *shape.shape), (low + high) / 2, dtype=kind)
    box: dict[str, Any] = {"low": low, "high": high, "mask": shape, "seed": seed}
    how: dict[str, Any] = {"steps": steps, "step": step, "schedule": "cosine", "best": False}
    found = pgd(value, middle.to(images.device), radius=None, **how, **box, progress=progress)
    levels = (255 * (found.x[0] - low) / (high - low)).round() / 255
    pixels = low + (high - low) * levels
    return Patch(pixels=pixels, mask=shape, views=looks, target=target, **made)


def _images(x: Any) -> Tensor:
    given = as_tensor(x, "images")
    kind = torch.float64 if given.dtype == torch.float64 else torch.float32
    images = as_inputs(given, dtype=kind, keep_bytes=True)
    if images.ndim != 4 or images.shape[1] not in (1, 3) or not len(images):
        raise NescioError(
            "a patch is put on images (N, C, H, W) of one or three channels, got shape "
            f"{tuple(images.shape)}"
        )
    return images


def _check_fits(images: Tensor, pixels: Tensor) -> None:
    if images.shape[1] != len(pixels) or any(
        own > side for own, side in zip(pixels.shape[1:], images.shape[2:], strict=True)
    ):
        raise NescioError(
            f"a patch of shape {tuple(pixels.shape)} does not fit images of shape "
            f"{tuple(images.shape[1:])}"
        )


def _check_position(position: Place | None) -> None:
    if position is not None and not (len(position) == 2 and all(0 <= p <= 1 for p in position)):
        raise NescioError(f"position is (row, column), shares from 0 to 1, got {position}")


def _labels(source: object, images: Tensor, y: Any, target: int | None) -> tuple[Tensor, float]:
    """The labels to compare with, and whether their log-odds against are raised or lowered."""
    with torch.no_grad():
        one = answer_of(source)(as_batch(images[:1]))
    if target is not None:
        check_indices(torch.tensor([target]), one.classes, "target")
        return torch.full((len(images),), int(target)), -1.0
    if y is None:
        with torch.no_grad():
            read = answer_of(source)
            parts = [read(as_batch(part)).labels.cpu() for part in images.split(256)]
        return torch.cat(parts), 1.0
    labels = as_tensor(y, "labels").cpu()
    if labels.shape != images.shape[:1]:
        raise NescioError(f"{len(images)} images but labels of shape {tuple(labels.shape)}")
    return labels, 1.0


def _mask(mask: Any, size: float, images: Tensor) -> Tensor:
    """The mask by its name or as it is, float `(h, w)`."""
    height, width = images.shape[2:]
    if isinstance(mask, str):
        if not 0 < size <= 1:
            raise NescioError(f"size is a share of the images' side, above 0 to 1, got {size}")
        return _shaped(mask, max(1, round(size * min(height, width))))
    given = as_tensor(mask, "mask").float().cpu()
    if given.ndim != 2 or not ((given == 0) | (given == 1)).all() or not given.any():
        raise NescioError("mask must hold 0 and 1, of shape (h, w), with a 1 somewhere")
    _check_fits(images, given.expand(images.shape[1], -1, -1))
    return given


def _shaped(name: str, side: int) -> Tensor:
    places = (torch.arange(side) + 0.5) / side - 0.5  # of the middles of pixels
    if name == "square":
        return torch.ones(side, side)
    if name == "circle":
        far = places[:, None].square() + places.square()
        return (far <= 0.25).float()
    if name == "bars":  # two stickers, above and below what is written on the sign
        return ((places.abs() > 1 / 3)[:, None].expand(side, side)).float()
    raise NescioError(f"unknown shape {name!r} of a mask; known: {', '.join(SHAPES)}")
