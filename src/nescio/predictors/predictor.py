"""What a predictor is: inputs `(N, ...)` to a prediction with a member axis."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from torch import nn

from nescio.prediction import Prediction


class Predictor(Protocol):
    """Anything that answers inputs with a prediction: a model, sampled passes, a scaled model.

    Calling it takes any inputs, in pieces, without gradients. Those that can be attacked also have
    `answer(x)`, which keeps the gradients with respect to the inputs.
    """

    def __call__(self, x: Any, /) -> Prediction: ...


@contextmanager
def evaluating(net: nn.Module) -> Iterator[None]:
    """Put every layer of `net` into evaluation mode for a block, then back as it was."""
    modes = {module: module.training for module in net.modules()}
    net.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode
