"""The noise of the papers (Hein et al., 2019, section 5)."""

from dataclasses import replace

from nescio.checks import Array, as_batch, as_tensor
from nescio.data.outside.mixture import mixture
from nescio.data.outside.permuted import permuted
from nescio.data.outside.smoothed import smoothed
from nescio.data.outside.uniform import uniform
from nescio.data.outside.value import Outside
from nescio.errors import NescioError
from nescio.registry import outsides

ROUNDING = 1e-6


@outsides.register
def paper_noise(x: Array, *, seed: int = 0) -> Outside:
    """Half uniform noise, half pixel-permuted images of `x`, both smoothed with sigma in [1, 2.5].

    Even indices are uniform noise, odd ones permuted images. The published code draws one sigma a
    batch; here each image has its own, so that it does not depend on its batch. The noise is in
    [0, 1], so the images must be.
    """
    shuffled = permuted(x, seed=seed)
    noise = smoothed(mixture([uniform(shuffled.shape, seed=seed), shuffled]), seed=seed)
    lowest, highest = (as_batch(end).item() for end in as_tensor(x, "x").aminmax())
    if lowest < -ROUNDING or highest > 1 + ROUNDING:
        raise NescioError(
            f"paper_noise makes images in [0, 1], those of x range from {lowest:g} to {highest:g}; "
            "scale x to [0, 1] and the noise back with outside.scaled, or normalise in the network"
        )
    return replace(noise, name="paper_noise", description=f"paper_noise({shuffled.description})")
