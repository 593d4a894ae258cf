"""Verdicts on the tables of UCI, from the numbers of part `overview` alone."""

import math
from collections.abc import Mapping
from typing import Any

from nescio_papers.kit import Claim, Fact, fact

SOURCE = "Lakshminarayanan et al. (2017), section 3.3"
TITLES = {"rmse": "RMSE", "nll_moments": "NLL"}
NORMAL = 1.96
FEWEST = 2.776  # Student's t of five splits: where only a standard error was stored
FAR = 3.0  # standard errors: a number whose interval stays below is not worse than published
COMPETITIVE = 0.02  # nats
SLIGHTLY = 0.2  # of the other's RMSE
Numbers = Mapping[str, Any]


def overview_claims(numbers: Numbers) -> list[Claim]:
    """All four claims; none where no table was run."""
    if "distances" not in numbers:
        return []
    against = numbers.get("against MC dropout", {})
    return [
        _as_published(numbers["distances"]),
        _longer(numbers["longer"]),
        *([_nll_claim(against["nll"]), _rmse_claim(against["rmse"])] if against else []),
    ]


def _as_published(distances: Numbers) -> Claim:
    facts = []
    for metric, title in TITLES.items():
        worst = max(distances, key=lambda name: float(distances[name][metric]))
        value = float(distances[worst][metric])
        what = f"standard errors that our {title} is worse than published, at worst ({worst})"
        facts.append(fact(what, value, (value - NORMAL, value + NORMAL), below=FAR, form=".1f"))
    return Claim(
        source=f"{SOURCE}, table 1",
        sentence="RMSE and NLL of deep ensembles of five networks (published numbers; is ours "
        "worse?)",
        facts=facts,
    )


def _longer(gains: Numbers) -> Claim:
    return Claim(
        source="Hernandez-Lobato and Adams (2015), the protocol",
        sentence="Networks are trained for 40 epochs, 20 for protein (our question: is that "
        "enough?)",
        facts=[
            _interval(
                f"NLL gained by epochs chosen on validation, {name}", own["gain"], own, COMPETITIVE
            )
            for name, own in gains.items()
        ],
    )


def _interval(what: str, value: float, own: Numbers, below: float) -> Fact:
    half = own.get("half_width_95")
    if half is None:
        half = FEWEST * own["standard_error"] if "standard_error" in own else math.inf
    return fact(what, value, (value - half, value + half), below=below)


def _nll_claim(gaps: Numbers) -> Claim:
    return Claim(
        source=SOURCE,
        sentence="Our method outperforms (or is competitive with) existing methods in terms of "
        "NLL.",
        facts=[
            _interval(f"NLL less that of our MC dropout, {name}", own["mean"], own, COMPETITIVE)
            for name, own in gaps.items()
        ],
    )


def _rmse_claim(gaps: Numbers) -> Claim:
    shares = {name: _share(own) for name, own in gaps.items()}
    ranked = sorted(shares, key=lambda name: shares[name][0])
    best, worst = ranked[0], ranked[-1]
    value, half = shares[worst]
    what = f"RMSE over that of our MC dropout, less 1: the worst table, {worst}"
    other, width = shares[best]
    return Claim(
        source=SOURCE,
        sentence="On some datasets, our method is slightly worse in terms of RMSE, because it "
        "optimizes for NLL instead of MSE.",
        facts=[
            fact(what, value, (value - half, value + half), above=0),
            fact(what, value, (value - half, value + half), below=SLIGHTLY),
            fact(
                f"the same, the best table, {best}",
                other,
                (other - width, other + width),
                below=0,
            ),
        ],
        note="our MC dropout is trained on the squared error; "
        + ", ".join(f"{name} {shares[name][0]:+.1%}" for name in ranked),
    )


def _share(own: Numbers) -> tuple[float, float]:
    """The mean difference and half the width of its interval, as shares of the other's mean."""
    half = own["half_width_95"]
    return own["mean"] / own["MC dropout"], (math.inf if half is None else half) / own["MC dropout"]
