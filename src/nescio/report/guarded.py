"""The guard of an audit: the sentence people need, a table, and how to use it."""

import shlex

from nescio.evaluate import ADVERSARIAL, FAR
from nescio.report.tables import Result, decimal, known

LISTED = 4  # outside sets in the sentence; the table has them all
COLUMNS = ("cases", "answered", "unsure", "outside")
READING = (
    "Shares in per cent. Refused is what is not answered: unsure or outside. The promises are "
    "about inputs like the held-out data; how many others are refused is measured, not promised."
)


def guard_sentence(result: Result) -> str:
    """How much can be answered at which risk, what is refused, and where the guard is."""
    guard = result.get("guard")
    if not guard:
        return ""
    if guard.get("skipped"):
        return _without(guard)
    if not guard["holds"]:
        return f"{_nothing(guard)} {_where(guard, 'All its guard can say is what is outside')}"
    said = (
        f"At {_short(guard['false_alarm'])} false alarms this network can answer "
        f"{_percent(guard['test']['answered']['value'])} of inputs like its test data with at most "
        f"{_short(guard['risk'])} errors (confidence {_short(guard['confidence'])})"
    )
    refused = _refused(guard)
    return f"{said}{'; ' if refused else ''}{refused}. {_broken(guard)}{_where(guard)}"


def guard_rows(result: Result) -> list[tuple[str, list[str]]]:
    """A row for each set: what the guard decides there; the test data first."""
    guard = result.get("guard") or {}
    if "test" not in guard:
        return []
    test = guard["test"]
    own = {
        "inputs": test["cases"],
        "answer": test["answered"]["value"],
        "unsure": test["unsure"],
        "outside": test["outside"]["value"],
    }
    parts = {"test data": own, **guard.get("outside", {})}
    return [
        (
            where,
            [
                f"{part['inputs']:,.0f}",
                *(decimal(part[key], 1, scale=100, missing="-") for key in KEYS),
            ],
        )
        for where, part in parts.items()
    ]


KEYS = ("answer", "unsure", "outside")


def guard_notes(result: Result) -> list[str]:
    """What was shown on which cases, and what came out on the others."""
    guard = result.get("guard") or {}
    if "test" not in guard:
        return []
    test, notes = guard["test"], []
    what = "half of the test data" if guard["halved"] else "the validation data"
    rest = "the other half" if guard["halved"] else "the test data"
    left = guard.get("left_out", 0)
    but = f", without the {left:,} that are validation cases too" if left else ""
    notes.append(f"Made on {what} ({guard['cases']:,} cases), measured on {rest}{but}.")
    if test["risk"] is not None:
        ends = [_percent(test["risk"][end]) for end in ("low", "high")]
        notes.append(
            f"There {test['errors']:,} of its {_count(test):,} answers are wrong: "
            f"{_percent(test['risk']['value'])} ({ends[0]} to {ends[1]}); "
            f"{_short(guard['risk'])} was promised."
        )
    alarms = test["outside"]
    notes.append(
        f"Of these cases {_percent(alarms['value'])} are called outside "
        f"({_percent(alarms['low'])} to {_percent(alarms['high'])}); "
        f"{_short(guard['false_alarm'])} was promised, on average over calibration sets."
    )
    return notes


def guard_usage(result: Result) -> tuple[str, str] | None:
    """How to use the guard, in Python and on the command line; none where there is none."""
    guard = result.get("guard") or {}
    path = guard.get("file")
    if guard.get("skipped") or not path:
        return None
    net = ", net=net" if guard["own_network"] else ""
    python = (
        f"import nescio\nguard = nescio.Guard.load({path!r}{net})\n"
        "print(guard(x))  # answer, unsure or outside, for each input"
    )
    own = f" --net {guard.get('net') or 'mymodule:make_net'}" if guard["own_network"] else ""
    return python, f"nescio score {shlex.quote(path)} inputs.npz{own} --out decisions.csv"


def _without(guard: Result) -> str:
    """No guard: too few cases, or another reason."""
    cases, needed = guard["cases"], guard["needed"]
    if cases >= needed:
        return f"There is no guard for this network: {guard['skipped'].rstrip('.')}."
    what = f"{needed:,} validation cases or {2 * needed:,} test cases"
    have = f"{cases:,} validation cases"
    if guard["halved"]:
        have = f"half of the test data, {cases:,} cases,"
    return (
        f"How many inputs this network can answer at {_short(guard['false_alarm'])} false alarms "
        f"with at most {_short(guard['risk'])} errors (confidence {_short(guard['confidence'])}) "
        f"cannot be said: {have} are too few. It takes at least {what}."
    )


def _nothing(guard: Result) -> str:
    shown = guard["shown"]
    errors = "1 error" if shown["errors"] == 1 else f"{shown['errors']} errors"
    said = (
        f"At {_short(guard['false_alarm'])} false alarms there is no share of inputs that this "
        f"network can be shown to answer with at most {_short(guard['risk'])} errors (confidence "
        f"{_short(guard['confidence'])}): {errors} among the "
        f"{shown['answered']:,} surest of {shown['cases']:,} samples show at most "
        f"{_percent(shown['bound'])}."
    )
    if guard["enough"] is None:
        return f"{said} More cases would not help: it errs too often; allow more risk."
    count = guard["enough"]
    what = f"{2 * count:,} test cases" if guard["halved"] else f"{count:,} validation cases"
    return f"{said} It takes about {what} or more, or a larger risk."


def _refused(guard: Result) -> str:
    """Shares that are refused, of sets from outside: the user's own come first."""
    sets = [
        (_named(where), 1 - part["answer"])
        for where, part in guard.get("outside", {}).items()
        if not where.startswith(FAR)
    ]
    verbs = ["it refuses ", *[""] * LISTED]
    return ", ".join(
        f"of {where} {verb}{_percent(share)}"
        for (where, share), verb in zip(sets[:LISTED], verbs, strict=False)
    )


def _named(where: str) -> str:
    if where.startswith(ADVERSARIAL):
        return ADVERSARIAL
    return f"the {where}" if where == "uniform noise" else where


def _broken(guard: Result) -> str:
    """A warning where the measured cases are worse than chance allows."""
    broken = guard["broken"]
    if not (broken["risk"] or broken["false_alarm"]):
        return ""
    return (
        "But the test data do not keep to this: they are not drawn like the data it was made on, "
        "so no promise holds. "
    )


def _where(guard: Result, start: str = "Here is the guard") -> str:
    place = guard.get("file") or "audit.guard; audit.save(folder) writes it"
    return f"{start}: {place}"


def _count(test: Result) -> int:
    return round(float(test["cases"] * test["answered"]["value"]))


def _short(share: float) -> str:
    return f"{100 * share:g} %"


def _percent(value: float | None) -> str:
    """A share in per cent; what only rounds to all or nothing does not read so."""
    share = known(value)
    if share is None:
        return "an unknown share"
    if share in (0, 1):
        return f"{100 * share:.0f} %"
    if share >= 0.9995:
        return "over 99.9 %"
    return "under 0.1 %" if share < 0.0005 else f"{100 * share:.1f} %"
