"""Images read at other places: bilinear between pixels, zeros beyond the edge."""

import torch
from torch import Tensor
from torch.nn import functional as F


def warp(x: Tensor, turn: Tensor, move: Tensor) -> Tensor:
    """Images whose pixel at place q is that of `x` at `turn (q - middle) + middle - move`.

    Places are (column, row) in pixels; turn: (N, 2, 2); move: (N, 2).
    """
    height, width = x.shape[2:]
    rows, columns = torch.meshgrid(
        torch.arange(height, dtype=x.dtype), torch.arange(width, dtype=x.dtype), indexing="ij"
    )
    middle = torch.tensor([(width - 1) / 2, (height - 1) / 2], dtype=x.dtype)
    places = torch.stack([columns, rows], dim=-1) - middle  # (H, W, 2)
    read = torch.einsum("nij,hwj->nhwi", turn.to(x.dtype), places) - move.to(x)[:, None, None]
    scale = torch.tensor([max(width - 1, 1), max(height - 1, 1)], dtype=x.dtype) / 2
    grid = (read / scale).to(x.device)  # -1 and 1 are the middles of the outermost pixels
    return F.grid_sample(x, grid, mode="bilinear", padding_mode="zeros", align_corners=True)
