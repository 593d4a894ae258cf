"""Claims are judged by facts: five words, each by its rule, and no rule without an interval."""

import ast
import math
from pathlib import Path

import pytest

import nescio_papers
from nescio.core import NescioError
from nescio_papers.kit import VERDICTS, Claim, Fact, Settings, exactly, fact, judged, sample

SOURCE = Path(nescio_papers.__file__).parent
HIGH = fact("AUROC", 0.9, (0.8, 0.95), above=0.5)
LOW = fact("error", 0.9, (0.8, 0.95), below=0.5)
UNSURE = fact("gain", 0.1, (-0.1, 0.3), above=0)


def claim(*facts, **options):
    return Claim(source="section 1", sentence="It is so.", facts=facts, **options)


@pytest.mark.parametrize(
    ("interval", "limit", "word"),
    [
        ((0.6, 0.8), {"above": 0.5}, "holds"),
        ((0.6, 0.8), {"above": 0.6}, "open"),
        ((0.6, 0.8), {"above": 0.7}, "open"),
        ((0.6, 0.8), {"above": 0.8}, "does not hold"),
        ((0.6, 0.8), {"above": 0.9}, "does not hold"),
        ((0.6, 0.8), {"below": 0.9}, "holds"),
        ((0.6, 0.8), {"below": 0.8}, "open"),
        ((0.6, 0.8), {"below": 0.6}, "does not hold"),
        ((math.nan, math.nan), {"above": 0.5}, "open"),
        ((None, None), {"above": 0.5}, "open"),
    ],
)
def test_a_fact_is_judged_over_its_whole_interval(interval, limit, word):
    assert fact("x", 0.7, interval, **limit).verdict == word


@pytest.mark.parametrize(
    ("facts", "needs", "word"),
    [
        ([HIGH], [], "holds"),
        ([HIGH, HIGH], [HIGH], "holds"),
        ([LOW], [], "does not hold"),
        ([LOW, LOW], [], "does not hold"),
        ([HIGH, LOW], [], "holds in part"),
        ([HIGH, LOW, UNSURE], [], "holds in part"),
        ([HIGH, UNSURE], [], "open"),
        ([LOW, UNSURE], [], "open"),
        ([HIGH], [LOW], "not reached here"),
        ([LOW], [UNSURE], "open"),
        ([HIGH], [UNSURE, LOW], "not reached here"),
    ],
)
def test_a_verdict_follows_the_facts(facts, needs, word):
    assert claim(*facts, needs=needs).verdict == word
    assert word in VERDICTS


def test_there_are_five_words():
    assert VERDICTS == ("holds", "holds in part", "does not hold", "not reached here", "open")


def test_a_quick_run_judges_nothing():
    claims = [claim(HIGH), claim(LOW), claim(HIGH, LOW), claim(HIGH, needs=[LOW])]
    assert {one.verdict for one in judged(Settings(quick=True), claims)} == {"open"}
    assert judged(Settings(), claims) == claims


@pytest.mark.parametrize("interval", [None, 0.7, (0.7,), (0.6, 0.7, 0.8), ()])
def test_a_fact_without_an_interval_is_refused(interval):
    with pytest.raises(NescioError, match="a verdict needs an interval"):
        fact("x", 0.7, interval, above=0.5)


def test_a_number_alone_is_refused_and_an_exact_one_says_why():
    with pytest.raises(NescioError, match="a verdict needs an interval with some width"):
        Fact(what="x", value=0.7, low=0.7, high=0.7, above=0.5)
    with pytest.raises(NescioError, match="say in why= what makes the number exact"):
        exactly("x", 0.7, why=" ", above=0.5)
    assert exactly("x", 0.7, why="proved", above=0.5).verdict == "holds"
    assert exactly("x", 0.5, why="counted", above=0.5).verdict == "does not hold"
    assert exactly("x", None, why="counted", above=0.5).verdict == "open"


@pytest.mark.parametrize("limits", [{}, {"above": 0.5, "below": 0.9}])
def test_a_fact_has_one_limit(limits):
    with pytest.raises(NescioError, match="give one limit"):
        fact("x", 0.7, (0.6, 0.8), **limits)
    with pytest.raises(NescioError, match="give one limit"):
        exactly("x", 0.7, why="proved", **limits)


def test_a_number_out_of_its_interval_is_refused_but_for_rounding():
    with pytest.raises(NescioError, match=r"0.7 is not in its interval 0.8 to 0.9"):
        fact("x", 0.7, (0.8, 0.9), above=0.5)
    with pytest.raises(NescioError, match="not in its interval"):
        fact("x", 0.7, (0.9, 0.5), above=0.5)
    assert fact("x", 0, (1e-19, 0.1), below=0.5).low == 0
    assert fact("x", 1, (0.9, 1 - 1e-12), above=0.5).high == 1


def test_repetitions_that_agree_have_an_interval_without_width():
    with pytest.raises(NescioError, match=r"AUROC: a verdict needs an interval with some width"):
        fact("AUROC", 1, (1, 1), above=0.95)
    with pytest.raises(NescioError, match="with some width"):
        fact("share", 1, (0.9, 1.0), above=0.5, within=(0.0, 0.9))
    perfect = fact("AUROC", 1, (1, 1), above=0.95, alike=True)
    assert perfect.verdict == "holds"
    assert str(perfect) == "AUROC 1 (the same in every repetition), expected above 0.95"
    assert fact("difference", 0, (0, 0), above=0, alike=True).verdict == "does not hold"


def test_one_repetition_leaves_a_claim_open():
    once = sample([0.7])
    made = fact("AUROC", once.mean, (once.mean - once.half, once.mean + once.half), above=0.5)
    assert made.verdict == "open"
    assert str(made) == "AUROC 0.7 (measured once), expected above 0.5"
    assert str(fact("x", None, (0, 1), above=0.5)) == "x not measured, expected above 0.5"


def test_a_claim_needs_facts():
    with pytest.raises(NescioError, match=r"at least one fact: 'It is so\.' has none"):
        claim()


def test_the_rule_stands_beside_the_verdict():
    error = fact("test error", 0.102, (0.09, 0.11), below=0.05, form=".1%")
    assert str(error) == "test error 10.2 % (9.0 % to 11.0 %), expected below 5 %"
    said = claim(HIGH, needs=[error], note="published .95").measured
    assert said == (
        f"not tested, since {error}; AUROC 0.9 (0.8 to 0.95), expected above 0.5; published .95"
    )
    assert claim(HIGH, needs=[HIGH]).measured == str(HIGH)


def test_a_claim_in_json_has_its_rule():
    made = claim(HIGH, needs=[exactly("layers", 3, why="counted", above=2)], note="as drawn")
    record = made.to_json()
    assert (record["source"], record["sentence"]) == ("section 1", "It is so.")
    assert (record["verdict"], record["note"]) == ("holds", "as drawn")
    assert record["facts"] == [
        {"what": "AUROC", "value": 0.9, "low": 0.8, "high": 0.95, "above": 0.5, "form": ".3g",
         "verdict": "holds"}
    ]  # fmt: skip
    assert record["needs"][0]["exact"] == "counted"


def calls(name):
    """Calls of a function in the papers, with the file and line of each."""
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == name
            ):
                yield f"{path.relative_to(SOURCE)}:{node.lineno}", node


def test_no_rule_in_the_papers_makes_up_its_interval():
    """`(x, x)` is a number alone in the clothes of an interval; `Fact` is made by `fact` only."""
    made_up = []
    for place, call in calls("fact"):
        given = [*call.args[2:3], *(word.value for word in call.keywords if word.arg == "interval")]
        assert given, f"{place}: fact() without an interval"
        ends = [ast.dump(end) for end in getattr(given[0], "elts", ())]
        if len(ends) == 2 and ends[0] == ends[1] and "nan" not in ends[0]:
            made_up.append(place)
    assert made_up == []
    assert [place for place, _ in calls("Fact") if not place.startswith("kit/")] == []
