"""The far field in an audit, against closed forms and the geometry itself."""

import math

import pytest
import torch
from torch import nn

import nescio
from nescio import geometry
from nescio.evaluation.audit.far_field_section import PARTS, far_away, rays_from
from nescio.models import ensemble, plain


def linear(weight: list[list[float]]) -> nn.Module:
    net = nn.Linear(2, len(weight))
    with torch.no_grad():
        net.weight.copy_(torch.tensor(weight))
        net.bias.zero_()
    return net


@pytest.fixture(scope="module")
def x() -> torch.Tensor:
    return torch.randn(100, 2, generator=torch.Generator().manual_seed(0)) * torch.tensor(
        [2.0, 5.0]
    )


def test_rays_are_in_units_of_the_data(x) -> None:
    rays = rays_from(x, count=30, seed=1)
    center = x.double().mean(0)
    spread = (x.double() - center).square().sum(1).mean().sqrt()
    origin, direction, start = rays["random directions"]
    assert start == 1
    assert torch.allclose(origin, center.expand(30, 2))
    assert torch.allclose(direction.norm(dim=1), spread.expand(30))
    origin, direction, start = rays["test points"]
    assert start == 1
    at_one = origin + direction
    assert all((at_one[i] - x).abs().amax(1).min() < 1e-6 for i in range(30))
    origin, direction, start = rays["single features"]
    assert start == 0
    assert (direction != 0).sum(1).eq(1).all()
    moved = direction.abs().sum(0) / (direction != 0).sum(0)
    assert torch.allclose(moved, x.double().std(0, correction=0))
    again = rays_from(x, count=30, seed=1)["random directions"][1]
    assert torch.equal(again, rays["random directions"][1])


def test_features_that_never_vary_are_left_alone() -> None:
    x = torch.cat([torch.randn(50, 1), torch.ones(50, 2)], 1)
    direction = rays_from(x, count=20, seed=0)["single features"][1]
    assert direction[:, 1:].eq(0).all()
    assert direction[:, 0].ne(0).all()
    assert "single features" not in rays_from(torch.ones(5, 3), count=4, seed=0)


def test_a_linear_network_has_closed_forms(x) -> None:
    """Logits (-z, z), z the first feature: 95 % sure from 2 |z| = log 19 on."""
    net = linear([[-1.0, 0.0], [1.0, 0.0]])
    centered = x - x.mean(0)
    found = far_away(plain(net), rays_from(centered, count=40, seed=0)).rays["random directions"]
    assert found.certain == 1
    assert found.mean_limit_confidence == 1
    assert found.members == {"one": 1.0, "tie": 0.0, "constant": 0.0}
    assert found.radius == (0.0,) * (PARTS + 1)
    direction = rays_from(centered, count=40, seed=0)["random directions"][1][:, 0]
    factor = (math.log(19) / 2 / direction.abs()).clamp_min(1).sort().values
    quantiles = found.factor["0.95"].quantiles
    truth = [factor[round(k / PARTS * 39)].item() for k in range(PARTS + 1)]
    assert quantiles == pytest.approx(truth, rel=1e-6)
    assert found.factor["0.95"].reached == 1


def test_members_that_disagree_are_never_certain(x) -> None:
    """One member says z > 0, the other the opposite: the average is a half everywhere."""
    pair = ensemble([linear([[-1.0, 0.0], [1.0, 0.0]]), linear([[1.0, 0.0], [-1.0, 0.0]])])
    found = far_away(pair, rays_from(x - x.mean(0), count=20, seed=0)).rays["test points"]
    assert found.certain == 0
    assert found.mean_limit_confidence == pytest.approx(0.5)
    assert found.factor["0.95"].reached == 0
    assert found.members["one"] == 1


def test_numbers_are_those_of_the_geometry(x) -> None:
    torch.manual_seed(0)
    net = nescio.nets.mlp(2, 3, widths=(16, 16))
    rays = rays_from(x, count=25, seed=3)
    found = far_away(plain(net), rays).rays
    for name, (origin, direction, start) in rays.items():
        far = geometry.far_field(net, origin, direction)
        first = geometry.first_confident(net, origin, direction, confidence=0.95, start=start)
        assert found[name].certain == pytest.approx((far.confidence == 1).double().mean().item())
        assert found[name].radius[-1] == far.radius.max()
        factor = found[name].factor["0.95"]
        assert factor.reached == pytest.approx(first.factor.isfinite().double().mean().item())
        assert factor.quantiles[0] == pytest.approx(first.factor.min().item())


def test_a_network_that_is_not_piecewise_affine_says_why(x) -> None:
    net = nn.Sequential(nn.Linear(2, 4), nn.GELU(), nn.Linear(4, 2))
    found = far_away(plain(net), rays_from(x, count=5, seed=0))
    assert found.rays is None
    assert "'1' (GELU)" in found.skipped
    assert "GELU" in str(nescio.audit(net, (x, (x[:, 0] > 0).long()), rays=5))


def test_the_audit_has_the_far_field(x) -> None:
    torch.manual_seed(0)
    labels = (x[:, 0] > 0).long()
    audit = nescio.audit(nescio.nets.mlp(2, 2, widths=(8,)), (x, labels), rays=12)
    part = audit.to_json()["predictors"]["network"]["far_field"]["rays"]["random directions"]
    assert part["count"] == 12
    assert "Infinitely far away: single features" in str(audit)
    none = nescio.audit(nescio.nets.mlp(2, 2, widths=(8,)), (x, labels), rays=0)
    assert "far_field" not in none.to_json()["predictors"]["network"]
    with pytest.raises(nescio.NescioError, match="rays must be a whole number"):
        nescio.audit(nescio.nets.mlp(2, 2), (x, labels), rays=-1)
