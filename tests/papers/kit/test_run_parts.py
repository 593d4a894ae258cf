"""What a run tells, what it does without data, and how it ends after a kill."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from matplotlib.figure import Figure

import nescio_papers
from nescio.cli.main import main
from nescio_papers import Experiment, Findings, Part, Settings
from nescio_papers.kit import (
    Claim,
    absent,
    durations,
    fact,
    joined,
    judge_experiment,
    reproduced,
    run_experiment,
)

RULE = fact("share", 0.9, (0.8, 1.0), above=0.5)
WHY = "expected there: a.gz; fetch them with: nescio data download mnist"


def full(settings):
    return Findings(
        numbers={"n": 1},
        figures={"curve.png": Figure((1, 1))},
        claims=[Claim(source="p. 1", sentence="It is so.", facts=[RULE])],
    )


def rows(settings):
    return joined({"there": Findings(numbers={"n": 2}), "other": absent("Letters", "not drawn")})


def none(settings):
    return absent("MNIST", WHY)


def plan(**parts):
    made = tuple(Part(name, name.title(), run) for name, run in parts.items())
    return Experiment(name="plan", title="A plan", source="Someone", needs="", parts=made)


def test_a_run_tells_what_it_did_and_where_everything_is(tmp_path):
    told = reproduced(plan(full=full, rows=rows, none=none), tmp_path).told()
    lines = told.splitlines()
    assert lines[0] == "A plan"
    assert lines[1].split() == ["full", "under", "1", "s"]
    assert lines[3].split() == ["none", "skipped"]
    assert "  Letters (rows): not drawn" in lines
    assert f"  MNIST (none): {WHY}" in lines
    assert "verdicts: holds: 1" in lines
    assert f"pictures: 1 in {tmp_path}, such as {tmp_path / 'curve.png'}" in lines
    assert f"long tables: {tmp_path / 'full.md'}, ..." in lines
    assert f"numbers: {tmp_path / 'results.json'}" in lines
    assert lines[-1] == f"summary: {tmp_path / 'summary.md'}"
    for line in told.splitlines()[-4:]:
        assert Path(line.split(", ...")[0].split()[-1]).exists()


def test_the_summary_says_what_was_skipped_and_how_to_get_it(tmp_path):
    text = run_experiment(plan(full=full, rows=rows, none=none), tmp_path).read_text()
    assert f"- MNIST (`none`): {WHY}." in text
    assert "- Letters (`rows`): not drawn." in text
    assert "Skipped" not in run_experiment(plan(full=full), tmp_path / "full").read_text()


def test_a_part_that_could_not_be_run_runs_when_it_can(tmp_path):
    found = reproduced(plan(full=full, none=none), tmp_path)
    assert found.ran == ("full", "none")
    assert not found.nothing
    again = reproduced(plan(full=full, none=full), tmp_path)
    assert again.ran == ("none",)
    assert "done before" in again.told()
    assert "skipped" not in again.told()


@pytest.mark.parametrize("quick", [False, True])
def test_a_run_of_nothing_is_known_as_one(tmp_path, quick):
    settings = Settings(quick=quick)
    assert reproduced(plan(none=none), tmp_path / "a", settings=settings).nothing
    both = plan(full=full, none=none)
    assert reproduced(both, tmp_path / "b", settings=settings, only=["none"]).nothing
    assert not reproduced(both, tmp_path / "b", settings=settings).nothing


@pytest.mark.parametrize("words", [[], ["--quick"]])
def test_a_run_of_nothing_exits_with_an_error_and_says_what_to_do(tmp_path, monkeypatch, words):
    monkeypatch.setenv("NESCIO_DATA", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    command = ["reproduce", "uci", "--part", "boston", "--part", "overview", *words]
    for _ in range(2):
        result = CliRunner().invoke(main, command)
        assert result.exit_code == 1
        assert "nothing could be run" in result.output
        assert "Boston housing (boston): there is no folder" in result.output
        assert "the comparison with the published table (overview): no table was" in result.output


@pytest.mark.parametrize(
    "words", [["--part", "ood"], ["--judge-only"], ["--out", "x"], ["--quick"]]
)
def test_options_without_a_paper_are_refused(words):
    result = CliRunner().invoke(main, ["reproduce", *words])
    assert result.exit_code == 1
    assert f"{words[0]}: name the paper, too" in result.output


def test_where_nothing_can_be_judged_it_exits_with_an_error(tmp_path, monkeypatch):
    monkeypatch.setenv("NESCIO_DATA", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    command = ["reproduce", "uci", "--part", "boston", "--quick", "--out", "run"]
    assert CliRunner().invoke(main, command).exit_code == 1
    result = CliRunner().invoke(main, ["reproduce", "uci", "--judge-only", "--out", "run"])
    assert result.exit_code == 1
    assert "nothing could be judged" in result.output


def test_without_a_bar_each_part_is_told_when_it_is_done(tmp_path):
    said = []
    reproduced(plan(full=full, none=none), tmp_path / "a", show=False, tell=said.append)
    assert said[-2:] == ["  full: under 1 s", "  none: skipped"]


def test_what_will_take_long_is_told_before(tmp_path, monkeypatch):
    known = {"plan": {"full": {"full": 7200.0, "quick": 30.0}, "rows": {"full": 60.0}}}
    monkeypatch.setattr(durations, "measured", lambda: known)
    told = []
    both = plan(full=full, rows=rows)
    reproduced(both, tmp_path / "a", only=["rows"], tell=told.append)
    reproduced(both, tmp_path / "a", tell=told.append)
    reproduced(both, tmp_path / "a", tell=told.append)
    reproduced(both, tmp_path / "b", settings=Settings(quick=True), tell=told.append)
    assert [one for one in told if not one.startswith("  ")] == [
        "plan: 1 part to run; about 60 s on two cores",
        "plan: 1 part to run, 1 done before; about 2.0 h on two cores",
        "plan: 2 parts to run; at least 30 s on two cores",
    ]


def test_networks_that_another_part_trains_are_not_counted(tmp_path, monkeypatch):
    known = {"plan": {name: {"full": 60.0} for name in ("first", "second", "third")}}
    monkeypatch.setattr(durations, "measured", lambda: known)
    parts = (Part("first", "First", full), Part("third", "Third", none),
             Part("second", "Second", full, None, ("first", "third")))  # fmt: skip
    one = Experiment(name="plan", title="A plan", source="", needs="", parts=parts)
    told = []
    reproduced(one, tmp_path / "a", only=["second"], tell=told.append)
    reproduced(one, tmp_path / "b", tell=told.append)
    (tmp_path / "b" / "first").mkdir()  # its networks
    reproduced(one, tmp_path / "b", only=["second"], again=True, tell=told.append)
    assert [one for one in told if not one.startswith("  ")] == [
        "plan: 1 part to run; at least 60 s on two cores, and first the training of the networks "
        "of first, third, which the folder does not have (these parts take about 2 min)",
        "plan: 3 parts to run; about 3 min on two cores",
        "plan: 1 part to run; about 60 s on two cores",
    ]


def test_what_to_do_after_judging_is_a_run(tmp_path):
    one = plan(full=full, none=none)
    assert (
        "  then: the same command; with --again --part NAME for parts"
        in reproduced(one, tmp_path).told()
    )
    told = judge_experiment(one, tmp_path).told()
    assert "  then: run it again without --judge-only; with --again" in told
    assert "the same command" not in told


KILLED = """
import os, signal, sys
from pathlib import Path
from nescio.core import kept
from nescio_papers.kit import Experiment, Findings, Part, folder_of, numbers_of, run_experiment

def work(settings):
    rows = []
    for row in range(4):
        path = folder_of(settings, "work") / f"{row}.json"
        if row == 2 and not path.exists() and "die" in sys.argv:
            os.kill(os.getpid(), signal.SIGKILL)
        rows.append(kept(path, {"row": row}, lambda: row * numbers_of(settings, "first")["n"]))
    return Findings(numbers={"rows": rows})

first = Part("first", "First", lambda settings: Findings(numbers={"n": 7}))
parts = (first, Part("work", "Work", work))
plan = Experiment(name="plan", title="A plan", source="", needs="", parts=parts)
run_experiment(plan, sys.argv[1])
"""


def test_a_killed_run_resumes_to_the_same_results(tmp_path, monkeypatch):
    path = str(Path(nescio_papers.__file__).parents[1])
    command = [sys.executable, "-c", KILLED, str(tmp_path / "a"), "die"]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, check=False)
    assert done.returncode == -signal.SIGKILL
    there = {path.name for path in (tmp_path / "a").iterdir()}
    assert {"first.json", "work"} <= there
    assert not {"work.json", "results.json", "summary.md"} & there
    kept = (tmp_path / "a" / "work" / "1.json").stat().st_mtime_ns
    for name in "ab":  # in this process, which saves two starts
        monkeypatch.setattr(sys, "argv", ["-c", str(tmp_path / name)])
        exec(KILLED, {"__name__": "__main__"})
    assert (tmp_path / "a" / "work" / "1.json").stat().st_mtime_ns == kept
    results = [(tmp_path / name / "summary.md").read_text() for name in "ab"]
    assert results[0] == results[1]
    pages = [(tmp_path / name / "results.json").read_text() for name in "ab"]
    assert '"rows": [\n' in pages[0]
    assert _untimed(pages[0]) == _untimed(pages[1])


def _untimed(text):
    """What does not depend on the clock, nor on whether a run was stopped."""
    apart = ('"seconds"', '"resumed"', "digest")
    return [line for line in text.splitlines() if not any(word in line for word in apart)]
