"""The UCI paper on made-up tables: splits, choices, scores, what is written and what is refused."""

import io
import json
import tarfile

import numpy as np
import pytest
import torch

from nescio.core import Gaussian, NescioError
from nescio_papers import Settings, named, run_experiment
from nescio_papers.uci import published
from nescio_papers.uci.choosing import best
from nescio_papers.uci.methods import ENSEMBLE, METHODS, Choice, network
from nescio_papers.uci.one_table import FREE, PUBLISHED, mean_and_error, written
from nescio_papers.uci.scoring import METRICS, scores
from nescio_papers.uci.tables import QUICK, TABLES, work_on

SAMPLES = 50


def text(array):
    file = io.StringIO()
    np.savetxt(file, array)
    return file.getvalue()


def write(folder, name, change=None):
    """A table with three features, one of them constant, and three splits."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(SAMPLES, 3))
    x[:, 1] = 288.0
    rows = np.column_stack([x, 5 + 2 * x[:, 0] + 0.1 * rng.normal(size=SAMPLES)])
    files = {"data": rows, "index_features": np.arange(3), "index_target": [3], "n_splits": [3]}
    for split in range(3):
        order = rng.permutation(SAMPLES)
        files |= {f"index_train_{split}": order[:45], f"index_test_{split}": order[45:]}
    if change is not None:
        change(files)
    with tarfile.open(folder / "uci" / f"{name}.tar.xz", "w:xz") as archive:
        for file, array in files.items():
            content = text(array).encode()
            info = tarfile.TarInfo(f"{name}/data/{file}.txt")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


@pytest.fixture
def home(tmp_path, monkeypatch):
    (tmp_path / "uci").mkdir()
    monkeypatch.setenv("NESCIO_DATA", str(tmp_path))
    return tmp_path


def reproduce(home, *parts, out="out", **options):
    settings = Settings(quick=True, **options)
    return run_experiment(named("uci"), home / out, settings=settings, only=parts, show=False)


def test_a_quick_run_of_one_table_and_the_overview(home):
    write(home, "bostonHousing")
    summary = reproduce(home, "boston", "overview")
    numbers = json.loads((home / "out" / "results.json").read_text())["parts"]
    found = numbers["boston"]["numbers"]
    assert (found["splits"], found["samples"]) == (2, {"train": 45, "test": 5})
    assert list(found["methods"]) == list(METHODS)
    for own in found["methods"].values():
        for budget in (PUBLISHED, FREE):
            assert all(np.isfinite(own[budget][m]).all() for m in METRICS)
            assert all(len(own[budget][metric]) == 2 for metric in METRICS)
    page = summary.read_text()
    assert "published: deep ensemble | 3.28 ± 0.71" in (home / "out" / "boston.md").read_text()
    assert "uci.png" in page
    assert (home / "out" / "uci.png").exists()
    assert {claim["verdict"] for claim in numbers["overview"]["claims"]} == {"open"}
    goes_on_where_it_was_killed(home, found)


def test_an_engine_changes_no_number(home, workers):
    write(home, "bostonHousing")
    for out, options in (("here", {}), ("there", {"engine": workers(2)})):
        reproduce(home, "boston", out=out, **options)
    here, there = (
        json.loads((home / out / "results.json").read_text())["parts"]["boston"]["numbers"]
        for out in ("here", "there")
    )
    for found in (here, there):
        for own in found["methods"].values():
            own.pop("cpu_seconds")
    assert here == there


def goes_on_where_it_was_killed(home, numbers):
    """The part without its result and without one of its stacks: only that is trained again."""
    models = sorted((home / "out" / "boston").rglob("model.safetensors"))
    times = {path: path.stat().st_mtime_ns for path in models}
    (home / "out" / "boston.json").unlink()
    for path in models[0].parent.iterdir():
        path.unlink()
    reproduce(home, "boston")
    again = json.loads((home / "out" / "boston.json").read_text())["numbers"]
    for method, own in numbers["methods"].items():
        assert again["methods"][method][PUBLISHED] == own[PUBLISHED]
        assert again["methods"][method][FREE] == own[FREE]
    assert {path for path in models if path.stat().st_mtime_ns != times[path]} == {models[0]}


def test_a_missing_file_is_said_and_the_others_run(home):
    write(home, "bostonHousing")
    page = reproduce(home, "concrete").read_text()
    assert "Concrete strength is not at hand" in page
    assert "lacks concrete.tar.xz" in page
    assert "no table was run" in reproduce(home, "overview").read_text()


def constant_target(files):
    files["data"][:, 3] = 7.0


def one_row_twice(files):
    files["index_test_1"][0] = files["index_train_1"][0]


@pytest.mark.parametrize(
    ("change", "message"),
    [(constant_target, "7"), (one_row_twice, "split 1 of concrete is not a partition")],
)
def test_bad_tables_are_refused(home, change, message):
    write(home, "concrete", change)
    with pytest.raises(NescioError, match=message):
        reproduce(home, "concrete")


def test_sub_splits_are_of_the_training_rows_alone(home):
    write(home, "energy")
    work = work_on("energy", Settings())
    for split, (train, test) in enumerate(work.splits.rows):
        tried, judging = work.sub_split(split)
        assert sorted([*tried.tolist(), *judging.tolist()]) == sorted(train.tolist())
        assert not set(tried.tolist()) & set(test.tolist())
        assert len(judging) == 9  # a fifth of 45
    assert not torch.equal(
        *(work.sub_split(0)[0].sort().values, work.sub_split(1)[0].sort().values)
    )


def test_epochs_are_chosen_by_the_mean_and_dropout_by_split(home):
    write(home, "energy")
    work = work_on("energy", Settings())
    short, long = (
        [Choice(0.01, "constant", epochs, dropout) for dropout in (0.1, 0.05)]
        for epochs in (40, 100)
    )
    seen = [
        {short[0]: {"mixture": 1.0, "single": 3.0}, long[0]: {"mixture": 2.0, "single": 1.0}},
        {short[1]: {"mixture": 2.0, "single": 1.0}, long[1]: {"mixture": 0.5, "single": 3.5}},
    ]
    assert best(work, ENSEMBLE, seen, free=False) == dict(enumerate(short))
    assert best(work, ENSEMBLE, seen, free=True) == dict(enumerate(long))
    assert best(work, "plain", seen, free=True) == dict(enumerate(short))


def test_scores_in_closed_form():
    mean = torch.tensor([[[0.0]], [[2.0]]], dtype=torch.float64)
    found = scores(Gaussian(mean, torch.ones_like(mean)), torch.tensor([[1.0]]))
    half = 0.5 * np.log(2 * np.pi)
    assert found["rmse"] == 0.0
    assert found["nll"] == pytest.approx(half + 0.5)
    assert found["nll_moments"] == pytest.approx(half + 0.5 * np.log(2))


def test_what_stands_behind_the_published_plus_minus():
    boston = published.RMSE["boston"]
    assert boston["PBP"].standard_error(20) == pytest.approx(0.18, rel=1e-3)
    assert boston["MC dropout"].standard_error(20) == pytest.approx(0.85 / 20**0.5, rel=1e-3)
    naval = published.RMSE["naval"]["deep ensemble"]
    assert naval.standard_error(20) == pytest.approx(0.01 / 12**0.5)
    assert set(published.RMSE) == set(published.NLL) == set(TABLES)


def test_numbers_as_they_are_written():
    assert mean_and_error([1.0, 3.0]) == (2.0, 1.0)
    assert written([1.0, 3.0]) == "2.000 ± 1.000"
    assert written([0.0007, 0.0009]) == "0.000800 ± 0.000100"


def test_dropout_is_on_the_inputs_too():
    kinds = [type(layer).__name__ for layer in network(3, 4, 1, 0.1)]
    assert kinds == ["Dropout", "Linear", "ReLU", "Dropout", "Linear"]
    assert len(network(3, 4, 2, 0.0)) == 3
    assert QUICK.splits == 2
