"""How long parts take: every part is known, and as the published runs measured it."""

from pathlib import Path

import pytest

from nescio.core import registry
from nescio_papers import Experiment, Findings, Part, Settings, named
from nescio_papers.kit import run_experiment
from nescio_papers.kit.durations import expected, in_words, measured, updated
from nescio_papers.kit.records import whole

DOCS = Path(__file__).parents[3] / "docs"
NAMES = [name.replace("_", "-") for name in registry.experiments]
SLACK = 30  # seconds


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.2, "under 1 s"), (1, "1 s"), (98, "98 s"), (120, "2 min"), (5400, "90 min"),
     (9000, "2.5 h")],
)  # fmt: skip
def test_seconds_in_words(seconds, said):
    assert in_words(seconds) == said


@pytest.mark.parametrize("name", NAMES)
def test_every_part_is_known(name):
    """Those that were run from the beginning to the end, as the documentation has them."""
    stored = whole(DOCS / name / "results.json")["parts"]
    parts = {part.name for part in named(name).parts}
    known = {part for part, one in measured()[name].items() if "full" in one}
    never = {part for part in parts if part not in stored or stored[part]["empty"]}
    never |= {part for part in parts & stored.keys() if stored[part]["resumed"]}
    assert sorted(parts - known - never) == [], "run python -m nescio_papers.kit.durations FOLDER"
    assert sorted(known - parts) == [], "seconds of parts that are gone"


@pytest.mark.parametrize("name", NAMES)
def test_every_quick_part_is_known(name):
    assert [part for part, one in measured()[name].items() if "quick" not in one] == []


@pytest.mark.parametrize("name", NAMES)
def test_the_published_runs_took_about_as_long(name):
    """A part that found networks of an earlier run took less than one that starts from nothing."""
    found = whole(DOCS / name / "results.json")["parts"]
    known = {part: one["full"] for part, one in measured()[name].items() if "full" in one}
    far_off = {
        part: (record["seconds"], known[part])
        for part, record in found.items()
        if part in known
        and (
            record["seconds"] > 2 * known[part] + SLACK
            or (record["seconds"] < known[part] / 2 - SLACK and not record["resumed"])
        )
    }
    assert far_off == {}, "run python -m nescio_papers.kit.durations on the folder"


@pytest.mark.parametrize("name", NAMES)
def test_a_full_run_takes_at_least_as_long_as_a_quick_one(name):
    known = measured()[name].items()
    assert [part for part, one in known if one.get("full", SLACK) < one["quick"] - 1] == []


def test_what_was_measured_is_read_off_a_folder(tmp_path):
    parts = tuple(Part(name, name, lambda _: Findings(numbers={"n": 1})) for name in "ab")
    plan = Experiment(name="plan", title="", source="", needs="", parts=parts)
    run_experiment(plan, tmp_path / "quick", settings=Settings(quick=True))
    run_experiment(plan, tmp_path / "full", only=["b"])
    known = {"plan": {"a": {"full": 9.0}}, "other": {"c": {"full": 1.0}}}
    new = updated(known, [tmp_path / "quick", tmp_path / "full"])
    assert new["other"] == known["other"]
    assert new["plan"]["a"] == {"full": 9.0, "quick": pytest.approx(0, abs=5)}
    assert set(new["plan"]["b"]) == {"quick", "full"}
    assert expected(plan, quick=True) == 0


def test_seconds_of_a_resumed_part_are_not_read(tmp_path):
    parts = tuple(Part(name, name, lambda _: Findings(numbers={"n": 1})) for name in "ab")
    plan = Experiment(name="plan", title="", source="", needs="", parts=parts)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "network").touch()
    run_experiment(plan, tmp_path)
    assert set(updated({}, [tmp_path])["plan"]) == {"a"}


def test_only_what_is_to_be_run_counts():
    one = named("uci")
    whole = expected(one, quick=False)
    assert whole > expected(one, quick=False, only=["boston"]) > expected(one, quick=False, only=[])
    assert expected(one, quick=False, only=[]) == 0
