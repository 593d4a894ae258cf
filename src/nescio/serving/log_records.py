"""What the decision log holds: decisions, inputs that were kept, labels and actions."""

from dataclasses import dataclass


@dataclass(frozen=True)
class KeptInput:
    """One input, as it was sent.

    kind: "npy", one input without the batch axis; "image", the bytes of the file; or "row", a JSON
      object with the row of a table, or a text.
    body: the bytes.
    """

    kind: str
    body: bytes


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One decision about one input.

    id: unique in the log; "<request id>-<row>". Ids that grow with time are the fastest to write.
    time: seconds since 1970, UTC.
    replica: which process wrote it.
    guard: the name under which the guard is served.
    version: the fingerprint of the content of the guard's file.
    digest: of the input.
    decision: answer, unsure or ood.
    label: the answer, or what it would have been.
    probability: of the label; None where it is missing or not finite, here and below.
    p_value: of the input.
    score: of the detector.
    failure_score: larger where the label is more likely wrong.
    rule: the rule that decided.
    in_range: whether all numbers of the input are in the range of the calibration data.
    set: the prediction set, where the guard has them.
    more: JSON with further columns, such as the interval of a regression.
    picked: whether it is in the review queue.
    propensity: the probability with which it was picked; 1 where the guard abstained.
    kept: the input, where it is kept.
    """

    id: str
    time: float
    replica: str
    guard: str
    version: str
    digest: str
    decision: str
    label: str
    probability: float | None
    p_value: float | None
    score: float | None
    failure_score: float | None
    rule: str
    in_range: bool
    set: str | None
    more: str | None
    picked: bool
    propensity: float
    kept: KeptInput | None = None


@dataclass(frozen=True, kw_only=True)
class Logged(Entry):
    """A decision as it is in the log, without the input.

    seq: its number, which orders the decisions of a replica as they were written.
    """

    seq: int


@dataclass(frozen=True, kw_only=True)
class Label:
    """What a reviewer says about a decision.

    decision: the id of the decision.
    reviewer: who says it.
    kind: "label"; "none", where it is not one of the classes; or "skip".
    label: the true label, for the kind "label".
    time: seconds since 1970, UTC.
    """

    decision: str
    reviewer: str
    kind: str
    label: str | None
    time: float


@dataclass(frozen=True, kw_only=True)
class Action:
    """What somebody did to the service, such as a change of the guard.

    time: seconds since 1970, UTC.
    who: the name of the key.
    role: of the key.
    what: the action.
    about: what it was done to.
    details: JSON.
    """

    time: float
    who: str
    role: str
    what: str
    about: str
    details: str
