"""Claims about exact limits, judged from the numbers of part `exact-limits`."""

import math
from collections.abc import Mapping
from typing import Any

from nescio_papers.kit import Claim, Fact, exactly, fact, percent
from nescio_papers.know_your_limits.claims import RELIABLE
from nescio_papers.know_your_limits.judging import of_difference, of_share
from nescio_papers.know_your_limits.models import ANCHORED, DROPOUT, ENSEMBLE, P_DROPOUT
from nescio_papers.know_your_limits.surfaces import ENTROPY, INFORMATION, OF_MANY

Numbers = Mapping[str, Any]
NOTHING = 1e-9  # a deviation below is rounding
MEMBERS = "10"  # of the paper's ensembles
DIRECTIONS = 1000  # the circle has more pieces


def limit_claims(numbers: Numbers) -> list[Claim]:
    """What the limits depend on, and whether they tell directions from the data."""
    rows = numbers["methods"]
    return [
        Claim(
            source="Ulmer and Cinà, section 7",
            sentence="It remains to be explored how the stable level of certainty ... relates to "
            "the degree of diversity of the underlying set of model instances, but ... it appears "
            "to be dependent on the level of “disagreement” among them ...",
            facts=[
                exactly(
                    "largest deviation of the limits from functions of the members' votes",
                    max(numbers["apart"].values()),
                    below=NOTHING,
                    why="all directions of all methods",
                ),
                _correlation(rows),
            ],
        ),
        Claim(
            source="Ulmer and Cinà, section 5",
            sentence="Methods based on multiple instances of ReLU classifiers will suffer from the "
            "aforementioned problem.",
            facts=[_told(rows, name, size) for name, size in _as_in_the_paper(rows).items()],
            note="with the most members: " + _most(rows),
        ),
        Claim(
            source="Ulmer and Cinà, section 6",
            sentence="The fact that the anchored ensemble in Figure 3d does not exhibit such "
            "uniform regions of uncertainty like the vanilla ensemble could be explained by the "
            "fact that its training procedure encourages diversification between members.",
            facts=[
                _beside_plain(
                    rows,
                    f"{INFORMATION}, none",
                    f"directions in which the mutual information of {MEMBERS} members tends to 0",
                    below=0,
                ),
                _beside_plain(
                    rows,
                    "disagree",
                    f"directions in which {MEMBERS} members disagree",
                    above=0,
                ),
            ],
            note=_shares(rows),
        ),
    ]


def _beside_plain(rows: Numbers, key: str, what: str, **limit: float) -> Fact:
    """A share of the anchored ensemble less that of the plain one, of trainings of their own."""
    return of_difference(
        f"{what}, anchored less plain ensemble",
        rows[ANCHORED][MEMBERS][key],
        rows[ENSEMBLE][MEMBERS][key],
        paired=False,
        **limit,  # type: ignore[arg-type]
    )


def _correlation(rows: Numbers) -> Fact:
    """Rank correlation of disagreement and limit over methods and sizes, interval by Fisher's z."""
    from scipy.stats import spearmanr

    pairs = [
        (row["disagree"]["mean"], row[f"{ENTROPY}, mean"]["mean"])
        for own in rows.values()
        for row in own.values()
    ]
    order = float(spearmanr(*zip(*pairs, strict=True)).statistic)
    z, half = math.atanh(min(order, 1 - 1e-12)), 1.96 * math.sqrt(1.06 / max(1, len(pairs) - 3))
    return fact(
        f"rank correlation of disagreement and mean limit of the entropy, {len(pairs)} pairs of "
        "method and size",
        order,
        (math.tanh(z - half), math.tanh(z + half)),
        above=0.9,
    )


def _as_in_the_paper(rows: Numbers) -> dict[str, str]:
    """The methods of the paper, with its number of members, or the most masks."""
    dropout = f"{DROPOUT}, rate {P_DROPOUT:.2g}"
    return {ENSEMBLE: MEMBERS, ANCHORED: MEMBERS, dropout: max(rows[dropout], key=int)}


def _best(row: Numbers) -> Numbers:
    """The measure that tells the most directions from the data."""
    found = [row[f"{kind}, told from data"] for kind in OF_MANY]
    best: Numbers = max(found, key=lambda one: float(one["mean"]))
    return best


def _told(rows: Numbers, name: str, size: str) -> Fact:
    row = rows[name][size]
    return of_share(
        f"directions whose limit tells them from 95 % of the data by the best measure ({name}, "
        f"{size} members)",
        _best(row),
        below=RELIABLE,
        points=DIRECTIONS,
        count=row["groups"],
    )


def _most(rows: Numbers) -> str:
    sizes = {name: max(own, key=int) for name, own in rows.items()}
    return ", ".join(
        f"{name} {percent(_best(rows[name][size])['mean'])} ({size})"
        for name, size in sizes.items()
    )


def _shares(rows: Numbers) -> str:
    """In how many directions members of both ensembles disagree, with few and with most."""
    most = max(rows[ENSEMBLE], key=int)
    told = []
    for size in (MEMBERS, most):
        near, plain = (percent(rows[n][size]["disagree"]["mean"]) for n in (ANCHORED, ENSEMBLE))
        told.append(f"{near} and {plain} with {size} members")
    return "members disagree in " + ", ".join(told) + " (anchored and plain)"
