"""A section for a model card, in Markdown: what a reader must know before using the network."""

from collections.abc import Iterator, Sequence

from nescio.evaluation import Finding, Findings, RegressionFindings, verdict_of
from nescio.report.guard_words import guard_usage
from nescio.report.render import Grid, in_markdown, percent, pipes, printable
from nescio.report.verdict_words import advice_of, limit_of, number_of

TITLE = "Uncertainty and limits"
MARKS = str.maketrans({mark: f"\\{mark}" for mark in "\\`*[]"})  # that begin markup
HEAD = ("status", "measured", "limit", "samples")


def model_card(found: Findings | RegressionFindings, *, level: int = 2) -> str:
    """The verdict, its findings, the guarantees, OOD data, the use of the guard, what is missing.

    Markdown, for a model card. Names cannot become markup.

    found: findings of an audit.
    level: level of the heading; the parts below it have one more.
    """
    verdict = verdict_of(found)
    parts: list[tuple[str, Sequence[str]]] = [
        ("", [in_text(verdict.words), findings_table(verdict.findings)]),
        ("What to do", _advice(verdict.findings)),
        ("What is guaranteed", _listed(getattr(found.guard, "guarantees", None) or ())),
        ("Inputs unlike the test data", _ood(found)),
        ("How to use the guard", _usage(found)),
        ("Not measured", _listed(f"{name}: {why}" for name, why in verdict.not_run.items())),
        ("How this was measured", [_provenance(found)]),
    ]
    lines = [f"{'#' * level} {TITLE}", *parts[0][1]]
    for title, texts in parts[1:]:
        lines += [f"{'#' * (level + 1)} {title}", *texts] if texts else []
    return "\n\n".join(line for line in lines if line) + "\n"


def findings_table(findings: Sequence[Finding]) -> str:
    """Every finding with its status, number, interval, limit and samples, as a pipe table."""
    rows = [
        (
            plain_name(one.title if one.data is None else f"{one.title}, {one.data}"),
            (one.status, number_of(one), limit_of(one), _count(one.samples)),
        )
        for one in findings
    ]
    return pipes(Grid(head=HEAD, rows=rows, corner="finding")) if rows else ""


def plain_name(text: str) -> str:
    """A user's name, for a cell: one line, without control codes and right-to-left marks."""
    return " ".join(printable(text, "\n\t").split()).translate(MARKS)


def in_text(text: str) -> str:
    """A sentence that cannot become markup."""
    return in_markdown(plain_name(text))


def _count(samples: int | None) -> str:
    return "-" if samples is None else f"{samples:,}"


def _listed(sentences: Sequence[str] | Iterator[str]) -> list[str]:
    said = [f"- {in_text(sentence)}" for sentence in sentences]
    return ["\n".join(said)] if said else []


def _advice(findings: Sequence[Finding]) -> list[str]:
    """What to do about findings that do not pass, each advice once."""
    advised = ((one.title, advice_of(one)) for one in findings)
    said = dict.fromkeys(f"- {title}: {advice}" for title, advice in advised if advice)
    return ["\n".join(said)] if said else []


def _ood(found: Findings | RegressionFindings) -> list[str]:
    """On which share of each OOD set the guard abstains."""
    guard = found.guard
    if guard is None or not guard.ood:
        return []
    rows = [
        (plain_name(name), (found.kind(name), f"{part.inputs:,}", percent(1 - part.answer)))
        for name, part in guard.ood.items()
    ]
    head = ("kind", "inputs", "the guard abstains on")
    return [pipes(Grid(head=head, rows=rows, corner="data"))]


def _usage(found: Findings | RegressionFindings) -> list[str]:
    usage = guard_usage(found)
    if usage is None:
        return []
    return [f"```python\n{usage[0]}\n```", f"```\n{usage[1]}\n```"]


def _provenance(found: Findings | RegressionFindings) -> str:
    said = f"nescio {found.nescio}, {found.samples:,} test samples, seed {found.seed}."
    command = f" Command: {' '.join(found.command)}" if found.command else ""
    return in_text(said + command) + " Report: audit.html."
