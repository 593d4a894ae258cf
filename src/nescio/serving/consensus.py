"""What the labels of several reviewers say together: agreed, disputed, or open.

Labels are only ever added. Of each reviewer the last one counts, and a skip takes it back. The
interface of whoever watches the risk, calibrates or trains is `final_labels(log, after)`: it yields
`(decision id, kind, label)`, kind "label" or "none", for every decision on which reviewers agree
and about which a label was added after label number `after`. A correction yields the decision
again, with its new label, so keep the last one of each.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nescio.core import NescioError

if TYPE_CHECKING:
    from nescio.serving.decision_log import DecisionLog, Label

LABEL, NONE, SKIP = "label", "none", "skip"  # kinds of labels
AGREED, DISPUTED, OPEN = "agreed", "disputed", "open"  # states of a decision
RESOLVED = "resolved by "  # before the name of whoever settled a dispute


@dataclass(frozen=True, kw_only=True)
class Standing:
    """What is known about the label of one decision.

    decision: its id.
    state: agreed, disputed or open.
    kind: of the agreed label: label, or none for "not one of these"; None: there is none.
    label: the agreed class; None where there is none.
    votes: the label of each reviewer that counts, in the order of the log.
    """

    decision: str
    state: str
    kind: str | None
    label: str | None
    votes: "tuple[Label, ...]"


def standing(decision: str, labels: "Iterable[Label]", *, reviews: int = 1) -> Standing:
    """Whether the labels of a decision agree.

    It is agreed when at least `reviews` reviewers said the same, and nobody something else; or when
    further reviewers made a majority; or when somebody settled it, whose word counts alone.

    decision: id of the decision.
    labels: all labels about it, in the order of the log.
    reviews: number of reviewers that a decision needs.
    """
    last: dict[str, Label] = {}
    for one in labels:
        last.pop(one.reviewer, None)
        last[one.reviewer] = one
    counted = [one for one in last.values() if one.kind != SKIP]
    settled = [one for one in counted if one.reviewer.startswith(RESOLVED)]
    votes = tuple(one for one in counted if not one.reviewer.startswith(RESOLVED))
    found = settled[-1] if settled else _agreed(votes, reviews)
    if found is not None:
        state = AGREED
    else:
        state = DISPUTED if len({(one.kind, one.label) for one in votes}) > 1 else OPEN
    return Standing(
        decision=decision,
        state=state,
        kind=None if found is None else found.kind,
        label=None if found is None else found.label,
        votes=votes,
    )


def _agreed(votes: "Sequence[Label]", reviews: int) -> "Label | None":
    """The vote that stands for all; None where too few are there, or they differ."""
    if len(votes) < reviews:
        return None
    counts = Counter((one.kind, one.label) for one in votes)
    said, most = counts.most_common(1)[0]
    majority = 2 * most > len(votes) and len(votes) > max(reviews, 2)
    if most < len(votes) and not majority:
        return None
    return next(one for one in votes if (one.kind, one.label) == said)


def labels_by_decision(log: "DecisionLog") -> "dict[str, list[Label]]":
    """All labels of the `log`, by the decision they are about."""
    found: dict[str, list[Label]] = {}
    for _, one in log.labels():
        found.setdefault(one.decision, []).append(one)
    return found


def standings(log: "DecisionLog", *, reviews: int = 1) -> dict[str, Standing]:
    """The standing of every decision that has a label, by its id.

    log: the decision log.
    reviews: number of reviewers that a decision needs.
    """
    found = labels_by_decision(log)
    return {name: standing(name, labels, reviews=reviews) for name, labels in found.items()}


def final_label(log: "DecisionLog", decision: str, *, reviews: int = 1) -> Standing:
    """Whether the label of one decision is agreed, disputed or open.

    log: the decision log.
    decision: id of the decision.
    reviews: number of reviewers that a decision needs.
    """
    labels = [one for _, one in log.labels(decision=decision)]
    return standing(decision, labels, reviews=reviews)


def final_labels(
    log: "DecisionLog", after: int = 0, *, reviews: int = 1
) -> Iterator[tuple[str, str, str | None]]:
    """Decision id, kind ("label" or "none") and label of what reviewers agree on.

    Decisions come in the order of their newest label. What is disputed or open is left out; it
    comes once it is agreed, for that takes a further label.

    log: the decision log.
    after: the number of the last label that was seen before; only decisions with a newer one come.
    reviews: number of reviewers that a decision needs.
    """
    newest: dict[str, None] = {}
    for _, one in log.labels(after=after):
        newest.pop(one.decision, None)
        newest[one.decision] = None
    everything = labels_by_decision(log) if after == 0 else None
    for decision in newest:
        if everything is None:
            found = final_label(log, decision, reviews=reviews)
        else:
            found = standing(decision, everything[decision], reviews=reviews)
        if found.state == AGREED and found.kind is not None:
            yield decision, found.kind, found.label


def disputes(found: Mapping[str, Standing]) -> list[Standing]:
    """Those of the standings `found` on which reviewers disagree."""
    return [one for one in found.values() if one.state == DISPUTED]


def check_reviewer(name: str) -> str:
    """The `name` of a reviewer, if it can be one."""
    if not name.strip() or name != name.strip() or not name.isprintable() or len(name) > 200:
        raise NescioError(f"a reviewer needs a name of up to 200 letters, got {name!r}")
    if name.startswith(RESOLVED):
        raise NescioError(f"no reviewer is called {name!r}: these words mark settled disputes")
    return name
