"""Summaries stay short, whatever they sum up; what they leave out is on the pages behind them."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from nescio_papers import Comparison, Experiment, Findings, Part, Settings
from nescio_papers.kit import Claim, exactly, fact, named, run_experiment, table
from nescio_papers.kit.summary import MOST, claims_table, part_page, short, summary

DOCS = Path(__file__).parents[3] / "docs"
PUBLISHED = sorted(path.parent for path in DOCS.glob("*/results.json"))
LONG = "\n\n".join(["First words.", table(["a", "b"], [["1", "2"]] * 60), "More words."])


def large(parts, claims, figures, rows):
    """An experiment as large as asked for; every second claim does not hold."""

    def part(name):
        def run(settings):
            return Findings(
                numbers={"n": 1},
                figures={f"{name}-{i}.png": Figure((0.1, 0.1)) for i in range(figures)},
                captions={f"{name}-{i}.png": f"Picture {i} of {name}" for i in range(figures)},
                comparisons=[Comparison(f"number {i}", 0.5, 0.25) for i in range(rows)],
                claims=[
                    Claim(source=f"p. {i}", sentence=f"Claim {i} of {name}.",
                          facts=[fact("x", 0.5, (0.4, 0.6), above=i % 2)])
                    for i in range(claims)
                ],
                text=LONG,
            )  # fmt: skip

        return Part(name, f"Part {name}", run)

    made = tuple(part(f"p{i}") for i in range(parts))
    return Experiment(name="large", title="A large one", source="Someone", needs="", parts=made)


@pytest.mark.parametrize("size", [(2, 3, 1, 2), (8, 10, 0, 20), (16, 9, 2, 5), (18, 12, 1, 20)])
def test_a_summary_has_at_most_200_lines(tmp_path, size):
    text = run_experiment(large(*size), tmp_path).read_text()
    parts, claims, figures, rows = size
    assert len(text.splitlines()) <= MOST == 200
    assert f"{parts * claims} claims. " in text
    assert "## What the source says, and what we found" in text
    for i in range(parts):
        assert f"## Part p{i}\n\nFirst words. [" in text
        assert f"](p{i}.md)" in text
        page = (tmp_path / f"p{i}.md").read_text()
        assert page.startswith(f"# Part p{i}\n")
        assert "](summary.md)" in page
        assert page.count("| 1 | 2 |") == 60
        assert page.count(f"of p{i}. |") == claims
        assert page.count("![Picture ") == figures
        assert page.count("| 0.5 | 0.25 |") == rows
    assert "| 1 | 2 |" not in text


def test_a_small_summary_shows_everything_but_long_tables(tmp_path):
    text = run_experiment(large(2, 3, 1, 2), tmp_path).read_text()
    assert text.count(" of p0. | ") == 3
    assert "![Picture 0 of p1](p1-0.png)\n*Picture 0 of p1*" in text
    assert "| number 1 | 0.5 | 0.25 |" in text


def test_a_large_summary_counts_and_shows_what_does_not_hold(tmp_path):
    text = run_experiment(large(16, 9, 0, 1), tmp_path).read_text()
    assert "144 claims. holds: 80, does not hold: 64." in text
    assert "| [p3](p3.md) | 5 | – | 4 | – | – |" in text
    assert "Those that do not hold, or not in full (" in text
    assert "| Claim 1 of p0. | does not hold |" in text
    assert "| Claim 0 of p0. |" not in text


@pytest.mark.parametrize("resumed", [False, True])
def test_the_time_of_a_resumed_part_is_not_all(resumed):
    record = {"title": "", "seconds": 60.0, "resumed": False, "version": "1", "skipped": {},
              "claims": [], "figures": {}, "comparisons": [], "text": "",
              "empty": False}  # fmt: skip
    done = {"p0": record, "p1": {**record, "resumed": resumed}}
    about = large(2, 0, 0, 0), Settings()
    assert f"(full run, seed 0, {'at least ' * resumed}2 min)" in summary(*about, done)
    page = part_page(*about, "p1", done["p1"])
    assert f"--part p1`, {'at least ' * resumed}60 s." in page


@pytest.mark.parametrize("published", [[], [{"what": "x", "published": 1, "ours": 2, "note": ""}]])
def test_a_page_says_where_nothing_was_published(published):
    record = {"title": "", "seconds": 0.0, "resumed": False, "version": "1", "skipped": {},
              "claims": [], "figures": {}, "comparisons": published, "text": ""}  # fmt: skip
    paper, record = large(1, 0, 0, 0), {**record, "empty": False}
    unpublished = part_page(replace(paper, unpublished=("p0",)), Settings(), "p0", record)
    assert ("No published number is known" in unpublished) == (not published)
    assert ("| x | 1 | 2 |" in unpublished) == bool(published)
    assert "No published" not in part_page(paper, Settings(), "p0", record)


@pytest.mark.parametrize("folder", PUBLISHED, ids=lambda folder: folder.name)
def test_each_part_has_published_numbers_or_says_that_there_are_none(folder):
    paper = named(folder.name)
    assert set(paper.unpublished) <= {part.name for part in paper.parts}
    stored = json.loads((folder / "results.json").read_text())["parts"]
    for part, record in stored.items():
        beside = bool(record["comparisons"]) or "published" in record["text"]
        assert record["empty"] or beside != (part in paper.unpublished), part


def test_a_number_without_an_interval_says_why():
    one = exactly("limit", 0.5, why="closed form", below=1)
    two = exactly("count", 3, why="all of them", above=1)
    measured = fact("share", 0.5, (0.4, 0.6), above=0.3)
    steady = fact("steady", 0.5, (0.5, 0.5), above=0.3, alike=True)
    unknown = exactly("unknown", None, why="never", above=0)

    def cell(*facts, needs=()):
        claim = Claim(source="p. 1", sentence="So.", facts=facts, needs=needs)
        return claims_table([claim.to_json()]).splitlines()[-1].split(" | ")[-1].removesuffix(" |")

    assert cell(one) == "limit 0.5, expected below 1 (no interval: closed form)"
    assert cell(one, measured).endswith("expected above 0.3 (no interval of limit: closed form)")
    assert cell(one, two).endswith("(no interval of limit: closed form; of count: all of them)")
    assert "no interval" not in cell(measured, steady)
    assert "no interval" not in cell(measured, needs=[two])  # it holds, so it is not shown
    failed = exactly("count", 3, why="all of them", below=1)
    assert cell(measured, needs=[failed]).endswith("(no interval of count: all of them)")
    stored = Claim(source="p. 1", sentence="So.", facts=[unknown]).to_json()
    (fact_,) = stored["facts"]
    fact_["value"] = None  # as JSON has it
    assert "never" not in claims_table([stored])


def test_the_short_text_is_the_first_paragraph_in_whole_sentences():
    assert short("One\nline. Two.\n\nThree.") == "One line. Two."
    assert short("| a |\n|---|") == short("### Head\n\nText") == short("") == ""
    assert short("A sentence. " * 100, 30) == "A sentence. A sentence."
    assert short("word " * 100, 14) == "word word ..."


@pytest.mark.parametrize("folder", PUBLISHED, ids=lambda folder: folder.name)
def test_the_published_summaries_are_short_and_lead_to_the_rest(folder):
    text = (folder / "summary.md").read_text()
    assert len(text.splitlines()) <= MOST
    links = {part.split(")")[0] for part in text.split("](")[1:]}
    assert len([link for link in links if link.endswith(".md")]) >= 1
    assert [link for link in links if not (folder / link).exists()] == []


X = ("x", 0.6, (0.2, 1.0))  # 0.2 above the limit 0.4, its interval 0.4 to each side: 2 squared
SURE, WRONG = fact("s", 9.0, (8.0, 10.0), above=1.0), fact("w", 0.0, (-0.5, 0.5), above=1.0)
UNKNOWN = fact("u", None, (None, None), above=1.0)


@pytest.mark.parametrize(
    ("facts", "needs", "said"),
    [
        ([fact(*X, above=0.4)], [], "at most 4 times as many repetitions"),
        ([fact(*X, below=0.4)], [], "at most 4 times as many repetitions"),
        ([fact("x", 0.5, (0.4, 0.6), above=0.41)], [], "at most 2 times as many repetitions"),
        ([fact("x", 0.5, (0.4, 0.6), above=0.43)], [], "at most 3 times as many repetitions"),
        ([fact("x", 0.9, (0.5, 1.0), above=0.95)], [], "at most 64 times as many"),  # cut off at 1
        ([fact("x", 0.501, (0.4, 0.6), above=0.5)], [], "perhaps more than 100 times as many"),
        ([fact("x", 0.5, (0.4, 0.6), above=0.5)], [], ""),  # at its limit: for ever
        ([fact("x", 0.6, (0.5, 0.7), above=0.4)], [], ""),  # it holds
        ([fact(*X, above=0.4), SURE], [], "at most 4 times"),
        ([fact(*X, above=0.4), fact("y", 0.5, (0.2, 0.8), above=0.4)], [], "at most 9 times"),
        # one that holds and one that does not decide: the third need not be known
        ([fact(*X, above=0.4), WRONG, fact("y", 0.501, (0.4, 0.6), above=0.5)], [], "at most 4"),
        ([fact(*X, above=0.4), WRONG, UNKNOWN], [], "at most 4 times"),
        ([fact(*X, above=0.4), UNKNOWN], [], ""),
        # what is presupposed and the facts, or that it fails
        ([fact(*X, above=0.4)], [fact("e", 0.1, (0.0, 0.4), below=0.2)], "at most 9 times"),
        ([SURE], [fact("e", 0.1, (0.0, 0.4), below=0.2)], "at most 9 times"),
        ([fact("x", 0.5, (0.4, 0.6), above=0.49)], [fact(*X, above=0.4)], "at most 100 times"),
        ([UNKNOWN], [fact(*X, above=0.4)], ""),
        ([UNKNOWN], [fact(*X, below=0.4)], "at most 4 times"),
        ([fact("x", math.nan, (math.nan, math.nan), below=math.inf)], [], ""),
    ],
)
def test_beside_an_open_verdict_stands_what_would_decide_it(facts, needs, said):
    claim = Claim(source="p. 1", sentence="So it is.", facts=facts, needs=needs).to_json()
    shown = claims_table([claim])
    assert ("if the estimates stay the same" in shown) == bool(said)
    assert said in shown
    assert "decide it" not in claims_table([claim], quick=True)
    assert "decide it" not in claims_table([{**claim, "verdict": "open", "facts": []}])


def test_a_page_of_a_quick_run_says_whose_numbers_the_text_has(tmp_path):
    for quick in (True, False):
        run_experiment(large(1, 1, 0, 1), tmp_path / str(quick), settings=Settings(quick=quick))
        page = (tmp_path / str(quick) / "p0.md").read_text()
        assert ("in the text are those of a full run" in page) == quick
