"""The precision of Dirichlet networks far away, against the networks themselves."""

import math
from copy import deepcopy

import pytest
import torch
from torch import nn

import nescio
from nescio import geometry, heads, nets, recipes
from nescio.core import NescioError
from nescio.models import networks


def trained():
    rng, y = torch.Generator().manual_seed(0), torch.arange(150) % 3
    middle = torch.tensor([[0.0, 2.0], [-1.7, -1.0], [1.7, -1.0]])
    x = middle[y] + 0.5 * torch.randn(150, 2, generator=rng)
    loss = recipes.dirichlet().loss
    make = lambda: nets.mlp(2, 3, widths=(30, 30))  # noqa: E731
    return nescio.train(make, (x, y), loss=loss, members=2, epochs=15, seed=0, progress=False)


def rays(count=50):
    angle = 2 * math.pi * torch.arange(count, dtype=torch.float64) / count
    return torch.zeros(count, 2).double(), torch.stack([angle.cos(), angle.sin()], 1)


def test_the_log_precision_is_that_of_the_network_at_large_factors():
    model, (origin, way) = trained(), rays()
    ended = (geometry.far_precision(model, origin, way).outputs.radius < 1e3).all(0)
    assert ended.float().mean() > 0.7
    origin, way = origin[ended], way[ended]
    far = geometry.far_precision(model, origin, way)
    exact = [deepcopy(member.net).double() for member in networks(model)]
    for t in (1e3, 1e6):
        truth = torch.stack([net(t * way).logsumexp(-1) for net in exact])
        torch.testing.assert_close(far.log_precision(t), truth, rtol=1e-10, atol=0)
    rise = (far.log_precision(2e9) - far.log_precision(1e9)) / 1e9
    torch.testing.assert_close(rise, far.slope, rtol=1e-6, atol=1e-12)


def test_the_precision_of_a_trained_network_grows_along_most_rays():
    far = geometry.far_precision(trained(), *rays(200))
    assert far.growing > 0.9
    assert ((far.slope > 0) == torch.from_numpy(far.kind == "grows")).all()
    assert (far.limit == math.inf)[torch.from_numpy(far.kind == "grows")].all()


LINES = torch.tensor([[3.0, -1.0], [0.0, -2.0], [-1.0, -1.0], [0.0, 0.0]])


def lines(bias):
    """A network whose outputs along the first axis are LINES[i] * t + bias for four rays."""
    net = nn.Linear(4, 2)
    net.weight.data, net.bias.data = LINES.T.clone(), torch.tensor(bias)
    return net


@pytest.mark.parametrize(
    ("head", "kinds", "limits"),
    [
        (
            heads.dirichlet(),
            ["grows", "constant", "falls", "constant"],
            [math.inf, 0.5, -math.inf, math.log(math.exp(0.5) + math.exp(-0.3))],
        ),
        (
            heads.dirichlet(activation="exp", floor=1.0),
            ["grows", "constant", "constant", "constant"],
            [math.inf, math.log(math.exp(0.5) + 2), math.log(2),
             math.log(math.exp(0.5) + math.exp(-0.3) + 2)],
        ),
        (
            heads.dirichlet(activation="softplus"),
            ["grows", "constant", "constant", "constant"],
            [math.inf, math.log(math.log1p(math.exp(0.5)) + 2), math.log(2),
             math.log(math.log1p(math.exp(0.5)) + math.log1p(math.exp(-0.3)) + 2)],
        ),
    ],
)  # fmt: skip
def test_kinds_and_limits_by_hand(head, kinds, limits):
    net = lines([0.5, -0.3])
    far = geometry.far_precision(net, torch.zeros(4, 4), torch.eye(4), head=head)
    assert far.kind[0].tolist() == kinds
    assert far.limit[0].tolist() == pytest.approx(limits, rel=1e-6)
    at = head(net.double()(1e6 * torch.eye(4, dtype=torch.float64))[None]).log_precision
    torch.testing.assert_close(far.log_precision(1e6)[0], at, rtol=1e-10, atol=0)
    assert far.growing == 0.25


def test_bad_sources_are_refused():
    with pytest.raises(NescioError, match="categorical head gives none; .*head='dirichlet'"):
        geometry.far_precision(nn.Linear(2, 3), *rays(3))
    far = geometry.far_precision(nets.mlp(2, 3), *rays(3), head="dirichlet")
    with pytest.raises(NescioError, match="below the radius"):
        far.log_precision(torch.zeros(3) - 1)
    evidence = nescio.models.plain(nets.mlp(2, 3), head="dirichlet,activation=softplus")
    with pytest.raises(NescioError, match=r"geometry\.far_precision"):
        geometry.far_field(evidence, *rays(3))


def test_the_mean_of_a_prior_network_is_a_softmax_and_its_measures_are_not_those_of_one():
    net, (origin, way) = nets.mlp(2, 3), rays(20)
    model = nescio.models.plain(net, head="dirichlet")
    mean, plain = (geometry.far_field(one, origin, way) for one in (model, net))
    assert torch.equal(mean.limit[0], plain.limit)
    for call in (lambda: geometry.limits(model, origin, way), lambda: geometry.limit_map(model)):
        with pytest.raises(NescioError, match="answers with a Dirichlet"):
            call()


def test_it_is_shown_in_one_line():
    far = geometry.far_precision(trained(), *rays(20))
    assert repr(far).startswith("FarPrecision(2 member(s), 20 rays: the precision grows on ")
