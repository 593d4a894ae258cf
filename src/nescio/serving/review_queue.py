"""The review queue: what waits for a person's label, and what people said.

In the queue are the inputs that a guard refused and a random sample of its answers, oldest first.
A reviewer is not told which is which, nor what the guard decided, unless the guess is asked for,
which is recorded. Labels are only added: a correction is a new label. `consensus` says what they
mean together, and `final_labels` there is what monitors, calibration and training read.
"""

import json
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from threading import Lock
from typing import Any

from nescio.core import NescioError, unknown
from nescio.serving.consensus import (
    AGREED,
    DISPUTED,
    LABEL,
    NONE,
    RESOLVED,
    SKIP,
    Standing,
    check_reviewer,
    disputes,
    standing,
)
from nescio.serving.decision_log import Action, DecisionLog, KeptInput, Label, Logged
from nescio.serving.review_records import ADMIN as ADMIN
from nescio.serving.review_records import COUNTED as COUNTED
from nescio.serving.review_records import NONE_WORDS as NONE_WORDS
from nescio.serving.review_records import REVIEW as REVIEW
from nescio.serving.review_records import Guess as Guess
from nescio.serving.review_records import Person as Person
from nescio.serving.review_records import Reviewer as Reviewer
from nescio.serving.review_records import ReviewItem as ReviewItem
from nescio.serving.review_records import ReviewProgress as ReviewProgress
from nescio.serving.review_records import checked_label as checked_label
from nescio.serving.review_records import columns_in as columns_in
from nescio.serving.review_records import keyed as keyed
from nescio.serving.review_records import said as said


class ReviewQueue:
    """What waits for a label, and what becomes of it; threads may share it.

    log: the decision log.
    reviews: number of reviewers that each decision needs.
    guard: name of the guard whose decisions are reviewed; None: all.
    now: the clock, in seconds since 1970.
    """

    def __init__(
        self,
        log: DecisionLog,
        *,
        reviews: int = 1,
        guard: str | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        if reviews < 1:
            raise NescioError(f"each decision needs at least one reviewer, got reviews={reviews}")
        self.log, self.reviews, self.guard, self._now = log, reviews, guard, now
        self._lock = Lock()
        self._read = 0  # number of the last label that was read
        self._labels: dict[str, list[Label]] = {}  # by decision
        self._standings: dict[str, Standing] = {}
        self._given: dict[str, list[Label]] = {}  # by reviewer

    def waiting(self, who: Person, *, limit: int = 50) -> list[ReviewItem]:
        """What waits for a label of `who`, oldest first.

        who: the reviewer.
        limit: number of items, at most.
        """
        found = self.log.open_items(
            guard=self.guard, reviewer=who.name, reviews=self.reviews, limit=limit
        )
        abouts = self._abouts()
        return [self._item(one, abouts) for one in found]

    def next(self, who: Person) -> ReviewItem | None:
        """The oldest item that waits for a label of `who`; None where nothing waits."""
        found = self.waiting(who, limit=1)
        return found[0] if found else None

    def item(self, decision: str) -> ReviewItem:
        """The item of the id `decision`."""
        return self._item(self._logged(decision), self._abouts())

    def kept(self, decision: str) -> KeptInput | None:
        """The input of the id `decision`; None where it is no longer kept."""
        return self.log.kept(self._logged(decision).id)

    def guess(self, decision: str, who: Person) -> Guess:
        """What the guard decided, which sways people; that it was looked at is recorded.

        decision: id of the decision.
        who: the reviewer.
        """
        found = self._logged(decision)
        self.record(who, "guess", decision)
        return Guess(
            decision=found.decision,
            label=found.label,
            probability=found.probability,
            p_value=found.p_value,
            set=found.set,
        )

    def give(
        self,
        decision: str,
        who: Person,
        label: str | None,
        *,
        kind: str = LABEL,
        guess_seen: bool = False,
    ) -> Label:
        """Take a label; a second one by the same reviewer replaces the first.

        decision: id of the decision.
        who: the reviewer.
        label: name of the class, or of a regression the number; None where kind is not label.
        kind: label, none (not one of these) or skip.
        guess_seen: whether the reviewer had looked at the guess, for the record.
        """
        made = self._label(decision, check_reviewer(who.name), kind, label)
        self.log.add_labels([made])
        self.record(who, kind, decision, label=made.label, guess_seen=guess_seen)
        return made

    def settle(
        self, decision: str, who: Person, label: str | None, *, kind: str = LABEL
    ) -> Standing:
        """Settle a dispute: by an admin for good, by a third reviewer as a further label.

        decision: id of the decision.
        who: an admin, or a reviewer who is none of those who disagree.
        label: name of the class, or of a regression the number; None where kind is none.
        kind: label, or none (not one of these).
        """
        found = self.standing(decision)
        if found.state != DISPUTED:
            raise NescioError(f"nobody disagrees about {decision!r}; it is {found.state}")
        if kind not in (LABEL, NONE):
            raise NescioError(f"a dispute is settled by a label or by none, got {kind!r}")
        name = check_reviewer(who.name)
        if who.role == ADMIN:
            name = f"{RESOLVED}{name}"
        elif any(one.reviewer == who.name for one in found.votes):
            raise NescioError("a dispute is settled by a third person, or by an admin")
        made = self._label(decision, name, kind, label)
        self.log.add_labels([made])
        self.record(who, "settle", decision, kind=kind, label=made.label)
        return self.standing(decision)

    def skipped(self, who: Person, *, limit: int = 50) -> list[ReviewItem]:
        """What `who` skipped and nobody agreed on since, oldest first.

        who: the reviewer.
        limit: number of items, at most.
        """
        self._refresh()
        last = {one.decision: one.kind for one in self._given.get(who.name, ())}
        found = [name for name, kind in last.items() if kind == SKIP]
        found = [name for name in found if self._standings[name].state != AGREED]
        logged = [one for name in found if (one := self.log.decision(name)) is not None]
        logged = [one for one in logged if self.guard in (None, one.guard)]
        abouts = self._abouts()
        return [self._item(one, abouts) for one in sorted(logged, key=lambda one: one.seq)[:limit]]

    def add(self, given: Sequence[Label], who: Person, what: str, about: str) -> list[Label]:
        """Take many labels at once, all or none; those that the log has already are left out.

        given: the labels.
        who: whoever brings them.
        what: what is recorded, for example import.
        about: where they come from.
        """
        checked = [
            self._label(one.decision, check_reviewer(one.reviewer), one.kind, one.label)
            for one in given
        ]
        self._refresh()
        last = {(one.decision, name): one for name, own in self._given.items() for one in own}
        new = []
        for one in checked:
            before = last.get((one.decision, one.reviewer))
            if before is None or (before.kind, before.label) != (one.kind, one.label):
                new.append(one)
                last[one.decision, one.reviewer] = one
        self.log.add_labels(new)
        self.record(who, what, about, labels=len(new), known=len(checked) - len(new))
        return new

    def standing(self, decision: str) -> Standing:
        """Whether the label of the id `decision` is agreed, disputed or open."""
        labels = [one for _, one in self.log.labels(decision=decision)]
        return standing(decision, labels, reviews=self.reviews)

    def own_label(self, decision: str, who: Person) -> Label | None:
        """The label of the id `decision` that counts for the reviewer `who`; None: there is none.

        decision: id of the decision.
        who: the reviewer.
        """
        own = [one for _, one in self.log.labels(decision=decision) if one.reviewer == who.name]
        return own[-1] if own and own[-1].kind != SKIP else None

    def standings(self) -> dict[str, Standing]:
        """The standing of every decision that has a label, by its id."""
        self._refresh()
        return dict(self._standings)

    def disagreements(self) -> list[Standing]:
        """The decisions on which reviewers disagree, as far as the log has them, oldest first."""
        found: list[tuple[int, Standing]] = []
        for one in disputes(self.standings()):
            logged = self.log.decision(one.decision)
            if logged is not None and self.guard in (None, logged.guard):
                found.append((logged.seq, one))
        return [one for _, one in sorted(found, key=lambda each: each[0])]

    def progress(self, who: Person) -> ReviewProgress:
        """How far the review is for the reviewer `who`."""
        midnight = datetime.fromtimestamp(self._now(), UTC).replace(hour=0, minute=0, second=0)
        found = [one.state for one in self.standings().values()]
        today = set()
        for one in reversed(self._given.get(who.name, [])):
            if one.time < midnight.timestamp():
                break
            today |= {one.decision} if one.kind != SKIP else set()
        return ReviewProgress(
            waiting=len(self.waiting(who, limit=COUNTED)),
            today=len(today),
            agreed=found.count(AGREED),
            disputed=found.count(DISPUTED),
        )

    def record(self, who: Person, what: str, about: str, **details: Any) -> None:
        """Write into the log what somebody did.

        who: who did it.
        what: one word: sign-in, guess, label, none, skip, undo, settle, export, import, ...
        about: what it was done to, such as the id of a decision.
        details: more, as JSON.
        """
        self.log.record(
            Action(
                time=self._now(),
                who=who.name,
                role=who.role,
                what=what,
                about=about,
                details=json.dumps(details, sort_keys=True),
            )
        )

    def _label(self, decision: str, name: str, kind: str, label: str | None) -> Label:
        """A label whose class exists, about a decision in the queue."""
        found = self._logged(decision)
        if kind not in (LABEL, NONE, SKIP):
            raise NescioError(unknown("kind of label", kind, (LABEL, NONE, SKIP)))
        text = None
        if kind == LABEL:
            text = checked_label(label, self._item(found, self._abouts()))
        return Label(decision=found.id, reviewer=name, kind=kind, label=text, time=self._now())

    def _logged(self, decision: str) -> Logged:
        found = self.log.decision(decision)
        if found is None:
            raise NescioError(f"the log has no decision {decision!r}")
        if not found.picked:
            raise NescioError(f"the decision {decision!r} is not in the review queue")
        return found

    def _abouts(self) -> dict[tuple[str, str], dict[str, Any]]:
        """What each version of each guard says about itself."""
        return {(one["name"], one["version"]): one for one in self.log.guards()}

    def _item(self, found: Logged, abouts: dict[tuple[str, str], dict[str, Any]]) -> ReviewItem:
        about = abouts.get((found.guard, found.version), {})
        return ReviewItem(
            id=found.id,
            time=found.time,
            guard=found.guard,
            classes=tuple(map(str, about.get("classes") or ())),
            targets=len(about.get("targets") or ()),
            columns=columns_in(about),
        )

    def _refresh(self) -> None:
        """Read the labels that are new."""
        with self._lock:
            changed: dict[str, None] = {}  # in the order of the labels
            for number, one in self.log.labels(after=self._read):
                self._labels.setdefault(one.decision, []).append(one)
                self._given.setdefault(one.reviewer, []).append(one)
                changed[one.decision] = None
                self._read = max(self._read, number)
            for name in changed:
                labels = self._labels[name]
                self._standings[name] = standing(name, labels, reviews=self.reviews)
