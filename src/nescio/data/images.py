"""Images between layouts, colors and sizes: bytes in, bytes out; floats in, floats out.

Images are (N, C, H, W) with one channel (gray) or three (red, green, blue). Nothing here is done
behind your back: a network that reads 28 x 28 gray images gets them from `crop(gray(x), 28)`.
"""

import operator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from nescio.core import NescioError, as_tensor

LUMA = (0.299, 0.587, 0.114)  # ITU-R BT.601
FIXED = (19595, 38470, 7471)  # the same in parts of 65536
SAMPLES = 2048  # converted at a time


def as_images(x: Any) -> Tensor:
    """Images `x` (N, H, W) or (N, H, W, C), as most files hold them, as (N, C, H, W)."""
    images = as_tensor(x, "images")
    if images.ndim == 3:
        return images[:, None]
    if images.ndim != 4 or images.shape[-1] not in (1, 3):
        raise NescioError(
            "expected images (N, H, W), or (N, H, W, C) with 1 or 3 channels, got "
            f"{tuple(images.shape)}; (N, C, H, W) needs no change, an alpha channel is cut off by "
            "x[..., :3]"
        )
    return images.permute(0, 3, 1, 2).contiguous()


def gray(x: Any) -> Tensor:
    """Color images `x` as gray ones, by the luma of ITU-R 601: 0.299 R + 0.587 G + 0.114 B.

    Bytes are rounded to the nearest, with the weights in parts of 65536: what Pillow gives.
    Gray images stay as they are.
    """
    images = _images(x)
    if images.shape[1] == 1:
        return images
    return torch.cat([_luma(part) for part in images.split(SAMPLES)])


def color(x: Any) -> Tensor:
    """Gray images `x` as color ones, their channel three times; color images stay as they are."""
    images = _images(x)
    return images if images.shape[1] == 3 else images.repeat(1, 3, 1, 1)


def pad(x: Any, size: int | tuple[int, int]) -> Tensor:
    """Images `x` in the middle of black ones of `size`: 28 x 28 to 32 x 32, two pixels each side.

    Where the room is odd, the lower and the right side get the pixel more; `crop` undoes it.
    """
    images = _images(x)
    (top, bottom), (left, right) = (
        _room(new, old) for new, old in zip(height_width(size), images.shape[2:], strict=True)
    )
    if min(top, left) < 0:
        raise NescioError(
            f"pad makes images larger, got {_shown(images)} and {_shown(size)}; smaller ones: crop"
        )
    return F.pad(images, (left, right, top, bottom))


def crop(x: Any, size: int | tuple[int, int]) -> Tensor:
    """The middle of images `x`, of `size`: 32 x 32 to 28 x 28, two pixels off each side."""
    images = _images(x)
    height, width = height_width(size)
    top, left = (
        _room(old, new)[0] for new, old in zip((height, width), images.shape[2:], strict=True)
    )
    if min(top, left) < 0:
        raise NescioError(
            f"crop makes images smaller, got {_shown(images)} and {_shown(size)}; larger ones: pad"
        )
    return images[:, :, top : top + height, left : left + width].contiguous()


def _luma(x: Tensor) -> Tensor:
    if x.dtype != torch.uint8:
        weights = torch.tensor(LUMA, dtype=x.dtype, device=x.device)
        return torch.einsum("nchw,c->nhw", x, weights)[:, None]
    red, green, blue = (x[:, i : i + 1].int() * FIXED[i] for i in range(3))
    return ((red + green + blue + (1 << 15)) >> 16).to(torch.uint8)


def _images(x: Any) -> Tensor:
    images = as_tensor(x, "images")
    if images.ndim != 4 or images.shape[1] not in (1, 3):
        raise NescioError(
            f"expected images (N, C, H, W) with 1 or 3 channels, got {tuple(images.shape)}; "
            "as_images brings (N, H, W) and (N, H, W, C) into this form"
        )
    if images.dtype != torch.uint8 and not images.is_floating_point():
        raise NescioError(f"images must be uint8 or floats, got {images.dtype}; convert them first")
    return images


def height_width(size: int | tuple[int, int]) -> tuple[int, int]:
    """A size as both sides, checked."""
    try:
        height, width = size if isinstance(size, (tuple, list)) else (size, size)
        both = operator.index(height), operator.index(width)
    except (TypeError, ValueError):
        both = (0, 0)
    if min(both) < 1:
        raise NescioError(f"`size` must be a positive number or (height, width), got {size!r}")
    return both


def _room(large: int, small: int) -> tuple[int, int]:
    """The room before and after the smaller one."""
    room = large - small
    return (room // 2, room - room // 2) if room >= 0 else (-1, -1)


def _shown(size: Tensor | int | tuple[int, int]) -> str:
    height, width = size.shape[2:] if isinstance(size, Tensor) else height_width(size)
    return f"{height} x {width}"
