"""Uniform noise: every pixel by itself."""

from collections.abc import Sequence
from functools import partial

from numpy.typing import ArrayLike
from torch import Tensor

from nescio.data.noise import limits, uniform_images
from nescio.data.outside.source import shown
from nescio.data.outside.value import Outside, as_seed
from nescio.errors import NescioError
from nescio.registry import outsides


@outsides.register
def uniform(
    shape: Sequence[int],
    *,
    low: ArrayLike | Tensor = 0.0,
    high: ArrayLike | Tensor = 1.0,
    seed: int = 0,
) -> Outside:
    """Independent uniform pixels.

    `low` and `high` are numbers, or arrays of shape `shape` with the range of each feature. Input i
    is image i of `uniform_noise`.

    >>> uniform((1, 28, 28)).take(2).shape
    torch.Size([2, 1, 28, 28])
    """
    sizes = tuple(map(int, shape))
    if not sizes or min(sizes) < 1:
        raise NescioError(
            f"`shape` must be that of one input, such as (1, 28, 28), got {tuple(shape)}"
        )
    bottom, top = limits(low, high, sizes)
    text = f"uniform({sizes}, low={shown(bottom)}, high={shown(top)}, seed={as_seed(seed)})"
    make = partial(uniform_images, shape=sizes, bottom=bottom, top=top, seed=seed)
    return Outside("uniform", sizes, None, text, make)
