"""A fully convolutional network for label maps: dilated convolutions (Yu and Koltun, 2016)."""

from collections.abc import Sequence

from torch import nn

from nescio.core import NescioError
from nescio.nets.convolutional import image_shape
from nescio.nets.factory import check_dropout, network


@network
def dilated_cnn(
    inputs: Sequence[int] = (3, 90, 120),
    outputs: int = 11,
    *,
    width: int = 32,
    depth: int = 4,
    dropout: float = 0.0,
) -> nn.Module:
    """Convolutions 3x3 that keep the size of the image, each twice as far apart as the one before.

    It returns `(N, outputs, H, W)`, class logits for each pixel, from 2^depth - 1 pixels
    around it each way; images of another height and width run as well. The last layer is a 1x1
    convolution.

        dilated_cnn((3, 90, 120), 11, width=32)

    inputs: channels, height and width of an image.
    outputs: number of classes.
    width: number of channels of each layer.
    depth: number of 3x3 convolutions.
    dropout: dropout rate of whole channels before the last layer, in [0, 1).
    """
    channels, _, _ = image_shape("dilated_cnn", inputs)
    if min(*inputs, outputs, width, depth) < 1:
        raise NescioError(
            f"sizes must be positive, got inputs {tuple(inputs)}, outputs {outputs}, width {width} "
            f"and depth {depth}"
        )
    layers: list[nn.Module] = []
    for level in range(depth):
        apart = 2**level
        layers += [
            nn.Conv2d(width if level else channels, width, 3, padding=apart, dilation=apart),
            nn.ReLU(),
        ]
    if check_dropout(dropout):
        layers.append(nn.Dropout2d(dropout))
    return nn.Sequential(*layers, nn.Conv2d(width, outputs, 1))
