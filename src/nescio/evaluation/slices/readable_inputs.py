"""What people can read of inputs: the columns of a table, and simple statistics of images."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from nescio.core import Bundle, Inputs, as_batch
from nescio.data import Columns
from nescio.data.encoding import Column

MOST = 400  # columns of a table that has readable ones
CHUNK = 2048  # images at a time
DIFFERENT = 0.2  # of the range of the data: a pixel that differs so from the border is foreground


def describe_inputs(
    x: Inputs | None, names: Sequence[str] = (), *, encoding: Columns | None = None
) -> dict[str, NDArray[Any]]:
    """Numbers and words that describe each input, `(N,)` by name, to search slices with.

    Of tables these are their columns. Of images `(N, C, H, W)` brightness, contrast, sharpness,
    size of the foreground and how far it is off the center, saturation of colors, in shares of the
    range of all pixels. Of other arrays mean and spread. Tokens have none.

    x: inputs, `(N, *features)`; None: nothing is described.
    names: names of the columns of a table.
    encoding: how a table was encoded; its columns are then described as they were before.
    """
    if x is None:
        return {}
    if isinstance(x, Bundle):
        parts = {name: describe_inputs(part) for name, part in x.parts.items()}
        return {f"{name}: {k}": v for name, part in parts.items() for k, v in part.items()}
    if x.ndim == 2 and x.shape[1] <= MOST:
        if not x.is_floating_point():
            return {}
        if encoding is not None and encoding.width == x.shape[1]:
            return _decoded(x, encoding)
        known = list(names) if len(names) == x.shape[1] else [f"column {k}" for k in range(MOST)]
        return {known[k]: x[:, k].double().cpu().numpy() for k in range(x.shape[1])}
    if not x.is_floating_point() and x.dtype != torch.uint8:
        return {}
    if x.ndim == 4:
        return _numpy(_image_statistics(x))
    parts_of = [as_batch(part).flatten(1).double() for part in x.split(CHUNK)]
    mean, spread = (torch.cat([f(part) for part in parts_of]) for f in (_mean, _spread))
    return _numpy({"mean": mean, "spread": spread})


def _decoded(x: Tensor, encoding: Columns) -> dict[str, NDArray[Any]]:
    """The columns of a table from its encoded rows: numbers, or levels as words."""
    table, start, found = x.double().cpu().numpy(), 0, {}
    for column in encoding.columns:
        own = table[:, start : start + column.width]
        start += column.width
        if not column.levels:
            known = own[:, 0] if column.kind == "number" else _number(own, column)
            found[column.name] = known
            continue
        index = own[:, : len(column.levels)].argmax(1)
        if column.kind == "ordinal":
            index = np.rint(own[:, 0] * column.deviation + column.mean).astype(np.int64)
        words = np.array(column.levels)[index.clip(0, len(column.levels) - 1)]
        found[column.name] = np.where(own[:, -2:].any(1), "", words)  # missing or unseen
    return found


def _number(own: NDArray[np.float64], column: Column) -> NDArray[np.float64]:
    """Values without the rounding of float32; NaN where they are missing."""
    values = own[:, 0] * column.deviation + column.mean
    digits = 6 - math.ceil(math.log10(max(np.abs(values).max(), 1e-30)))
    return np.where(own[:, 1] > 0, np.nan, values.round(digits))


def _mean(part: Tensor) -> Tensor:
    return part.mean(1)


def _spread(part: Tensor) -> Tensor:
    return part.std(1, correction=0)


def _numpy(parts: Mapping[str, Tensor]) -> dict[str, NDArray[Any]]:
    return {name: part.double().cpu().numpy() for name, part in parts.items()}


@torch.no_grad()
def _image_statistics(x: Tensor) -> dict[str, Tensor]:
    """All statistics of images, a chunk at a time, in shares of the range of all pixels."""
    low, high = as_batch(torch.stack(x.aminmax())).tolist()
    width = max(high - low, 1e-12)
    chunks = [_of_chunk((as_batch(part) - low) / width) for part in x.split(CHUNK)]
    return {name: torch.cat([chunk[name] for chunk in chunks]) for name in chunks[0]}


def _of_chunk(images: Tensor) -> dict[str, Tensor]:
    """Of images `(n, C, H, W)` from 0 to 1."""
    gray = images[:, :3].mean(1)  # (n, H, W)
    flat = gray.flatten(1)
    found = {"brightness": flat.mean(1), "contrast": flat.std(1, correction=0)}
    if min(gray.shape[1:]) >= 3:
        found["sharpness"] = _laplacian(gray)
        found |= _foreground(gray)
    if images.shape[1] >= 3:
        colors = images[:, :3]
        found["saturation"] = (colors.amax(1) - colors.amin(1)).flatten(1).mean(1)
    return found


def _laplacian(gray: Tensor) -> Tensor:
    """The mean absolute difference of pixels from the mean of their four neighbors."""
    around = gray[:, 2:, 1:-1] + gray[:, :-2, 1:-1] + gray[:, 1:-1, 2:] + gray[:, 1:-1, :-2]
    return (gray[:, 1:-1, 1:-1] - around / 4).abs().flatten(1).mean(1)


def _foreground(gray: Tensor) -> dict[str, Tensor]:
    """The share of pixels unlike the border, and how far their middle is off the center."""
    height, wide = gray.shape[1:]
    frame = F.pad(torch.zeros(height - 2, wide - 2), (1, 1, 1, 1), value=1.0).bool()
    border = gray[:, frame.to(gray.device)].median(1).values
    far = ((gray - border[:, None, None]).abs() > DIFFERENT).to(gray.dtype)
    count = far.sum((1, 2)).clamp_min(1)
    ys = torch.linspace(-1, 1, height, device=gray.device)
    xs = torch.linspace(-1, 1, wide, device=gray.device)
    middle = torch.stack([far.sum(2) @ ys, far.sum(1) @ xs], 1) / count[:, None]
    return {"foreground": far.mean((1, 2)), "off center": middle.norm(dim=1)}
