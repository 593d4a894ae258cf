"""The table of changed verdicts: which claims of two versions are the same, and why they differ."""

import importlib.util
import json
import re
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from nescio_papers.kit import Claim, fact

DOCS = Path(__file__).parents[2] / "docs"
Results = Mapping[str, Any]


@pytest.fixture(scope="module")
def changed() -> ModuleType:
    path = DOCS / "make_changed_verdicts.py"
    spec = importlib.util.spec_from_file_location("make_changed_verdicts", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def results(part: str, *claims: Mapping[str, Any]) -> Results:
    return {"parts": {part: {"claims": claims}}}


def old(sentence: str, verdict: str, source: str = "here") -> Mapping[str, Any]:
    return {"source": source, "sentence": sentence, "verdict": verdict}


def new(sentence: str, *values: float, source: str = "here") -> Mapping[str, Any]:
    facts = [fact(f"number {v}", v, (v - 1, v + 1), above=0) for v in values]
    return Claim(source=source, sentence=sentence, facts=facts).to_json()


def test_a_row_has_both_verdicts_and_the_fact_that_decides(changed: ModuleType) -> None:
    before, now = results("p", old("It is so.", "holds")), results("p", new("It is so.", 5, -5))
    row = "| lecture, p | It is so. | holds | holds in part | number -5: -5 (-6 to -4), "
    assert list(changed.rows("lecture", before, now)) == [row + "expected above 0 |\n"]


def test_words_of_older_versions_are_the_same_verdicts(changed: ModuleType) -> None:
    now = results("p", new("It is so.", 5, -5))
    assert not list(changed.rows("lecture", results("p", old("It is so.", "partly")), now))


def test_open_and_not_reached_say_what_is_missing(changed: ModuleType) -> None:
    claim = new("It is so.", 5, 0.5)
    assert "number 0.5" in changed.why(claim)
    need = fact("error", 0.5, (0.4, 0.6), below=0.2)
    facts = [fact("x", 5, (4, 6), above=0)]
    failed = Claim(source="here", sentence="It is so.", facts=facts, needs=[need]).to_json()
    assert changed.why(failed) == "error 0.5 (0.4 to 0.6), expected below 0.2"


def test_a_number_that_was_not_measured(changed: ModuleType) -> None:
    missing = fact("x", None, (None, None), above=0)
    claim = Claim(source="here", sentence="It is so.", facts=[missing]).to_json()
    stored = {**claim, "facts": [{**claim["facts"][0], "value": None, "low": None, "high": None}]}
    assert changed.why(stored) == "x not measured, expected above 0"


@pytest.mark.parametrize(
    ("before", "part", "sentence", "same"),
    [
        ("Networks are calibrated. Cooling helps.", "p", "Networks are calibrated.", True),
        ("The entropy is aleatoric.", "p", "The variation ratio is epistemic.", False),
        ("The error of dropout is lower than before.", "q",
         "The error of dropout is lower than before: T = 50.", True),
        ("It is obvious that this helps.", "q", "A reject option will not help here.", False),
    ],
)  # fmt: skip
def test_claims_that_were_written_otherwise(
    changed: ModuleType, before: str, part: str, sentence: str, same: bool
) -> None:
    found = changed.reworded((part, "here", sentence), [("p", "here", before)])
    assert (found is not None) == same


def test_claims_about_other_data_are_others(changed: ModuleType) -> None:
    known = ("p", "table 1 (CIFAR-10)", "There is no difference.")
    assert changed.reworded(("q", "table 1 (SVHN)", "There is no difference."), [known]) is None
    assert changed.reworded(("p", "table 1 (SVHN)", "There is no difference."), [known]) is None
    assert changed.reworded(("q", "table 1 (CIFAR-10)", "There is no difference."), [known])


def test_a_row_names_the_data_and_new_claims_have_none(changed: ModuleType) -> None:
    before = results("t", old("It is so.", "does not hold", "table (MNIST)"))
    both = [new("It is so.", 5, source=f"table ({data})") for data in ("MNIST", "SVHN")]
    (row,) = changed.rows("lecture", before, results("t", *both))
    assert row.startswith("| lecture, t (MNIST) | It is so. | does not hold | holds | ")


def test_long_sentences_end_at_a_word(changed: ModuleType) -> None:
    text = changed.short("word " * 40)
    assert len(text) <= changed.MOST
    assert text.endswith("word ...")


def test_the_changelog_has_the_table_it_replaces() -> None:
    text = (DOCS.parent / "CHANGELOG.md").read_text()
    assert "| where | claim | before | now | why |\n|---|---|---|---|---|\n" in text


def test_the_table_says_what_the_results_say(changed: ModuleType) -> None:
    """Verdicts and reasons of the newest table; write it anew where results changed."""
    known = set()
    for folder, paper in changed.PAPERS.items():
        found = json.loads((DOCS / folder / "results.json").read_text())
        known |= {changed.cells(paper, *one) for one in changed.claims(found).items()}
    table = (DOCS.parent / "CHANGELOG.md").read_text().split(changed.HEAD, 1)[1]
    rows = [re.split(r"(?<!\\) \| ", line[2:-2]) for line in table.split("\n\n", 1)[0].splitlines()]
    assert len(rows) > 50
    stale = [row for row in rows if (row[0], row[1], row[3], row[4]) not in known]
    assert stale == []  # python docs/make_changed_verdicts.py COMMIT
