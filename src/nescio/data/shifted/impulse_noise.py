"""Salt and pepper (Hendrycks and Dietterich, 2019)."""

import torch
from torch import Tensor

from nescio.data.bits import Indices
from nescio.data.shifted.value import Shifted, uniform
from nescio.errors import NescioError
from nescio.registry import shifts


@shifts.register
def impulse_noise(*, share: float = 0.08, seed: int = 0) -> Shifted:
    """Set a share of the pixels to 0 or 1, `share` more a step; those of a step stay."""
    if not 0 < share <= 0.2:
        raise NescioError(f"`share` must be above 0 and at most 0.2 a step, got {share}")

    def change(x: Tensor, strength: float, numbers: Indices) -> Tensor:
        size = x[0, 0].numel()
        drawn = uniform(seed, "impulse noise", numbers, 2 * size).to(x.device)
        hit, white = drawn.view(len(x), 2, 1, *x.shape[2:]).unbind(1)
        return torch.where(hit < share * strength, (white < 0.5).to(x), x)

    return Shifted("impulse_noise", f"{100 * share:g} % of pixels lost a step", True, change)
