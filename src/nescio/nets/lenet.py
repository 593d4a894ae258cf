"""The LeNet of Madry et al. (2018) and Hein et al. (2019), for MNIST and its relatives."""

from collections.abc import Sequence

from torch import nn

from nescio.core import NescioError
from nescio.nets.factory import network


@network
def lenet(
    inputs: Sequence[int] = (1, 28, 28), outputs: int = 10, *, dropout: float = 0.0
) -> nn.Module:
    """Convolutions 5x5x32 and 5x5x64, each with max pooling, a layer of 1024, and the outputs.

    The convolutions keep the size of the image, the poolings halve it; 3.27 million weights for
    28x28 and ten classes. Dropout stands before the last layer.
    """
    if isinstance(inputs, int) or len(inputs) != 3:
        raise NescioError(f"lenet reads images (channels, height, width), got {inputs}; use mlp")
    channels, height, width = inputs
    if min(channels, height // 4, width // 4, outputs) < 1:
        raise NescioError(
            f"lenet needs images of at least 4x4 and an output, got {tuple(inputs)} and {outputs}"
        )
    if not 0 <= dropout < 1:
        raise NescioError(f"dropout must be in [0, 1), got {dropout}")
    layers: list[nn.Module] = [
        nn.Conv2d(channels, 32, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * (height // 4) * (width // 4), 1024),
        nn.ReLU(),
    ]
    layers += [nn.Dropout(dropout)] if dropout else []
    return nn.Sequential(*layers, nn.Linear(1024, outputs))
