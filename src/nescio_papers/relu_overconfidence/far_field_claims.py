"""What Hein et al. (2019) say about the far field, judged by the stored numbers."""

from collections.abc import Mapping, Sequence
from typing import Any

from nescio.conformal import binomial_interval
from nescio.metrics import t_interval
from nescio_papers.kit import A_SHARE, Claim, Fact, exactly, fact, percent, sample
from nescio_papers.relu_overconfidence.certified import RBF
from nescio_papers.relu_overconfidence.far_field_tables import factor
from nescio_papers.relu_overconfidence.worlds import CONV, DIGITS, MLP, MNIST, NARROW

Numbers = Mapping[str, Any]
SOURCE = "Hein et al."
ALMOST = 0.99  # a share that is almost all
PUBLISHED = {"alpha": 1.5, "clipped": 0.987}  # table 2, MNIST, plain
TIMES = 2.0  # how far a median may be from the published one, as a factor
POINTS = 0.05  # how far a share may be from the published one


def claims_of(numbers: Numbers) -> list[Claim]:
    """The paper's sentences with verdicts."""
    return [
        _theorem(numbers),
        _rows_of_v(numbers),
        _lemma(numbers),
        _scaling(numbers),
        *([_constant(numbers), _projection(numbers)] if MNIST in numbers["worlds"] else []),
        _heat(numbers["temperature"]),
        _reject(numbers),
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


def _share(
    what: str,
    rows: Sequence[Numbers],
    key: str,
    *,
    above: float | None = None,
    below: float | None = None,
    form: str = ".2%",
) -> Fact:
    """The share of all rays for which something is so, with its exact interval."""
    rays = sum(row["rays"] for row in rows)
    count = round(sum(row[key] * row["rays"] for row in rows))
    found = binomial_interval(count, rays)
    ends = (found.low, found.high)
    return fact(what, found.value, ends, above=above, below=below, form=form)


def _usual(numbers: Numbers) -> list[Numbers]:
    return [
        row for nets in numbers["worlds"].values() for name, row in nets.items() if name != NARROW
    ]


def _theorem(numbers: Numbers) -> Claim:
    small = _each_limit(numbers, narrow=True)
    broken = sum(row["constant"] * row["rays"] for row in small)
    rays = sum(row["rays"] for row in small)
    others = sum((row["tie"] + row["undecided"]) * row["rays"] for row in small)
    return Claim(
        source=f"{SOURCE}, theorem 3.1",
        sentence="If no V has identical rows, then for almost any x the confidence on alpha x goes "
        "to 1.",
        facts=[
            _share(
                "limit is one class, usual networks",
                _each_limit(numbers, narrow=False),
                "one",
                above=ALMOST,
            ),
            exactly(
                "rays of networks with 6 units a layer that keep the condition and break the "
                "conclusion",
                others,
                why="the limit of each ray is exact",
                below=0.5,
                form=".0f",
            ),
        ],
        note=f"{broken:.0f} of {rays} rays of the latter break the condition: V = 0 there",
    )


def _rows_of_v(numbers: Numbers) -> Claim:
    accuracy = numbers["worlds"][DIGITS][NARROW]["accuracy"]
    narrow = _each_limit(numbers, narrow=True)
    small = sum(row["constant"] * row["rays"] for row in narrow) / sum(r["rays"] for r in narrow)
    return Claim(
        source=f"{SOURCE}, section 3",
        sentence="It is hardly imaginable that this (identical rows of V) is ever true for a "
        "normally trained network unless the output of the network is constant anyway.",
        facts=[
            _share(
                "rays whose rows are equal far out, usual networks",
                _each_limit(numbers, narrow=False),
                "constant",
                below=0.01,
            ),
        ],
        note=f"of the rays of networks with 6 units a layer {percent(small)}; their accuracy is "
        f"{percent(min(accuracy))} to {percent(max(accuracy))}",
    )


def _lemma(numbers: Numbers) -> Claim:
    rows = [row for narrow in (False, True) for row in _each_limit(numbers, narrow=narrow)]
    return Claim(
        source=f"{SOURCE}, lemma 3.1",
        sentence="From some alpha on, all beta x lie in one linear region.",
        facts=[
            exactly(
                "largest last breakpoint of any ray",
                max(row["largest_radius"] for row in rows),
                why="the last breakpoint of each ray is exact",
                below=float("inf"),
            )
        ],
    )


def _scaling(numbers: Numbers) -> Claim:
    together = [row["ensemble"] for row in _usual(numbers) if "ensemble" in row]
    said = ", ".join(percent(row["never"]) for row in together) or "not measured"
    rows = [{**row, "reached": 1 - row["never"]} for row in _usual(numbers)]
    narrow = numbers["worlds"][DIGITS][NARROW]
    return Claim(
        source=f"{SOURCE}, table 2",
        sentence="It is always possible to obtain overconfident predictions just by scaling "
        "inputs.",
        facts=[
            _share("noise that gets there, usual networks", rows, "reached", above=ALMOST),
            _share(
                "with 6 units a layer",
                [{**narrow, "reached": 1 - narrow["never"]}],
                "reached",
                above=ALMOST,
            ),
        ],
        note=f"averages of networks, whose members disagree forever, never get there on: {said}",
    )


def _constant(numbers: Numbers) -> Claim:
    """Within a factor of two of the published median, over the trainings."""
    facts = []
    for name in (CONV, MLP):
        row = numbers["worlds"][MNIST][name]
        found = t_interval(row["median_by_seed"])
        facts.append(
            fact(
                f"mean over trainings of the median, {name}",
                found.value,
                (max(1.0, found.low), found.high),
                below=TIMES * PUBLISHED["alpha"],
            )
        )
    return Claim(
        source=f"{SOURCE}, table 2",
        sentence="The median alpha of the plain network on MNIST is 1.5.",
        facts=facts,
        note=f"by training: {_by_seed(numbers)}; trainings that differ by their seed only",
    )


def _by_seed(numbers: Numbers) -> str:
    return "; ".join(
        f"{name} " + ", ".join(map(factor, numbers["worlds"][MNIST][name]["median_by_seed"]))
        for name in (CONV, MLP)
    )


def _projection(numbers: Numbers) -> Claim:
    facts = []
    for name in (CONV, MLP):
        row = numbers["worlds"][MNIST][name]
        above = PUBLISHED["clipped"] - POINTS
        by_seed = sample(row.get("clipped_by_seed", [row["clipped_above"]]))
        what = f"mean share over trainings of {name}"
        facts.append(by_seed.fact(what, above=above, form=".1%", within=A_SHARE))
    return Claim(
        source=f"{SOURCE}, table 2",
        sentence="Cut back to [0, 1]^d, 98.7 % of the scaled noise images stay above 95 % "
        "confidence.",
        facts=facts,
        note="it follows from a small alpha: what is scaled by more is cut more",
    )


def _heat(result: Numbers) -> Claim:
    middle = result["median"]
    return Claim(
        source=f"{SOURCE}, section 3",
        sentence="The temperature rescaling of the softmax ... will not be able to detect these "
        "cases.",
        facts=[
            _share(
                f"noise that still gets there with T = {result['temperature']:g}",
                [{**result, "reached": 1 - result["never"]}],
                "reached",
                above=0.95,
            )
        ],
        note=f"the median alpha goes from {factor(middle['before'])} to {factor(middle['after'])}",
    )


def _reject(numbers: Numbers) -> Claim:
    """A threshold below 1 accepts what has a limit of 1."""
    return Claim(
        source=f"{SOURCE}, section 3",
        sentence="It is obvious that using a reject option in the classifier will not help to "
        "detect these instances either.",
        facts=[
            _share(
                "rays accepted far out at every threshold below 1, usual networks",
                _each_limit(numbers, narrow=False),
                "one",
                above=ALMOST,
            ),
            _share("with 6 units a layer", _each_limit(numbers, narrow=True), "one", above=ALMOST),
        ],
        note="a reject option answers where the confidence is above its threshold",
    )


def _certificate(result: Numbers) -> Claim:
    beyond = result["beyond_the_radius"]
    return Claim(
        source=f"{SOURCE}, theorem 3.2",
        sentence="Far from its centers every probability of an RBF network is within epsilon of "
        "1/K.",
        facts=[
            exactly(
                f"largest difference from 1/K at {beyond['points']} points beyond the radius",
                beyond["largest_gap"],
                why="the bound is proved; the points are computed",
                below=result["epsilon"],
            )
        ],
        note=f"radius {result['radius']:.3g}; there {percent(beyond['sure'][CONV])} of points are "
        f"99.9 % sure for convolutions, {percent(beyond['sure'][RBF])} for RBF",
    )
