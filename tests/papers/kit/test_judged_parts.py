"""The published verdicts: every claim of every part is judged by facts with intervals."""

import shutil
from pathlib import Path

import pytest

from nescio.core import finite, registry
from nescio_papers import named
from nescio_papers.kit import VERDICTS, judge_experiment
from nescio_papers.kit.records import whole

DOCS = Path(__file__).parents[3] / "docs"


def published():
    """Each part of each paper, with its record in the documentation."""
    for name in registry.experiments:
        one = named(name)
        stored = whole(DOCS / one.name / "results.json")["parts"]
        for part in one.parts:
            yield f"{one.name}, {part.name}", part, stored.get(part.name)


def claims_of(part, record):
    """The claims of a part: judged now where it has a judge."""
    if part.judge is None:
        return record["claims"]
    return finite([claim.to_json() for claim in part.judge(record["numbers"])])


def stated(fact):
    """Whether a fact has an interval, says why it has none, or leaves the claim open."""
    return bool(fact.get("exact")) or fact["low"] != fact["high"] or fact["verdict"] == "open"


def problems():
    for place, part, record in published():
        if record is None:
            yield f"{place}: has no published results"
        elif not record["empty"]:
            for claim in claims_of(part, record):
                facts = claim.get("facts", [])
                if not facts or not all(map(stated, facts)):
                    yield f"{place}: {claim['sentence']!r} is judged without facts"


def test_every_claim_is_judged_by_facts():
    assert list(problems()) == []


def test_every_verdict_is_one_of_five():
    for place, part, record in published():
        if record is not None and not record["empty"]:
            for claim in claims_of(part, record):
                assert claim["verdict"] in VERDICTS, place
                assert all((claim["source"], claim["sentence"])), place


@pytest.mark.parametrize("name", registry.experiments)
def test_published_pages_are_those_of_the_published_numbers(name, tmp_path):
    one = named(name)
    shutil.copy(DOCS / one.name / "results.json", tmp_path)
    judge_experiment(one, tmp_path)
    pages = {page.name: page.read_text() for page in tmp_path.glob("*.md")}
    assert len(pages) > 1
    stale = [page for page, text in pages.items() if (DOCS / one.name / page).read_text() != text]
    assert stale == []  # nescio reproduce NAME --judge-only --out docs/NAME
