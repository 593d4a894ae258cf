"""What a watch knows, as JSON and in words."""

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from nescio.monitoring import AccuracyEstimate, Merged, MergedRisk, Monitor, RiskMonitor
from nescio.serving.labeled_stream import LabeledStream
from nescio.serving.watch_settings import WatchSettings

TEN = math.log(10)
LEAST = 1e-300  # p-value that is said
SETTINGS = {"budget": "--sample", "risk": "risk", "confidence": "confidence"}  # of the risk


class Apart(NamedTuple):
    """A replica whose risk is not merged with that of another.

    settings: of the replica.
    risk: its monitor.
    """

    settings: WatchSettings
    risk: RiskMonitor


def drift_words(
    own: Monitor | None, joined: Merged | str | None, reason: str | None
) -> dict[str, Any]:
    """About drift.

    own: the monitor of this replica; None: drift is not watched. joined: that of all replicas, or
    why it is not known. reason: why drift is not watched.
    """
    if own is None:
        return {"watched": False, "alarm": False, "words": f"Drift is not watched: {reason}"}
    alone = not isinstance(joined, Merged) or len(joined.monitors) == 1
    alarm = own.alarm is not None if alone else isinstance(joined, Merged) and joined.alarm
    log = own.log_martingale if not isinstance(joined, Merged) else joined.log_martingale
    count = own.count if not isinstance(joined, Merged) else joined.count
    bound = f"{100 * own.false_alarm:g} %"
    if alarm:
        words = (
            "ALARM: the inputs are no longer like the calibration data. Look at new inputs, label "
            "some, and make a new guard with them."
        )
    else:
        words = (
            f"No alarm in {counted(count, 'decision')}. While nothing changes, at most {bound} of "
        )
        words += "streams ever raise one."
    if isinstance(joined, str):
        words += f" The replicas are not merged: {joined}."
    return {
        "watched": True,
        "alarm": bool(alarm),
        "decisions": count,
        "replicas": len(joined.monitors) if isinstance(joined, Merged) else 1,
        "log10_evidence": log / TEN,
        "alarm_at_log10": own.threshold / TEN,
        "p_value": max(own.p_value if alone else min(1.0, math.exp(-log)), LEAST),
        "false_alarm": own.false_alarm,
        "index": own.alarm if alone else None,
        "words": words,
    }


def risk_words(merged: MergedRisk, labeled: LabeledStream, *, classifies: bool) -> dict[str, Any]:
    """About the share of wrong answers.

    merged: of all replicas. labeled: the answers of this replica. classifies: whether the guard
    answers with classes.
    """
    whole, alarm = merged.whole, merged.alarm
    if not classifies:
        words = "The risk is not watched: the guard predicts numbers, and labels are classes."
        return {"watched": False, "alarm": False, "words": words}
    sure = f"with a confidence of {100 * whole.confidence:g} %, at all times"
    if whole.count == 0:
        words = "No answer has been counted yet."
    elif alarm:
        words = (
            f"ALARM: more than {100 * whole.risk:g} % of the answers are wrong, so far or of late. "
            "Take the guard out of use, or make it stricter, and look at the wrong answers."
        )
    elif whole.assured:
        words = f"At most {whole.upper:.2%} of the answers are wrong, {sure}."
    else:
        words = f"Not shown yet: at most {whole.upper:.2%} of the answers are wrong, {sure}; "
        words += f"allowed are {100 * whole.risk:g} %. More labels narrow this."
    if labeled.waiting is not None:
        words += " Later answers wait for the label of an earlier one."
    return {
        "watched": True,
        "alarm": bool(alarm),
        "assured": whole.count > 0 and whole.assured,
        "answers": whole.count,
        "labels": whole.labels,
        "missing_labels": whole.missing,
        "risk": whole.risk,
        "confidence": whole.confidence,
        "estimate": whole.estimate if whole.count else None,
        "lower": whole.lower,
        "upper": whole.upper,
        "waiting_for": None if labeled.waiting is None else labeled.waiting.id,
        "words": words,
    }


def apart_words(
    known: Mapping[str, Any], own: WatchSettings, apart: Sequence[Apart]
) -> dict[str, Any]:
    """About replicas that are not merged: who has which settings, and whether one has an alarm.

    known: what `risk_words` says.
    own: settings of this replica.
    apart: the others.
    """
    if not apart:
        return {}
    every = [own, *(one.settings for one in apart)]
    names = [name for name in SETTINGS if len({getattr(one, name) for one in every}) > 1]
    have = [", ".join(f"{SETTINGS[name]} {getattr(one, name):g}" for name in names)
            for one in every]  # fmt: skip
    said = [f"replica {own.replica}, counted here, has {have[0]}"]
    for (its, risk), settings in zip(apart, have[1:], strict=True):
        found = "at most" if risk.alarm is None else "ALARM, at least"
        bound = risk.upper if risk.alarm is None else risk.lower
        said.append(
            f"replica {its.replica} has {settings} ({found} {bound:.2%} of its "
            f"{counted(risk.count, 'answer')} are wrong)"
        )
    words = f" Replicas of different settings are not merged: {'; '.join(said)}."
    alarm = any(one.risk.alarm is not None for one in apart)
    return {"words": known["words"] + words, "not_merged": len(apart), "not_merged_alarm": alarm}


def alarm_words(alarm: Mapping[str, Any]) -> str:
    """Who raised an `alarm` that this replica does not raise now, and when."""
    when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(alarm["time"]))
    return f" Replica {alarm['replica']} raised an alarm on {when}."


def counted(count: int, what: str) -> str:
    """A number of things, such as 1 decision.

    count: the number. what: one of them.
    """
    return f"{count:,} {what}" + "s" * (count != 1)


def accuracy_words(
    accuracy: AccuracyEstimate, merged: MergedRisk, drift: dict[str, Any], classifies: bool
) -> dict[str, Any]:
    """About the accuracy of the answers: without labels, and with them.

    accuracy: from the probabilities. merged: the risk. drift: what is known about it. classifies:
    whether the guard answers with classes.
    """
    if not classifies or accuracy.count == 0:
        return {"watched": classifies, "words": "No probability of an answer is known yet."}
    low, high = accuracy.interval
    whole = merged.whole
    labeled = None
    contradicted = False
    words = f"{accuracy.accuracy:.2%} of the answers are right, if {accuracy.assumes}."
    if whole.labels:
        between = (1 - whole.upper, 1 - whole.lower)
        labeled = {"accuracy": 1 - whole.estimate, "interval": list(between)}
        contradicted = between[1] < low or between[0] > high
        words += f" By labels: {1 - whole.estimate:.2%}, from {between[0]:.2%} to {between[1]:.2%}."
    if contradicted:
        words += " The labels contradict the probabilities: do not use the estimate without labels."
    elif drift.get("alarm"):
        words += " The inputs have drifted, so the estimate without labels may be wrong."
    return {
        "watched": True,
        "answers": accuracy.count,
        "estimated": accuracy.accuracy,
        "interval": [low, high],
        "assumes": accuracy.assumes,
        "labeled": labeled,
        "contradicted": contradicted,
        "trusted": not contradicted and not drift.get("alarm"),
        "words": words,
    }
