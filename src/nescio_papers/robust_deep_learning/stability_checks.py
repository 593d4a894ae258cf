"""Part `stability`: Lipschitz constants, deformations, adversarial examples and a patch."""

from collections.abc import Mapping
from typing import Any

from nescio.evaluation.compare import Absent
from nescio_papers.kit import Claim, Findings, Settings, absent, all_images, joined
from nescio_papers.robust_deep_learning import (
    stability_adversarial,
    stability_deformations,
    stability_interpolation,
    stability_lipschitz,
    stability_patch,
    stability_verdicts,
)
from nescio_papers.robust_deep_learning.stability_networks import (
    FIXED,
    PLAIN,
    digit_networks,
    sizes_of,
)

INTRODUCTION = (
    "How stable are the answers of a network? First, how fast its logits can change: exactly, on "
    "the linear regions that it consists of, between a lower bound by sampling and an upper bound "
    "by the product of its layers. Then, what rotations, translations and smooth deformations "
    "change, for a trained network and for a fixed wavelet scattering before one trained layer. "
    "Last, what the smallest changes and a printed patch do."
)


def run(settings: Settings) -> Findings:
    """Constants, deformations, adversarial examples, a patch."""
    sizes = sizes_of(settings)
    images = all_images("mnist", train=sizes.train, test=sizes.test)
    parts = {"half_moons": stability_lipschitz.toy(settings, sizes)}
    if isinstance(images, Absent):
        parts["mnist"] = absent("MNIST", images.why)
    else:
        networks = digit_networks(settings, sizes, images)
        parts["lipschitz"] = stability_lipschitz.digits(settings, sizes, images, networks)
        parts["deformations"] = stability_deformations.digits(settings, sizes, images, networks)
        parts["interpolation"] = stability_interpolation.half_a_pixel(
            {name: networks[name] for name in (FIXED, PLAIN)}, images.test[0][: sizes.deformed]
        )
    parts["adversarial"] = stability_adversarial.adversarial(settings)
    parts["patch"] = stability_patch.patched(settings)
    return joined(parts, INTRODUCTION)


def judge(numbers: Mapping[str, Any]) -> list[Claim]:
    """The claims of all pieces, from their numbers."""
    found = stability_lipschitz.claims(numbers)
    if "mnist" not in numbers:
        found += stability_verdicts.claims(numbers["deformations"])
        found += stability_interpolation.claims(numbers["interpolation"])
    if "absent" not in numbers["adversarial"]:
        found += stability_adversarial.claims(numbers["adversarial"])
        learned = [stability_adversarial.learned(numbers["adversarial"])]
        found += stability_patch.claims(numbers["patch"], learned)
    return found
