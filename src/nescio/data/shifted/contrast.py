"""Less contrast."""

from torch import Tensor

from nescio.data.bits import Indices
from nescio.data.shifted.value import Shifted
from nescio.errors import NescioError
from nescio.registry import shifts


@shifts.register
def contrast(*, share: float = 0.18) -> Shifted:
    """Bring pixels closer to the mean of their image, by `share` of the distance a step."""
    if not 0 < share <= 0.2:
        raise NescioError(f"`share` must be above 0 and at most 0.2 a step, got {share}")

    def change(x: Tensor, strength: float, numbers: Indices) -> Tensor:
        del numbers
        mean = x.mean((1, 2, 3), keepdim=True)
        return mean + (1 - share * strength) * (x - mean)

    return Shifted("contrast", f"{100 * share:g} % of the contrast lost a step", True, change)
