"""The guard of an audit in words: the sentence people need, and how to use it."""

import shlex
from collections.abc import Sequence

from nescio.evaluation import RegressionFindings, RegressionGuardFindings
from nescio.evaluation.audit.findings import Findings, GuardFindings, OnTest, Shown
from nescio.report.render import percent

LISTED = 4  # OOD sets in the sentence; the table has them all


def guard_sentence(found: Findings) -> str:
    """How much can be answered at which risk, where it abstains, and where the guard is."""
    guard = found.guard
    if guard is None:
        return ""
    if guard.skipped:
        return _without(guard)
    if not guard.holds or guard.test is None:
        return f"{_nothing(guard)} {guard_place(guard, 'All its guard can say is what is OOD')}"
    said = (
        f"At {wished(guard.false_alarm)} false alarms this network can answer "
        f"{percent(guard.test.answered.value)} of inputs like its test data with at most "
        f"{wished(guard.risk)} errors (confidence {wished(guard.confidence)})"
    )
    others = abstained(guard, found)
    return f"{said}{'; ' if others else ''}{others}. {_broken(guard)}{guard_place(guard)}"


def guard_notes(found: Findings) -> list[str]:
    """What was shown on which samples, and what came out on the others."""
    guard = found.guard
    if guard is None or guard.test is None:
        return []
    test, notes = guard.test, []
    what = "half of the test data" if guard.halved else "the validation data"
    rest = "the other half" if guard.halved else "the test data"
    left = guard.left_out
    but = f", without the {left:,} that are validation samples too" if left else ""
    notes.append(f"Fitted on {what} ({guard.samples:,} samples), measured on {rest}{but}.")
    if test.risk is not None:
        notes.append(
            f"There {test.errors:,} of its {_count(test):,} answers are wrong: "
            f"{percent(test.risk.value)} ({percent(test.risk.low)} to "
            f"{percent(test.risk.high)}); {wished(guard.risk)} was guaranteed."
        )
    notes.append(
        f"Of these samples {percent(test.ood.value)} are called OOD ({percent(test.ood.low)} to "
        f"{percent(test.ood.high)}); {wished(guard.false_alarm)} was guaranteed, on average over "
        "calibration sets."
    )
    return notes


def guard_usage(found: Findings | RegressionFindings) -> tuple[str, str] | None:
    """How to use the guard, in Python and on the command line; None where there is none.

    found: findings of an audit.
    """
    guard = found.guard
    if guard is None or guard.skipped or not guard.file:
        return None
    if isinstance(guard, GuardFindings) and guard.arrays:
        return _of_arrays(guard.file, guard.arrays)
    net = ", net=net" if guard.own_network else ""
    python = (
        f"import nescio\nguard = nescio.load({guard.file!r}{net})\n"
        "print(guard(x))  # answer, unsure or ood, for each input"
    )
    own = f" --net {guard.net or 'mymodule:make_net'}" if guard.own_network else ""
    return python, f"nescio score {shlex.quote(guard.file)} inputs.npz{own} --out decisions.csv"


def _of_arrays(file: str, arrays: Sequence[str]) -> tuple[str, str]:
    """The same for a network that runs elsewhere."""
    options = "".join(f" --{name} {name}.npy" for name in arrays)
    given = ", features=features" * ("features" in arrays)
    python = (
        f"import nescio\nguard = nescio.load({file!r})\n"
        f"print(guard(nescio.recorded(logits{given})))  # answer, unsure or ood, for each input"
    )
    return python, f"nescio score {shlex.quote(file)}{options} --out decisions.csv"


def _without(guard: GuardFindings) -> str:
    """No guard: too few samples, or another reason."""
    samples, needed = guard.samples, guard.needed
    if samples >= needed:
        return f"There is no guard for this network: {(guard.skipped or '').rstrip('.')}."
    what = f"{needed:,} validation samples or {2 * needed:,} test samples"
    have = f"{samples:,} validation samples"
    if guard.halved:
        have = f"half of the test data, {samples:,} samples,"
    return (
        f"How many inputs this network can answer at {wished(guard.false_alarm)} false alarms with "
        f"at most {wished(guard.risk)} errors (confidence {wished(guard.confidence)}) cannot be "
        f"said: {have} are too few. It takes at least {what}."
    )


def _nothing(guard: GuardFindings) -> str:
    shown = guard.shown
    assert shown is not None  # a guard has been fitted
    errors = "1 error" if shown.errors == 1 else f"{shown.errors} errors"
    said = (
        f"At {wished(guard.false_alarm)} false alarms there is no share of inputs that this "
        f"network can be shown to answer with at most {wished(guard.risk)} errors (confidence "
        f"{wished(guard.confidence)}): {errors} among the {shown.answered:,} most confident of "
        f"{shown.samples:,} samples show at most {percent(shown.bound)}.{_other_risks(shown)}"
    )
    if guard.enough is None:
        return (
            f"{said} More samples would not help at this share of errors, unless there are so many "
            "that fewer and more confident answers can be tried; or allow more risk."
        )
    count = guard.enough
    what = f"{2 * count:,} test samples" if guard.halved else f"{count:,} validation samples"
    return f"{said} It takes about {what} or more, or a larger risk."


def _other_risks(shown: Shown) -> str:
    """What larger risks would answer, up to the first that answers most."""
    rows = [(risk, share) for risk, share in shown.at_risks if share > 0]
    most = next((i for i, (_, share) in enumerate(rows) if share > 0.95), len(rows))
    said = [f"at most {wished(risk)} errors {percent(share)}" for risk, share in rows[: most + 1]]
    return f" It could answer with {', with '.join(said)} of them." if said else ""


def abstained(
    guard: GuardFindings | RegressionGuardFindings, found: Findings | RegressionFindings
) -> str:
    """Shares on which it abstains, of OOD sets: the user's come first."""
    sets = [
        (_named(where, found.kind(where)), 1 - part.answer)
        for where, part in (guard.ood or {}).items()
        if found.kind(where) != "far"
    ]
    verbs = ["it abstains on ", *[""] * LISTED]
    return ", ".join(
        f"of {where} {verb}{percent(share)}"
        for (where, share), verb in zip(sets[:LISTED], verbs, strict=False)
    )


def _named(where: str, kind: str) -> str:
    if kind == "adversarial":
        return "adversarial noise"
    return f"the {where}" if where == "uniform noise" else where


def _broken(guard: GuardFindings) -> str:
    """A warning where the test samples are worse than chance allows."""
    if guard.broken is None or not (guard.broken.risk or guard.broken.false_alarm):
        return ""
    return (
        "But the test data do not agree with this: they are not drawn like the data it was fitted "
        "on, so no guarantee holds. "
    )


def guard_place(
    guard: GuardFindings | RegressionGuardFindings, start: str = "Here is the guard"
) -> str:
    """Where the guard is."""
    return f"{start}: {guard.file or 'audit.guard; audit.save(folder) writes it'}"


def _count(test: OnTest) -> int:
    return round(float(test.samples * test.answered.value))


def wished(share: float) -> str:
    """A share in per cent, as it was asked for."""
    return f"{100 * share:g} %"
