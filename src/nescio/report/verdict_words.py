"""The verdict of an audit in words: a paragraph, and each finding with its number and limit."""

from collections.abc import Mapping, Sequence

from nescio.evaluation import Finding, Findings, Limit, RegressionFindings, Status, Unit
from nescio.report.guard_words import wished
from nescio.report.render import known, percent

NAMED = 3  # findings in the paragraph, and parts that were not run; the lists have them all


def verdict_paragraph(
    found: Findings | RegressionFindings,
    status: Status,
    judged: Sequence[Finding],
    not_run: Mapping[str, str],
) -> str:
    """The paragraph that an audit begins with.

    found: findings of an audit.
    status: status of the verdict.
    judged: numbers that were compared with limits, the worst first.
    not_run: why a section is missing, by its name.
    """
    said = [_first_sentence(status, judged), _quality(found), _guard(found), _left(not_run)]
    return " ".join(sentence for sentence in said if sentence)


def _first_sentence(status: Status, judged: Sequence[Finding]) -> str:
    failed = [one for one in judged if one.status == "fail"]
    looked = [one for one in judged if one.status == "attention"]
    count = len(judged)
    if not count:
        return "Attention: no number could be compared with a limit."
    if status == "pass":
        return f"Pass: {'all ' if count > 1 else ''}{_numbers(count)} keep their limits."
    if status == "fail":
        more = f"; {len(looked)} more need{'s' * (len(looked) == 1)} a look" if looked else ""
        start = f"Fail: {len(failed)} of {_numbers(count)} break"
        return f"{start}{'s' * (len(failed) == 1)} the limit ({_titles(failed)}){more}."
    need = f"{len(looked)} of {_numbers(count)} need{'s' * (len(looked) == 1)} a look"
    return f"Attention: nothing fails, but {need} ({_titles(looked)})."


def _numbers(count: int) -> str:
    return "1 number" if count == 1 else f"{count} numbers"


def _titles(judged: Sequence[Finding]) -> str:
    names = list(dict.fromkeys(one.title for one in judged))
    rest = f"; and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return "; ".join(names[:NAMED]) + rest


def _quality(found: Findings | RegressionFindings) -> str:
    if not found.predictors:
        return ""
    if isinstance(found, RegressionFindings):
        one = next(iter(found.predictors.values())).test
        share = one.coverage.get("0.9")
        held = "" if share is None else f", and 90 % intervals hold {percent(share.value)}"
        return (
            f"On {found.samples:,} test samples the root mean squared error is "
            f"{one.rmse.value:.3g} (without a network {found.baseline.rmse.value:.3g}){held}."
        )
    test = next(iter(found.predictors.values())).test
    right, mean = known(test.accuracy), known(test.mean_max_confidence)
    if right is None or mean is None:
        return ""
    return (
        f"The network is right on {percent(right)} of {found.samples:,} test sample"
        f"{'s' * (found.samples != 1)}, with a mean "
        f"confidence of {percent(mean)}."
    )


def _guard(found: Findings | RegressionFindings) -> str:
    guard = found.guard
    if guard is None or guard.skipped or guard.test is None:
        return "There is no guard." if guard is not None else ""
    wrong = "miss" if isinstance(found, RegressionFindings) else "are wrong"
    if not guard.holds:
        return f"Its guard cannot guarantee that at most {wished(guard.risk)} of answers {wrong}."
    return (
        f"Its guard answers {percent(guard.test.answered.value)} of inputs like these, and at most "
        f"{wished(guard.risk)} of the answers {wrong} (guaranteed with a confidence of "
        f"{wished(guard.confidence)})."
    )


def _left(not_run: Mapping[str, str]) -> str:
    if len(not_run) > NAMED:
        return f"{len(not_run)} parts were not run."
    return f"Not run: {', '.join(not_run)}." if not_run else ""


def number_of(one: Finding) -> str:
    """The number of a finding with its interval: `95.6 % (93.4 % to 97.2 %)`.

    one: the finding.
    """
    value = known(one.value)
    if value is None:
        return "not measured"
    low, high = known(one.low), known(one.high)
    said = in_unit(value, one.unit)
    if low is None or high is None:
        return said
    ends = [in_unit(end, one.unit).removesuffix(" points") for end in (low, high)]
    return f"{said} ({' to '.join(ends)})"


def advice_of(one: Finding) -> str:
    """What to do: nothing where the limit is kept, more samples where the data do not tell."""
    if one.status == "pass":
        return ""
    unclear = one.unclear and one.value is not None
    return "The data do not tell: give more samples." if unclear else one.advice


def default_limit(one: Limit) -> str:
    """The default limit of a number as it would be required: `<=0.05, fails >0.15`.

    one: the limit.
    """
    if not one.counts:
        return "-"
    signs = ("<", ">") if one.better == "lower" else (">", "<")
    keeps, breaks = signs[0] + "=" * (not one.strict), signs[1] + "=" * one.strict
    if one.attention is None:
        return f"fails {breaks}{one.fail:g}"
    said = f"{keeps}{one.attention:g}"
    return said if one.fail is None else f"{said}, fails {breaks}{one.fail:g}"


def limit_of(one: Finding) -> str:
    """The limit of a finding in words: `at most 5 %`, and from where it fails if that is another.

    one: the finding.
    """
    words = {("lower", False): "at most", ("lower", True): "below",
             ("higher", False): "at least", ("higher", True): "above"}  # fmt: skip
    attention = one.fail if one.attention is None else one.attention
    if attention is None:
        return "no limit"
    said = f"{words[one.better, one.strict]} {in_limit(attention, one.unit)}"
    if one.fail is None or one.fail == attention:
        return said
    beyond = "above" if one.better == "lower" else "below"
    return f"{said}, fails {beyond} {in_limit(one.fail, one.unit)}"


def in_unit(value: float, unit: Unit) -> str:
    """A number as it was measured."""
    if unit == "share":
        return percent(value)
    if unit == "points":
        return f"{100 * value:.1f} points"
    return f"{value:,.0f}" if unit == "count" else f"{value:#.3g}".removesuffix(".")


def in_limit(value: float, unit: Unit) -> str:
    """A limit as it was written."""
    if unit == "share":
        return wished(value)
    return f"{100 * value:g} points" if unit == "points" else f"{value:g}"
