"""Sentences of the paper about its half-moons plots, with the facts that they are judged by.

Every sentence is judged with both budgets: the paper's 20 epochs, and training to the end.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from nescio_papers.kit import A_SHARE, NOT_NEGATIVE, Claim, Fact, exactly
from nescio_papers.know_your_limits.judging import of_difference, of_number, of_orders, of_share
from nescio_papers.know_your_limits.models import (
    ANCHORED,
    BUDGETS,
    DROPOUT,
    ENSEMBLE,
    MANY,
    PLAIN,
    PLATT,
    SINGLE,
)
from nescio_papers.know_your_limits.surfaces import (
    ENTROPY,
    IN_FIGURE_6,
    INFORMATION,
    LEAST,
    OF_MANY,
    OF_ONE,
    VARIANCE,
)

Numbers = Mapping[str, Any]
SECTION, APPENDIX = "Ulmer and Cinà, section 6", "Ulmer and Cinà, appendix B"
CAPTION, DISCUSSION = "Ulmer and Cinà, caption of figure 3", "Ulmer and Cinà, section 7"
LIKE_DATA = "far, no more uncertain than data"
SEVERAL = (DROPOUT, ENSEMBLE, ANCHORED)  # the models of the paper's figure 6
SHOWN = ((PLAIN, LEAST), (DROPOUT, INFORMATION), (ENSEMBLE, VARIANCE), (ANCHORED, INFORMATION))
PAIRS = [(n, m) for n in SINGLE for m in OF_ONE] + [(n, m) for n in MANY for m in OF_MANY]
FAR_POINTS = 250  # of the grid: the far plane has more
LARGE = 0.25  # of the far plane: a region of that size is large
RELIABLE = 0.95  # AUROC, or share of what should be found
LEFT = 0.2  # of the far plane: an effect that leaves less is almost solved
VARIED = 0.05  # a fifth of the largest possible class variance
STEEP = 0.01  # a gradient that is not near zero


def surface_claims(numbers: Numbers) -> list[Claim]:
    """All claims about the maps."""
    return [
        *_static(numbers),
        *_single(numbers),
        _variance(numbers),
        *_fuzzy(numbers),
        *_information(numbers),
        *_gradients(numbers),
        *_detection(numbers),
    ]


def _at(numbers: Numbers, *path: str) -> Numbers:
    result: Any = numbers
    for key in path:
        result = result[key]
    found: Numbers = result
    return found


def _share(numbers: Numbers, path: tuple[str, ...], what: str, **limit: float) -> Fact:
    return of_share(what, _at(numbers, *path), points=FAR_POINTS, **limit)  # type: ignore[arg-type]


def _flat(
    numbers: Numbers, pairs: Sequence[tuple[str, str]], budgets: Sequence[str] = BUDGETS
) -> list[Fact]:
    """The share of the far plane that is flat, for pairs of a model and a measure."""
    return [
        _share(
            numbers,
            (budget, *pair, "far and flat"),
            f"far plane with a gradient below 0.001 ({', '.join(pair)}; {budget})",
            above=LARGE,
        )
        for budget in budgets
        for pair in pairs
    ]


def _static(numbers: Numbers) -> list[Claim]:
    less = [
        of_difference(
            "far and flat, anchored ensemble (mutual information) less ensemble (class variance) "
            f"({budget})",
            _at(numbers, budget, ANCHORED, INFORMATION, "far and flat"),
            _at(numbers, budget, ENSEMBLE, VARIANCE, "far and flat"),
            below=0,
        )
        for budget in BUDGETS
    ]
    return [
        Claim(
            source=SECTION,
            sentence="For a single network there exist vast open-ended regions of stable "
            "confidence.",
            facts=_flat(numbers, SHOWN[:1]),
        ),
        Claim(
            source=SECTION,
            sentence="Turning to predictions aggregated from multiple network instances in "
            "Figures 3b-3d, we again observe large regions of constant uncertainty.",
            facts=_flat(numbers, SHOWN[1:]),
        ),
        Claim(
            source=CAPTION,
            sentence="Open-ended regions of static certainty appear across different models and "
            "metrics; this phenomenon is less apparent in some instances (the anchored ensemble).",
            facts=[*_flat(numbers, SHOWN[:3]), *less],
        ),
    ]


def _single(numbers: Numbers) -> list[Claim]:
    shape, step = numbers["shape"], float(numbers["step"])
    near = [
        of_number(
            f"median distance of points with more than half the entropy from the boundary, half "
            f"the grid's median as the limit ({budget})",
            _at(shape, budget, PLAIN, "entropy above half: from the boundary"),
            below=_at(shape, budget, PLAIN, "all: from the boundary")["mean"] / 2,
            step=step,
            within=NOT_NEGATIVE,
        )
        for budget in BUDGETS
    ]
    alike = exactly(
        "rank correlation of entropy and 1 - max probability",
        1.0,
        above=0.99,
        why="for two classes both rise with the smaller probability",
    )
    sharper = exactly(
        "smaller probability at which half the range is reached, 1 - max less entropy",
        0.25 - 0.11002786443836,
        above=0,
        why="2 p = 1/2 and H(p) = 1/2 bit",
    )
    defined = [
        of_difference(
            f"plane with more than half the entropy, Platt scaling less plain ({budget})",
            _at(shape, budget, PLATT, "entropy above half"),
            _at(shape, budget, PLAIN, "entropy above half"),
            below=0,
        )
        for budget in BUDGETS
    ]
    return [
        Claim(
            source=APPENDIX,
            sentence="Maximum probability and predictive entropy behave quite similarly, forming a "
            "tube-like region of high uncertainty along what appear to be the decision boundary.",
            facts=[alike, *near],
        ),
        Claim(
            source=APPENDIX,
            sentence="The region appears to be sharper in the case of maximum probability.",
            facts=[sharper],
            note="so for every network of two classes",
        ),
        Claim(
            source=APPENDIX,
            sentence="The region is also more defined after additional temperature scaling.",
            facts=defined,
            note="in their code it is Platt scaling",
        ),
    ]


def _variance(numbers: Numbers) -> Claim:
    facts = [
        of_number(
            f"class variance of {name}, 95 % less 5 % quantile over the plane ({budget})",
            _at(numbers, budget, name, VARIANCE, "5 to 95 %"),
            above=VARIED if name == ANCHORED else None,
            below=None if name == ANCHORED else VARIED,
            within=NOT_NEGATIVE,
        )
        for budget in BUDGETS
        for name in SEVERAL
    ]
    return Claim(
        source=APPENDIX,
        sentence="Class variance didn't seem to produce significantly different values across the "
        "feature space except for the anchored ensemble.",
        facts=facts,
        note="of 0.25 possible; in their code dropout was off",
    )


def _fuzzy(numbers: Numbers) -> list[Claim]:
    shape = numbers["shape"]
    grows = [
        of_difference(
            f"plane with an entropy from a tenth to nine tenths, {two} less {one} ({budget})",
            _at(shape, budget, two, "fuzzy"),
            _at(shape, budget, one, "fuzzy"),
            above=0,
        )
        for budget in BUDGETS
        for one, two in ((PLAIN, ENSEMBLE), (ENSEMBLE, ANCHORED))
    ]
    still = [
        _share(
            numbers,
            (budget, ANCHORED, ENTROPY, "far and flat"),
            f"far plane with an entropy gradient below 0.001 ({budget})",
            above=0.1,
        )
        for budget in BUDGETS
    ]
    return [
        Claim(
            source=APPENDIX,
            sentence='The "fuzziness" of the high-uncertainty region increases with the ensemble '
            "and becomes increasing large with its anchored variant.",
            facts=grows,
        ),
        Claim(
            source=APPENDIX,
            sentence="Nevertheless, regions with static levels of certainty still exist in this "
            "case (the anchored ensemble).",
            facts=still,
        ),
    ]


def _information(numbers: Numbers) -> list[Claim]:
    lowest = [
        of_difference(
            f"median mutual information of {name}, far less on the data ({budget})",
            _at(numbers, budget, name, INFORMATION, "value", "far"),
            _at(numbers, budget, name, INFORMATION, "value", "on the data"),
            above=0,
        )
        for budget in BUDGETS
        for name in SEVERAL
    ]
    reduced = [
        of_difference(
            f"far plane no more uncertain than 95 % of the data, ensemble less dropout ({budget})",
            _at(numbers, budget, ENSEMBLE, INFORMATION, LIKE_DATA),
            _at(numbers, budget, DROPOUT, INFORMATION, LIKE_DATA),
            below=0,
        )
        for budget in BUDGETS
    ]
    solved = [
        _share(
            numbers,
            (budget, ANCHORED, INFORMATION, LIKE_DATA),
            f"far plane that is left ({budget})",
            below=LEFT,
        )
        for budget in BUDGETS
    ]
    return [
        Claim(
            source=SECTION,
            sentence="As mutual information aims to isolate epistemic uncertainty, it makes sense "
            "that uncertainty would be lowest around the training data.",
            facts=lowest,
            note="what they plot is another quantity, with a correlation of "
            f"{numbers['released']['correlation']:.2f}",
        ),
        Claim(
            source=APPENDIX,
            sentence="This creates another tube-like region of high confidence even where there is "
            "no training data, an effect that is reduced with the neural ensemble.",
            facts=reduced,
        ),
        Claim(
            source=APPENDIX,
            sentence="... and almost completely solved by the anchored ensemble.",
            facts=solved,
        ),
    ]


def _gradients(numbers: Numbers) -> list[Claim]:
    falls = [
        of_orders(
            f"orders of magnitude of the median gradient norm, far away over near the data "
            f"({', '.join(pair)}; {budget})",
            _at(numbers, budget, *pair, "gradient", "far"),
            _at(numbers, budget, *pair, "gradient", "near"),
            below=0,
        )
        for budget in BUDGETS
        for pair in PAIRS
        if pair[0] in SINGLE
    ]
    ends = [
        of_number(
            f"median gradient norm far away ({', '.join(pair)}; {budget})",
            _at(numbers, budget, *pair, "gradient", "far"),
            below=STEEP,
            within=NOT_NEGATIVE,
        )
        for budget in BUDGETS
        for pair in PAIRS
        if pair[0] in SINGLE
    ]
    return [
        Claim(
            source=APPENDIX,
            sentence="For all models and metrics (of figure 5), we see that the gradient magnitude "
            "decreases and approaches zero away from the training data ..., except for the cases "
            "discussed in Section 6.",
            facts=[*falls, *ends],
        ),
        Claim(
            source=APPENDIX,
            sentence="For all metrics, we see a magnitude close to zero for the uncertainty "
            "gradient away from the training data, except for the decision boundaries.",
            facts=[*_least_flat(numbers), *_edges(numbers)],
            note="of the measures of figure 6 the one that fits the sentence least; steep is above "
            f"{STEEP:g}",
        ),
        _overlap(numbers),
    ]


def _least_flat(numbers: Numbers) -> list[Fact]:
    """Of each model of figure 6, the measure with the smallest share of flat points."""
    facts = []
    for budget in BUDGETS:
        for name in SEVERAL:
            own = {kind: _at(numbers, budget, name, kind, "far and flat") for kind in IN_FIGURE_6}
            least = min(own, key=lambda kind: float(own[kind]["mean"]))
            facts += _flat(numbers, [(name, least)], [budget])
    return facts


def _edges(numbers: Numbers) -> list[Fact]:
    """Of each model of figure 6, the measure whose steep points are farthest from a boundary."""
    facts = []
    for budget in BUDGETS:
        for name in SEVERAL:
            own = {
                kind: _at(numbers, budget, name, kind, "steep: from a boundary")
                for kind in IN_FIGURE_6
            }
            most = max(own, key=lambda kind: float(own[kind]["mean"]))
            facts.append(
                of_number(
                    "median distance of steep far points from a member's boundary, half that of "
                    f"all far points as the limit ({name}, {most}; {budget})",
                    own[most],
                    below=_at(numbers, budget, name, most, "far: from a boundary")["mean"] / 2,
                    step=float(numbers["step"]),
                    within=NOT_NEGATIVE,
                )
            )
    return facts


def _overlap(numbers: Numbers) -> Claim:
    steep = "far and steep"
    facts = []
    for budget in BUDGETS:
        own = numbers[budget]
        one, many, anchored = (
            _at(own, *pair, steep) for pair in SHOWN if pair != (DROPOUT, INFORMATION)
        )
        what = f"far plane with a gradient above {STEEP:g}"
        facts += [
            of_difference(f"{what}, ensemble less plain ({budget})", many, one, above=0),
            of_difference(f"{what}, anchored less ensemble ({budget})", anchored, many, below=0),
        ]
    return Claim(
        source=SECTION,
        sentence="When the polytopes of instances overlap, the regions where the assumption is "
        "violated can either extend (figure 3c) or shrink (figure 3d), based on the diversity "
        "among instances.",
        facts=facts,
        note="measures of figure 3",
    )


def _detection(numbers: Numbers) -> list[Claim]:
    facts, told = [], []
    for budget in BUDGETS:
        areas = {pair: _at(numbers, budget, *pair, "far auroc") for pair in PAIRS}
        worst, best = (pick(PAIRS, key=lambda p: areas[p]["mean"]) for pick in (min, max))
        what = (
            f"highest AUROC of far points against validation points ({', '.join(best)}; {budget})"
        )
        facts.append(of_number(what, areas[best], below=RELIABLE, within=A_SHARE))
        told.append(f"lowest {areas[worst]['mean']:.2f} ({', '.join(worst)}; {budget})")
    like = [
        _share(
            numbers,
            (budget, *pair, LIKE_DATA),
            f"far plane no more uncertain than 95 % of the data ({', '.join(pair)}; {budget})",
            above=LEFT,
        )
        for budget in BUDGETS
        for pair in SHOWN
    ]
    return [
        Claim(
            source="Ulmer and Cinà, abstract",
            sentence="Such techniques are not able to reliably identify OOD samples, since their "
            "level of confidence is generalized to unseen areas of the feature space.",
            facts=facts,
            note="; ".join(told),
        ),
        Claim(
            source=DISCUSSION,
            sentence="By extrapolating their level of uncertainty beyond the seen data, the models "
            "hinder their ability to discern between in-distribution and OOD data.",
            facts=like,
        ),
    ]
