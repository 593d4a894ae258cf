"""More light."""

from torch import Tensor

from nescio.data.bits import Indices
from nescio.data.shifted.value import Shifted, positive
from nescio.registry import shifts


@shifts.register
def brightness(*, amount: float = 0.12) -> Shifted:
    """Add `amount` a step to every pixel, cut at 1."""
    step = positive("amount", amount)

    def change(x: Tensor, strength: float, numbers: Indices) -> Tensor:
        del numbers
        return x + step * strength

    return Shifted("brightness", f"{step:g} brighter a step", True, change)
