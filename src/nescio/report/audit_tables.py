"""The tables of an audit."""

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from nescio.evaluation.answers import ADVERSARIAL, FAR

# The tables of an audit as rows of text and numbers, for the terminal and for the page.

Result = Mapping[str, Any]


@dataclass(frozen=True)
class Separation:
    """How well one measure tells one outside set from the test data; None where unknown."""

    auroc: float | None
    fpr: float | None


def ood_names(result: Result) -> list[str]:
    """The outside sets of all predictors, in the order in which they come."""
    return _union(found["ood"] for found in result["predictors"].values())


QUALITY_COLUMNS = ("accuracy", "sure", "ECE", "NLL", "Brier")
QUALITY_NOTE = "Accuracy, mean maximum confidence (sure) and ECE in per cent, NLL in nats."


def quality_rows(result: Result, *, missing: str) -> list[tuple[str, list[str]]]:
    """A row for each predictor; accuracy, mean maximum confidence and ECE in per cent."""
    rows = []
    for name, found in result["predictors"].items():
        test, shares = found["test"], ("accuracy", "mean_max_confidence", "ece")
        cells = [
            *(decimal(test.get(key), 1, scale=100, missing=missing) for key in shares),
            *(decimal(test.get(key), 3, missing=missing) for key in ("nll", "brier")),
        ]
        rows.append((name, cells))
    return rows


def confidence_rows(result: Result, *, missing: str) -> list[tuple[str, list[str]]]:
    """A row for each set, a cell for each predictor: mean maximum confidence in per cent."""
    rows = []
    for where in ["test data", *ood_names(result)]:
        parts = [
            found["test"] if where == "test data" else found["ood"].get(where, {})
            for found in result["predictors"].values()
        ]
        values = [part.get("mean_max_confidence") for part in parts]
        rows.append((where, [decimal(v, 1, scale=100, missing=missing) for v in values]))
    return rows


def separation_rows(result: Result, where: str) -> list[tuple[str, list[Separation]]]:
    """A row for each measure, a cell for each predictor, for one outside set."""
    parts = [
        found["ood"].get(where, {}).get("measures", {}) for found in result["predictors"].values()
    ]
    return [
        (measure, [_separation(part.get(measure, {})) for part in parts])
        for measure in _union(parts)
    ]


def followed(result: Result) -> Result:
    """The predictors whose far field is known, with its rays by kind."""
    parts = {name: found.get("far_field", {}) for name, found in result["predictors"].items()}
    return {name: part["rays"] for name, part in parts.items() if part.get("rays")}


def not_followed(result: Result) -> list[tuple[str, str]]:
    """The predictors whose far field cannot be computed, and why."""
    parts = {name: found.get("far_field", {}) for name, found in result["predictors"].items()}
    return [(name, part["skipped"]) for name, part in parts.items() if part.get("skipped")]


def attack_notes(result: Result) -> list[tuple[str, str]]:
    """The predictors that could not be attacked, or not everywhere, and why."""
    notes = []
    for name, found in result["predictors"].items():
        attack = found.get("attack", {})
        if attack.get("skipped"):
            notes.append((name, f"no adversarial noise. {attack['skipped']}"))
        elif blind := known(attack.get("blind")):
            share = f"{decimal(blind, 0, scale=100, missing='')} %"
            why = "the network gives no gradient there, so a low confidence is no evidence"
            notes.append((name, f"the attack could not move {share} of its inputs: {why}"))
    return notes


FAR_COLUMNS = (
    "certain", "sure in the limit", "last breakpoint", "factor to 95 %", "factor to 99.9 %",
)  # fmt: skip


def far_rows(result: Result, kind: str, *, missing: str) -> list[tuple[str, list[str]]]:
    """A row for each predictor: the far field along one kind of rays, medians of the factors."""
    rows = []
    for name, kinds in followed(result).items():
        part = kinds.get(kind)
        if part is None:
            continue
        levels = [part["factor"][level]["quantiles"] for level in ("0.95", "0.999")]
        cells = [
            f"{decimal(part['certain'], 0, scale=100, missing=missing)} %",
            f"{decimal(part['mean_limit_confidence'], 1, scale=100, missing=missing)} %",
            short(_median(part["radius"]), missing="never"),
            *(_factor(_median(values), part["start"]) for values in levels),
        ]
        rows.append((name, cells))
    return rows


def far_kinds(result: Result) -> list[str]:
    """The kinds of rays that were followed."""
    return _union(followed(result).values())


def short(value: Any, *, missing: str) -> str:
    """A factor with three digits; large ones as powers of ten."""
    number = known(value)
    if number is None:
        return missing
    if number < 1000:
        return f"{number:.3g}"
    return f"{number:,.0f}" if number < 1e6 else f"{number:.0e}".replace("e+0", "e")


def _factor(value: Any, start: float) -> str:
    return "at once" if value == start else short(value, missing="never")


def _median(quantiles: Any) -> Any:
    return quantiles[len(quantiles) // 2]


def measure_names(result: Result) -> list[str]:
    """Every measure that some table or curve of the audit shows."""
    predictors = result["predictors"].values()
    sets = [part["measures"] for found in predictors for part in found["ood"].values()]
    curves = [found["scaling"]["auroc"] for found in predictors if found.get("scaling")]
    return _union([*sets, *curves])


def constant(numbers: Result) -> bool:
    """Whether a measure gave every sample the same score, so that it tells nothing apart."""
    return numbers.get("auroc") == 0.5 and numbers.get("fpr_at_95_tpr") == 1.0


def known(value: Any) -> float | None:
    """The number, or None if it is missing or not finite."""
    if value is None or not abs(value) < float("inf"):
        return None
    return float(value)


def decimal(value: Any, digits: int, *, scale: float = 1.0, missing: str) -> str:
    """A number with a fixed count of decimals, or `missing`; never a negative zero."""
    number = known(value)
    if number is None:
        return missing
    return f"{round(scale * number, digits) + 0.0:.{digits}f}"


def _separation(numbers: Mapping[str, Any]) -> Separation:
    if constant(numbers):
        return Separation(None, None)
    return Separation(known(numbers.get("auroc")), known(numbers.get("fpr_at_95_tpr")))


def _union(names: Iterable[Iterable[str]]) -> list[str]:
    return list(dict.fromkeys(name for part in names for name in part))


# How well confidence is earned: rows of calibration and of failure prediction in an audit.

CALIBRATION_COLUMNS = ("temperature", "ECE", "95 % interval", "smooth ECE", "NLL", "Brier")
FAILURE_COLUMNS = ("AP of errors", "gain in AP", "AUROC", "AURC")
CALIBRATION_NOTE = (
    "ECE: the gap of confidence and accuracy over 15 bins, in per cent. Its interval is from "
    "resampled samples and takes off some of what chance adds to the gap, so it may lie below the "
    "ECE. It starts above 0 only if calibrated answers would show so large a gap in 2.5 % of draws "
    "at most. Smooth ECE: with a kernel in place of bins."
)
FAILURE_NOTE = (
    "AP of errors, its gain over the maximum probability, and AUROC in per cent, AURC in "
    "thousandths; 95 % intervals from resampled samples. AP and AUROC: larger is better; chance is "
    "the share of errors for AP, 50 for AUROC. AURC: the mean share of errors over all coverages; "
    "smaller is better."
)


def calibrated(result: Result) -> dict[str, Any]:
    """The predictors whose calibration was measured."""
    parts = {name: found.get("calibration") for name, found in result["predictors"].items()}
    return {name: part for name, part in parts.items() if part and "before" in part}


def calibration_rows(result: Result, *, missing: str) -> list[tuple[str, list[str]]]:
    """Two rows a predictor: as it is, and after temperature where there is one."""
    rows = []
    for name, part in calibrated(result).items():
        rows.append((name, ["1", *_cells(part["before"], missing)]))
        if "after" in part:
            heat = decimal(part["temperature"], 2, missing=missing)
            rows.append((f"{name}, temperature", [heat, *_cells(part["after"], missing)]))
    return rows


def calibration_notes(result: Result) -> list[tuple[str, str]]:
    """The predictors without a temperature, and why."""
    return [
        (name, part["skipped"]) for name, part in calibrated(result).items() if part.get("skipped")
    ]


def failure_rows(result: Result, *, missing: str) -> list[tuple[str, list[str]]]:
    """A row for each predictor and score."""
    rows = []
    for name, found in result["predictors"].items():
        for score, part in found.get("failure", {}).get("scores", {}).items():
            gain = part.get("gain", {}).get("ap_error")
            cells = [
                _interval(part["ap_error"], missing),
                missing if gain is None else _interval(gain, missing, sign="+"),
                decimal(part["auroc"]["value"], 1, scale=100, missing=missing),
                decimal(part["aurc"]["value"], 2, scale=1000, missing=missing),
            ]
            rows.append((f"{name}: {score}", cells))
    return rows


def failure_notes(result: Result) -> list[tuple[str, str]]:
    """The predictors with too few errors."""
    parts = {name: found.get("failure", {}) for name, found in result["predictors"].items()}
    return [(name, part["skipped"]) for name, part in parts.items() if part.get("skipped")]


def _cells(part: Result, missing: str) -> list[str]:
    ece = part["ece"]
    ends = [decimal(max(0.0, ece[end]), 1, scale=100, missing=missing) for end in ("low", "high")]
    return [
        decimal(ece["value"], 1, scale=100, missing=missing),
        f"{ends[0]} to {ends[1]}",
        decimal(part["smooth_ece"], 1, scale=100, missing=missing),
        decimal(part["nll"], 3, missing=missing),
        decimal(part["brier"], 3, missing=missing),
    ]


def _interval(part: Result, missing: str, sign: str = "") -> str:
    """A share and its bounds, in per cent."""
    if part["value"] is None:
        return missing
    value, low, high = (f"{100 * part[key]:{sign}.1f}" for key in ("value", "low", "high"))
    return f"{value} ({low} to {high})"


# The guard of an audit: the sentence people need, a table, and how to use it.

LISTED = 4  # outside sets in the sentence; the table has them all
COLUMNS = ("samples", "answered", "unsure", "ood")
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
        return f"{_nothing(guard)} {_where(guard, 'All its guard can say is what is OOD')}"
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
        "inputs": test["samples"],
        "answer": test["answered"]["value"],
        "unsure": test["unsure"],
        "ood": test["ood"]["value"],
    }
    parts = {"test data": own, **guard.get("ood", {})}
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


KEYS = ("answer", "unsure", "ood")


def guard_notes(result: Result) -> list[str]:
    """What was shown on which samples, and what came out on the others."""
    guard = result.get("guard") or {}
    if "test" not in guard:
        return []
    test, notes = guard["test"], []
    what = "half of the test data" if guard["halved"] else "the validation data"
    rest = "the other half" if guard["halved"] else "the test data"
    left = guard.get("left_out", 0)
    but = f", without the {left:,} that are validation samples too" if left else ""
    notes.append(f"Made on {what} ({guard['samples']:,} samples), measured on {rest}{but}.")
    if test["risk"] is not None:
        ends = [_percent(test["risk"][end]) for end in ("low", "high")]
        notes.append(
            f"There {test['errors']:,} of its {_count(test):,} answers are wrong: "
            f"{_percent(test['risk']['value'])} ({ends[0]} to {ends[1]}); "
            f"{_short(guard['risk'])} was promised."
        )
    alarms = test["ood"]
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
        f"import nescio\nguard = nescio.load({path!r}{net})\n"
        "print(guard(x))  # answer, unsure or outside, for each input"
    )
    own = f" --net {guard.get('net') or 'mymodule:make_net'}" if guard["own_network"] else ""
    return python, f"nescio score {shlex.quote(path)} inputs.npz{own} --out decisions.csv"


def _without(guard: Result) -> str:
    """No guard: too few samples, or another reason."""
    samples, needed = guard["samples"], guard["needed"]
    if samples >= needed:
        return f"There is no guard for this network: {guard['skipped'].rstrip('.')}."
    what = f"{needed:,} validation samples or {2 * needed:,} test samples"
    have = f"{samples:,} validation samples"
    if guard["halved"]:
        have = f"half of the test data, {samples:,} samples,"
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
        f"{shown['answered']:,} surest of {shown['samples']:,} samples show at most "
        f"{_percent(shown['bound'])}."
    )
    if guard["enough"] is None:
        return f"{said} More samples would not help: it errs too often; allow more risk."
    count = guard["enough"]
    what = f"{2 * count:,} test samples" if guard["halved"] else f"{count:,} validation samples"
    return f"{said} It takes about {what} or more, or a larger risk."


def _refused(guard: Result) -> str:
    """Shares that are refused, of sets from outside: the user's own come first."""
    sets = [
        (_named(where), 1 - part["answer"])
        for where, part in guard.get("ood", {}).items()
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
    """A warning where the measured samples are worse than chance allows."""
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
    return round(float(test["samples"] * test["answered"]["value"]))


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
