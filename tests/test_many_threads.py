"""Every value that can be called answers 8 threads as it answers one, and changes nothing for them.

More calls: `NESCIO_CALLS=1000 pytest tests/test_many_threads.py`.
"""

import os
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, is_dataclass
from functools import cache

import numpy as np
import pytest
import torch
from torch import nn

import nescio
from nescio import attacks, calibration, conformal, detectors, geometry, heads, metrics, nets
from nescio.core import one_thread, quiet, workers
from nescio.core.random import seeded
from nescio.models import ensemble, mc_dropout, plain, weight_samples

CALLS = int(os.environ.get("NESCIO_CALLS", "40"))
THREADS = 8


class Branches(nn.Module):
    """A forward of the user's, with functions, a layer that writes, and one that is used twice."""

    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True))
        self.drop, self.twice, self.out = nn.Dropout(0.3), nn.Linear(16, 16), nn.Linear(16, 3)

    def forward(self, x):
        maps = torch.nn.functional.max_pool2d(self.first(x), 2).mean((2, 3)).repeat(1, 4)
        return self.out(self.drop(self.twice(self.twice(maps).relu())))


def made(make, seed):
    with seeded(seed):
        return make()


def conv():
    first = nn.Conv2d(1, 3, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(3, 4, 2), nn.ReLU()
    return nn.Sequential(
        *first, nn.Flatten(), nn.Linear(64, 10), nn.ReLU(), nn.Dropout(0.3), nn.Linear(10, 3)
    )


def dense():
    return nets.mlp(144, 3, widths=(12, 12), dropout=0.2)


@cache
def images(count=240, seed=0):
    draws = torch.Generator().manual_seed(seed)
    y = torch.randint(3, (count,), generator=draws)
    x = torch.rand(count, 1, 12, 12, generator=draws)
    return x + y[:, None, None, None] / 3, y


def rows(count=240, seed=0):
    x, y = images(count, seed)
    return x.flatten(1), y


def members(make, count=4):
    return [made(make, seed) for seed in range(count)]


def labeled(source, data):
    """Inputs with the labels that a network finds most probable, and some others."""
    x, y = data(400, 1)
    source = plain(source) if isinstance(source, nn.Module) else source
    return x, torch.where(torch.arange(len(x)) % 5 > 0, source(x).labels, y)


def guarded(make, data, **options):
    net = made(make, 0)
    return guard_of(net, data, **options)


def guard_of(source, data, **options):
    options = {"train": data(), "false_alarm": 0.05, "risk": 0.4, **options}
    with quiet():
        return nescio.guard(source, labeled(source, data), **options)


def scored(make, data, name, **options):
    net = made(make, 0)
    fitted = [] if name == "energy" else [nescio.observe(net, data())]
    return nescio.scorer(net, getattr(detectors, name)(*fitted, **options))


def set_caller():
    model = plain(made(conv, 0))
    sets = conformal.threshold(model(images(400, 1)[0]), images(400, 1)[1], miscoverage=0.2)
    return lambda x: sets(model(x))


def interval_caller():
    net = nets.mlp(144, 1, widths=(8,))
    model = ensemble([net, made(lambda: nets.mlp(144, 1, widths=(8,)), 3)], head="fixed_variance")
    x, y = rows(400, 1)
    intervals = conformal.residual(model(x), y[:, None].float(), miscoverage=0.2)
    return lambda x: intervals(model(x))


def monitor_caller():
    score = scored(conv, images, "energy")
    watch = nescio.monitor(score(images(400, 1)[0]))
    return lambda x: watch.update(score(x))


def calibrated_caller(inner):
    return calibration.temperature(inner, labeled(inner, images))


def bayesian():
    return weight_samples(plain(nets.bayesian_mlp(144, 3, widths=(8,))), passes=4)


def trained(x):
    made = nescio.train(conv, (x, torch.arange(len(x)) % 3), epochs=1, batch_size=4, progress=False)
    return tuple(made.tensors.values())


def attacked(source):
    def run(x):
        y = torch.arange(len(x)) % 3
        return attacks.pgd(attacks.label_loss(source), x, y, radius=0.1, steps=3, low=0.0, high=2.0)

    return run


CONV, DENSE = images, rows
VALUES = {
    "plain, convolutional": (CONV, lambda: plain(made(conv, 0))),
    "plain, a forward of the user's": (CONV, lambda: plain(made(Branches, 0))),
    "ensemble, dense": (DENSE, lambda: ensemble(members(dense))),
    "ensemble, convolutional": (CONV, lambda: ensemble(members(conv))),
    "ensemble, residual": (
        CONV,
        lambda: ensemble(members(lambda: nets.resnet((1, 12, 12), 3, width=2))),
    ),
    "ensemble, a forward of the user's": (CONV, lambda: ensemble(members(Branches))),
    "pooled": (CONV, lambda: ensemble([made(conv, 0), made(Branches, 0)])),
    "dirichlet": (CONV, lambda: ensemble(members(conv), head=heads.dirichlet())),
    "mc dropout, dense": (DENSE, lambda: mc_dropout(made(dense, 0), passes=5)),
    "mc dropout, convolutional": (CONV, lambda: mc_dropout(made(conv, 0).train(), passes=5)),
    "mc dropout, a forward of the user's": (CONV, lambda: mc_dropout(made(Branches, 0), passes=5)),
    "mc dropout of an ensemble": (CONV, lambda: mc_dropout(ensemble(members(conv, 2)), passes=3)),
    "weight samples": (DENSE, bayesian),
    "calibrated": (CONV, lambda: calibrated_caller(ensemble(members(conv)))),
    "calibrated mc dropout": (CONV, lambda: calibrated_caller(mc_dropout(conv(), passes=3))),
    "guard": (CONV, lambda: guarded(conv, images)),
    "guard, energy": (CONV, lambda: guarded(conv, images, detector="energy")),
    "guard, vim": (CONV, lambda: guarded(conv, images, detector="vim")),
    "guard, odin": (CONV, lambda: guarded(conv, images, detector="odin")),
    "guard, a forward of the user's": (CONV, lambda: guarded(Branches, images)),
    "guard, dense": (DENSE, lambda: guarded(dense, rows)),
    "guard of an ensemble": (
        CONV,
        lambda: guard_of(ensemble(members(conv, 2)), images),
    ),
    "scorer, energy": (CONV, lambda: scored(conv, images, "energy")),
    "scorer, knn": (CONV, lambda: scored(conv, images, "knn", k=3)),
    "scorer, mahalanobis": (CONV, lambda: scored(Branches, images, "mahalanobis")),
    "detector": (
        CONV,
        lambda: (
            lambda net, detector: lambda x: detector(nescio.observe(net, x))
        )(made(conv, 0), detectors.energy()),
    ),
    "observe": (
        CONV,
        lambda: (lambda net: lambda x: nescio.observe(net, x, layers=["*", None]))(made(conv, 0)),
    ),
    "prediction sets": (CONV, set_caller),
    "prediction intervals": (DENSE, interval_caller),
    "monitor": (CONV, monitor_caller),
    "attack": (CONV, lambda: attacked(plain(made(conv, 0)))),
    "attack on an ensemble": (CONV, lambda: attacked(ensemble(members(conv, 2)))),
    "attack on mc dropout": (CONV, lambda: attacked(mc_dropout(made(conv, 0), passes=2))),
    "attack on a leaking network": (
        CONV,
        lambda: (lambda aim: lambda x: aim(x))(
            attacks.leaking(attacks.confidence(ensemble(members(conv, 2))))
        ),
    ),
    "geometry": (
        DENSE,
        lambda: (lambda net: lambda x: geometry.far_field(net, x * 0, x))(made(dense, 0)),
    ),
    "metrics": (CONV, lambda: lambda x: metrics.auroc(x.flatten(), 1.1 * x.flatten())),
    "training": (CONV, lambda: trained),
}  # fmt: skip
FEW = ("training", "geometry", "attack", "guard, odin", "ensemble, res")  # a call takes longer


def numbers(value):
    """Everything in a result that is a number, in order."""
    if isinstance(value, np.ndarray):
        value = torch.as_tensor(
            value if value.dtype.kind in "fiub" else np.unique(value, return_inverse=True)[1]
        )
    if isinstance(value, torch.Tensor):
        return [value.detach().clone()]
    if is_dataclass(value):
        return [
            n for f in fields(value) if f.name != "answers" for n in numbers(getattr(value, f.name))
        ]
    if isinstance(value, dict):
        return [n for part in value.values() for n in numbers(part)]
    if isinstance(value, tuple | list):
        return [n for part in value for n in numbers(part)]
    return [torch.tensor(value)] if isinstance(value, float | int) else []


def same(ours, theirs):
    """Equal but for the rounding of sums, which depends on how many threads torch has for them."""
    pairs = zip(ours, theirs, strict=True)
    return all(
        torch.allclose(a, b, rtol=1e-4, atol=1e-4, equal_nan=True)
        if a.is_floating_point()
        else torch.equal(a, b)
        for a, b in pairs
    )


@pytest.mark.parametrize("name", VALUES)
def test_eight_threads_get_what_one_gets(name):
    data, make = VALUES[name]
    call = make()
    x = data(64, 2)[0]
    parts = [x[start : start + 5 + start % 4] for start in range(0, 48, 6)]
    warnings.simplefilter("ignore")
    expected = [numbers(call(part)) for part in parts]
    assert any(part.numel() > 1 or name == "metrics" for part in expected[0])
    count = CALLS // 4 if name.startswith(FEW) else CALLS
    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(lambda i: numbers(call(parts[i % len(parts)])), range(count)))
    wrong = [i for i, value in enumerate(found) if not same(value, expected[i % len(parts)])]
    assert not wrong, f"{len(wrong)} of {count} calls differ"


def test_one_thread_is_nobody_elses():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with one_thread():
            assert torch.get_num_threads() == 1
            with ThreadPoolExecutor(1) as pool:  # a thread that first uses torch now
                assert pool.submit(torch.get_num_threads).result() == 3
            with workers(2) as pool:
                assert pool.submit(torch.get_num_threads).result() == 1
        assert torch.get_num_threads() == 3
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(torch.get_num_threads).result() == 3
    finally:
        torch.set_num_threads(before)


def test_interleaved_blocks_leave_every_thread_as_it_was():
    before = torch.get_num_threads()
    torch.set_num_threads(2)

    def block(_):
        with one_thread():
            torch.ones(10).sum()
        return torch.get_num_threads()

    try:
        with ThreadPoolExecutor(THREADS) as pool:
            assert set(pool.map(block, range(400))) == {2}
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_quiet_is_of_one_thread():
    filters = list(warnings.filters)
    with ThreadPoolExecutor(THREADS) as pool:

        def block(_):
            with quiet():
                pass

        list(pool.map(block, range(100)))
    assert warnings.filters == filters
