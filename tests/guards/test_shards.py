"""Rows that workers read and decide about: the bytes of a run without them."""

import numpy as np
import pytest
import torch

import nescio
from nescio import nets
from nescio.core import NescioError, engine
from nescio.data.readers import open_stream
from nescio.guards import shards

arrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
SMALL = {"batch_bytes": 20_000, "progress": False}  # 38 rows at a time


@pytest.fixture(scope="module")
def made():
    torch.manual_seed(0)
    draws = np.random.default_rng(1)
    x = torch.from_numpy(draws.normal(size=(900, 3)).astype(np.float32))
    y = (x[:, 0] > 0).long()
    net = nets.mlp(3, 2, widths=(8,))
    with torch.no_grad():
        net[0].weight[:2] = torch.tensor([[4.0, 0, 0], [-4, 0, 0]])
        net[2].weight[:, :2] = torch.tensor([[-1.0, 1], [1, -1]])
    options = {"false_alarm": 0.05, "risk": 0.1, "batch_size": 16, "detector": "mahalanobis"}
    return nescio.guard(net, (x[:500], y[:500]), train=(x[500:], y[500:]), **options)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files of several lengths and row groups, as one table."""
    place = tmp_path_factory.mktemp("sets") / "rows"
    place.mkdir()
    draws = np.random.default_rng(2)
    for number, count in enumerate((300, 7, 451)):
        x = draws.normal(size=(count, 3)).astype(np.float32)
        x[3] = np.nan
        columns = {name: x[:, at] for at, name in enumerate("abc")}
        ids = [f"{number}-{row}" for row in range(count)]
        table = arrow.table({"id": ids, **columns})
        parquet.write_table(table, place / f"{number}.parquet", row_group_size=100)
    return place


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_the_bytes_are_those_of_a_run_without_workers(tmp_path, made, folder, ending, workers):
    stream = open_stream(folder, keep="id")
    here = nescio.score(made, stream, tmp_path / f"here{ending}", **SMALL)
    stream = open_stream(folder / "*.parquet", keep="id")
    there = nescio.score(made, stream, tmp_path / f"there{ending}", engine=workers(2), **SMALL)
    assert (tmp_path / f"here{ending}").read_bytes() == (tmp_path / f"there{ending}").read_bytes()
    assert (here.inputs, here.decisions, here.rules) == (758, there.decisions, there.rules)
    assert here.not_finite == there.not_finite == 3


def test_a_run_that_was_stopped_goes_on_with_or_without_workers(tmp_path, made, folder, workers):
    whole, out = tmp_path / "whole.csv", tmp_path / "out.csv"
    nescio.score(made, open_stream(folder, keep="id"), whole, **SMALL)
    with pytest.raises(KeyboardInterrupt):
        nescio.score(made, open_stream(folder, keep="id"), out, engine=workers(2, last=2), **SMALL)
    done = len(list((tmp_path / "out.csv.parts").glob("*.csv")))
    assert done == 2 * shards.PARTS
    with pytest.raises(KeyboardInterrupt):
        nescio.score(made, open_stream(folder, keep="id"), out, engine=workers(2, last=1), **SMALL)
    nescio.score(made, open_stream(folder, keep="id"), out, **SMALL)
    assert out.read_bytes() == whole.read_bytes()


def test_other_inputs_than_parquet_are_refused(tmp_path, made, workers):
    x = np.zeros((500, 3), np.float32)
    with pytest.raises(NescioError, match="read Parquet files"):
        nescio.score(made, x, tmp_path / "out.csv", engine=workers(2), **SMALL)


def test_what_fits_into_one_part_needs_no_workers(tmp_path, made, folder, workers):
    stream = open_stream(folder / "1.parquet", without="id")
    found = nescio.score(made, stream, tmp_path / "out.csv", engine=workers(2, last=0), **SMALL)
    assert found.inputs == 7
    assert "one part: decided here" in str(found)
    again = nescio.score(made, stream, tmp_path / "out.csv", engine=workers(2, last=0), **SMALL)
    assert "decided here" not in str(again)  # nor was anything decided


def test_an_engine_that_is_not_there_is_told_also_without_work_for_it(tmp_path, made, folder):
    pytest.importorskip("ray")
    stream, out = open_stream(folder / "1.parquet", without="id"), tmp_path / "out.csv"
    with pytest.raises(NescioError, match="no Ray cluster answers at 127.0.0.1:1 "):
        nescio.score(made, stream, out, engine=engine("ray", address="127.0.0.1:1"), **SMALL)
    assert not out.exists()
