"""Work on a Ray cluster of two workers: the same bits, also where a worker dies."""

import os
import socket
import sys
from contextlib import closing
from functools import partial, reduce
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from torch import nn

import nescio
from nescio import metrics, nets
from nescio.applications.active_learning import simulate
from nescio.cli.main import main
from nescio.core import NescioError, engine, quiet, ray_engine
from nescio.monitoring import merge, monitor

MODULE = """
import os
import signal
from pathlib import Path

from torch import nn


class Mine(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(2, 16), nn.Linear(16, 2)

    def forward(self, x):
        driver, fatal = os.environ["NESCIO_FATAL"].split(":")
        if os.getpid() != int(driver) and Path(fatal).exists():
            Path(fatal).unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return self.last(self.first(x).relu())


def make_net():
    return Mine()
"""


@pytest.fixture(scope="module")
def ray(tmp_path_factory):
    """A cluster of this machine, as the first call with the engine would start it."""
    pytest.importorskip("ray")
    fatal = tmp_path_factory.mktemp("fatal") / "kill"
    os.environ["NESCIO_FATAL"] = f"{os.getpid()}:{fatal}"
    made = engine("ray", workers=2)
    assert made.size() == 2
    yield made
    made.close()
    del os.environ["NESCIO_FATAL"]


def squared(number):
    return number * number, os.getpid(), torch.get_num_threads()


def fails(number):
    raise NescioError(f"task {number} cannot be done")


def test_tasks_run_on_one_thread_elsewhere(ray):
    found = list(ray.in_order(squared, range(9)))
    assert [number for number, _, _ in found] == [n * n for n in range(9)]
    assert os.getpid() not in {pid for _, pid, _ in found}
    assert {threads for _, _, threads in found} == {1}
    assert sorted(n for n, _, _ in ray.as_finished(squared, [1, 2, 3])) == [1, 4, 9]


def rounding(_):
    return os.environ.get("MKL_CBWR")


def test_workers_add_in_the_order_of_whoever_asks(ray, monkeypatch):
    """Those of another machine were not started with this machine's variables."""
    assert set(ray.in_order(rounding, range(2))) == {os.environ["MKL_CBWR"]}
    monkeypatch.setenv("MKL_CBWR", "of another machine")
    monkeypatch.setattr(torch, "set_num_threads", lambda _: None)
    assert ray_engine._run(rounding, 0, ray_engine._versions(), "AUTO")[0] == "AUTO"


def test_the_error_of_a_task_is_that_of_the_call(ray):
    with pytest.raises(NescioError, match="task 3 cannot be done"):
        list(ray.as_finished(fails, [3]))


def test_other_versions_on_the_workers_are_told(ray, monkeypatch):
    said = {**ray_engine._versions(), "torch": "1.0"}
    monkeypatch.setattr(ray_engine, "_versions", lambda: said)
    with pytest.raises(NescioError, match="a worker of the cluster has torch .*, not 1.0"):
        list(ray.as_finished(squared, [3]))


def test_an_ensemble_has_the_weights_of_a_local_run(ray):
    data = nescio.data.half_moons().train
    options = {"members": 4, "epochs": 2, "batch_size": 64, "progress": False}
    make = lambda: nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2))  # noqa: E731
    here = nescio.train(make, data, **options)
    there = nescio.train(make, data, engine=ray, **options)
    for name, tensor in here.tensors.items():
        assert torch.equal(tensor, there.tensors[name])


def test_seeds_of_active_learning_are_those_of_a_local_engine(ray, tmp_path):
    data = nescio.data.half_moons(test=100)
    options = {"start": 4, "size": 4, "labels": 12, "seeds": 3, "passes": 3, "epochs": 3}
    make = lambda: nets.mlp(2, 2, widths=(16,), dropout=0.3)  # noqa: E731
    run = partial(simulate, make, data.train, test=data.test, progress=False, **options)
    here, there = run(engine=engine("local")), run(engine=ray, run=tmp_path / "run")
    assert np.array_equal(here.acquired, there.acquired)
    assert np.array_equal(here.accuracy, there.accuracy)
    assert np.array_equal(here.scores, there.scores, equal_nan=True)
    again = run(engine=ray, run=tmp_path / "run")
    assert np.array_equal(again.acquired, there.acquired)
    assert not (tmp_path / "run" / "seeds").exists()


def invoke(*words):
    done = CliRunner().invoke(main, list(words))
    assert done.exit_code == 0, f"{done.output}\n{done.exception!r}"


@pytest.fixture
def guarded(tmp_path, monkeypatch):
    """A guard of a network in a module of the user's, and rows in two Parquet files."""
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("rays_own_net.py").write_text(MODULE)
    from rays_own_net import make_net

    moons = nescio.data.half_moons(validation=300)
    torch.manual_seed(0)
    net = make_net()
    optimizer = torch.optim.Adam(net.parameters(), 0.02)
    for _ in range(100):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(moons.train[0]), moons.train[1]).backward()
        optimizer.step()
    made = nescio.guard(net, moons.validation, train=moons.train, risk=0.1)
    made.save("guard.safetensors", weights=True)
    Path("rows").mkdir()
    draws = np.random.default_rng(0)
    for number in range(2):
        x = draws.normal(size=(4000, 2)).astype(np.float32)
        table = arrow.table({"a": x[:, 0], "b": x[:, 1], "id": [str(n) for n in range(4000)]})
        parquet.write_table(table, f"rows/{number}.parquet", row_group_size=1000)
    yield made
    del sys.modules["rays_own_net"]


def test_rows_have_the_same_bytes_though_a_worker_is_killed(ray, guarded):
    words = ["guard.safetensors", "rows:keep=id", "--net", "rays_own_net:make_net"]
    words += ["--batch-mb", "0.2"]
    invoke("score", *words, "--out", "here.csv")
    fatal = Path(os.environ["NESCIO_FATAL"].partition(":")[2])
    fatal.touch()
    invoke("score", *words, "--out", "there.csv", "--engine", "ray")
    assert not fatal.exists()
    assert Path("here.csv").read_bytes() == Path("there.csv").read_bytes()


def test_commands_have_the_results_of_a_local_run(ray, guarded):
    words = ["train", "deep_ensemble", "--data", "half_moons", "-o", "members=2", "--epochs", "2"]
    words += ["--net", "rays_own_net:make_net"]
    invoke(*words, "--run", "here")
    invoke(*words, "--run", "there", "--engine", "ray")
    assert Path("here/model.safetensors").read_bytes() == (
        Path("there/model.safetensors").read_bytes()
    )
    pytest.importorskip("optuna")
    words = ["search", "mc_dropout", "--trials", "2", "--epochs", "1", "--workers", "1"]
    invoke(*words, "--out", "search-here")
    invoke(*words, "--out", "search-there", "--engine", "ray")
    here, there = (
        [",".join(line.split(",")[:-1]) for line in Path(p, "table.csv").read_text().splitlines()]
        for p in ("search-here", "search-there")
    )
    assert here == there  # but for the seconds


def watched(made, seed):
    """What a shard says: a sketch of its scores, and a monitor of them."""
    draws = torch.Generator().manual_seed(seed)
    with quiet():
        scores = made(torch.randn(300, 2, generator=draws)).score
        ood = made(3 + torch.randn(200, 2, generator=draws)).score
    own = monitor(made, shard=seed, shards=3).update(scores)
    return metrics.sketch(scores.double().numpy(), ood.double().numpy()), own


def test_sketches_and_monitors_of_shards_merge(ray, guarded):
    there = list(ray.in_order(partial(watched, guarded), range(3)))
    here = [watched(guarded, seed) for seed in range(3)]
    one, two = (
        reduce(lambda a, b: a.merge(b), (sketch for sketch, _ in parts)) for parts in (here, there)
    )
    assert one.auroc == two.auroc
    one, two = (merge([own for _, own in parts]) for parts in (here, there))
    assert str(one) == str(two)


def test_what_is_not_there_is_told_at_once(monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(NescioError, match=f"no Ray cluster answers at 127.0.0.1:{port}"):
        engine("ray", address=f"127.0.0.1:{port}").size()
    with pytest.raises(NescioError, match="address of a Ray cluster is HOST:PORT"):
        engine("ray", address="somewhere").size()
    monkeypatch.setenv("RAY_ADDRESS", f"ray://127.0.0.1:{port}")
    with pytest.raises(NescioError, match="no Ray cluster answers at ray://"):
        engine("ray").size()


def test_a_check_starts_no_cluster_and_finds_what_is_not_there(monkeypatch):
    package = pytest.importorskip("ray")
    monkeypatch.setattr(package, "is_initialized", lambda: False)
    monkeypatch.setattr(package, "init", lambda **_: pytest.fail("started"))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    for address in (None, "local"):
        engine("ray", address=address).check()
    with pytest.raises(NescioError, match="no Ray cluster answers at 127.0.0.1:1 "):
        engine("ray", address="127.0.0.1:1").check()
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with pytest.raises(NescioError, match="no Ray cluster answers at 127.0.0.1:1 "):
        engine("ray").check()
    engine("local").check()


def test_without_the_package_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(NescioError, match="scale"):
        engine("ray").check()
    with pytest.raises(NescioError, match=r'pip install "nescio\[scale\]"'):
        engine("ray").size()


def test_no_statistics_are_sent(monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.delenv("RAY_USAGE_STATS_ENABLED", raising=False)
    ray_engine.package()
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
