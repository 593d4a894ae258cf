"""What is on disk: parts run again, judged again, of older versions, and of none that is known."""

import json
import shutil

import pytest
from click.testing import CliRunner

from nescio.cli.main import main
from nescio.core import NescioError
from nescio.version import VERSION
from nescio_papers.kit import (
    Claim,
    Experiment,
    Findings,
    Part,
    Settings,
    exactly,
    fact,
    judge_experiment,
    numbers_of,
    run_experiment,
)
from nescio_papers.kit.records import whose

FILES = ["measure.md", "results.json", "summary.md", "words.md"]


class Lab:
    """An experiment of two parts: `measure` is judged from its numbers, `words` is not."""

    def __init__(self):
        self.value, self.limit, self.ran = 0.9, 0.5, []

    def measure(self, settings):
        self.ran.append("measure")
        return Findings(numbers={"value": self.value, "seed": settings.seed})

    def words(self, settings):
        self.ran.append("words")
        twice = 2 * numbers_of(settings, "measure")["value"]
        claim = Claim(
            source="p. 2", sentence="Twice.", facts=[exactly("n", twice, why="sum", above=1)]
        )
        return Findings(numbers={"twice": twice}, claims=[claim])

    def judge(self, numbers):
        value = numbers["value"]
        rule = fact("value", value, (value - 0.1, value + 0.1), above=self.limit)
        return [Claim(source="p. 1", sentence="It is high.", facts=[rule])]

    @property
    def experiment(self):
        parts = (
            Part("measure", "Measured", self.measure, judge=self.judge),
            Part("words", "In words", self.words),
        )
        return Experiment(name="lab", title="A lab", source="", needs="", parts=parts)


@pytest.fixture
def lab():
    return Lab()


def read(folder):
    return json.loads((folder / "results.json").read_text())


def write(folder, results):
    (folder / "results.json").write_text(json.dumps(results))


def verdict(folder, part="measure"):
    return read(folder)["parts"][part]["claims"][0]["verdict"]


@pytest.fixture
def published(lab, tmp_path):
    """A folder with results.json and pages alone."""
    run_experiment(lab.experiment, tmp_path / "run")
    folder = tmp_path / "published"
    folder.mkdir()
    for name in FILES:
        shutil.copy(tmp_path / "run" / name, folder)
    lab.ran.clear()
    return folder


def test_results_say_how_and_by_whom_they_were_made(lab, tmp_path):
    run_experiment(lab.experiment, tmp_path, settings=Settings(seed=3, bits=True))
    results = read(tmp_path)
    assert results["settings"] == {"quick": False, "seed": 3, "bits": True}
    assert results["version"] == VERSION
    assert {part["version"] for part in results["parts"].values()} == {VERSION}


def test_a_folder_of_results_alone_is_a_store_and_stays_one(lab, published):
    before = read(published)
    run_experiment(lab.experiment, published)
    assert lab.ran == []
    assert read(published) == before
    assert sorted(path.name for path in published.iterdir()) == FILES
    with pytest.raises(NescioError, match="holds lab .* choose another folder"):
        run_experiment(lab.experiment, published, settings=Settings(seed=1))


def test_one_part_is_refreshed_in_place(lab, published):
    lab.value = 0.3
    run_experiment(lab.experiment, published, only=["measure"], again=True)
    assert lab.ran == ["measure"]
    assert read(published)["parts"]["measure"]["numbers"]["value"] == 0.3
    assert read(published)["parts"]["words"]["numbers"]["twice"] == 1.8
    assert verdict(published) == "does not hold"
    run_experiment(lab.experiment, published, only=["words"], again=True)
    assert read(published)["parts"]["words"]["numbers"]["twice"] == 0.6
    assert sorted(path.name for path in published.iterdir()) == FILES


def test_again_keeps_the_old_result_until_the_new_one_is_there(lab, tmp_path):
    run_experiment(lab.experiment, tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def dies(settings):
        raise RuntimeError("the power went out")

    lab.measure = dies
    with pytest.raises(RuntimeError, match="power"):
        run_experiment(lab.experiment, tmp_path, again=True)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_stored_numbers_are_judged_by_the_rules_of_today(lab, published):
    lab.limit = 0.95
    found = judge_experiment(lab.experiment, published)
    assert (lab.ran, found.ran) == ([], ())
    assert verdict(published) == "open"
    assert "expected above 0.95" in found.summary.read_text()
    assert verdict(published, "words") == "holds"


def test_a_quick_run_stays_open_when_judged_again(lab, tmp_path):
    run_experiment(lab.experiment, tmp_path, settings=Settings(quick=True))
    assert verdict(tmp_path) == "open"
    judge_experiment(lab.experiment, tmp_path)
    assert verdict(tmp_path) == "open"
    assert read(tmp_path)["settings"]["quick"] is True


def older(folder):
    """Make results.json what it was before it named settings, version and facts."""
    results = read(folder)
    for part in results["parts"].values():
        for name in ("skipped", "empty", "version"):
            del part[name]
        part["claims"] = [
            {"source": "p. 1", "sentence": "So.", "measured": "0.7", "verdict": word}
            for word in ("holds", "partly", "fails", "open")
        ]
    write(folder, {name: results[name] for name in ("experiment", "parts")})


def test_results_of_an_older_version_are_kept_and_judged_again(lab, published):
    older(published)
    text = judge_experiment(lab.experiment, published).summary.read_text()
    parts = read(published)["parts"]
    assert parts["measure"]["numbers"] == {"value": 0.9, "seed": 0}
    assert [claim["verdict"] for claim in parts["measure"]["claims"]] == ["holds"]
    assert [claim["verdict"] for claim in parts["words"]["claims"]] == [
        "holds",
        "holds in part",
        "does not hold",
        "open",
    ]
    assert {claim["rule"] for claim in parts["words"]["claims"]} == {"older"}
    assert "holds in part (older rule)" in text
    assert "| It is high. | holds | value 0.9 (0.8 to 1), expected above 0.5 |" in text
    assert "measured with different versions" not in text


def test_numbers_that_the_rule_of_today_cannot_read_keep_their_verdict(lab, published):
    lab.judge = lambda numbers: numbers["by_seed"]
    found = judge_experiment(lab.experiment, published)
    claim = read(published)["parts"]["measure"]["claims"][0]
    assert (claim["verdict"], claim["rule"]) == ("holds", "older")
    assert "verdicts as they were when run: measure, words" in found.told()
    text = found.summary.read_text()
    assert "| holds (older rule) |" in text
    assert "run their parts with `--again`" in text
    with pytest.raises(KeyError):  # numbers of this version are no excuse
        run_experiment(lab.experiment, published, only=["measure"], again=True)
    del lab.judge
    judge_experiment(lab.experiment, published)
    assert "rule" not in read(published)["parts"]["measure"]["claims"][0]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"layout": 99, "version": "99.0"}, r"written by a newer nescio \(99.0; this is"),
        ({"settings": {"foo": 1}}, "written by a newer nescio"),
        ({"settings": 1}, "not written by nescio reproduce, or is damaged"),
        ({"parts": [1]}, "not written by nescio reproduce, or is damaged"),
        ({"parts": {"measure": {}}}, "records without title"),
        ({"version": "1", "digest": "0"}, "is not what was written"),
    ],
)
def test_results_that_cannot_be_read_are_refused_and_left_as_they_are(lab, published, change, said):
    write(published, {**read(published), **change})
    before = (published / "results.json").read_bytes()
    for ask in (run_experiment, judge_experiment):
        with pytest.raises(NescioError, match=said) as caught:
            ask(lab.experiment, published)
        assert "--out" in str(caught.value)
    assert (published / "results.json").read_bytes() == before


def test_a_damaged_results_file_of_a_run_is_made_again_from_its_parts(lab, tmp_path):
    run_experiment(lab.experiment, tmp_path)
    whole = (tmp_path / "results.json").read_bytes()
    (tmp_path / "results.json").write_bytes(whole[:100])
    told = judge_experiment(lab.experiment, tmp_path).told()
    assert (tmp_path / "results.json").read_bytes() == whole
    assert "verdicts as they were when run: words" in told


def test_another_run_in_the_folder_is_named_in_words(lab, tmp_path):
    run_experiment(lab.experiment, tmp_path)
    with pytest.raises(
        NescioError, match=r"holds lab \(the full run, seed 0, nats\), not lab \(a q"
    ):
        run_experiment(lab.experiment, tmp_path, settings=Settings(quick=True))


def test_nothing_to_judge_is_said(lab, tmp_path):
    with pytest.raises(NescioError, match="nothing can be judged; run the paper first"):
        judge_experiment(lab.experiment, tmp_path)
    result = CliRunner().invoke(main, ["reproduce", "uci", "--judge-only", "--again"])
    assert result.exit_code != 0
    assert "--again: not for --judge-only" in result.output
    result = CliRunner().invoke(main, ["reproduce", "uci", "--judge-only", "--seed", "1"])
    assert "--seed: not for --judge-only" in result.output


def test_whose_a_folder_is_is_read_in_one_way(lab, published, tmp_path):
    assert whose(tmp_path / "empty") is None
    run_experiment(lab.experiment, tmp_path / "seed", settings=Settings(seed=3))
    for folder, seed in ((published, 0), (tmp_path / "seed", 3)):
        found = whose(folder)
        assert found["experiment"] == "lab"
        assert found["settings"] == {"quick": False, "seed": seed, "bits": False}
        assert judge_experiment(lab.experiment, folder).records.settings.seed == seed
