"""Threads share the members: the same numbers with and without them."""

import threading
from dataclasses import replace

import pytest
import torch

import nescio
from nescio import nets
from nescio.training import team as threads
from nescio.training.optimizers import Optimizer

X = torch.rand(90, 1, 8, 8, generator=torch.Generator().manual_seed(0))
Y = torch.arange(90) % 3
MAKES = {
    "dense": (lambda: nets.mlp(64, 3, widths=(9,), dropout=0.2), X.flatten(1)),
    "convolutional": (lambda: nets.small_cnn((1, 8, 8), 3, width=2, dropout=0.2), X),
    "residual": (lambda: nets.resnet((1, 8, 8), 3, blocks=1, width=2, dropout=0.2), X),
}


@pytest.fixture
def two_threads(monkeypatch):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    monkeypatch.setattr(threads, "TINY", 0)
    monkeypatch.setattr(threads, "LARGE", 0)
    yield
    torch.set_num_threads(before)


def trained(name, **options):
    make, x = MAKES[name]
    options = {"members": 5, "epochs": 2, "batch_size": 30, "validation": (x, Y), **options}
    return nescio.train(make, (x, Y), progress=False, **options)


@pytest.mark.parametrize("loss", [None, nescio.losses.anchored(nescio.losses.nll())])
@pytest.mark.parametrize("name", MAKES)
def test_threads_change_no_number(name, loss, two_threads, monkeypatch):
    shared = trained(name, loss=loss)
    monkeypatch.setattr(
        threads.Team, "each", lambda self, work, members: _alone(self, work, members)
    )
    alone = trained(name, loss=loss)
    for key, tensor in shared.tensors.items():
        assert torch.equal(tensor, alone.tensors[key]), key
    assert torch.equal(shared.history.validation, alone.history.validation)
    monkeypatch.undo()
    torch.set_num_threads(1)
    whole = trained(name, loss=loss)
    for key, tensor in shared.tensors.items():
        torch.testing.assert_close(tensor, whole.tensors[key], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", MAKES)
def test_threads_share_members_with_their_own_rows(name, two_threads):
    rows = [torch.arange(count) for count in (90, 61, 61, 75, 90)]
    options = {"rows": rows, "validation": None, "validation_rows": rows, "average": 0.9}
    options["unlabeled"] = MAKES[name][1]
    if name == "dense":
        options["sample_weight"] = torch.rand(5, 90, generator=torch.Generator().manual_seed(1))
    shared = trained(name, **options)
    torch.set_num_threads(1)
    whole = trained(name, **options)
    for key, tensor in shared.tensors.items():
        torch.testing.assert_close(tensor, whole.tensors[key], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(shared.history.validation, whole.history.validation)


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize("name", ["convolutional", "residual"])
def test_a_thread_may_move_its_members_between_the_two_passes_of_another(
    name, optimizer, two_threads, monkeypatch
):
    moved = threading.Event()
    move, plain = Optimizer.update, nescio.losses.nll()

    def seen(self, weights, slopes, rate):
        move(self, weights, slopes, rate)
        moved.set()

    def first_waits(forward, batch, rng):
        losses = plain(forward, batch, rng)
        assert rng.members[0] == 1 or moved.wait(20)
        return losses

    def at_once(self, work, members):
        return list(self.pool.map(work, [[one] for one in range(members)]))

    options = {"members": 2, "epochs": 1, "batch_size": 90, "optimizer": optimizer}
    expected = trained(name, **options)
    monkeypatch.setattr(Optimizer, "update", seen)
    monkeypatch.setattr(threads.Team, "each", at_once)
    found = trained(name, loss=replace(plain, step=first_waits), **options)
    assert moved.is_set()
    for key, tensor in found.tensors.items():
        assert torch.equal(tensor, expected.tensors[key]), key


def _alone(team, work, members):
    size = -(-members // team.parts)
    parts = [list(range(members))[i : i + size] for i in range(0, members, size)]
    return [work(part) for part in parts]


def test_the_faster_way_is_taken():
    team = threads.Team(pool=object(), parts=2)
    clock = iter([0.0, 5.0, 5.0, 9.0, 9.0, 10.0, 10.0, 12.0, 12.0, 13.0, 13.0, 14.0])
    times = pytest.MonkeyPatch()
    times.setattr(threads.time, "perf_counter", lambda: next(clock))
    modes = []
    for number in range(5):
        with team.step(number):
            modes.append(team.alone)
    times.undo()
    assert modes == [True, True, False, False, False]  # 4 seconds alone, 1 together
    team.times = {0: 1.0, 1: 1.0, 2: 3.0, 3: 9.0}
    with team.step(threads.EVERY + threads.TRIALS):
        assert team.alone
    assert torch.get_num_threads() >= 1
