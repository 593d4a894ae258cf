"""Independent work in processes: every task once, in the order that is asked for."""

import os

import pytest
import torch

from nescio.core import LocalEngine, NescioError, engine
from nescio.core.engines import processors
from nescio.core.ray_engine import own_modules


def squared(number):
    return number * number, os.getpid(), torch.get_num_threads()


def fails(number):
    raise NescioError(f"task {number} cannot be done")


def dies(_):
    os._exit(9)


@pytest.mark.parametrize("workers", [1, 2])
def test_every_task_is_done_once(workers):
    found = list(LocalEngine(workers).as_finished(squared, list(range(5))))
    assert sorted(number for number, _, _ in found) == [0, 1, 4, 9, 16]
    here = {pid == os.getpid() for _, pid, _ in found}
    assert here == {workers == 1}
    if workers > 1:
        assert {threads for _, _, threads in found} == {1}
    assert list(LocalEngine(workers).as_finished(squared, [])) == []


@pytest.mark.parametrize("workers", [1, 2])
def test_results_come_in_the_order_of_the_tasks(workers):
    found = LocalEngine(workers).in_order(squared, iter(range(7)))
    assert [number for number, _, _ in found] == [n * n for n in range(7)]


def test_few_tasks_are_taken_ahead():
    taken = []

    def tasks():
        for number in range(100):
            taken.append(number)
            yield number

    results = LocalEngine(1).in_order(squared, tasks())
    next(results)
    assert len(taken) <= 3


def test_the_error_of_a_task_is_that_of_the_call():
    with pytest.raises(NescioError, match="task 3 cannot be done"):
        list(LocalEngine(1).as_finished(fails, [3]))


def test_a_process_that_dies_is_told():
    with pytest.raises(NescioError, match="a worker process died"):
        list(LocalEngine(2).as_finished(dies, [1, 2]))


def test_a_wrong_engine_is_refused():
    with pytest.raises(NescioError, match="an engine is one of local, ray, got 'dask'"):
        engine("dask")
    with pytest.raises(NescioError, match="address is that of a Ray cluster"):
        engine("local", address="10.0.0.1:6379")
    with pytest.raises(NescioError, match="workers must be at least 1, got 0"):
        engine("ray", workers=0)


def test_without_a_number_there_is_a_worker_for_each_processor():
    assert engine("local").size() == processors() >= 1
    assert not engine("local").is_remote
    assert engine("ray").is_remote


def test_modules_that_are_not_installed_go_to_the_workers():
    names = {module.__name__.split(".")[0] for module in own_modules()}
    assert not names & {"nescio", "nescio_papers", "torch", "numpy", "os", "__main__"}
