"""Residual networks for small images (He et al., 2016, section 4.2): ResNet-20 and its kin."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nescio.core import NescioError
from nescio.nets.convolutional import image_shape
from nescio.nets.factory import network


class Block(nn.Module):
    """Two 3x3 convolutions with BatchNorm, added to the block's input.

    Where a block halves the image, its input is every second pixel, with channels of zeros added
    (option A of the paper): the way past the convolutions has no weights.
    """

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.more, self.stride = after - before, stride
        self.body = nn.Sequential(
            nn.Conv2d(before, after, 3, stride, 1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(),
            nn.Conv2d(after, after, 3, 1, 1, bias=False),
            nn.BatchNorm2d(after),
        )

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.body(x)
        if self.stride > 1:
            x = x[:, :, :: self.stride, :: self.stride]
        if self.more:
            x = F.pad(x, (0, 0, 0, 0, 0, self.more))
        return torch.relu(hidden + x)


@network
def resnet(
    inputs: Sequence[int] = (3, 32, 32),
    outputs: int = 10,
    *,
    blocks: int = 3,
    width: int = 16,
    stem: int = 1,
    hidden: int = 0,
) -> nn.Module:
    """Three stages of residual blocks with `width`, 2 `width` and 4 `width` channels.

    Each stage has `blocks` blocks and the later two halve the image: 6 `blocks` + 2 layers, so that
    3 blocks are ResNet-20 with 0.27 million weights. BatchNorm after every convolution.
    stem: stride of the first convolution; 2 takes a quarter of the time, with 5x5 windows.
    hidden: units of a layer before the last one, which can fall silent far from the data; 0: none.
    """
    image_shape("resnet", inputs)
    if min(*inputs, outputs, blocks, width, stem, hidden + 1) < 1:
        raise NescioError(
            f"sizes must be positive, got inputs {tuple(inputs)}, outputs {outputs}, "
            f"blocks {blocks}, width {width}, stem {stem} and hidden {hidden}"
        )
    wide = 2 * stem + 1
    layers: list[nn.Module] = [
        nn.Conv2d(inputs[0], width, wide, stem, stem, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
    ]
    before = width
    for stage in range(3):
        for block in range(blocks):
            after = width * 2**stage
            layers.append(Block(before, after, 2 if stage and not block else 1))
            before = after
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    if hidden:
        layers += [nn.Linear(before, hidden), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(hidden or before, outputs))
