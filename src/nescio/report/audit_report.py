"""What an audit says, whatever its task: the same parts for the terminal and for the page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nescio.core.registry import measures
from nescio.evaluation import Findings, RegressionFindings
from nescio.report import audit_words
from nescio.report.audit_section import Section
from nescio.report.audit_tables import (
    followed,
    measure_names,
    measure_words,
    ood_names,
    sections,
)
from nescio.report.guard_words import guard_sentence, guard_usage
from nescio.report.regression_tables import regression_sections
from nescio.report.regression_verdict import (
    regression_advice,
    regression_compared,
    regression_guard_sentence,
    regression_headline,
    regression_verdict,
)


@dataclass(frozen=True, kw_only=True)
class Report:
    """The sentences and tables of an audit, and the names of its pictures."""

    guard: str  # what the guard can do, or why there is none
    usage: tuple[str, str] | None  # of the guard, in Python and on the command line
    warned: str  # where the test data are scaled otherwise
    headline: str
    verdict: Sequence[str]  # one for each predictor
    compared: str  # what the brackets of the verdict hold
    advice: Sequence[str]
    sections: Sequence[Section]
    plots: Sequence[str]
    attacked: bool
    glossary: Mapping[str, str]  # of measures


def report_of(found: Findings | RegressionFindings) -> Report:
    """The report of an audit."""
    names = [name for name in measure_names(found) if name in measures]
    glossary = {measure_words(name): measures.summary(name).replace("`", "") for name in names}
    warned = audit_words.range_warning(found)
    if isinstance(found, RegressionFindings):
        return _of_regression(found, warned, glossary)
    return Report(
        guard=guard_sentence(found),
        usage=guard_usage(found),
        warned=warned,
        headline=audit_words.headline(found),
        verdict=audit_words.verdict(found),
        compared=audit_words.compared(found),
        advice=audit_words.advice(found),
        sections=sections(found),
        plots=_plots(found),
        attacked=any(found.kind(where) == "adversarial" for where in ood_names(found)),
        glossary=glossary,
    )


def _plots(found: Findings) -> list[str]:
    scaled = audit_words.scaled(found)
    curves = [one.failure.curves for one in found.predictors.values() if one.failure is not None]
    wanted = {
        "confidence_along_ray": bool(scaled),
        "separation_along_ray": bool(scaled and audit_words.telling_measures(found)),
        "far_field": bool(followed(found)),
        "confidence_histograms": True,
        "reliability_diagrams": True,
        "risk_coverage": any(curves),
        "under_shift": found.shift is not None,
        "adversarial_examples": "stability" in found.sections
        and found.sections["stability"].drawable,
    }
    return [name for name, draw in wanted.items() if draw]


def _of_regression(found: RegressionFindings, warned: str, glossary: Mapping[str, str]) -> Report:
    ones = found.predictors.values()
    wanted = {
        "coverage_curves": True,
        "intervals_by_prediction": True,
        "spread_and_error": True,
        "error_by_coverage": any(one.spread.curve is not None for one in ones),
        "spread_along_ray": any(one.scaling is not None for one in ones),
    }
    return Report(
        guard=regression_guard_sentence(found),
        usage=guard_usage(found),
        warned=warned,
        headline=regression_headline(found),
        verdict=regression_verdict(found),
        compared=regression_compared(found),
        advice=regression_advice(found),
        sections=regression_sections(found),
        plots=[name for name, draw in wanted.items() if draw],
        attacked=any(one.attack is not None and one.attack.after is not None for one in ones),
        glossary=glossary,
    )
