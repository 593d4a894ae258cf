"""The noise of the papers (Hein et al., 2019, section 5)."""

from dataclasses import replace

from nescio.checks import Array
from nescio.data.outside.mixture import mixture
from nescio.data.outside.permuted import permuted
from nescio.data.outside.smoothed import smoothed
from nescio.data.outside.uniform import uniform
from nescio.data.outside.value import Outside
from nescio.registry import outsides


@outsides.register
def paper_noise(x: Array, *, seed: int = 0) -> Outside:
    """Half uniform noise, half pixel-permuted images of `x`, both smoothed with sigma in [1, 2.5].

    Even indices are uniform noise, odd ones permuted images. The published code draws one sigma a
    batch; here each image has its own, so that it does not depend on its batch.
    """
    shuffled = permuted(x, seed=seed)
    noise = smoothed(mixture([uniform(shuffled.shape, seed=seed), shuffled]), seed=seed)
    return replace(noise, name="paper_noise", description=f"paper_noise({shuffled.description})")
