"""What the lecture says of Dirichlet networks, judged on MNIST, and published numbers."""

from collections.abc import Mapping
from typing import Any

from nescio.metrics import Difference
from nescio_papers.kit import Claim, Comparison, Sample, sample, table, verdict
from nescio_papers.robust_deep_learning.sets import FASHION, KANA

SOURCE = "lecture, Out of Distribution with Dirichlet Prior Networks"
WITHIN = 0.003  # of accuracy
NOTHING = "nothing"  # was shown
SOFTMAX, POSTERIOR = "softmax", "posterior"
CONFIDENCE, SHARED, PRECISION = "maximum probability", "mutual information", "precision"
PORTS = "published: the same ports (squared error 97.5, log 97.1)"
Accuracies = Mapping[str, Mapping[str, list[float]]]  # network -> shown -> of each training
Gaps = Mapping[str, Mapping[str, Difference]]  # shown -> tested, or network -> tested


def accuracy_claims(gaps: Mapping[str, Mapping[str, Sample]]) -> list[Claim]:
    """Is the accuracy within 0.3 points of softmax networks?"""

    def said(kind: str, one: Sample) -> str:
        return f"{100 * one.mean:+.2f} ± {100 * one.half:.2f} points {kind} OOD inputs"

    return [
        Claim(
            SOURCE,
            f"Soft-max prediction: a network that gives a Dirichlet classifies as well ({name}).",
            "accuracy on MNIST less that of softmax networks: "
            + ", ".join(said(kind, one) for kind, one in found.items())
            + f" (95 % intervals of the mean over trainings; wanted: within {100 * WITHIN:g})",
            verdict=verdict(
                all(one.mean - one.half >= -WITHIN for one in found.values()),
                all(one.mean >= -WITHIN for one in found.values()),
            ),
        )
        for name, found in gaps.items()
    ]


def unseen_claim(name: str, score: str, found: Gaps) -> Claim:
    """Are OOD sets that were not shown detected at least as well as by outlier exposure?"""
    cells = {(shown, one): gap for shown, row in found.items() for one, gap in row.items()}
    worse = {pair: gap for pair, gap in cells.items() if gap.high < 0}
    better = sum(gap.low > 0 for gap in cells.values())
    named = "; ".join(f"{one} after {shown} {_said(gap)}" for (shown, one), gap in worse.items())
    return Claim(
        SOURCE,
        f"On OOD sets that were not shown, the {score} of a network that learned flat Dirichlets "
        f"is at least as good as outlier exposure ({name}).",
        f"AUROC less outlier exposure's, paired: better on {better} and worse on {len(worse)} of "
        f"{len(cells)} pairs of sets by 95 % intervals" + (f"; worse: {named}" if worse else ""),
        verdict=verdict(not worse, len(worse) < len(cells)) if cells else "open",
    )


def plain_claim(name: str, score: str, found: Mapping[str, Difference]) -> Claim:
    """Does the spread of a Dirichlet detect more than the maximum probability of softmax?"""
    said = ", ".join(f"{one} {_said(gap)}" for one, gap in found.items())
    wins = [gap.low > 0 for gap in found.values()]
    return Claim(
        "lecture, Dirichlet Prior Networks",
        "Explicitly modeling the predictive distribution with a Dirichlet: its spread is the "
        f"epistemic uncertainty ({name}, shown nothing).",
        f"AUROC of the {score} less that of a softmax network's maximum probability: {said}",
        verdict=verdict(all(wins), any(wins)) if wins else "open",
    )


def _said(gap: Difference) -> str:
    return f"{gap.value:+.3f} ({gap.low:+.3f} to {gap.high:+.3f})"


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
