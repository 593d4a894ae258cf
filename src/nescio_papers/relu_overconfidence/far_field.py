"""Part `far-field`: how far noise must be scaled until ReLU networks are sure, and why RBF are not.

Table 2 of Hein et al. (2019) with exact factors, their theorem 3.1 by exact limits, and their
theorem 3.2 by an RBF network with its certificate.
"""

from collections.abc import Sequence
from typing import Any

from nescio.calibration import scaled as scaled_by
from nescio.geometry import first_confident, through_origin
from nescio_papers.kit import Comparison, Findings, Settings
from nescio_papers.relu_overconfidence.alphas import LEVEL, median
from nescio_papers.relu_overconfidence.certified import RBF, Certified, certified
from nescio_papers.relu_overconfidence.directions import limits
from nescio_papers.relu_overconfidence.examples import Example, chosen
from nescio_papers.relu_overconfidence.far_field_figures import (
    figure_of_alphas,
    figure_of_distance,
    figure_of_examples,
)
from nescio_papers.relu_overconfidence.far_field_tables import text_of
from nescio_papers.relu_overconfidence.measuring import Budget, found_of
from nescio_papers.relu_overconfidence.methods import PLAIN
from nescio_papers.relu_overconfidence.published import NOISE, TABLE_1, TABLE_2
from nescio_papers.relu_overconfidence.worlds import (
    CONV,
    DIGITS,
    MLP,
    MNIST,
    World,
    members,
    wide,
    worlds,
)

TEMPERATURE = 1000.0  # that of ODIN
ALPHAS, EXAMPLES, DISTANCE = "alphas.png", "rays.png", "distance.png"


def budget(settings: Settings, world: str) -> Budget:
    """Fewer in a quick run."""
    if settings.quick:
        return (
            Budget(rays=30, together=10, compared=20, directions=50)
            if world == DIGITS
            else Budget(rays=20, together=10, compared=10, directions=30)
        )
    return Budget(rays=1000, together=300, compared=200, directions=1000)


def run(settings: Settings) -> Findings:
    """Factors, limits, searches and the certificate, with three figures."""
    indices, seed = worlds(settings), settings.seed
    size = {world.name: budget(settings, world.name) for world in indices}
    result = [
        found_of(world, name, size[world.name], seed) for world in indices for name in world.models
    ]
    rbf = certified(indices[0], settings)
    numbers: dict[str, Any] = {
        "level": LEVEL,
        "worlds": {
            world.name: {f.name: f.numbers for f in result if f.world is world} for world in indices
        },
        "limits": {
            world.name: limits(world, size[world.name].directions, seed) for world in indices
        },
        "temperature": _temperature(indices[0], size[indices[0].name].together, seed),
        "rbf": rbf.numbers,
    }
    shown = chosen(result)
    return Findings(
        numbers=numbers,
        figures={
            ALPHAS: figure_of_alphas(result),
            EXAMPLES: figure_of_examples(shown),
            DISTANCE: figure_of_distance(rbf),
        },
        captions=_captions(numbers, shown, rbf),
        comparisons=_comparisons(numbers),
        text=text_of(numbers),
    )


def _temperature(world: World, count: int, seed: int) -> dict[str, Any]:
    """The same with logits divided by a thousand, for the first MLP."""
    model = wide(members(world.models[MLP], [0]))
    rays = through_origin(world.noise(count, seed))
    scaled = scaled_by(model, 1 / TEMPERATURE, (0.0,) * 10)
    before = first_confident(model, *rays, confidence=LEVEL, pooled=True)
    after = first_confident(scaled, *rays, confidence=LEVEL, pooled=True)
    return {
        "temperature": TEMPERATURE,
        "rays": len(rays[0]),
        "median": {"before": median(before.factor), "after": median(after.factor)},
        "never": after.factor.isinf().double().mean().item(),
    }


def _comparisons(numbers: dict[str, Any]) -> list[Comparison]:
    """Table 2, and the noise of table 1, for the plain network on MNIST."""
    world = MNIST if MNIST in numbers["worlds"] else DIGITS
    note = "" if world == MNIST else "digits of 8 x 8 pixels here"
    alpha, noise = TABLE_2[MNIST][PLAIN], TABLE_1[MNIST].rows[NOISE][PLAIN][0]
    rows = []
    for name in (CONV, MLP):
        one = numbers["worlds"][world][name]
        error = 100 * (1 - sum(one["accuracy"]) / len(one["accuracy"]))
        rows += [
            Comparison(f"{name}: test error, %", TABLE_1[MNIST].errors[PLAIN], error, note=note),
            Comparison(f"{name}: median alpha", alpha.alpha, one["median"], note=note),
            Comparison(
                f"{name}: scaled and cut to the box, above 95 %, %",
                alpha.overconfident,
                100 * one["clipped_above"],
                note=note,
            ),
            Comparison(
                f"{name}: mean confidence on noise", noise, one["mean_confidence_at_1"], note=note
            ),
        ]
    return rows


def _captions(numbers: dict[str, Any], shown: Sequence[Example], rbf: Certified) -> dict[str, str]:
    first = numbers["worlds"][DIGITS][CONV]
    beyond = numbers["rbf"]["beyond_the_radius"]
    ensemble = first.get("ensemble", {}).get("never", 0.0)
    wrong = [one for one in shown if one.misled]
    apart = (
        f" On the fourth ray the level is first reached at {wrong[0].exact:.3g}, and a bisection "
        f"says {wrong[0].bisected:.3g}."
        if wrong
        else ""
    )
    return {
        ALPHAS: "Share of noise images on which a network is 99.9 % sure after scaling by alpha; "
        "thin: each training, thick: all, dashed: the average of all trainings, by their mixture. "
        f"Convolutions on digits need a median factor of {first['median']:.3g}; their average "
        f"never gets there on {100 * ensemble:.0f} % of images, as members disagree forever.",
        EXAMPLES: "Confidence along rays through noise images or in random directions, with the "
        "exact first crossing (dot), what a bisection finds (cross) and the last breakpoint "
        f"(dotted).{apart}",
        DISTANCE: "Confidence by the distance to the nearest training image, along rays through "
        "noise and test images of digits; bands are from the lowest to the highest. Beyond "
        f"{rbf.radius:.3g} the certificate says that the RBF network is within "
        f"{rbf.bound.epsilon:g} of 1/10; the largest difference seen there is "
        f"{beyond['largest_gap']:.2g}, while convolutions have a mean confidence of "
        f"{beyond['mean_confidence'][CONV]:.3f} (RBF {beyond['mean_confidence'][RBF]:.3f}).",
    }
