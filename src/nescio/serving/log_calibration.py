"""Labeled decisions of a log as calibration data that are drawn like the inputs to come.

What people label is not: everything that the guard refused is in the review queue, but of its
answers only a sample. A decision was picked with its *propensity* p, which the log holds. Of the
labeled ones each is kept here with probability c/p, where c is the least propensity in the log. So
every decision of the stream is in the sample with the same probability c, whatever the guard said
about it: the rows that remain are drawn like the stream, and the guarantees of a guard hold.

What this assumes: that everything before the last labeled decision was labeled (`missing` counts
what was not), and that the guarantee is asked for inputs that have one of the classes (`none`
counts the others: "not one of these" has no label to calibrate with).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, select

from nescio.core import NescioError, derive
from nescio.serving.consensus import AGREED, LABEL, NONE, OPEN, Standing, standings
from nescio.serving.log_schema import entries, sources

if TYPE_CHECKING:
    from nescio.serving.decision_log import DecisionLog, KeptInput, Logged

DRAWS = float(1 << 63)  # different numbers that `derive` gives


@dataclass(frozen=True, kw_only=True)
class LogSample:
    """A uniform sample of a stream, of what people labeled in its log.

    guard: name of the guard.
    ids: decisions that are calibration data.
    labels: their labels.
    none: decisions of the sample that are none of the classes; they do not calibrate.
    decisions: number of decisions up to the last labeled one.
    labeled: number of decisions with a final label, a class or none.
    least: the least propensity: the probability with which each decision is in the sample.
    thinned: number of labeled decisions that are left out, so that those remain in proportion.
    missing: number of decisions that wait, were skipped, are disputed, or whose inputs are gone,
      by reason.
    """

    guard: str
    ids: tuple[str, ...]
    labels: tuple[str, ...]
    none: tuple[str, ...]
    decisions: int
    labeled: int
    least: float
    thinned: int
    missing: dict[str, int]

    def summary(self) -> dict[str, Any]:
        """The counts, for people and other programs; JSON."""
        counts = {name: len(getattr(self, name)) for name in ("ids", "none")}
        own = asdict(self)
        kept = ("guard", "decisions", "labeled", "least", "thinned", "missing")
        return {**{name: own[name] for name in kept}, "calibrating": counts["ids"],
            "none": counts["none"]}  # fmt: skip


def sample_of(
    log: "DecisionLog",
    *,
    guard: str | None = None,
    reviews: int = 1,
    seed: int = 0,
    since: float | None = None,
) -> LogSample:
    """The labeled decisions of a log, thinned to a uniform sample of the stream.

    log: the decision log.
    guard: name of the guard whose stream it is; None: the only one.
    reviews: number of reviewers that a label needs.
    seed: seed of what is left out; the same decisions are left out when labels are added.
    since: only decisions from this time on, in seconds since 1970; None: all.
    """
    name = only_guard(log, guard)
    known = standings(log, reviews=reviews)
    picked = list(log.decisions(guard=name, picked=True, since=since))
    final = [one for one in picked if _is_final(known.get(one.id))]
    if not final:
        raise NescioError(
            f"the log has no labeled decision of the guard {name!r}; label some: nescio review"
        )
    last = max(one.seq for one in final)
    decisions, least = _stream(log, name, last, since)
    if not least > 0:
        raise NescioError(
            "some decisions had no chance to be reviewed, such as answers that are not sampled; "
            "labels of the others cannot stand for them: serve with --sample 0.05, and take only "
            "what was decided since"
        )
    before = [one for one in picked if one.seq <= last]
    drawn = [one for one in final if _draw(seed, one.id) < least / one.propensity]
    kept = [one for one in drawn if log.kept(one.id) is not None]
    classes = [one for one in kept if known[one.id].kind == LABEL]
    return LogSample(
        guard=name,
        ids=tuple(one.id for one in classes),
        labels=tuple(str(known[one.id].label) for one in classes),
        none=tuple(one.id for one in kept if known[one.id].kind == NONE),
        decisions=decisions,
        labeled=len(final),
        least=least,
        thinned=len(final) - len(drawn),
        missing=_missing(before, known, len(drawn) - len(kept)),
    )


def only_guard(log: "DecisionLog", name: str | None) -> str:
    """The guard of this name, or the only one of the log.

    log: the decision log.
    name: name of the guard; None: there is one.
    """
    names = list(dict.fromkeys(one["name"] for one in log.guards()))
    if name is not None and (not names or name in names):
        return name
    if name is None and len(names) == 1:
        return str(names[0])
    listed = ", ".join(names) or "none is registered"
    asked = "which guard is it" if name is None else f"there is no guard {name!r}"
    raise NescioError(f"{asked}? The log has decisions of: {listed}; name one: --served NAME")


def about_guard(log: "DecisionLog", name: str) -> dict[str, Any]:
    """What the log says about the newest version of the guard `name`."""
    found = [one for one in log.guards() if one["name"] == name]
    return found[-1] if found else {}


def kept_inputs(log: "DecisionLog", ids: Sequence[str]) -> "list[KeptInput]":
    """The inputs of decisions, all of which are kept.

    log: the decision log.
    ids: ids of the decisions.
    """
    found = [log.kept(name) for name in ids]
    if any(one is None for one in found):
        raise NescioError("inputs of labeled decisions were deleted in the meantime; try again")
    return [one for one in found if one is not None]


def _is_final(found: Standing | None) -> bool:
    return found is not None and found.state == AGREED


def _draw(seed: int, decision: str) -> float:
    """A number from 0 to 1 that only the decision's id and the seed determine."""
    return derive(seed, "calibration from a log", decision) / DRAWS


def _stream(log: "DecisionLog", guard: str, last: int, since: float | None) -> tuple[int, float]:
    """The number of decisions up to the last labeled one, and the least propensity among them."""
    query = select(func.count(), func.min(entries.c.propensity)).select_from(entries)
    query = query.join(sources, sources.c.source == entries.c.source)
    query = query.where(sources.c.guard == guard, entries.c.seq <= last)
    if since is not None:
        query = query.where(entries.c.time >= since)
    with log.database.reading() as connection:
        if not log.database.is_sqlite:  # of a large log it takes minutes
            connection.exec_driver_sql("SET LOCAL statement_timeout TO 0")
        count, least = connection.execute(query).one()
    return int(count), float(least)


def _missing(before: "Sequence[Logged]", known: dict[str, Standing], gone: int) -> dict[str, int]:
    """Decisions in the queue before the last labeled one that are not in the sample, by reason."""
    states = Counter(known[one.id].state if one.id in known else OPEN for one in before)
    del states[AGREED]
    return {name: count for name, count in {**states, "input gone": gone}.items() if count}
