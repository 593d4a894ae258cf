"""Images read at other places: bilinear between pixels, zeros beyond the edge."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F


def warp(x: Tensor, turn: Tensor, move: Tensor) -> Tensor:
    """Images whose pixel at place q is that of `x` at `turn (q - middle) + middle - move`.

    Places are (column, row) in pixels; turn: (N, 2, 2); move: (N, 2).
    """
    height, width = x.shape[2:]
    kind: Any = {"dtype": x.dtype, "device": x.device}
    rows, columns = torch.meshgrid(
        torch.arange(height, **kind), torch.arange(width, **kind), indexing="ij"
    )
    middle = torch.tensor([(width - 1) / 2, (height - 1) / 2], **kind)
    places = torch.stack([columns, rows], dim=-1) - middle  # (H, W, 2)
    read = torch.einsum("nij,hwj->nhwi", turn.to(**kind), places) - move.to(**kind)[:, None, None]
    scale = torch.tensor([max(width - 1, 1), max(height - 1, 1)], **kind) / 2
    grid = read / scale  # -1 and 1 are the middles of the outermost pixels
    return F.grid_sample(x, grid, mode="bilinear", padding_mode="zeros", align_corners=True)
