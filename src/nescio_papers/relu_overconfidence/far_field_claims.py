"""What Hein et al. (2019) say about the far field, and what was measured."""

from collections.abc import Mapping
from typing import Any

from nescio_papers.kit import Claim, percent, verdict
from nescio_papers.relu_overconfidence.certified import RBF
from nescio_papers.relu_overconfidence.far_field_tables import factor
from nescio_papers.relu_overconfidence.worlds import CONV, DIGITS, MLP, MNIST, NARROW

Numbers = Mapping[str, Any]
SOURCE = "Hein et al."


def claims_of(numbers: Numbers) -> list[Claim]:
    """The paper's sentences with verdicts."""
    usual = [
        (world, name, row)
        for world, nets in numbers["worlds"].items()
        for name, row in nets.items()
        if name != NARROW
    ]
    return [
        _theorem(numbers),
        _rows_of_v(numbers),
        _lemma(numbers),
        _scaling(numbers, usual),
        _constant(numbers),
        _projection(numbers),
        _heat(numbers["temperature"]),
        _certificate(numbers["rbf"]),
    ]


def _each_limit(numbers: Numbers, *, narrow: bool) -> list[Numbers]:
    return [
        result
        for nets in numbers["limits"].values()
        for name, ways in nets.items()
        for result in ways.values()
        if (name == NARROW) == narrow
    ]


def _theorem(numbers: Numbers) -> Claim:
    least = min(result["one"] for result in _each_limit(numbers, narrow=False))
    small = min(result["one"] for result in _each_limit(numbers, narrow=True))
    return Claim(
        f"{SOURCE}, theorem 3.1",
        "If no V has identical rows, then for almost any x the confidence on alpha x goes to 1.",
        f"the limit is one class on at least {percent(least)} of rays of the usual networks, and "
        f"on at least {percent(small)} of those with 6 units a layer, whose other rays break the "
        "condition: exact limits, by direction and network",
        verdict="holds",
    )


def _rows_of_v(numbers: Numbers) -> Claim:
    wide = sum(f["constant"] * f["rays"] for f in _each_limit(numbers, narrow=False))
    rays = sum(f["rays"] for f in _each_limit(numbers, narrow=False))
    narrow = [f["constant"] for f in _each_limit(numbers, narrow=True)]
    accuracy = numbers["worlds"][DIGITS][NARROW]["accuracy"]
    return Claim(
        f"{SOURCE}, section 3",
        "It is hardly imaginable that V has identical rows for a normally trained network.",
        f"constant far out on {wide:.0f} of {rays} rays of the usual networks; of those with 6 "
        f"units a layer (accuracy {percent(min(accuracy))} to {percent(max(accuracy))}) on "
        f"{percent(min(narrow))} to {percent(max(narrow))} by direction: dead units leave V = 0",
        verdict="partly" if max(narrow) > 0 else "holds",
    )


def _lemma(numbers: Numbers) -> Claim:
    largest = max(
        result["largest_radius"]
        for narrow in (False, True)
        for result in _each_limit(numbers, narrow=narrow)
    )
    medians = [
        f"{name} on {world} {factor(row['radius']['0.5'])}"
        for world, nets in numbers["worlds"].items()
        for name, row in nets.items()
    ]
    return Claim(
        f"{SOURCE}, lemma 3.1",
        "From some alpha on, all beta x lie in one linear region.",
        f"median of that alpha on noise: {', '.join(medians)}; the largest on any ray "
        f"{factor(largest)}",
        verdict="holds",
    )


def _scaling(numbers: Numbers, usual: list[tuple[str, str, Numbers]]) -> Claim:
    most = max(row["never"] for _, _, row in usual)
    narrow = numbers["worlds"][DIGITS][NARROW]["never"]
    ensembles = [
        f"{name} on {world} {percent(row['ensemble']['never'])}"
        for world, name, row in usual
        if "ensemble" in row
    ]
    return Claim(
        f"{SOURCE}, table 2",
        "It is always possible to obtain overconfident predictions just by scaling inputs.",
        f"never on at most {percent(most)} of noise images for each usual network, on "
        f"{percent(narrow)} with 6 units a layer; for averages of several networks, whose members "
        f"disagree for ever, never on: {', '.join(ensembles) or 'not measured'}",
        verdict="holds" if most == 0 and narrow == 0 else "partly",
    )


def _constant(numbers: Numbers) -> Claim:
    if MNIST not in numbers["worlds"]:
        row = numbers["worlds"][DIGITS][CONV]
        return Claim(
            f"{SOURCE}, table 2",
            "The median alpha of the plain network on MNIST is 1.5.",
            f"no MNIST at hand; {factor(row['median'])} for convolutions on 8 x 8 digits",
            verdict="open",
        )
    rows = {name: numbers["worlds"][MNIST][name] for name in (CONV, MLP)}
    said = [
        f"{name} {factor(row['median'])} "
        f"({factor(min(row['median_by_seed']))} to {factor(max(row['median_by_seed']))})"
        for name, row in rows.items()
    ]
    middle = min(row["median"] for row in rows.values())
    return Claim(
        f"{SOURCE}, table 2",
        "The median alpha of the plain network on MNIST is 1.5.",
        f"{', '.join(said)}; in brackets the lowest and highest of trainings that differ by their "
        "seed only, so one number says little. The network is smaller here and trained for less "
        "long",
        verdict=verdict(middle < 2, middle < 10),
    )


def _projection(numbers: Numbers) -> Claim:
    world = MNIST if MNIST in numbers["worlds"] else DIGITS
    rows = {name: numbers["worlds"][world][name] for name in (CONV, MLP)}
    said = ", ".join(f"{name} {percent(row['clipped_above'])}" for name, row in rows.items())
    least = min(row["clipped_above"] for row in rows.values())
    most = max(row["clipped_above"] for row in rows.values())
    return Claim(
        f"{SOURCE}, table 2",
        "Cut back to [0, 1]^d, 98.7 % of the scaled noise images stay above 95 % confidence.",
        f"on {world}: {said}. It follows from the small alpha: what is scaled by more is cut more",
        verdict=verdict(least > 0.9, most > 0.5),
    )


def _heat(result: Numbers) -> Claim:
    middle = result["median"]
    return Claim(
        f"{SOURCE}, section 3",
        "Temperature rescaling of the softmax will not be able to detect these cases.",
        f"with T = {result['temperature']:g} the MLP on digits still gets there on "
        f"{percent(1 - result['never'])} of {result['rays']} noise images; the median alpha goes "
        f"from {factor(middle['before'])} to {factor(middle['after'])}",
        verdict="holds" if result["never"] < 0.01 else "partly",
    )


def _certificate(result: Numbers) -> Claim:
    beyond = result["beyond_the_radius"]
    return Claim(
        f"{SOURCE}, theorem 3.2",
        "Far from its centers every probability of an RBF network is within epsilon of 1/K.",
        f"at {beyond['points']} points beyond the radius {result['radius']:.3g} the largest "
        f"difference is {beyond['largest_gap']:.2g}, epsilon is {result['epsilon']:g}; there "
        f"{percent(beyond['sure'][CONV])} of points are 99.9 % sure for convolutions and "
        f"{percent(beyond['sure'][RBF])} for RBF",
        verdict="holds" if beyond["largest_gap"] <= result["epsilon"] else "fails",
    )
