"""What a guard promises, in words, with what each promise rests on."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nescio.conformal.limits import allowed

if TYPE_CHECKING:
    from nescio.guarding.deciding import Guard
    from nescio.guarding.rules import Rule

SHIFT = (
    "Nothing is promised for inputs that are drawn differently from the calibration data (another "
    "camera, another hospital, a later year), nor for inputs made to fool the network, nor for any "
    "single input: the promises are rates. How many unlike inputs are refused is not promised "
    "either: it depends on the detector, and can be measured on examples."
)
COLUMNS = ("group", "samples", "outside above", "answered", "errors", "risk at most", "doubt up to")


def guarantees(guard: "Guard") -> tuple[str, ...]:
    """The promises with their assumptions, and what is not promised."""
    found = [_outside(guard), _unsure(guard)]
    if guard.sets is not None:
        found.append("Sets: " + guard.sets.guarantee)
    return (*found, *_withheld(guard), SHIFT)


def _outside(guard: "Guard") -> str:
    cases = [len(rule.scores) for rule in guard.rules]
    each = {"class": " with the same predicted class", "groups": " of the same group"}
    alike = each.get(guard.by or "", "")
    spread = ""
    if len(cases) == 1:
        low, high = rate_interval(cases[0], guard.false_alarm)
        spread = (
            f" For one calibration set the rate itself lies between {_percent(low)} and "
            f"{_percent(high)} in 95 of 100 cases."
        )
    return (
        f"Outside: an input like the calibration data{alike} is refused as outside with "
        f"probability at most {_percent(guard.false_alarm)} (conformal p-values against "
        f"{_number(sum(cases))} samples). This holds on average over calibration sets, for any "
        f"network and detector, if the input and the samples are exchangeable.{spread}"
    )


def _unsure(guard: "Guard") -> str:
    holding = [rule for rule in guard.rules if rule.coverage.holds]
    if not holding:
        return "Unsure: the calibration data support no answer, so every input is left unsure."
    each = {
        "class": " for each predicted class by itself (those listed)",
        "groups": " for each group by itself (those listed)",
    }
    cases = sum(rule.coverage.cases for rule in holding)
    answered = sum(rule.coverage.answered for rule in holding)
    return (
        f"Unsure: of the inputs that are answered, at most {_percent(guard.risk)} get a wrong "
        f"label{each.get(guard.by or '', '')}. The calibration data show this with a confidence of "
        f"{_percent(guard.confidence)}: it fails for at most {_percent(1 - guard.confidence)} of "
        "calibration sets (exact binomial bounds, tested in an order fixed beforehand). It holds "
        "if samples and inputs are drawn independently from one distribution. Of "
        f"{_number(cases)} samples inside, {_number(answered)} are answered."
    )


def _withheld(guard: "Guard") -> list[str]:
    """Where nothing is answered, and what it would take."""
    return [why_not(rule, guard.risk) for rule in guard.rules if not rule.coverage.holds]


def why_not(rule: "Rule", risk: float) -> str:
    """Why inputs of a group are all left unsure."""
    found = rule.coverage
    where = f"In group {rule.group}" if rule.group else "Here"
    said = (
        f"{where} nothing is answered: {found.errors} errors among the {_number(found.answered)} "
        f"surest of {_number(found.cases)} samples show a risk of at most {_percent(found.bound)}, "
        f"not of {_percent(risk)}."
    )
    if found.needed is None:
        return f"{said} More samples would not help: the network errs too often; allow more risk."
    total = max(1, round(found.needed * len(rule.scores) / max(found.cases, 1)))
    return (
        f"{said} It takes {_number(total)} samples or more in this part of the calibration data, "
        "or a larger risk."
    )


def rate_interval(cases: int, false_alarm: float) -> tuple[float, float]:
    """Where the false-alarm rate of one calibration set lies, in 95 of 100: a beta law."""
    from scipy.special import betaincinv

    over = allowed(cases, false_alarm)
    low, high = (float(betaincinv(over, cases + 1 - over, q)) for q in (0.025, 0.975))
    return low, high


def table(guard: "Guard") -> str:
    """A row a group."""
    rows = [
        [
            rule.group or "all",
            _number(len(rule.scores)),
            f"{rule.limit:.4g}",
            f"{rule.coverage.answered / max(1, len(rule.scores)):.1%}"
            if rule.coverage.holds
            else "0 %",
            str(rule.coverage.errors) if rule.coverage.holds else "-",
            _percent(rule.coverage.bound) if rule.coverage.holds else "-",
            f"{rule.coverage.threshold:.4g}" if rule.coverage.holds else "never",
        ]
        for rule in guard.rules
    ]
    return text_table(COLUMNS, rows)


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns of words."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (header, *rows)
    ]
    return "\n".join(lines)


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def _number(count: int) -> str:
    return f"{count:,}"
