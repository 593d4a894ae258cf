"""The pool loop: resumable to the same bits, in one stack as alone, and with clear refusals."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

import nescio
from nescio import NescioError, data, nets
from nescio.applications.active_learning import Curves, simulate
from nescio.core import DamagedError
from nescio.core.registry import acquisitions

MOONS = data.half_moons(train=300)
OPTIONS = {
    "test": MOONS.test, "start": 4, "size": 3, "labels": 16, "seeds": 3, "passes": 5,
    "candidates": 60, "epochs": 10, "batch_size": None, "learning_rate": 0.02,
}  # fmt: skip


def make():
    return nets.mlp(2, 2, widths=(16,), dropout=0.3)


def run(**given):
    return simulate(make, MOONS.train, **{**OPTIONS, "acquisition": "entropy", **given})


def same(one: Curves, two: Curves) -> None:
    for name in ("labels", "accuracy", "acquired", "scores"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    assert one.seeds == two.seeds


@pytest.fixture(scope="module")
def curves():
    return run()


def test_the_curves_have_a_step_for_each_batch(curves):
    assert curves.labels.tolist() == [4, 7, 10, 13, 16]
    assert curves.accuracy.shape == (3, 5)
    assert curves.acquired.shape == curves.scores.shape == (3, 16)
    assert curves.seconds.shape == (5, 3)
    assert np.isnan(curves.scores[:, :4]).all()
    assert np.isfinite(curves.scores[:, 4:]).all()
    assert all(len(set(row)) == 16 for row in curves.acquired.tolist())
    assert curves.acquisition == "entropy"


def test_the_start_is_balanced_and_the_same_for_every_acquisition(curves):
    labels = MOONS.train[1][torch.from_numpy(curves.acquired[:, :4])]
    assert labels.sum(1).tolist() == [2, 2, 2]
    other = run(acquisition="random")
    np.testing.assert_array_equal(curves.acquired[:, :4], other.acquired[:, :4])
    assert (curves.acquired[:, 4:] != other.acquired[:, 4:]).any()
    assert len({tuple(row) for row in curves.acquired[:, :4].tolist()}) == 3


def test_a_seed_alone_has_the_curve_that_it_has_among_others(curves):
    alone = run(seeds=[2])
    np.testing.assert_array_equal(alone.acquired[0], curves.acquired[2])
    np.testing.assert_array_equal(alone.accuracy[0], curves.accuracy[2])


def test_a_run_that_was_stopped_between_steps_resumes_to_the_same_bits(tmp_path, curves):
    short = run(labels=10, run=tmp_path)
    assert short.labels.tolist() == [4, 7, 10]
    same(run(run=tmp_path), curves)
    same(run(run=tmp_path), curves)  # done already
    same(run(labels=12, run=tmp_path), curves.first(3))
    same(Curves.load(tmp_path), curves)


CHILD = """
import sys
sys.path.insert(0, sys.argv[1])
from test_simulate import run
run(run=sys.argv[2])
print("done", flush=True)
"""


def test_a_run_that_was_killed_resumes_to_the_same_bits(tmp_path, curves):
    here = os.path.dirname(__file__)
    child = subprocess.Popen([sys.executable, "-c", CHILD, here, str(tmp_path)])
    while child.poll() is None and _steps(tmp_path) < 2:
        time.sleep(0.002)
    os.kill(child.pid, signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    assert 2 <= _steps(tmp_path) < 5
    same(run(run=tmp_path), curves)


def _steps(folder) -> int:
    return len(Curves.load(folder).labels) if (folder / "curves.json").exists() else 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"acquisition": "random"}, "acquisition: entropy there, random here"),
        ({"size": 2}, "size: 3 there, 2 here"),
        ({"epochs": 11}, "epochs: 10 there, 11 here"),
        ({"epochs": lambda labels: 100 // labels}, "epochs"),
        ({"learning_rate": 0.03}, "learning_rate: 0.02 there, 0.03 here"),
        ({"seed": 1}, "start"),
        ({"seeds": 2}, "seeds"),
        ({"passes": 6}, "passes"),
        ({"test": MOONS.train}, "test: "),
    ],
)
def test_another_run_in_the_folder_is_refused_and_said_what_differs(tmp_path, change, words):
    run(labels=4, run=tmp_path)
    with pytest.raises(NescioError, match=words):
        run(run=tmp_path, **change)


def test_other_data_and_a_damaged_state_are_refused(tmp_path):
    run(labels=4, run=tmp_path)
    x, y = MOONS.train
    with pytest.raises(NescioError, match="pool: "):
        simulate(make, (x + 1, y), acquisition="entropy", run=tmp_path, **OPTIONS)
    path = tmp_path / "curves.json"
    path.write_text(path.read_text().replace('"labels"', '"lables"'))
    with pytest.raises(DamagedError):
        run(run=tmp_path)


def test_ensembles_and_delta_posteriors_and_validation(tmp_path):
    few = {"labels": 7, "seeds": 2}
    assert run(**few, passes=0).accuracy.shape == (2, 2)
    assert run(**few, passes=0, members=3).accuracy.shape == (2, 2)
    held = run(**few, validation_labels=10, patience=2)
    assert held.labels.tolist() == [4, 7]
    assert run(**few, test_passes=0).accuracy.shape == (2, 2)
    assert run(**few, epochs=lambda labels: 40 // labels).settings["epochs"][0] == 4


@pytest.mark.parametrize("name", sorted(acquisitions))
def test_every_acquisition_runs_in_the_loop(name):
    found = run(acquisition=name, labels=7, seeds=2)
    assert found.acquisition == name
    assert all(len(set(row)) == 7 for row in found.acquired.tolist())


def test_bald_is_0_under_a_delta_posterior():
    found = run(acquisition="bald", passes=0, labels=7)
    assert (found.scores[:, 4:] == 0).all()
    assert (run(acquisition="bald", labels=7).scores[:, 4:] > 0).all()


def test_a_function_chooses_and_is_known_by_its_code(tmp_path):
    def last(candidates):
        return torch.arange(len(candidates.prediction)).float()

    found = run(acquisition=last, labels=7, candidates=None, run=tmp_path)
    assert found.acquisition == "last"
    for row in found.acquired:
        free = [number for number in range(300) if number not in row[:4]]
        assert sorted(row[4:]) == free[-3:]
    first = lambda candidates: -torch.arange(len(candidates.prediction)).float()  # noqa: E731
    first.__name__ = "last"
    with pytest.raises(NescioError, match="acquisition_code"):
        run(acquisition=first, labels=7, candidates=None, run=tmp_path)


@pytest.mark.filterwarnings("ignore::nescio.core.RangeWarning")
def test_what_a_guard_calls_ood_is_never_asked(tmp_path):
    x, y = MOONS.train
    far = torch.cat([x, x[:100] + 50]), torch.cat([y, y[:100]])
    net = nescio.train(lambda: nets.mlp(2, 2), MOONS.train, epochs=20)
    guard = nescio.guard(net, MOONS.validation, train=MOONS.train)
    options = {**OPTIONS, "guard": guard, "candidates": None, "acquisition": "core_set"}
    found = simulate(make, far, **options, validation_labels=5, patience=2, run=tmp_path)
    assert (found.acquired < 300).all()
    assert found.settings["left_out_as_ood"] >= 100
    assert (run(candidates=None).acquired < 300).all()
    without = simulate(make, far, **{**options, "guard": None})
    assert (without.acquired >= 300).any()
    with pytest.raises(NescioError, match="inside|left_out_as_ood"):
        simulate(make, far, **{**options, "guard": None}, validation_labels=5, patience=2,
                 run=tmp_path)  # fmt: skip
    with pytest.raises(NescioError, match="that the guard does not call OOD"):
        simulate(make, far, **{**options, "labels": 350})


def test_a_delta_posterior_is_asked_for_where_there_is_no_dropout():
    with pytest.raises(NescioError, match="no dropout layer"):
        simulate(lambda: nets.mlp(2, 2, widths=(4,)), MOONS.train, **OPTIONS)


def test_a_bar_shows_how_far_it_is(capfd):
    run(labels=7, seeds=2, progress=True)
    shown = capfd.readouterr().err
    assert "entropy" in shown
    assert "2/2" in shown
    assert "7 labels, accuracy" in " ".join(shown.split())


def test_validation_samples_are_never_acquired():
    small = (MOONS.train[0][:24], MOONS.train[1][:24])
    options = {**OPTIONS, "labels": 16, "candidates": None, "size": 4}
    found = simulate(make, small, acquisition="random", validation_labels=8, patience=2, **options)
    for row in found.acquired:
        assert len(set(row.tolist())) == 16


def test_a_start_may_be_given(curves):
    found = run(start=curves.acquired[:, :4])
    same(found, curves)
    with pytest.raises(NescioError, match=r"indices \(3, n\)"):
        run(start=[0, 1, 2])
    with pytest.raises(NescioError, match="twice"):
        run(start=[[0, 0], [1, 2], [3, 4]])


def test_a_table_with_text_is_encoded_by_the_whole_pool():
    age = np.linspace(20, 80, 60)
    table = data.read_table({"age": age, "sex": ["F", "M"] * 30})
    labels = torch.from_numpy((age > 50).astype(np.int64))
    found = simulate(
        lambda inputs: nets.mlp(inputs, 2, widths=(8,)),
        (table, labels),
        **{**OPTIONS, "test": (table, labels), "passes": 0, "labels": 10},
        acquisition="entropy",
    )
    assert found.accuracy.shape == (3, 3)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"labels": 301}, "the pool has 300 samples"),
        ({"labels": 3}, "start must be in 2..3"),
        ({"start": 1}, "start must be in 2"),
        ({"size": 0}, "size must be a whole number from 1"),
        ({"passes": -1}, "passes must be a whole number from 0"),
        ({"seeds": []}, "seeds must be positive"),
        ({"seeds": [1, 1]}, "different"),
        ({"candidates": 2}, "fewer than size=3"),
        ({"rows": [[0]]}, "leave it out"),
        ({"acquisition": "bold"}, "unknown acquisition"),
    ],
)
def test_what_makes_no_sense_is_refused(change, words):
    with pytest.raises(NescioError, match=words):
        run(**change)


def test_an_empty_pool_and_targets_of_a_regression_are_refused():
    x, y = MOONS.train
    with pytest.raises(NescioError, match="the pool is empty"):
        simulate(make, (x[:0], y[:0]), **OPTIONS)
    with pytest.raises(NescioError, match="acquisitions are for classes"):
        simulate(make, (x, x[:, :1]), **OPTIONS)
