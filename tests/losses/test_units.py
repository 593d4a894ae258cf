"""Units of the data: shares and back, noise in them, and losses that read them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from nescio import losses, train
from nescio.core import Rng
from nescio.data import ood as ood_sources
from nescio.data.ranges import near, noise, units_of
from nescio.losses import Batch
from nescio.losses.loss import in_units
from nescio.nets.stack import Forward, Stack, stack


def vectors(samples: int = 40) -> torch.Tensor:
    """Features of very different ranges, one of which never varies."""
    x = torch.rand(samples, 3, generator=torch.Generator().manual_seed(0))
    return torch.stack([1000 * x[:, 0] - 5, 0.01 * x[:, 1], torch.full((samples,), 7.0)], 1)


def test_vectors_are_shares_of_the_range_of_each_feature() -> None:
    x = vectors()
    units = units_of(x)
    shares = units.shares(x)
    expected = (x - x.amin(0))[:, :2] / (x.amax(0) - x.amin(0))[:2]
    assert torch.allclose(shares[:, :2], expected)
    assert torch.equal(shares[:, 2], torch.zeros(40))
    assert shares.amin() == 0
    assert shares.amax() == 1
    assert torch.allclose(units.inputs(shares), x, rtol=1e-5)
    anywhere = units.inputs(torch.rand(5, 3) * 9)
    assert torch.equal(anywhere[:, 2], torch.full((5,), 7.0))  # what never varies never moves


@pytest.mark.parametrize(
    "x", [torch.randint(0, 9, (4, 1, 5, 5), dtype=torch.uint8), 0.5 * torch.rand(4, 1, 5, 5)]
)
def test_images_in_the_unit_range_stay_as_they_are(x: torch.Tensor) -> None:
    units = units_of(x)
    assert units.natural
    shares = torch.rand(2, 1, 5, 5)
    assert units.shares(shares) is shares
    assert units.inputs(shares) is shares


def test_other_images_have_one_range_for_all_pixels() -> None:
    x = 4 * torch.rand(4, 3, 5, 5) - 2
    units = units_of(x)
    assert not units.natural
    assert units.low.shape == ()
    assert units.shares(x).amin() == 0
    assert units.shares(x).amax() == pytest.approx(1)


def test_noise_is_the_papers_for_images_and_uniform_for_vectors() -> None:
    images = torch.rand(6, 1, 8, 8)
    assert torch.equal(
        noise(images, seed=3).take(9), ood_sources.paper_noise(images, seed=3).take(9)
    )
    x = vectors()
    wide = noise(x, seed=3, beyond=0.5).take(2000)
    assert wide.amin() >= -0.5
    assert wide.amax() <= 1.5
    assert wide.mean() == pytest.approx(0.5, abs=0.02)
    assert wide.var() == pytest.approx(4 / 12, abs=0.02)  # uniform of width 2


def test_every_second_vector_has_features_of_different_samples() -> None:
    x = vectors(200)
    drawn = noise(x, seed=1, shuffled=True).take(400)
    known = units_of(x).shares(x)
    for feature in range(2):
        assert np.isin(drawn[1::2, feature], known[:, feature]).all()
        assert not np.isin(drawn[::2, feature], known[:, feature]).all()
    rows = {tuple(row) for row in known.tolist()}
    assert sum(tuple(row) in rows for row in drawn[1::2].tolist()) < 10


def test_an_out_distribution_is_moved_into_the_units() -> None:
    x = vectors()
    units = units_of(x)
    given = ood_sources.another(x, "the data")
    moved = units.ood(given)
    assert torch.allclose(moved.take(40), units.shares(x))
    assert moved.description != given.description
    assert moved.size == 40


@pytest.mark.parametrize(("ndim", "radius"), [(4, 0.3), (2, 0.05), (3, 0.05)])
def test_the_default_radius_follows_the_kind_of_data(ndim: int, radius: float) -> None:
    x = torch.zeros(2, *(3,) * (ndim - 1))
    assert near(None, x) == radius
    assert near(0.7, x) == 0.7


def seen_by(loss: losses.Loss, x: torch.Tensor) -> torch.Tensor:
    """The loss of a small network, and its gradient with respect to the first weights."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).double()
    tensors = {k: t.requires_grad_() for k, t in stack([net]).items()}
    y = (torch.arange(len(x)) % 2)[None]
    batch = Batch(x=x[None], y=y, points=len(x), low=x.amin(0), high=x.amax(0))
    value = loss(Forward(Stack(net), tensors), batch, Rng(0, (0,), (0, 0)))
    (slope,) = torch.autograd.grad(value.sum(), tensors["0.weight"])
    return torch.cat([value.detach(), slope.flatten()])


def test_a_pointwise_loss_is_the_same_in_any_units() -> None:
    x = vectors().double()
    plain = seen_by(losses.nll(), x)
    assert torch.allclose(seen_by(in_units(units_of(x), losses.nll()), x), plain, rtol=1e-9)


def test_a_loss_reads_shares_where_it_looks_at_the_inputs() -> None:
    x = vectors().double()
    seen = []

    def look(forward: Forward, batch: Batch, rng: Rng) -> torch.Tensor:
        seen.append(batch)
        return forward.frozen()(batch.x).sum((1, 2)) + forward(batch.x).sum((1, 2))

    base = losses.nll()
    loss = in_units(units_of(x), replace(base, step=look, description="look"))
    seen_by(loss, x)
    assert torch.allclose(seen[0].x[0], units_of(x).shares(x))
    assert seen[0].low.tolist() == [0, 0, 0]
    assert seen[0].high.tolist() == [1, 1, 0]
    assert loss.description != "look"


def test_a_model_trained_in_units_reads_inputs_as_they_are() -> None:
    x = vectors(100)
    y = (x[:, 1] > 0.005).long()
    base = losses.nll()
    options = {"epochs": 60, "learning_rate": 0.01, "seed": 1, "standardize": True}
    make = lambda: nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 2))  # noqa: E731
    one = train(make, (x, y), loss=replace(base, slope=None), **options)
    two = train(make, (x, y), loss=in_units(units_of(x), base), **options)
    assert torch.allclose(one(x).probs, two(x).probs, atol=0.02)
    assert (two(x).labels == y).double().mean() > 0.9
