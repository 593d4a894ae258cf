"""Experiments as a family: parts run once, go on after a stop, and refuse foreign folders."""

import json
import math

import pytest
from click.testing import CliRunner
from matplotlib.figure import Figure

from nescio.cli.main import main
from nescio.core import NescioError, registry
from nescio_papers import (
    Claim,
    Comparison,
    Experiment,
    Findings,
    Part,
    Settings,
    listing,
    named,
    run_experiment,
)
from nescio_papers.kit import exactly, fact, numbers_of
from nescio_papers.kit.durations import expected, in_words

WET = fact("wetness", 0.9, (0.8, 1.0), above=0.5)
PNG = b"\x89PNG\r\n\x1a\n"


def picture():
    figure = Figure()
    figure.subplots().plot([0, 1], [1, 0])
    return figure


class Paper:
    """An experiment of three parts that notes which ran, and fails where it is told to."""

    def __init__(self):
        self.ran, self.fails = [], None

    def part(self, name, found):
        def run(settings):
            self.ran.append(name)
            if self.fails == name:
                raise RuntimeError("the power went out")
            return found(settings)

        return Part(name, f"The {name} part", run)

    @property
    def experiment(self):
        parts = (
            self.part("first", self.first),
            self.part("second", self.second),
            self.part(
                "third", lambda settings: Findings(numbers={"none": numbers_of(settings, "fourth")})
            ),
        )
        return Experiment(
            name="paper",
            title="A paper",
            source="Someone (2020)",
            needs="nothing",
            parts=parts,
        )

    @staticmethod
    def first(settings):
        return Findings(
            numbers={"entropy": math.log(8, settings.base), 3: [1, 2], "none": math.nan},
            figures={"curve.png": picture()},
            captions={"curve.png": "A curve that falls"},
            comparisons=[
                Comparison("accuracy", 0.96, 0.9712, note="of the best"),
                Comparison("not | printed", None, 12345.678),
            ],
            text="Some words.",
        )

    @staticmethod
    def second(settings):
        first = numbers_of(settings, "first")
        return Findings(
            numbers={"twice": 2 * first["entropy"], "listed": first["3"]},
            claims=[
                Claim(
                    source="section 1",
                    sentence="All swans are white.",
                    facts=[exactly("share", 8 / 9, why="all were counted", above=1)],
                ),
                Claim(source="section 2", sentence="Water is wet.", facts=[WET], note="as known"),
            ],
        )


@pytest.fixture
def paper():
    return Paper()


def read(path):
    return json.loads(path.read_text())


def snapshot(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_every_part_leaves_numbers_figures_and_words(paper, tmp_path):
    path = run_experiment(paper.experiment, tmp_path / "new" / "out")
    assert path == tmp_path / "new" / "out" / "summary.md"
    parts = {f"{part}.{kind}" for part in ("first", "second", "third") for kind in ("json", "md")}
    others = {"experiment.json", "curve.png", "results.json", "summary.md"}
    assert set(snapshot(path.parent)) == parts | others
    assert (path.parent / "curve.png").read_bytes().startswith(PNG)
    results = read(path.parent / "results.json")
    assert results["experiment"] == "paper"
    assert list(results["parts"]) == ["first", "second", "third"]
    first = results["parts"]["first"]
    assert first["numbers"] == {"entropy": pytest.approx(math.log(8)), "3": [1, 2], "none": None}
    assert results["parts"]["second"]["numbers"]["twice"] == pytest.approx(2 * math.log(8))
    assert results["parts"]["third"]["numbers"] == {"none": {}}


def test_the_summary_holds_every_comparison_and_claim(paper, tmp_path):
    text = run_experiment(paper.experiment, tmp_path).read_text()
    assert text.startswith("# A paper\n")
    assert "Someone (2020)" in text
    assert "`nescio reproduce paper`" in text
    assert "2 claims. holds: 1, does not hold: 1." in text
    assert "![A curve that falls](curve.png)" in text
    assert "Some words." in text
    assert "| accuracy | 0.96 | 0.9712 | of the best |" in text
    assert "| not \\| printed | – | 1.235e+04 |  |" in text
    swans = "share 0.889, expected above 1 (no interval: all were counted)"
    assert f"| section 1 | All swans are white. | does not hold | {swans} |" in text
    assert f"| section 2 | Water is wet. | holds | {WET}; as known |" in text
    assert "Not run" not in text
    for part in ("first", "second", "third"):
        assert f"## The {part} part" in text


def test_parts_run_once(paper, tmp_path):
    run_experiment(paper.experiment, tmp_path)
    before = snapshot(tmp_path)
    run_experiment(paper.experiment, tmp_path)
    assert paper.ran == ["first", "second", "third"]
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("stop", ["second", "third"])
def test_a_stopped_run_goes_on_and_ends_like_a_whole_one(paper, tmp_path, stop):
    paper.fails = stop
    with pytest.raises(RuntimeError, match="the power went out"):
        run_experiment(paper.experiment, tmp_path / "a")
    before = list(paper.ran)
    assert before[-1] == stop
    assert {f"{name}.json" for name in before[:-1]} <= set(snapshot(tmp_path / "a"))
    assert f"{stop}.json" not in snapshot(tmp_path / "a")
    paper.fails = None
    run_experiment(paper.experiment, tmp_path / "a")
    assert paper.ran[len(before) :] == ["first", "second", "third"][len(before) - 1 :]
    run_experiment(paper.experiment, tmp_path / "b")
    assert timeless(tmp_path / "a") == timeless(tmp_path / "b")


def test_a_part_killed_before_its_last_file_is_run_again(paper, tmp_path):
    """A figure without the JSON of its part, as a kill leaves it."""
    run_experiment(paper.experiment, tmp_path)
    (tmp_path / "first.json").unlink()
    (tmp_path / "curve.png").write_bytes(PNG)
    run_experiment(paper.experiment, tmp_path)
    assert paper.ran[3:] == ["first"]
    assert len((tmp_path / "curve.png").read_bytes()) > 1000


def timeless(folder):
    """All files, without the seconds that parts took."""
    files = {}
    for name, content in snapshot(folder).items():
        files[name] = content
        if name.endswith(".json"):
            files[name] = json.loads(content, object_hook=_without_seconds)
    return files


def _without_seconds(record):
    return {key: value for key, value in record.items() if key not in ("seconds", "digest")}


def test_two_runs_give_the_same_files(paper, tmp_path):
    for folder in ("a", "b"):
        run_experiment(paper.experiment, tmp_path / folder)
    assert timeless(tmp_path / "a") == timeless(tmp_path / "b")


def test_single_parts(paper, tmp_path):
    path = run_experiment(paper.experiment, tmp_path, only=["third"])
    assert paper.ran == ["third"]
    assert "Not run: first, second." in path.read_text()
    assert list(read(tmp_path / "results.json")["parts"]) == ["third"]
    run_experiment(paper.experiment, tmp_path)
    assert paper.ran == ["third", "first", "second"]
    assert list(read(tmp_path / "results.json")["parts"]) == ["first", "second", "third"]


def test_bits_and_nats(paper, tmp_path):
    assert (Settings().unit, Settings(bits=True).unit) == ("nats", "bits")
    run_experiment(paper.experiment, tmp_path, settings=Settings(bits=True))
    assert read(tmp_path / "first.json")["numbers"]["entropy"] == pytest.approx(3)
    assert math.log(Settings().base) == 1


def test_a_quick_run_says_so(paper, tmp_path):
    text = run_experiment(paper.experiment, tmp_path, settings=Settings(quick=True)).read_text()
    assert "`nescio reproduce paper --quick` (quick run, seed 0)" in text
    assert "those of a full run" in text
    assert "2 claims. open: 2." in text


@pytest.mark.parametrize(
    "other",
    [Settings(quick=True), Settings(seed=1), Settings(bits=True)],
    ids=["quick", "seed", "bits"],
)
def test_a_folder_with_other_settings_is_refused_and_left_as_it_is(paper, tmp_path, other):
    run_experiment(paper.experiment, tmp_path)
    before = snapshot(tmp_path)
    with pytest.raises(NescioError, match="choose another folder with --out"):
        run_experiment(paper.experiment, tmp_path, settings=other)
    assert snapshot(tmp_path) == before
    assert paper.ran == ["first", "second", "third"]


def test_a_folder_of_another_experiment_is_refused_and_left_as_it_is(paper, tmp_path):
    run_experiment(paper.experiment, tmp_path)
    before = snapshot(tmp_path)
    another = Experiment(
        name="essay",
        title="An essay",
        source="",
        needs="",
        parts=(Part("first", "F", paper.first),),
    )
    with pytest.raises(NescioError, match=r"holds paper .* not essay "):
        run_experiment(another, tmp_path)
    assert snapshot(tmp_path) == before


def test_an_unknown_paper_is_told_as_the_command_takes_it():
    with pytest.raises(NescioError, match="did you mean 'know-your-limits'") as raised:
        named("know_your_limit")
    assert "_" not in str(raised.value).split("Known:")[1]


def test_an_unknown_part_lists_near_names_and_makes_nothing(paper, tmp_path):
    with pytest.raises(NescioError, match="unknown part 'frist'; did you mean 'first'") as caught:
        run_experiment(paper.experiment, tmp_path / "out", only=["frist"])
    assert "Known: first, second, third" in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_progress_names_the_part(paper, tmp_path, capsys):
    run_experiment(paper.experiment, tmp_path, show=True)
    err = capsys.readouterr().err
    assert "paper" in err
    assert "3/3" in err
    assert "The third part" in err


def test_names_with_hyphens_or_underscores():
    for name in registry.experiments:
        one = named(name)
        assert one.name == name.replace("_", "-")
        assert named(one.name).name == one.name


def nescio(*words):
    return CliRunner().invoke(main, list(words), catch_exceptions=False)


def test_the_list_shows_every_experiment_with_its_needs_and_time():
    output = nescio("reproduce").output
    assert listing() in output
    assert len(registry.experiments) >= 1
    for name in registry.experiments:
        one = named(name)
        assert f"{one.name}: {one.title}" in output
        assert one.needs in output
        assert f"{in_words(expected(one, quick=False))} in full" in output
        for part in one.parts:
            assert part.name in output
            assert part.title in output
        assert len({part.name for part in one.parts}) == len(one.parts)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["know-your-limit"], "did you mean 'know-your-limits'"),
        (["know-your-limits-search", "--part", "serach"], "did you mean 'search'"),
        (["know-your-limits-search", "--out", "taken"], "cannot make the folder taken"),
    ],
)
def test_bad_calls_say_what_to_do(tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").write_text("a file")
    result = nescio("reproduce", *words)
    assert result.exit_code == 1
    assert said in result.output
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]
