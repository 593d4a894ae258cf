"""What the lecture says of Dirichlet networks, judged on MNIST, and published numbers."""

from collections.abc import Mapping
from typing import Any

from nescio_papers.kit import Claim, Comparison, Fact, exactly, sample, table
from nescio_papers.robust_deep_learning.sets import FASHION, KANA
from nescio_papers.robust_deep_learning.stored_facts import (
    between,
    less,
    mean_of,
    over_seeds,
    smallest,
)

WITHIN = 0.003  # of accuracy
MUCH_WORSE = 0.01  # of AUROC
AS_GOOD = 0.005  # of AUROC: what is as good, in the mean of all pairs
LEARNED = 0.98  # accuracy
NOTHING = "nothing"  # was shown
SOFTMAX, POSTERIOR = "softmax", "posterior"
CONFIDENCE, SHARED, PRECISION = "maximum probability", "mutual information", "precision"
PORTS = "published: the same ports (squared error 97.5, log 97.1)"
Accuracies = Mapping[str, Mapping[str, list[float]]]  # network -> shown -> of each training
Gaps = Mapping[str, Mapping[str, Any]]  # shown -> tested -> value, low and high


def claims(numbers: Mapping[str, Any]) -> list[Claim]:
    """All claims on MNIST, from the numbers of the part."""
    if "absent" in numbers:
        return []
    gaps, apart = numbers["accuracy_less_softmax"], numbers["auroc_less_softmax"]
    return [
        *(accuracy_claim(name, found, _learned(numbers)) for name, found in gaps.items()),
        *(unseen_claim(name, score_of(name), unseen(found), _learned(numbers))
          for name, found in apart.items() if set(found) - {NOTHING}),
        *(plain_claim(name, score_of(name), found[NOTHING], own_gains(numbers, name))
          for name, found in apart.items() if found[NOTHING]),
    ]  # fmt: skip


def score_of(name: str) -> str:
    """The score of a network's spread."""
    return PRECISION if name == POSTERIOR else SHARED


def _learned(numbers: Mapping[str, Any]) -> Fact:
    return exactly(
        "smallest accuracy of the softmax networks",
        min(numbers["accuracy"][SOFTMAX][NOTHING]),
        why="every network of this run counts",
        above=LEARNED,
        form=".2%",
    )


def accuracy_claim(name: str, found: Mapping[str, Any], learned: Fact) -> Claim:
    """Is the accuracy within 0.3 points of softmax networks?"""
    return Claim(
        source="here",
        sentence="A network that gives a Dirichlet classifies as well as a softmax network "
        f"({name}).",
        facts=[
            over_seeds(
                f"accuracy on MNIST less that of softmax networks, {kind} OOD inputs shown,",
                gaps["values"],
                above=-WITHIN,
                form="+.2%",
            )
            for kind, gaps in found.items()
        ],
        needs=[learned],
        note=f"as well: within {100 * WITHIN:g} points; paired by training",
    )


def unseen_claim(name: str, score: str, found: Gaps, learned: Fact) -> Claim:
    """Are OOD sets that were not shown detected at least as well as by outlier exposure?"""
    cells = {
        f"{one} after {shown}": gap for shown, row in found.items() for one, gap in row.items()
    }
    worst = min(cells, key=lambda pair: cells[pair]["value"], default="")
    better, worse = (
        sum(sign * cell[end] > 0 for cell in cells.values())
        for sign, end in ((1, "low"), (-1, "high"))
    )
    return Claim(
        source="here",
        sentence=f"On OOD sets that were not shown, the {score} of a network that learned flat "
        f"Dirichlets is at least as good as outlier exposure ({name}).",
        facts=[
            between(
                f"AUROC less outlier exposure's, mean of {len(cells)} pairs of sets,",
                mean_of(list(cells.values())),
                above=-AS_GOOD,
                form="+.4f",
            ),
            between(
                f"the same of the worst pair, {worst},",
                smallest(list(cells.values())),
                above=-MUCH_WORSE,
                form="+.4f",
            ),
        ],
        needs=[learned],
        note=f"paired by input; better on {better} and worse on {worse} pairs",
    )


def plain_claim(name: str, score: str, found: Mapping[str, Any], own: Mapping[str, Any]) -> Claim:
    """Does the spread detect more than a softmax network, and than its own probabilities?

    name: the network.
    score: what its spread is measured by.
    found: the AUROC of the spread less that of a softmax network's maximum probability, by set.
    own: the same less that of its own maximum probability.
    """
    return Claim(
        source="lecture, Dirichlet Prior Networks",
        sentence="Explicitly modeling the predictive distribution with a Dirichlet: its spread is "
        f"the epistemic uncertainty ({name}, shown nothing).",
        facts=[
            *(
                between(f"gain in AUROC over a softmax network, {one},", gap, above=0, form="+.4f")
                for one, gap in found.items()
            ),
            between(
                "gain over its own maximum probability, mean over the sets,",
                mean_of(list(own.values())),
                above=0,
                form="+.4f",
            ),
        ],
        note=f"by the {score} in place of the maximum probability; paired by input; its own "
        f"maximum probability is better on {sum(gap['value'] < 0 for gap in own.values())} of "
        f"{len(own)} sets",
    )


def own_gains(numbers: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """AUROC of a network's spread less that of its own maximum probability, by set.

    Older numbers have no paired differences: those are made of separate intervals.
    """
    if "spread_less_own" in numbers:
        found: Mapping[str, Any] = numbers["spread_less_own"][name]
        return found
    areas = numbers["areas"][name][NOTHING]
    spread, probability = areas[score_of(name)], areas[CONFIDENCE]
    return {one: less(spread[one], probability[one]) for one in probability}


def unseen(gaps: Gaps) -> Gaps:
    """Only those of OOD sets that were not shown, by networks that were shown another."""
    return {
        shown: {one: gap for one, gap in row.items() if one != shown}
        for shown, row in gaps.items()
        if shown != NOTHING
    }


def published(right: Accuracies, areas: Any) -> list[Comparison]:
    """The authors' numbers beside ours."""
    rows = [
        Comparison(f"{name}: accuracy on MNIST, %", published,
                   100 * sample(right[own][NOTHING]).mean, note=note)
        for name, own, published, note in (
            ("softmax", SOFTMAX, 99.09, "published: LeNet ports of evidential networks"),
            ("evidential, cross-entropy form", "evidential", 97.7, PORTS),
        )
    ]  # fmt: skip
    return [*rows, *(_posterior(right, areas) if POSTERIOR in areas else [])]


def _posterior(right: Accuracies, areas: Any) -> list[Comparison]:
    note = "test images are the positive class, as in the authors' code"
    rows = [
        Comparison("posterior network: accuracy on MNIST, %", 99.14,
                   100 * sample(right[POSTERIOR][NOTHING]).mean)
    ]  # fmt: skip
    for name, aleatoric, epistemic in ((KANA, 0.922, 0.888), (FASHION, 0.970, 0.946)):
        for score, published in ((CONFIDENCE, aleatoric), (PRECISION, epistemic)):
            own = areas[POSTERIOR][NOTHING][score].get(name)
            if own:
                what = f"posterior network: AUPR of {score}, {name}"
                rows.append(Comparison(what, published, own["aupr_in_dist"], note=note))
    return rows


def page(right: Accuracies, areas: Any, missing: Mapping[str, str]) -> str:
    """The table of all networks, scores and sets."""
    names = list(next(iter(areas[SOFTMAX][NOTHING].values())))
    rows = [
        [name, shown, score, *(_cell(cells[one], own=one == shown) for one in names),
         f"{100 * sample(right[name][shown]).mean:.2f} %"]
        for name, part in areas.items()
        for shown, by_score in part.items()
        for score, cells in by_score.items()
    ]  # fmt: skip
    return "\n\n".join(
        [
            "Small convolutional networks on MNIST: softmax with outlier exposure, Dirichlet "
            "networks with the reverse KL and evidential networks with the cross-entropy form, "
            "shown nothing or one OOD set, and posterior networks, shown nothing. Forms and "
            "learning rates were chosen on training images that were kept apart. "
            "AUROC of each score with its interval (DeLong, for the log-odds); in italics where "
            "the set was shown. Accuracies without OOD inputs are means over "
            f"{len(right[SOFTMAX][NOTHING])} trainings; AUROCs are those of the first.",
            table(["network", "shown", "score", *names, "accuracy"], rows),
            *_own_confidence(areas),
            *(f"{name} is not at hand: {why}." for name, why in missing.items()),
        ]
    )


def _own_confidence(areas: Any) -> list[str]:
    """Is the spread of a Dirichlet a better score than its own maximum probability?"""
    said = []
    for name, rows in areas.items():
        cells = rows[NOTHING]
        if SHARED in cells:
            own, spread = cells[CONFIDENCE], cells[SHARED]
            wins = sum(own[one]["value"] > spread[one]["value"] for one in own)
            said.append(f"{name} {wins} of {len(own)}")
    line = "Shown nothing, the maximum probability of a network has a larger AUROC than its own "
    return [f"{line}mutual information on: {', '.join(said)} sets."] if said else []


def _cell(number: Mapping[str, float], *, own: bool) -> str:
    text = f"{number['value']:.3f} ({number['low']:.3f}-{number['high']:.3f})"
    return f"*{text}*" if own else text
