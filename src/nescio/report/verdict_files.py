"""The verdict for other programs: JUnit XML for a CI server, Markdown for the page of a job."""

from xml.etree import ElementTree

from nescio.evaluation import Finding, Verdict
from nescio.report.render import Grid, in_markdown, pipes, printable
from nescio.report.verdict_words import advice_of, limit_of, number_of


def junit_xml(verdict: Verdict, *, name: str = "nescio audit") -> str:
    """One JUnit test for each finding.

    One fails where its finding fails, and where a limit that was required is not shown to be kept.
    Attention to a default limit is a passed test with an output; a section that was not run is a
    skipped one.

    verdict: verdict of an audit.
    name: name of the test suite.
    """
    failed = sum(map(_is_failure, verdict.findings))
    counts = {"tests": len(verdict.findings) + len(verdict.not_run), "failures": failed,
              "errors": 0, "skipped": len(verdict.not_run)}  # fmt: skip
    numbers = {key: str(count) for key, count in counts.items()}
    whole = ElementTree.Element("testsuites", {"name": printable(name), **numbers})
    suite = ElementTree.SubElement(whole, "testsuite", {"name": printable(name), **numbers})
    for one in verdict.findings:
        _add_finding(suite, one)
    for section, why in verdict.not_run.items():
        case = _add_case(suite, section, "section")
        ElementTree.SubElement(case, "skipped", {"message": printable(why)})
    ElementTree.indent(whole)
    text = ElementTree.tostring(whole, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _is_failure(one: Finding) -> bool:
    return one.status == "fail" or (one.status == "attention" and one.required is not None)


def _add_case(suite: ElementTree.Element, section: str, name: str) -> ElementTree.Element:
    about = {"classname": f"nescio.audit.{printable(section)}", "name": printable(name)}
    return ElementTree.SubElement(suite, "testcase", about)


def _add_finding(suite: ElementTree.Element, one: Finding) -> None:
    case = _add_case(suite, one.section, one.label)
    said = printable(f"{one.status}: {one.heading}: {number_of(one)}, {limit_of(one)}")
    more = printable(" ".join(filter(None, [one.note, one.meaning, advice_of(one)])))
    if _is_failure(one):
        failure = ElementTree.SubElement(case, "failure", {"type": one.status, "message": said})
        failure.text = more
    else:
        output = ElementTree.SubElement(case, "system-out")
        output.text = said if one.status == "pass" else f"{said}. {more}"


def summary_markdown(verdict: Verdict) -> str:
    """The `verdict`, all findings as a table, and what was not run, for the page of a CI job."""
    rows: list[tuple[str, list[str]]] = [
        (one.status, [one.heading, number_of(one), limit_of(one), _remark(one)])
        for one in verdict.findings
    ]
    head = ["what", "measured", "limit", "what to do"]
    table = pipes(Grid(corner="verdict", head=head, rows=rows)).replace("---:", "---")
    parts = [f"## Audit: {verdict.status}", _in_line(verdict.words), table]
    if verdict.not_run:
        lines = [_in_line(f"- {name}: {why}") for name, why in verdict.not_run.items()]
        parts.append("\n".join(["Not run:", "", *lines]))
    return "\n\n".join(parts) + "\n"


def _in_line(text: str) -> str:
    return in_markdown(" ".join(text.splitlines()))


def _remark(one: Finding) -> str:
    if one.status == "pass":
        return one.note
    said = "the data do not tell: give more samples" if one.unclear else one.advice
    return f"{one.note}: {said}" if one.note else said
