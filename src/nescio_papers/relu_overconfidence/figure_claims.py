"""What Hein et al. (2019) say in the captions of their figures, judged from stored numbers."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nescio.conformal import binomial_interval
from nescio_papers.kit import Claim, Fact, fact
from nescio_papers.relu_overconfidence.methods import ACET, CEDA, PLAIN
from nescio_papers.relu_overconfidence.polytopes import polytope_claim
from nescio_papers.relu_overconfidence.seeds_and_pairs import over_seeds
from nescio_papers.relu_overconfidence.table_1_claims import STRONGEST

PAPERS, JUDGED = "the paper's attack", "the strong judge"
SOURCE = "Hein et al., figure"
LOW = 0.2  # very low confidence, of ten classes
SURE = 0.5  # a noise image that a network is sure of
RARE = 0.05  # very difficult: the attack succeeds on fewer
TRAINED = "one training each: the intervals are over noise images alone"
ALIKE, LEAST = 0.1, 0.05  # no similarity: fewer are as similar as all but 5 % of the data are
LEARNED = 0.05  # test error of a network that is worth a figure
OF_DIGITS = (
    "Note that neither in the noise images nor in the adversarially modified ones there is "
    "structure similar to a MNIST image."
)
OF_PHOTOGRAPHS = (
    "Neither the noise nor the adversarial noise images show similarity to CIFAR-10 images."
)
NOISE, NEAR, TEST = "noise", "adversarial noise ({})", "test images"  # whose similarity is stored
SHOWN = "; searches of the strong judge also start at test images: what is left of them is drawn"
Numbers = Mapping[str, Any]


def figure_claims(numbers: Numbers) -> list[Claim]:
    """The captions, from the numbers of the part `figures`; those that are there."""
    claims = []
    if "polytopes" in numbers:
        claims.append(polytope_claim(numbers["polytopes"]))
    mnist, cifar = (numbers.get(name, {}) for name in ("MNIST", "CIFAR-10"))
    if "similarity" in mnist:
        claims += [_no_structure("2", OF_DIGITS, mnist["similarity"]), _difficult(mnist)]
    if "similarity" in cifar:
        claims.append(_no_structure("3", OF_PHOTOGRAPHS, cifar["similarity"]))
    if "samples" in numbers and "wrong" in mnist:
        claims.append(_most_low(numbers["samples"], mnist["wrong"]))
    return claims


def _no_structure(number: str, sentence: str, found: Mapping[str, Sequence[float]]) -> Claim:
    usual = float(np.quantile(found[TEST], LEAST))
    middle = ", ".join(f"{what} {np.median(values):.2f}" for what, values in found.items())
    return Claim(
        source=f"{SOURCE} {number}",
        sentence=sentence,
        facts=[
            _share(
                f"share of {what} that is as similar to a training image as "
                f"{100 * (1 - LEAST):g} % of the test images are",
                sum(value >= usual for value in values),
                len(values),
                below=ALIKE,
            )
            for what, values in found.items()
            if what != TEST
        ],
        note="similarity: the largest correlation with a training image, colors aside, for "
        f"adversarial noise the largest of all networks; medians: {middle}"
        + SHOWN
        * (NEAR.format(JUDGED) in found),
    )


def _difficult(found: Numbers) -> Claim:
    sure = found["confidence"]
    means = ", ".join(f"{c} {np.mean(values[JUDGED]):.3f}" for c, values in sure.items())
    blind = ", ".join(f"{c} {np.mean(values[PAPERS]):.3f}" for c, values in sure.items())
    return Claim(
        source=f"{SOURCE} 2",
        sentence="For ACET and CEDA it is very difficult to generate adversarial noise images for "
        "the fully trained models thus we omit them.",
        facts=[
            _share(
                f"share of noise images with a confidence of {column} above {SURE:g}, {JUDGED}",
                *_above(sure[column][JUDGED]),
                below=RARE,
            )
            for column in (CEDA, ACET)
        ],
        needs=[
            _share("the same for the plain network", *_above(sure[PLAIN][JUDGED]), above=0.9),
            *_learned(found["wrong"]),
        ],
        note=f"{STRONGEST}; mean confidence under it: {means}; under {PAPERS}: {blind}; {TRAINED}",
    )


def _most_low(found: Numbers, wrong: Mapping[str, Sequence[int]]) -> Claim:
    means = ", ".join(f"{c} {by[JUDGED]['mean']:.3f}" for c, by in found.items())
    return Claim(
        source=f"{SOURCE} 4",
        sentence="ACET is the only model where most adversarial samples have very low confidence.",
        facts=[
            _over_seeds(
                f"share of the adversarial samples of {column} below {LOW:g}, {JUDGED}",
                found[column][JUDGED],
                above=0.5 if column == ACET else None,
                below=None if column == ACET else 0.5,
            )
            for column in (PLAIN, CEDA, ACET)
        ],
        needs=_learned(wrong),
        note=f"{STRONGEST}; mean confidence under it: {means}. A mean of 0.854, as in their table "
        "1, allows at most 18 % below 0.2",
    )


def _over_seeds(
    what: str, found: Numbers, *, above: float | None = None, below: float | None = None
) -> Fact:
    """A share over trainings; open where there was one alone."""
    each = [binomial_interval(*pair) for pair in found.get("by_seed", ()) if pair[1]]
    if len(each) < 2:
        return _share(f"{what}, over several trainings", 0, 0, above=above, below=below)
    whole = over_seeds(each)
    ends = (whole.low, whole.high)
    return fact(what, whole.value, ends, above=above, below=below, form=".1%", alike=True)


def _learned(wrong: Mapping[str, Sequence[int]]) -> list[Fact]:
    return [
        _share(f"test error of {column}", *count, below=LEARNED) for column, count in wrong.items()
    ]


def _above(values: Sequence[float]) -> tuple[int, int]:
    return sum(value > SURE for value in values), len(values)


def _share(
    what: str,
    hits: int,
    count: int,
    *,
    above: float | None = None,
    below: float | None = None,
) -> Fact:
    """A share with its exact interval; open where nothing was counted."""
    if not count:
        return fact(what, math.nan, (math.nan, math.nan), above=above, below=below, form=".1%")
    found = binomial_interval(hits, count)
    ends = (found.low, found.high)
    return fact(what, found.value, ends, above=above, below=below, form=".1%")
