"""What Hein et al. (2019) say about table 2, judged by the stored numbers."""

from collections.abc import Mapping
from dataclasses import replace
from math import inf, isfinite, nan
from typing import Any

from nescio.conformal import binomial_interval
from nescio.metrics import Interval
from nescio_papers.kit import Claim, Fact, exactly, fact
from nescio_papers.relu_overconfidence.methods import ACET, CEDA, PLAIN
from nescio_papers.relu_overconfidence.published import METHODS, TABLE_2
from nescio_papers.relu_overconfidence.table_1_claims import LEARNED, limit

SOURCE = "Hein et al., table 2"
ENOUGH = 50  # rays with exact factors: with fewer, the grid is judged
RAYS = "one training each: the intervals are over rays alone"
FLOAT32 = 3.4028235e38  # its largest number
MUCH = 0.5  # of plain's share: what is much less
Numbers = Mapping[str, Any]


def claims_of(stored: Numbers) -> list[Claim]:
    """The paper's sentences on the table, one claim for each block that was measured."""
    found: list[Claim] = []
    for name, columns in stored["blocks"].items():
        found += [_always(name, columns), _higher(name, columns), _fewer(name, columns)]
        if name == "MNIST":
            found.append(_problems(columns))
    return found


def best(one: Numbers) -> Numbers:
    """The numbers of a network from exact factors, or from the grid where these are few."""
    grid: Numbers = one["grid"]
    return one if one["rays"] >= ENOUGH or not grid else grid


def _always(name: str, columns: Numbers) -> Claim:
    facts = []
    for column, one in columns.items():
        numbers = best(one)
        reached = binomial_interval(
            round((1 - numbers["never"]) * numbers["rays"]), numbers["rays"]
        )
        if numbers is one["grid"]:  # what it does not reach may be reached beyond it
            reached = replace(reached, high=1.0)
        facts.append(limit(f"{column}: share that gets there", reached, above=0.99, form=".1%"))
    return Claim(
        source=f"{SOURCE} ({name})",
        sentence="It is always possible to obtain overconfident predictions just by scaling inputs "
        "by some constant alpha.",
        facts=facts,
        needs=_learned(name, columns),
        note="99 % counts as always; the published '> 10^6' cannot distinguish a large factor from "
        f"none{_not_in_float32(columns)}",
    )


def _higher(name: str, columns: Numbers) -> Claim:
    plain = _middle(columns[PLAIN])
    return Claim(
        source=f"{SOURCE} and section 5 ({name})",
        sentence="The required upscaling factor alpha is significantly higher for CEDA and ACET "
        "than for the plain model.",
        facts=[
            _ratio(f"median alpha of {column} over plain's", _middle(columns[column]), plain, 1.0)
            for column in (CEDA, ACET)
        ],
        needs=_learned(name, columns),
        note=f"published: {_said(name)}, none for CEDA; {RAYS}{_not_in_float32(columns)}",
    )


def _not_in_float32(columns: Numbers) -> str:
    """Which medians no network in float32 gets to see."""
    beyond = [name for name in columns if FLOAT32 < _middle(columns[name]).value < inf]
    if not beyond:
        return ""
    return (
        f"; the factors of {' and '.join(beyond)} are exact ones of the network in float64: most "
        f"of them are beyond {FLOAT32:.1e}, the largest number in float32"
    )


def _said(name: str) -> str:
    return ", ".join(
        f"{column} {'> ' * one.beyond}{one.alpha:g}" for column, one in TABLE_2[name].items()
    )


def _problems(columns: Numbers) -> Claim:
    middle = _middle(columns[ACET])
    return Claim(
        source=f"{SOURCE} (MNIST)",
        sentence="For MNIST the value of alpha was so high that we ran into numerical problems.",
        facts=[limit("median alpha of ACET", middle, above=1e6, form=".3g")],
        needs=_learned("MNIST", columns),
        note=f"10^6 is where the published search gave up; {RAYS}",
    )


def _fewer(name: str, columns: Numbers) -> Claim:
    """Much less: at most half of plain's share, which must not be small itself."""
    plain, acet = (_share(columns[column]) for column in (PLAIN, ACET))
    printed = ", ".join(f"{c} {one.overconfident:g} %" for c, one in TABLE_2[name].items())
    return Claim(
        source=f"{SOURCE} ({name})",
        sentence="There are much less overconfident predictions for the ACET models after "
        "projecting back to [0, 1]^d.",
        facts=[
            fact(
                "share above 95 % of ACET over plain's",
                acet.value / plain.value if plain.value else inf,
                (acet.low / plain.high, acet.high / plain.low if plain.low else inf),
                below=MUCH,
            )
        ],
        needs=[
            *_learned(name, columns),
            limit(
                "share of plain above 95 %, which ACET can lower,", plain, above=MUCH, form=".1%"
            ),
        ],
        note=f"published: {printed}; {RAYS}",
    )


def _ratio(what: str, first: Interval, second: Interval, above: float) -> Fact:
    """One median over another, with the widest interval of the two."""
    if not isfinite(first.low) and isfinite(second.high):
        return exactly(what, inf, why="more than half never get there", above=above)
    if not isfinite(first.low):  # of neither is it known
        return fact(what, nan, (nan, nan), above=above)
    ends = first.low / second.high, first.high / second.low
    value = first.value / second.value
    return fact(what, value, ends, above=above, alike=True)


def _middle(one: Numbers) -> Interval:
    """The median alpha; older numbers have no interval of it but the quartiles."""
    numbers = best(one)
    if "median_interval" in numbers:
        low, high = numbers["median_interval"]
    elif "quantiles" in numbers:
        low, high = (numbers["quantiles"][q] for q in ("0.25", "0.75"))
    else:
        low, high = 1.0, None
    return Interval(*(inf if end is None else float(end) for end in (numbers["median"], low, high)))


def _share(one: Numbers) -> Interval:
    """The share of rays above 95 % after the return, on as many rays as there are."""
    numbers = one["grid"] or one
    return binomial_interval(round(numbers["overconfident"] * numbers["rays"]), numbers["rays"])


def _learned(name: str, columns: Numbers) -> list[Fact]:
    """That the networks have learned; older numbers do not say."""
    found = []
    for column in METHODS:
        test = columns[column].get("test")
        if test is not None:
            error = binomial_interval(test["wrong"], test["images"])
            what = f"test error of {column}"
            found.append(limit(what, error, below=LEARNED[name], form=".1%"))
    return found
