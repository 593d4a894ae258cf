"""A small convolutional network for 8x8 digits."""

from torch import nn

from nescio.core import NescioError
from nescio.nets.factory import network


@network
def digit_cnn(
    inputs: tuple[int, int, int] = (1, 8, 8), outputs: int = 10, *, dropout: float = 0.0
) -> nn.Module:
    """Two 3x3 convolutions, the second strided, and two linear layers; dropout before the last."""
    if isinstance(inputs, int) or len(inputs) != 3:
        raise NescioError(
            f"digit_cnn reads images (channels, height, width), got {inputs}; use mlp"
        )
    channels, height, width = inputs
    if not 0 <= dropout < 1:
        raise NescioError(f"dropout must be in [0, 1), got {dropout}")
    layers: list[nn.Module] = [
        nn.Conv2d(channels, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * ((height + 1) // 2) * ((width + 1) // 2), 64),
        nn.ReLU(),
    ]
    layers += [nn.Dropout(dropout)] if dropout else []
    return nn.Sequential(*layers, nn.Linear(64, outputs))
