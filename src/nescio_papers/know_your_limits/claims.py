"""Sentences of the paper about its half-moons plots, with the numbers that bear on them."""

from typing import Any

from nescio_papers.kit import Claim, percent, verdict, verdict_of
from nescio_papers.know_your_limits.models import (
    ANCHORED,
    BUDGETS,
    DROPOUT,
    END,
    ENSEMBLE,
    MANY,
    PAPER,
    PLAIN,
    PLATT,
    SINGLE,
)
from nescio_papers.know_your_limits.surfaces import (
    ENTROPY,
    INFORMATION,
    LEAST,
    OF_MANY,
    OF_ONE,
    VARIANCE,
)

Numbers = dict[str, Any]
SECTION, APPENDIX = "Ulmer and Cinà, section 6", "Ulmer and Cinà, appendix B"
CAPTION, DISCUSSION = "Ulmer and Cinà, caption of figure 3", "Ulmer and Cinà, section 7"
LIKE_DATA = "far, no more uncertain than data"
SEVERAL = (DROPOUT, ENSEMBLE, ANCHORED)  # the models of the paper's figure 6
PAIRS = [(n, m) for n in SINGLE for m in OF_ONE] + [(n, m) for n in MANY for m in OF_MANY]


def surface_claims(numbers: Numbers, unit: str) -> list[Claim]:
    """All claims about the maps; numbers are of models trained to the end where nothing is said."""
    return [
        *_static(numbers[END]),
        *_single(numbers["shape"], numbers["step"]),
        _variance(numbers),
        *_fuzzy(numbers),
        *_information(numbers, unit),
        *_gradients(numbers[END], numbers["step"]),
        *_detection(numbers[END]),
    ]


def _mean(numbers: Numbers, *path: str) -> float:
    result: Any = numbers
    for key in path:
        result = result[key]
    return float(result["mean"])


def _shares(numbers: Numbers, models: tuple[str, ...], *path: str) -> str:
    return ", ".join(f"{name} {percent(_mean(numbers, name, *path))}" for name in models)


def _distance(value: float, step: float) -> str:
    """A distance on a grid, which shows nothing below its step."""
    return f"less than {step:g}" if value < step else f"{value:.2f}"


def _static(end: Numbers) -> list[Claim]:
    flat = _mean(end, PLAIN, LEAST, "far and flat")
    many = [_mean(end, name, ENTROPY, "far and flat") for name in MANY]
    anchored = _mean(end, ANCHORED, INFORMATION, "far and flat")
    ensemble = _mean(end, ENSEMBLE, VARIANCE, "far and flat")
    return [
        Claim(
            SECTION,
            "For a single network there exist vast open-ended regions of stable confidence.",
            f"{percent(flat)} of the plane more than 3 from the data has a gradient norm of "
            "1 - max probability below 0.001",
            verdict="holds" if flat > 0.5 else "partly",
        ),
        Claim(
            SECTION,
            "Turning to predictions aggregated from multiple network instances, we again observe "
            "large regions of constant uncertainty.",
            "share of the far plane where the gradient of the entropy is below 0.001: "
            + _shares(end, MANY, ENTROPY, "far and flat"),
            verdict="holds" if min(many) > 0.5 else "partly",
        ),
        Claim(
            CAPTION,
            "Open-ended regions of static certainty appear across different models and metrics; "
            "this phenomenon is less apparent in some instances (the anchored ensemble).",
            f"far and flat: {percent(ensemble)} for the ensemble's class variance, "
            f"{percent(anchored)} for the anchored ensemble's mutual information",
            verdict="holds" if anchored < ensemble - 0.05 else "partly",
        ),
    ]


def _single(shape: Numbers, step: float) -> list[Claim]:
    near = _mean(shape, END, PLAIN, "entropy above half: from the boundary")
    everywhere = _mean(shape, END, PLAIN, "all: from the boundary")
    wide, narrow = (
        _mean(shape, END, PLAIN, key) for key in ("entropy above half", "1 - max above half")
    )
    before, after = (
        {budget: _mean(shape, budget, name, "entropy above half") for budget in BUDGETS}
        for name in (PLAIN, PLATT)
    )
    return [
        Claim(
            APPENDIX,
            "Maximum probability and predictive entropy form a tube-like region of high "
            "uncertainty along what appear to be the decision boundary.",
            f"points with more than half the possible entropy lie {_distance(near, step)} from the "
            f"decision boundary in the median, all points {everywhere:.2f}",
            verdict="holds" if near < 0.25 * everywhere else "partly",
        ),
        Claim(
            APPENDIX,
            "The region appears to be sharper in the case of maximum probability.",
            f"above half its range: {percent(narrow)} of the plane for 1 - max probability, "
            f"{percent(wide)} for entropy; so for every network of two classes, as half is "
            "reached at p = 0.25 and p = 0.11",
            verdict=verdict_of(narrow < wide),
        ),
        Claim(
            APPENDIX,
            "The region is also more defined after additional temperature scaling.",
            "plane with more than half the possible entropy, before and after Platt scaling: "
            f"{percent(before[PAPER])} and {percent(after[PAPER])} with the paper's budget, "
            f"{percent(before[END])} and {percent(after[END])} when trained to the end",
            verdict=verdict_of(*(after[budget] < before[budget] for budget in BUDGETS)),
        ),
    ]


def _variance(numbers: Numbers) -> Claim:
    most = {b: {n: _mean(numbers[b], n, VARIANCE, "maximum") for n in SEVERAL} for b in BUDGETS}
    flat = [most[b][name] < 0.05 for b in BUDGETS for name in (DROPOUT, ENSEMBLE)]
    shown = {b: ", ".join(f"{name} {most[b][name]:.2f}" for name in SEVERAL) for b in BUDGETS}
    return Claim(
        APPENDIX,
        "Class variance didn't seem to produce significantly different values across the feature "
        "space except for the anchored ensemble.",
        f"largest class variance in the plane, of 0.25 possible: {shown[END]} when trained to the "
        f"end; {shown[PAPER]} with the paper's budget; in their code dropout was off",
        verdict=verdict_of(*flat),
    )


def _fuzzy(numbers: Numbers) -> list[Claim]:
    grows, shown = {}, {}
    for budget in BUDGETS:
        shape = numbers["shape"][budget]
        one, many, near = (_mean(shape, name, "fuzzy") for name in (PLAIN, ENSEMBLE, ANCHORED))
        grows[budget] = one < many < near
        shown[budget] = f"{percent(one)}, {percent(many)}, {percent(near)}"
    still = _mean(numbers[END], ANCHORED, ENTROPY, "far and flat")
    return [
        Claim(
            APPENDIX,
            'The "fuzziness" of the high-uncertainty region increases with the ensemble and '
            "becomes increasing large with its anchored variant.",
            "plane with an entropy between a tenth and nine tenths of the maximum, for plain "
            f"network, ensemble, anchored ensemble: {shown[END]} when trained to the end; "
            f"{shown[PAPER]} with the paper's budget",
            verdict=verdict_of(*grows.values()),
        ),
        Claim(
            APPENDIX,
            "Nevertheless, regions with static levels of certainty still exist in this case (the "
            "anchored ensemble).",
            f"{percent(still)} of the far plane has an entropy gradient below 0.001",
            verdict=verdict(still > 0.1),
        ),
    ]


def _information(numbers: Numbers, unit: str) -> list[Claim]:
    data, far, like = (
        {b: {n: _mean(numbers[b], n, INFORMATION, *path) for n in SEVERAL} for b in BUDGETS}
        for path in (("value", "on the data"), ("value", "far"), (LIKE_DATA,))
    )
    shown = {
        b: ", ".join(f"{n} {data[b][n]:.2g} and {far[b][n]:.2g}" for n in SEVERAL) for b in BUDGETS
    }
    left = {b: ", ".join(f"{n} {percent(like[b][n])}" for n in SEVERAL) for b in BUDGETS}
    solved = [like[b][ANCHORED] < 0.05 for b in BUDGETS]
    return [
        Claim(
            SECTION,
            "As mutual information aims to isolate epistemic uncertainty, it makes sense that "
            "uncertainty would be lowest around the training data.",
            f"median mutual information on the data and far away ({unit}): {shown[END]} when "
            f"trained to the end; {shown[PAPER]} with the paper's budget; what they plot is "
            f"another quantity, with a correlation of {numbers['released']['correlation']:.2f}",
            verdict=verdict_of(*(data[b][n] < far[b][n] for b in BUDGETS for n in SEVERAL)),
        ),
        Claim(
            APPENDIX,
            "This creates another tube-like region of high confidence even where there is no "
            "training data, an effect that is reduced with the neural ensemble.",
            f"far plane with a mutual information no higher than on 95 % of the data: {left[END]} "
            f"when trained to the end; {left[PAPER]} with the paper's budget",
            verdict=verdict_of(*(like[b][ENSEMBLE] < like[b][DROPOUT] for b in BUDGETS)),
        ),
        Claim(
            APPENDIX,
            "... and almost completely solved by the anchored ensemble.",
            f"of the far plane {percent(like[END][ANCHORED])} is left when trained to the end, "
            f"{percent(like[PAPER][ANCHORED])} with the paper's budget",
            verdict=verdict_of(*solved),
        ),
    ]


def _gradients(end: Numbers, step: float) -> list[Claim]:
    falls = [
        _mean(end, *pair, "gradient", "far") < _mean(end, *pair, "gradient", "near")
        for pair in PAIRS
    ]
    data, near, away, far = (
        _mean(end, PLAIN, ENTROPY, "gradient", ring)
        for ring in ("on the data", "near", "away", "far")
    )
    flat = [_mean(end, *pair, "far and flat") for pair in PAIRS]
    steep, every = (
        _mean(end, ENSEMBLE, ENTROPY, key)
        for key in ("steep: from a boundary", "far: from a boundary")
    )
    return [
        Claim(
            APPENDIX,
            "For all models and metrics, we see that the gradient magnitude decreases and "
            "approaches zero away from the training data.",
            f"the median norm far away is below that near the data for {sum(falls)} of "
            f"{len(PAIRS)} pairs of model and measure; entropy of the plain network: {data:.2g} on "
            f"the data, {near:.2g} near, {away:.2g} away, {far:.2g} far",
            verdict=verdict_of(*falls),
        ),
        Claim(
            APPENDIX,
            "For all metrics, we see a magnitude close to zero for the uncertainty gradient away "
            "from the training data, except for the decision boundaries.",
            f"below 0.001 on {percent(min(flat))} to {percent(max(flat))} of the far plane, by "
            f"model and measure; what is above 0.01 lies {_distance(steep, step)} from a boundary "
            f"of a member in the median, all of it {every:.2f} (ensemble, entropy)",
            verdict=verdict_of(min(flat) > 0.5, steep < 0.5 * every),
        ),
    ]


def _detection(end: Numbers) -> list[Claim]:
    result = {pair: _mean(end, *pair, "far auroc") for pair in PAIRS}
    worst, best = min(PAIRS, key=lambda p: result[p]), max(PAIRS, key=lambda p: result[p])
    like = {pair: _mean(end, *pair, LIKE_DATA) for pair in PAIRS}
    return [
        Claim(
            "Ulmer and Cinà, abstract",
            "Such techniques are not able to reliably identify OOD samples, since their level of "
            "confidence is generalized to unseen areas of the feature space.",
            f"AUROC of far points against validation points from {result[worst]:.2f} "
            f"({', '.join(worst)}) to {result[best]:.2f} ({', '.join(best)})",
            verdict="holds" if result[best] < 0.95 else "partly",
        ),
        Claim(
            DISCUSSION,
            "By extrapolating their level of uncertainty beyond the seen data, the models hinder "
            "their ability to discern between in-distribution and OOD data.",
            f"{percent(min(like.values()))} to {percent(max(like.values()))} of the far plane is "
            "no more uncertain than 95 % of the validation points; plain network, entropy: "
            f"{percent(like[PLAIN, ENTROPY])}, Platt scaling: {percent(like[PLATT, ENTROPY])}",
            verdict="holds" if min(like.values()) > 0.05 else "partly",
        ),
    ]
