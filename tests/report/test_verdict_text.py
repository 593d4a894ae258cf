"""The verdict on one screen, whatever its width; as JUnit XML and as Markdown."""

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from nescio.evaluation import Verdict, verdict_of
from nescio.report import (
    command_text,
    junit_xml,
    limit_of,
    number_of,
    summary_markdown,
    verdict_text,
)

ODD = '<b>"x"|\x00\u202e'


@pytest.fixture
def verdict(trusted) -> Verdict:
    trusted["required"] = ["ece<0.05", "accuracy>0.99", "coverage>=0.1"]
    return verdict_of(trusted.typed)


def test_a_line_for_each_finding_and_the_worst_first(verdict):
    text = verdict_text(verdict, width=80, styled=False)
    statuses = [line.split()[0] for line in text.split("\n\n")[1].splitlines() if line[0] != " "]
    worth = ["fail", "attention", "pass", "not"]
    assert statuses == sorted(statuses, key=worth.index)
    assert 0 < sum(word != "not" for word in statuses) <= len(verdict.shown) <= 7
    assert " ".join(text.split()).startswith(verdict.words)
    assert "required above 99 %" in " ".join(text.split())


@pytest.mark.parametrize("width", [40, 59, 60, 80, 200])
def test_it_fits_the_width(verdict, width):
    text = verdict_text(verdict, width=width, styled=False)
    assert max(map(len, text.splitlines())) <= width
    assert not any(line.strip().startswith("%") for line in text.splitlines())
    assert " ".join(verdict.words.split()) in " ".join(text.split())


def test_passed_findings_give_way_to_the_height(verdict):
    whole = verdict_text(verdict, width=80, height=None, styled=False)
    passed = whole.count("\npass ")
    lines = whole.count("\n")
    cut = verdict_text(verdict, width=80, height=lines - 2, styled=False)
    assert cut.count("\npass ") < passed
    least = verdict_text(verdict, width=80, height=1, styled=False)
    assert "\npass " not in least
    assert "attention" in least or "fail" in least
    assert f"and {len(verdict.findings) - len(_broken(verdict))} more" in least


def _broken(verdict):
    return [one for one in verdict.shown if one.status != "pass"]


def test_a_style_is_never_all_that_tells(verdict):
    plain, styled = (verdict_text(verdict, width=80, styled=on) for on in (False, True))
    assert "\x1b" not in plain
    assert "\x1b[1m" in styled
    for code in ("\x1b[1m", "\x1b[0m"):
        styled = styled.replace(code, "")
    assert styled == plain


def test_reasons_are_listed_and_cut(verdict):
    many = {f"section {k}": f"because of {k} " * 50 for k in range(5)}
    text = verdict_text(replace(verdict, not_run=many), width=80, styled=False)
    assert text.count("not run") == 3
    assert "nor section 3, section 4" in text
    assert len(text.splitlines()) < 40


def test_sections_with_the_same_reason_share_a_line(verdict):
    reason = "there are no inputs; only answers were given, as arrays in files of NumPy, by names"
    text = verdict_text(replace(verdict, not_run={"a": reason, "b": reason}), width=80)
    assert "not run    a, b: there are no inputs; only answers were given\n" in text


def test_the_same_advice_is_given_once_and_gives_way_to_the_height(verdict):
    one = replace(verdict.findings[0], status="fail", unclear=False, advice="Do this.")
    twice = (one, replace(one, data="other"), replace(one, advice="Do that."))
    many = replace(verdict, findings=twice)
    whole = verdict_text(many, height=None, styled=False)
    assert whole.count("Do this.") == whole.count("Do that.") == 1
    assert "Do " not in verdict_text(many, height=1, styled=False)


def test_a_long_command_is_continued():
    command = "nescio score folder/guard.safetensors inputs.npz --net mine:net --out decisions.csv"
    text = command_text("guard", command, width=50)
    assert max(map(len, text.splitlines())) <= 50
    assert "".join(text.removeprefix("guard: ").replace("\\\n", "").split()) == "".join(
        command.split()
    )
    assert "--out decisions.csv" in text
    assert command_text("guard", command, width=200) == f"guard: {command}"


def test_the_numbers_and_limits_have_units(verdict):
    words = {one.label: (number_of(one), limit_of(one)) for one in verdict.findings}
    assert words["overconfidence"][1] == "at most 3 points, fails above 5 points"
    assert words["ece"][1] == "below 5 %"
    assert words["coverage"][1] == "at least 10 %"
    assert words["accuracy"][0].startswith("90.0 % (82.")


def test_junit_has_a_case_for_each_finding(verdict):
    worst = replace(verdict, not_run={ODD: ODD})
    suite = ElementTree.fromstring(junit_xml(worst))[0]
    cases = suite.findall("testcase")
    assert len(cases) == int(suite.get("tests")) == len(verdict.findings) + 1
    failed = [case.get("name") for case in cases if case.find("failure") is not None]
    required = [one.label for one in verdict.findings if one.required and one.status != "pass"]
    broken = [one.label for one in verdict.findings if one.status == "fail"]
    assert set(failed) == {*required, *broken}
    assert "accuracy" in failed
    assert int(suite.get("failures")) == len(failed)
    assert len(suite.findall("testcase/skipped")) == 1 == int(suite.get("skipped"))


def test_names_from_outside_break_neither_file(verdict):
    name = f"{ODD}\n# y\r\n![z](http://there)"
    strange = tuple(replace(one, data=name, note=name) for one in verdict.findings)
    odd = replace(verdict, findings=strange, not_run={name: name}, words=name)
    ElementTree.fromstring(junit_xml(odd))
    text = summary_markdown(odd)
    assert "<b>" not in text
    assert "\x00" not in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {row.replace("\\|", "").count("|") for row in rows} == {6}
    assert len(rows) == len(odd.findings) + 2
    assert not any(line.startswith("# ") for line in text.splitlines())
    assert "](" not in text


def test_markdown_lists_all_findings(verdict):
    text = summary_markdown(verdict)
    assert text.startswith(f"## Audit: {verdict.status}\n\n")
    for one in verdict.findings:
        assert number_of(one) in text
    assert "Not run:" not in summary_markdown(replace(verdict, not_run={}))
    assert "- far: no ray\n" in summary_markdown(replace(verdict, not_run={"far": "no ray"}))


def test_a_constant_measure_does_not_keep_the_limit_of_the_others(result):
    measures = result["predictors"]["plain"]["ood"]["noise"]["measures"]
    measures["predictive_entropy"]["auroc"] = 0.3
    measures["mutual_information"] = {"auroc": 0.5, "aupr": 0.5, "fpr_at_95_tpr": 1.0}
    (found,) = [one for one in verdict_of(result.typed).findings if one.name == "auroc"]
    assert (found.value, found.status) == (0.3, "attention")
    measures["detector"] = {"auroc": 0.9, "aupr": 0.9, "fpr_at_95_tpr": 0.3}
    (found,) = [one for one in verdict_of(result.typed).findings if one.name == "auroc"]
    assert found.value == 0.3
