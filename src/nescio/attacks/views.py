"""Random views of a patch: where it is in an image, how it is turned, how large, in which light."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from nescio.core import NescioError
from nescio.data import corruptions

NUMBERS = 5  # that are drawn for a view: angle, scale, light, and two for the position
Place = tuple[float, float]  # the middle of a patch, as shares of the height and of the width


@dataclass(frozen=True, kw_only=True)
class Views:
    """How far views differ; all are uniform.

    angle: degrees of rotation, each way.
    scale: the smallest and the largest factor of the size.
    shift: how far a whole image is moved each way, as a share of its sides; a patch that may be
      anywhere is moved by more.
    brightness: the largest share of light that is added or lost.
    """

    angle: float = 20.0
    scale: tuple[float, float] = (0.8, 1.25)
    shift: float = 0.1
    brightness: float = 0.2

    def __post_init__(self) -> None:
        low, high = self.scale
        if not 0 <= self.angle <= 180:
            raise NescioError(f"angle is in degrees, from 0 to 180, got {self.angle}")
        if not 0 < low <= high < math.inf:
            raise NescioError(
                f"scale is (smallest, largest), two factors above 0, got {self.scale}"
            )
        for name in ("shift", "brightness"):
            if not 0 <= getattr(self, name) < 1:
                raise NescioError(f"{name} is a share from 0 to below 1, got {getattr(self, name)}")

    def turns(self, numbers: Tensor) -> tuple[Tensor, Tensor]:
        """The maps `(N, 2, 2)` from a view back to the patch, and the scales, of `numbers`."""
        angle = math.radians(self.angle) * (2 * numbers[:, 0] - 1)
        low, high = (math.log(end) for end in self.scale)
        scale = (low + (high - low) * numbers[:, 1]).exp()
        cos, sin = angle.cos() / scale, angle.sin() / scale
        return torch.stack([cos, -sin, sin, cos], 1).view(-1, 2, 2), scale

    def light(self, numbers: Tensor) -> Tensor:
        """Factors of the brightness, `(N, 1, 1, 1)`, of uniform `numbers`."""
        factors: Tensor = 1 + self.brightness * (2 * numbers[:, 2] - 1)
        return factors.view(-1, 1, 1, 1)


def with_patch(
    x: Tensor,
    pixels: Tensor,
    mask: Tensor,
    views: Views,
    numbers: Tensor,
    *,
    position: Place | None = None,
    low: float = 0.0,
    high: float = 1.0,
) -> Tensor:
    """Images `(N, C, H, W)` with a patch `(C, h, w)` where its mask `(h, w)` is 1, each in a view.

    numbers: uniform, `(N, NUMBERS)`. position: where the patch is glued on; the whole image is then
    seen in the view. Without it, the patch is in each image somewhere else, entirely inside, and
    alone seen in the view. What is differentiated are the pixels.
    """
    numbers = numbers.to(x)
    turn, scale = views.turns(numbers)
    if position is None:
        light = views.light(numbers)
        lit = (low + light * (pixels - low)).clamp(low, high)  # (N, C, h, w)
        return _laid(x, lit, mask, turn, _anywhere(x, mask, turn, scale, numbers))
    still = torch.eye(2).to(x).expand(len(x), 2, 2)
    sides = torch.tensor([x.shape[3], x.shape[2]]).to(x)
    middle = sides * torch.tensor(position[::-1]).to(x) - sides / 2
    glued = _laid(x, pixels.expand(len(x), -1, -1, -1), mask, still, middle.expand(len(x), 2))
    shift = views.shift * sides * (2 * numbers[:, 3:5] - 1)
    move = torch.einsum("nij,nj->ni", turn, shift)
    seen = corruptions.warp(glued, turn, move, beyond="border")
    return (low + views.light(numbers) * (seen - low)).clamp(low, high)


def _anywhere(x: Tensor, mask: Tensor, turn: Tensor, scale: Tensor, numbers: Tensor) -> Tensor:
    """Middles `(N, 2)`, from the middle of the image, that leave the turned patch inside it."""
    width, height = mask.shape[1], mask.shape[0]
    size = torch.tensor([width, height]).to(x)
    across = torch.einsum("nij,j->ni", turn.abs(), size) * scale[:, None] ** 2  # of turned boxes
    room = (torch.tensor([x.shape[3], x.shape[2]]).to(x) - across).clamp(min=0.0)
    return room * (numbers[:, 3:5] - 0.5)


def _laid(x: Tensor, pixels: Tensor, mask: Tensor, turn: Tensor, middle: Tensor) -> Tensor:
    """Images under patches `(N, C, h, w)` whose middles are given, from those of the images."""
    above = torch.cat([pixels * mask, mask.expand(len(x), 1, -1, -1)], 1)
    free = [x.shape[2] - mask.shape[0], x.shape[3] - mask.shape[1]]
    top, left = free[0] // 2, free[1] // 2
    canvas = F.pad(above, (left, free[1] - left, top, free[0] - top))
    odd = torch.tensor([free[1] % 2, free[0] % 2]).to(x) / 2  # half a pixel off the middle
    move = torch.einsum("nij,nj->ni", turn, middle) + odd
    seen = corruptions.warp(canvas, turn, move)
    return x * (1 - seen[:, -1:]) + seen[:, :-1]
