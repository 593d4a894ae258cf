"""A convolutional network that trains on a laptop in seconds an epoch."""

from collections.abc import Sequence

from torch import nn

from nescio.core import NescioError
from nescio.nets.factory import network


@network
def small_cnn(
    inputs: Sequence[int] = (1, 28, 28),
    outputs: int = 10,
    *,
    width: int = 16,
    dropout: float = 0.0,
) -> nn.Module:
    """Two strided 5x5 convolutions, `width` and 2 `width` channels, and a layer of 128.

    About 200,000 weights for gray images of 28x28 and ten classes. Dropout stands before the last
    layer.
    """
    if isinstance(inputs, int) or len(inputs) != 3:
        raise NescioError(
            f"small_cnn reads images (channels, height, width), got {inputs}; use mlp"
        )
    channels, height, across = inputs
    if min(*inputs, outputs, width) < 1:
        raise NescioError(
            f"sizes must be positive, got inputs {tuple(inputs)}, outputs {outputs} and "
            f"width {width}"
        )
    if not 0 <= dropout < 1:
        raise NescioError(f"dropout must be in [0, 1), got {dropout}")
    layers: list[nn.Module] = [
        nn.Conv2d(channels, width, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Conv2d(width, 2 * width, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(2 * width * -(-height // 4) * -(-across // 4), 128),
        nn.ReLU(),
    ]
    layers += [nn.Dropout(dropout)] if dropout else []
    return nn.Sequential(*layers, nn.Linear(128, outputs))
