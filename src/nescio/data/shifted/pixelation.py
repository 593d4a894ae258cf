"""Fewer pixels."""

from torch import Tensor
from torch.nn import functional as F

from nescio.data.bits import Indices
from nescio.data.shifted.value import Shifted
from nescio.errors import NescioError
from nescio.registry import shifts


@shifts.register
def pixelation(*, share: float = 0.16) -> Shifted:
    """Average blocks of pixels; the image has `share` fewer rows and columns of them a step."""
    if not 0 < share < 0.2:
        raise NescioError(f"`share` must be between 0 and 0.2 a step, got {share}")

    def change(x: Tensor, strength: float, numbers: Indices) -> Tensor:
        del numbers
        rows, columns = (max(1, round(side * (1 - share * strength))) for side in x.shape[2:])
        blocks = F.adaptive_avg_pool2d(x, (rows, columns))
        return F.interpolate(blocks, x.shape[2:], mode="nearest-exact")

    return Shifted("pixelation", f"{100 * share:g} % fewer pixels a side a step", True, change)
