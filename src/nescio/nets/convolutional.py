"""Convolutional networks: for 8x8 digits, for a laptop, LeNet, and residual ones for images.

The last are ResNet-20 and its kin (He et al., 2016, section 4.2).
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nescio.core import NescioError
from nescio.nets.factory import check_dropout, network


@network
def digit_cnn(
    inputs: tuple[int, int, int] = (1, 8, 8), outputs: int = 10, *, dropout: float = 0.0
) -> nn.Module:
    """Two 3x3 convolutions, the second strided, and two linear layers; dropout before the last.

        digit_cnn((1, 8, 8), 10)

    inputs: channels, height and width of an image.
    outputs: number of outputs, such as classes.
    dropout: dropout rate, in [0, 1).
    """
    channels, height, width = image_shape("digit_cnn", inputs)
    convolutions = [
        nn.Conv2d(channels, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.ReLU(),
    ]
    flat = 32 * ((height + 1) // 2) * ((width + 1) // 2)
    return _with_head(convolutions, (flat, 64, outputs), dropout)


@network
def small_cnn(
    inputs: Sequence[int] = (1, 28, 28), outputs: int = 10, *, width: int = 16, dropout: float = 0.0
) -> nn.Module:
    """Two strided 5x5 convolutions, `width` and 2 `width` channels, and a layer of 128.

    It trains on a laptop in seconds per epoch: about 200,000 weights for gray images of 28x28 and
    ten classes.

        small_cnn((1, 28, 28), 10, width=16)

    inputs: channels, height and width of an image.
    outputs: number of outputs, such as classes.
    width: number of channels of the first convolution.
    dropout: dropout rate before the last layer, in [0, 1).
    """
    channels, height, across = image_shape("small_cnn", inputs)
    if min(*inputs, outputs, width) < 1:
        raise NescioError(
            f"sizes must be positive, got inputs {tuple(inputs)}, outputs {outputs} and "
            f"width {width}"
        )
    convolutions = [
        nn.Conv2d(channels, width, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Conv2d(width, 2 * width, 5, stride=2, padding=2),
        nn.ReLU(),
    ]
    flat = 2 * width * -(-height // 4) * -(-across // 4)
    return _with_head(convolutions, (flat, 128, outputs), dropout)


@network
def lenet(
    inputs: Sequence[int] = (1, 28, 28), outputs: int = 10, *, dropout: float = 0.0
) -> nn.Module:
    """Convolutions 5x5x32 and 5x5x64, each with max pooling, a layer of 1024, and the outputs.

    The LeNet of Madry et al. (2018) and Hein et al. (2019), for MNIST and its relatives. The
    convolutions keep the size of the image, the poolings halve it; 3.27 million weights for 28x28
    and ten classes.

        lenet((1, 28, 28), 10)

    inputs: channels, height and width of an image.
    outputs: number of outputs, such as classes.
    dropout: dropout rate before the last layer, in [0, 1).
    """
    channels, height, width = image_shape("lenet", inputs)
    if min(channels, height // 4, width // 4, outputs) < 1:
        raise NescioError(
            f"lenet needs images of at least 4x4 and an output, got {tuple(inputs)} and {outputs}"
        )
    convolutions = [
        nn.Conv2d(channels, 32, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
    ]
    return _with_head(convolutions, (64 * (height // 4) * (width // 4), 1024, outputs), dropout)


def image_shape(name: str, inputs: Sequence[int]) -> tuple[int, int, int]:
    """Channels, height and width, or an error that names the network."""
    if isinstance(inputs, int) or len(inputs) != 3:
        raise NescioError(f"{name} reads images (channels, height, width), got {inputs}; use mlp")
    channels, height, width = inputs
    return channels, height, width


def _with_head(
    layers: Sequence[nn.Module], sizes: tuple[int, int, int], dropout: float
) -> nn.Sequential:
    """The layers, flattened, and two linear layers with ReLU and dropout between."""
    flat, hidden, outputs = sizes
    between: list[nn.Module] = [nn.ReLU()]
    if check_dropout(dropout):
        between.append(nn.Dropout(dropout))
    head = [nn.Linear(flat, hidden), *between, nn.Linear(hidden, outputs)]
    return nn.Sequential(*layers, nn.Flatten(), *head)


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
    dropout: float = 0.0,
) -> nn.Module:
    """Three stages of residual blocks with `width`, 2 `width` and 4 `width` channels.

    Each stage has `blocks` blocks and the later two halve the image: 6 `blocks` + 2 layers, so that
    3 blocks are ResNet-20 with 0.27 million weights. BatchNorm after every convolution.

    inputs: channels, height and width of an image.
    outputs: number of outputs, such as classes.
    blocks: number of blocks in each stage.
    width: number of channels of the first stage.
    stem: stride of the first convolution; 2 takes a quarter of the time, with 5x5 windows.
    hidden: units of a layer before the last one, which can fall silent far from the data; 0: none.
    dropout: dropout rate before the last layer, in [0, 1).
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
    if check_dropout(dropout):
        layers.append(nn.Dropout(dropout))
    return nn.Sequential(*layers, nn.Linear(hidden or before, outputs))
