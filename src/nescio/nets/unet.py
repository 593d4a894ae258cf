"""A U-Net for label maps (Ronneberger et al., 2015), with dropout in the middle.

Dropout of whole channels stands where Bayesian SegNet found it best (Kendall et al., 2017): around
the deepest level. MC dropout then computes the way down once for all passes.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nescio.core import NescioError
from nescio.nets.convolutional import image_shape
from nescio.nets.factory import check_dropout, network


@network
def unet(
    inputs: Sequence[int] = (3, 90, 120),
    outputs: int = 11,
    *,
    width: int = 16,
    depth: int = 4,
    dropout: float = 0.0,
    stem: int = 1,
) -> nn.Module:
    """Convolutions on `depth` sizes of the image, down and up again, with shortcuts across.

    It returns `(N, outputs, H, W)`, class logits for each pixel; images of any other height and
    width run as well. Each level has half the size of the one above and twice the channels, with
    two 3x3 convolutions with BatchNorm on the way down and two on the way up.

        unet((3, 90, 120), 11, width=16, dropout=0.3)

    inputs: channels, height and width of an image.
    outputs: number of classes.
    width: number of channels at the top.
    depth: number of sizes of the image.
    dropout: dropout rate of whole channels before and after the deepest level, in [0, 1).
    stem: pixels are read and answered in blocks of this size: 2 takes about a third of the time.
    """
    channels, _, _ = image_shape("unet", inputs)
    if min(*inputs, outputs, width, depth, stem) < 1:
        raise NescioError(
            f"sizes must be positive, got inputs {tuple(inputs)}, outputs {outputs}, "
            f"width {width}, depth {depth} and stem {stem}"
        )
    widths = [width * 2**level for level in range(depth)]
    return UNet(channels * stem**2, outputs * stem**2, widths, check_dropout(dropout), stem)


class UNet(nn.Module):
    """The layers of `unet`: one pair of convolutions a level down, one a level up."""

    def __init__(
        self, inputs: int, outputs: int, widths: Sequence[int], dropout: float, stem: int
    ) -> None:
        super().__init__()
        self.stem = stem
        befores = [inputs, *widths[:-1]]
        self.down = nn.ModuleList(_pair(a, b) for a, b in zip(befores, widths, strict=True))
        above = zip(reversed(widths[:-1]), reversed(widths[1:]), strict=True)
        self.up = nn.ModuleList(_pair(skip + below, skip) for skip, below in above)
        self.before, self.after = nn.Dropout2d(dropout), nn.Dropout2d(dropout)
        self.last = nn.Conv2d(widths[0], outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        height, width = x.shape[-2:]
        x = F.pixel_unshuffle(_filled(x, self.stem), self.stem) if self.stem > 1 else x
        shortcuts: list[Tensor] = []
        for level, pair in enumerate(self.down):
            if level:
                shortcuts.append(x)
                x = F.max_pool2d(x, 2, ceil_mode=True)  # odd sizes lose no pixel
            deepest = 0 < level == len(self.down) - 1  # never the image itself
            x = pair(self.before(x) if deepest else x)
        x = self.after(x)
        for pair in self.up:
            x = pair(_joined(x, shortcuts.pop()))
        x = self.last(x)
        return F.pixel_shuffle(x, self.stem)[..., :height, :width] if self.stem > 1 else x


def _pair(before: int, after: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for channels in (before, after):
        layers += [
            nn.Conv2d(channels, after, 3, padding=1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(),
        ]
    return nn.Sequential(*layers)


def _filled(x: Tensor, block: int) -> Tensor:
    """Images whose height and width are multiples of `block`, with zeros below and on the right."""
    height, width = x.shape[-2:]
    return F.pad(x, (0, -width % block, 0, -height % block))


def _joined(x: Tensor, shortcut: Tensor) -> Tensor:
    """The level below, enlarged, beside the shortcut.

    From the first dropout on, passes of MC dropout are rows behind each other: the shortcut, which
    is the same for all of them, is repeated.
    """
    x = F.interpolate(x, size=shortcut.shape[-2:])
    if len(x) > len(shortcut):
        shortcut = shortcut.repeat(len(x) // len(shortcut), 1, 1, 1)
    return torch.cat([x, shortcut], dim=1)
