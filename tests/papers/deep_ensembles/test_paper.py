"""The deep-ensembles experiment: every part runs, and the quick run finds what is to be found."""

import json
from pathlib import Path

import pytest

from nescio import data
from nescio_papers import Settings, named, run_experiment
from nescio_papers.deep_ensembles import (
    cubic_world,
    diversity,
    printed_runs,
    regions,
    spiral,
    spiral_world,
    worlds,
)
from nescio_papers.kit import judged

QUICKLY = Settings(quick=True, seed=9, bits=True)
EXPERIMENT = named("deep-ensembles")
NAMES = [part.name for part in EXPERIMENT.parts]


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch):
    """Train for a few steps only: all that is done with the networks, but nothing learnt."""
    whole = worlds.training.train

    def train(make, given, **options):
        options["epochs"] = min(options["epochs"], 2)
        return whole(make, given, **options)

    monkeypatch.setattr(worlds.training, "train", train)
    monkeypatch.setattr(printed_runs, "CUBIC_STEPS", 2)
    monkeypatch.setattr(printed_runs, "QUICK_STEPS", 2)
    printed_runs._cubic_run.cache_clear()
    yield
    printed_runs._cubic_run.cache_clear()
    printed_runs._spiral_run.cache_clear()
    cubic_world.cubic_runs.cache_clear()
    spiral_world.spiral_runs.cache_clear()
    spiral.faithful_run.cache_clear()


@pytest.mark.parametrize("name", NAMES)
def test_a_part_gives_numbers_figures_with_captions_and_claims_with_verdicts(short, name):
    part = next(part for part in EXPERIMENT.parts if part.name == name)
    found = part.run(QUICKLY)
    json.dumps(found.numbers)  # plain numbers only
    assert found.numbers
    assert found.figures
    assert set(found.captions) == set(found.figures)
    assert all(caption.endswith(".") for caption in found.captions.values())
    assert all(file.endswith(".png") for file in found.figures)
    claims = judged(QUICKLY, part.judge(found.numbers)) if part.judge else found.claims
    assert claims
    assert {claim.verdict for claim in claims} == {"open"}  # a quick run judges nothing
    assert all(any(c.isdigit() for c in claim.measured) for claim in claims)


def spreads(share_shuffled, share_by_order):
    """Stored spreads of three seeds, as shares of that by initialization."""

    def row(off):
        values = {"spread_on": 0.1, "spread_off": off, "nll": 1.0}
        return {key: {"values": [one, 1.01 * one, 1.03 * one]} for key, one in values.items()}

    shares = {"initialization": 1.0, "bootstrap": 1.0, "all three": 1.0,
              "shuffled full batch": share_shuffled, "batch order": share_by_order}  # fmt: skip
    spirals = {way: {"knowledge_off": {"values": [0.1, 0.2]}} for way in shares}
    return {"regression": {way: row(one) for way, one in shares.items()}, "spiral": spirals}


@pytest.mark.parametrize(
    ("shuffled", "order", "verdict"),
    [(0.6, 0.7, "holds"), (0.3, 0.7, "holds in part"), (0.3, 0.4, "does not hold")],
)
def test_sources_of_diversity_have_one_limit(shuffled, order, verdict):
    one, _ = diversity.judge(spreads(shuffled, order))
    assert (one.verdict, one.source) == (verdict, "here")


@pytest.mark.parametrize(
    ("short", "verdict"), [(0.005, "holds"), (0.0101, "open"), (0.02, "does not hold")]
)
def test_good_performance_is_near_the_best_possible(short, verdict):
    values = {
        "accuracy_short_of_best": [short, short - 0.0005, short - 0.001],
        "nll_of_one": [0.2, 0.3],
        "nll": [0.2, 0.3],
        "nll_above_best": [0.1, 0.2],
    }
    stored = {key: {"values": one} for key, one in values.items()}
    (claim,) = spiral.judge(dict.fromkeys(spiral.STORED, stored))
    assert claim.verdict == verdict  # whether or not four networks are better than one


def test_the_parts_and_the_claims_are_all_there():
    assert NAMES == [
        "regression",
        "spiral",
        "adversarial",
        "density",
        "members",
        "diversity",
        "regions",
    ]
    assert named("deep_ensembles").name == "deep-ensembles"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    folder = tmp_path_factory.mktemp("deep-ensembles")
    quick = Settings(quick=True)
    run_experiment(EXPERIMENT, folder, settings=quick, only=["regression"], show=False)
    return folder, json.loads((folder / "results.json").read_text())["parts"]


def test_the_figures_and_the_summary_are_written(results):
    folder, parts = results
    assert set(parts) == {"regression"}
    for part in parts.values():
        for name in part["figures"]:
            assert (folder / name).read_bytes().startswith(b"\x89PNG")
    text = (folder / "summary.md").read_text()
    assert "| number | published | here | note |" in text
    assert "Not run: spiral, adversarial" in text


def test_the_faithful_losses_lie_where_the_printed_ones_do(results):
    rows = {row["what"]: row for row in results[1]["regression"]["comparisons"]}
    final = rows["final loss, median of the networks"]
    assert final["published"] == pytest.approx(5.82, abs=0.01)
    assert 3 < final["ours"] < 9
    assert rows["initial loss, network 0"]["ours"] == pytest.approx(624.8802, rel=1e-6)


def test_the_corrected_fit_is_good_on_the_data_and_its_spread_grows_beyond(results):
    found = results[1]["regression"]["numbers"]["corrected"]
    assert found["error"] < 3  # the noise
    assert found["spread_off"] > 3 * found["spread"]


def test_members_are_certain_and_of_one_mind_in_the_corners():
    world, settings = data.spiral(), Settings()
    model = spiral_world.classifier(world, epochs=10)
    places = regions.places(world, 80)
    found = {name: regions.uncertainties(model, x, settings) for name, x in places.items()}
    assert found["corners"]["knowledge"] < 0.02
    assert found["radius 100"]["confidence_of_one"] > 0.99
    assert found["overlap"]["total"] > 3 * found["arms"]["total"]
    parts = [found["gap"][kind] for kind in ("data", "knowledge", "total")]
    assert parts[0] + parts[1] == pytest.approx(parts[2], rel=1e-4)


def test_two_runs_with_the_same_settings_give_the_same_numbers(short):
    part = next(part for part in EXPERIMENT.parts if part.name == "density")
    quick = Settings(quick=True, seed=3)
    assert part.run(quick).numbers == part.run(quick).numbers
