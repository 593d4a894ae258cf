"""Randomness is a function of names and numbers, never of history."""

import itertools

import pytest
import torch
from scipy import stats

from nescio.core import Rng, derive, generator, seeded


def test_seeds_differ_by_every_part_and_fit_a_generator():
    parts = list(itertools.product((0, 1, 12), ("order", "start"), (0, 2, 3)))
    seeds = {derive(*part) for part in parts}
    assert len(seeds) == len(parts)
    assert derive(1, 23) != derive(12, 3)
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_seeds_are_the_same_in_every_version():
    assert derive(0, "start", 0) == derive(0, "start", 0) == 6921682388528763548


def test_generators_repeat():
    one, two = (torch.randn(5, generator=generator(3, "x")) for _ in "ab")
    assert torch.equal(one, two)
    assert not torch.equal(one, torch.randn(5, generator=generator(3, "y")))


def test_a_seeded_block_leaves_the_global_generator_as_it_was():
    torch.manual_seed(1)
    expected = torch.randn(3)
    torch.manual_seed(1)
    with seeded(7, "a"):
        in_dist = torch.randn(3)
    assert torch.equal(torch.randn(3), expected)
    with seeded(7, "a"):
        assert torch.equal(torch.randn(3), in_dist)
    torch.manual_seed(1)
    with pytest.raises(RuntimeError), seeded(8):
        raise RuntimeError
    assert torch.equal(torch.randn(3), expected)


def test_a_member_draws_the_same_alone_and_among_others():
    like = torch.empty(0, dtype=torch.float64)
    for rng in (Rng(3, (0, 1, 5)), Rng(3, (0, 1, 5), (2, 9))):
        together = rng.normal((4, 2), "virtual", like=like)
        assert together.shape == (3, 4, 2)
        assert together.dtype == torch.float64
        alone = Rng(3, (5,), rng.place).normal((4, 2), "virtual", like=like)
        assert torch.equal(together[2:], alone)
        assert torch.equal(rng.orders(20)[2:], Rng(3, (5,), rng.place).orders(20))


def test_steps_purposes_members_and_seeds_are_independent():
    like, rng = torch.empty(0), Rng(0, (0, 1))
    draws = [
        rng.normal((2000,), "a", like=like)[0],
        rng.normal((2000,), "a", like=like)[1],
        rng.normal((2000,), "b", like=like)[0],
        rng.at(1).normal((2000,), "a", like=like)[0],
        rng.at(1, 0).normal((2000,), "a", like=like)[0],
        rng.at(0, 1).normal((2000,), "a", like=like)[0],
        Rng(1, (0,)).normal((2000,), "a", like=like)[0],
    ]
    correlations = torch.corrcoef(torch.stack(draws)) - torch.eye(len(draws))
    assert correlations.abs().max() < 0.1
    assert stats.kstest(torch.cat(draws).numpy(), "norm").pvalue > 0.01


def test_orders_are_permutations():
    orders = Rng(0, (0, 1, 2)).orders(50)
    assert torch.equal(orders.sort(1).values, torch.arange(50).expand(3, 50))
    assert len(orders.unique(dim=0)) == 3
