"""Choosing from a pool with a predictor: candidates, guards, members, refusals."""

from functools import partial

import pytest
import torch

import nescio
from nescio import models, nets
from nescio.applications.active_learning import choose, pick
from nescio.core import NescioError, generator
from nescio.core.registry import acquisitions


def draws(*shape, name="x"):
    return torch.randn(*shape, generator=generator(0, name))


@pytest.fixture(scope="module")
def net():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nets.mlp(2, 3, widths=(16,), dropout=0.3).eval()


@pytest.fixture(scope="module")
def pool():
    return draws(80, 2)


@pytest.mark.parametrize("name", acquisitions)
def test_a_pool_gives_what_its_predictions_give(name, net, pool):
    sampled = models.mc_dropout(net, passes=8)
    labeled = draws(5, 2, name="labeled")
    chosen = choose(sampled, pool, 6, name, labeled=labeled, seed=2)
    rows = net[:-1] if isinstance(net, torch.nn.Sequential) else None
    with torch.no_grad():
        features = {"features": rows(pool), "labeled_features": rows(labeled)} if rows else {}
    expected = pick(sampled(pool), 6, name, **features, seed=2)
    assert torch.equal(chosen.index, expected.index)
    assert chosen.why == expected.why
    assert chosen.left_out == 0


def test_any_predictor_will_do(net, pool):
    twice = models.ensemble([net, nets.mlp(2, 3, widths=(16,), dropout=0.3)])
    data = (pool, (pool[:, 0] > 0).long())
    drawn = nescio.train(lambda: nets.bayesian_mlp(2, 2, widths=(8,)), data, epochs=1)
    for predictor in (net, twice, models.mc_dropout(twice, passes=3), drawn):
        assert len(choose(predictor, pool, 3)) == 3
    assert len(choose(models.weight_samples(drawn, passes=5), pool, 3, "variation_ratio")) == 3


def test_candidates_are_drawn_by_the_seed(net, pool):
    sampled = models.mc_dropout(net, passes=8)
    few = choose(sampled, pool, 5, "bald", candidates=10, seed=0)
    assert torch.equal(few.index, choose(sampled, pool, 5, "bald", candidates=10, seed=0).index)
    other = choose(sampled, pool, 5, "bald", candidates=10, seed=1)
    assert not torch.equal(few.index, other.index)
    everything = choose(sampled, pool, 5, "bald", candidates=1000)
    assert torch.equal(everything.index, choose(sampled, pool, 5, "bald").index)
    assert few.score[0] <= everything.score[0]
    with pytest.raises(NescioError, match="10 samples are asked for, and there are 5"):
        choose(sampled, pool, 10, candidates=5)
    for wrong in (0, 2.5, True):
        with pytest.raises(NescioError, match="candidates must be a whole number"):
            choose(sampled, pool, 1, candidates=wrong)


def test_bad_pools_are_refused(net, pool):
    with pytest.raises(NescioError, match="the pool is empty"):
        choose(net, pool[:0], 1)
    with pytest.raises(NescioError, match="there are 80 to choose from"):
        choose(net, pool, 81)
    with pytest.raises(NescioError, match="the inputs of the pool contain NaN or infinite"):
        choose(net, torch.where(pool > 1, torch.nan, pool), 1)
    with pytest.raises(NescioError, match="unknown acquisition"):
        choose(net, pool, 1, "best")
    labels = models.plain(net, head="multilabel")
    with pytest.raises(NescioError, match="several labels"):
        choose(labels, pool, 1)
    numbers = models.plain(nets.mlp(2, 2), head="gaussian")
    with pytest.raises(NescioError, match="A regression has none"):
        choose(numbers, pool, 1)


def test_several_tensors_and_bytes(pool):
    class Sum(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.last = torch.nn.Linear(2, 3)

        def forward(self, left, right):
            return self.last(left + right)

    chosen = choose(Sum(), (pool, pool.flip(0)), 4, "entropy")
    assert len(chosen) == 4
    images = (255 * torch.rand(20, 1, 4, 4, generator=generator(0, "images"))).to(torch.uint8)
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 3))
    chosen = choose(net, images, 4, "entropy", candidates=10)
    expected = choose(net, images.float() / 255, 4, "entropy", candidates=10)
    assert torch.equal(chosen.index, expected.index)


@pytest.fixture(scope="module")
def guarded():
    """Two classes, a network for them and a guard; what is far away is OOD."""

    def blobs(count, name):
        y = torch.arange(count) % 2
        return draws(count, 2, name=name) + 4.0 * y[:, None], y

    make = partial(nets.mlp, 2, 2, widths=(16,), dropout=0.2)
    model = nescio.train(make, blobs(300, "train"), epochs=5, learning_rate=0.01)
    return model, nescio.guard(model, blobs(500, "calibration"), train=blobs(300, "train"))


@pytest.mark.parametrize("name", acquisitions)
def test_what_the_guard_calls_ood_is_never_chosen(name, guarded):
    model, guard = guarded
    near = draws(100, 2, name="near") + 2.0
    far = 40 * torch.nn.functional.normalize(draws(100, 2, name="far"), dim=1)
    mixed = torch.stack([near, far], 1).flatten(0, 1)  # every second one is far
    with nescio.core.quiet():
        ood = guard(mixed).decision == nescio.guards.DECISIONS.index("ood")
    assert ood[1::2].all()
    sampled = models.mc_dropout(model, passes=6)
    chosen = choose(sampled, mixed, 40, name, guard=guard, labeled=near[:3])
    assert not ood[chosen.index].any()
    assert chosen.left_out == int(ood.sum()) >= 100
    assert "left out as OOD" in repr(chosen)
    alone = choose(sampled, mixed[~ood], 40, name, labeled=near[:3])
    assert torch.equal((~ood).nonzero()[:, 0][alone.index], chosen.index)
    free = choose(sampled, mixed, 40, "core_set", labeled=near[:3])
    assert ood[free.index].any()


def test_a_guard_that_leaves_too_few(guarded):
    model, guard = guarded
    far = 40 * torch.nn.functional.normalize(draws(30, 2, name="far"), dim=1)
    with pytest.raises(NescioError, match="the guard calls 30 of 30 samples OOD"):
        choose(model, far, 1, guard=guard)
    with pytest.raises(NescioError, match="guard= takes a nescio.Guard of classes"):
        choose(model, far, 1, guard=lambda x: x)


def test_inputs_that_are_not_finite_are_left_out_by_a_guard(guarded):
    model, guard = guarded
    x = draws(50, 2, name="near") + 2.0
    x[7] = torch.nan
    chosen = choose(model, x, 10, "entropy", guard=guard)
    assert 7 not in chosen.index
    assert chosen.left_out >= 1
