"""Patients: worlds made up for the machinery, the shape of the real ones where files are there."""

import json
import os

import numpy as np
import pytest
import torch

from nescio.data import read_table
from nescio.metrics import auroc
from nescio_papers import Settings
from nescio_papers.know_your_limits import medical, patients
from nescio_papers.know_your_limits.medical_claims import medical_claims
from nescio_papers.know_your_limits.patients import FACTORS, Budget, World, drawn, wrong_units
from nescio_papers.know_your_limits.ranks import joined, ranked

SIZES = Budget(train=150, test=60, trainings=2, epochs=3)
KINDS = {"v": "continuous", "w": "continuous", "c": "categorical", "g": "ordinal"}


def table(seed, rows, level="a", shift=0.0):
    rng = np.random.default_rng(seed)
    v = rng.normal(3 + shift, 1, rows)
    w = np.where(rng.random(rows) < 0.1, np.nan, rng.normal(5, 1, rows))
    return read_table(
        {
            "id": np.arange(rows),
            "v": v,
            "w": w,
            "c": rng.choice([level, "b"], rows),
            "g": rng.integers(0, 4, rows),
            "ill": (v > 3).astype(float),
        }
    )


def world(scaled=True):
    return World(
        name="made up",
        kinds=KINDS,
        target="ill",
        in_dist=table(0, 240),
        ood=table(1, 50, "new", 1.0),
        about="words",
        scaled=scaled,
    )


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    settings = Settings(quick=True, folder=tmp_path_factory.mktemp("medical"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(medical, "worlds", lambda settings: [world()])
        patch.setattr(medical, "budget", lambda settings, world: SIZES)
        found = medical.medical(settings)
        yield settings, found, patch


def test_parts_share_no_rows_and_columns_are_learned_on_training_rows():
    one = world()
    parts = drawn(one, SIZES, 0)
    assert (len(parts.train[0]), len(parts.validation[0]), len(parts.test)) == (150, 30, 60)
    assert set(parts.columns.names) == set(KINDS)
    own = parts.train[0][:, 0].double()  # v, less its mean and over its deviation
    assert own.mean().item() == pytest.approx(0, abs=1e-6)
    assert own.std(correction=0).item() == pytest.approx(1, abs=1e-6)
    tests = parts.encoded(parts.test)[:, 0]
    assert not torch.isin(tests, torch.cat([parts.train[0][:, 0], parts.validation[0][:, 0]])).any()
    again, other = drawn(one, SIZES, 0), drawn(one, SIZES, 1)
    assert torch.equal(again.train[0], parts.train[0])
    assert other.test["id"].tolist() != parts.test["id"].tolist()
    assert parts.columns.encode(parts.ood).unseen.any()


def test_one_column_at_a_time_is_scaled():
    parts = drawn(world(), SIZES, 0)
    found = list(wrong_units(parts))
    assert [(column, factor) for column, factor, _ in found] == [
        (column, factor) for column in ("v", "w") for factor in FACTORS
    ]
    for column, factor, rows in found:
        np.testing.assert_allclose(rows[column], parts.test[column] * factor)
        other = "w" if column == "v" else "v"
        np.testing.assert_array_equal(rows[other], parts.test[other])


def test_every_score_has_a_cell_with_an_interval(study):
    _, found, _ = study
    numbers = found.numbers["made up"]
    names = list(numbers["auroc"])
    assert len([n for n in names if ": " in n]) == 2 * 2 + 4 * 4
    assert {"energy", "Gower neighbors", "density, tree", "Mahalanobis"} <= set(names)
    for cell in numbers["auroc"].values():
        assert 0 <= cell["low"] <= cell["mean"] <= cell["high"] <= 1
    assert set(numbers["scaled"]) == set(names)
    assert set(numbers["scaled"]["energy"]) == {"v", "w"}
    assert set(numbers["scaled"]["energy"]["v"]) == {"10", "100", "1000", "10000"}
    ends = medical.over_columns(numbers["scaled"]["Gower neighbors"], 1e4)
    assert ends["mean"] > 0.9
    assert numbers["batches"]["ood"]["columns"] < 0.001
    assert "c" in numbers["batches"]["ood"]["shifted"]
    assert numbers["trainings"] == 2


def test_a_cell_is_the_auroc_of_the_rows():
    in_dist, ood = {"s": np.arange(10.0)}, {"s": np.arange(10.0) + 3}
    cell = ranked(in_dist, ood)["s"]
    assert cell["mean"] == pytest.approx(auroc(in_dist["s"], ood["s"]))
    two = joined([{"s": {"mean": 0.4, "low": 0.3, "high": 0.6}},
                           {"s": {"mean": 0.6, "low": 0.5, "high": 0.9}}])  # fmt: skip
    assert two["s"] == {"mean": 0.5, "low": 0.3, "high": 0.9}


def test_a_world_that_is_done_is_not_trained_again(study):
    settings, found, patch = study
    path = settings.folder / "medical" / "made-up.json"
    assert json.loads(path.read_text())["key"]["world"] == "made up"

    def refuse(*args):
        raise AssertionError("this world is done")

    patch.setattr(medical, "study", refuse)
    assert medical.medical(settings).numbers == found.numbers


def test_words_tables_and_figures(study):
    _, found, _ = study
    for name in ("Gower neighbors", "made up", "x 10000", "MMD", "most frequent class"):
        assert name in found.text
    assert set(found.figures) == set(found.captions) == {"medical.png", "medical-scaled.png"}
    units, groups, discrete = medical_claims(found.numbers)
    assert len(groups.facts) == len(found.numbers)
    assert "times 10000" in units.facts[0].what
    assert discrete.verdict == "open"  # one world has no interval


def test_absent_files_are_said(monkeypatch):
    monkeypatch.delenv("NESCIO_DATA", raising=False)
    monkeypatch.setattr(medical, "worlds", patients.worlds)
    found = medical.medical(Settings(quick=True))
    assert "heart_disease is not part of nescio: set NESCIO_DATA" in found.text
    assert found.empty
    assert medical_claims(found.numbers) == []


@pytest.mark.skipif(not os.environ.get("NESCIO_DATA"), reason="NESCIO_DATA is not set: no files")
def test_the_hospitals():
    found = list(patients.hospitals())
    assert [len(one.in_dist) for one in found] == [303, 294, 303]
    assert "ca" not in found[0].kinds
    assert "ca" in found[2].kinds
    parts = drawn(found[0], patients.budget(Settings(quick=True), found[0]), 0)
    assert len(parts.ood) == 294
    assert parts.encoded(parts.ood).shape == (294, parts.train[0].shape[1])


@pytest.mark.skipif(not os.environ.get("NESCIO_DATA"), reason="NESCIO_DATA is not set: no files")
def test_the_groups_are_not_empty_and_not_read():
    for name, column, levels in patients.GROUPS:
        one = patients.left_out(name, column, levels, scaled=False)
        assert column not in one.kinds
        assert len(one.ood) > 300, name
        assert len(one.in_dist) + len(one.ood) == 71_518
