"""How the deviation grows far away, against networks whose slopes are known and far points."""

import pytest
import torch
from torch import nn

import nescio
from nescio.evaluation.audit.far_field_section import rays_from
from nescio.evaluation.regression.far_spread import far_spreads

X = torch.randn(50, 2, generator=torch.Generator().manual_seed(0))
RAYS = rays_from(X, count=60, seed=0)


def linear(rows):
    """A linear network with these weights, one row per output."""
    net = nn.Linear(2, len(rows)).double()
    with torch.no_grad():
        net.weight.copy_(torch.tensor(rows, dtype=torch.float64))
        net.bias.fill_(0.3)
    return net


def found_for(nets, head):
    model = nescio.models.ensemble(nets, head=head) if len(nets) > 1 else nescio.models.plain(
        nets[0], head=head
    )  # fmt: skip
    return far_spreads(model, RAYS).rays["random directions"]


def test_the_variance_of_a_gaussian_head_grows_or_falls_by_the_sign_of_its_slope():
    found = found_for([linear([[1.0, 2.0], [1.0, 0.0]])], "gaussian")
    up = (RAYS["random directions"][1][:, 0] > 0).double().mean().item()
    assert found.root == pytest.approx(up)
    assert found.shrinks == pytest.approx(1 - up)
    assert found.outrun == 1
    assert (found.bounded, found.linear, found.undecided) == (0, 0, 0)


def test_the_deviation_of_a_laplace_head_grows_like_the_mean():
    found = found_for([linear([[3.0, 0.0], [1.0, 0.0]])], "double_exponential")
    assert found.linear + found.shrinks == pytest.approx(1)
    assert found.deviations == pytest.approx(3 / 2**0.5)
    assert found.outrun == pytest.approx(found.shrinks)


def test_a_fixed_variance_is_outrun():
    found = found_for([linear([[1.0, 2.0]])], "fixed_variance")
    assert (found.bounded, found.outrun) == (1, 1)


def test_members_that_disagree_keep_up_with_their_mean():
    nets = [linear([[1.0, 0.0], [1.0, 0.0]]), linear([[3.0, 0.0], [-1.0, 0.0]])]
    found = found_for(nets, "gaussian")
    assert (found.linear, found.outrun) == (1, 0)
    assert found.deviations == pytest.approx(2.0)  # slopes 1 and 3: mean 2, deviation 1


def test_members_that_agree_do_not():
    found = found_for([linear([[1.0, 0.0], [1.0, 0.0]])] * 2, "gaussian")
    assert found.linear == 0
    assert found.outrun == 1


def test_the_evidence_decides_the_growth_of_an_evidential_head():
    rows = [[1.0, 0.0], [0.0, 0.0], [0.0, 1.0], [1.0, 0.0]]  # mean, nu, alpha - 1, beta
    found = found_for([linear(rows)], "normal_inverse_gamma")
    way = RAYS["random directions"][1]
    alpha, beta = way[:, 1] > 0, way[:, 0] > 0
    assert found.root == pytest.approx((beta & ~alpha).double().mean().item())
    assert found.shrinks == pytest.approx((alpha & ~beta).double().mean().item())


@pytest.mark.parametrize("head", ["gaussian", "double_exponential"])
def test_far_points_grow_as_computed(head):
    torch.manual_seed(3)
    nets = [nn.Sequential(nn.Linear(2, 30), nn.ReLU(), nn.Linear(30, 2)).double() for _ in range(2)]
    for count in (1, 2):
        model = nescio.models.ensemble(nets[:count], head=head)
        origin, way, _ = RAYS["random directions"]
        near, far = (model(origin + t * way).mixture_variance.sqrt()[:, 0] for t in (1e8, 1e10))
        grown = torch.log10(far / near) / 2  # the exponent of t
        found = far_spreads(model, RAYS).rays["random directions"]
        for exponent, share in ((0.5, found.root), (1.0, found.linear)):
            assert ((grown - exponent).abs() < 0.1).double().mean().item() == pytest.approx(share)
        flat = (grown.abs() < 0.1).double().mean().item()
        assert flat == pytest.approx(found.shrinks + found.bounded)


def test_targets_that_were_standardized_are_followed_in_their_own_unit():
    y = 1000 * X[:, :1] * X[:, 1:] + 5000
    options = {"loss": nescio.losses.nll(nescio.heads.gaussian()), "epochs": 2, "progress": False}
    model = nescio.train(
        lambda: nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2)),
        (X, y),
        members=2,
        standardize_targets=True,
        **options,
    )
    found = far_spreads(model, RAYS).rays["random directions"]
    origin, way, _ = RAYS["random directions"]
    far = model((origin + 1e8 * way).float()).to(torch.float64)
    away = (far.mixture_mean - 5000).abs() / far.mixture_variance.sqrt()
    assert found.linear == 1
    assert found.deviations == pytest.approx(away.median().item(), rel=1e-2)


def test_a_network_that_is_no_relu_network_says_why():
    net = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 2))
    model = nescio.models.plain(net, head="gaussian")
    assert "cannot be analyzed" in far_spreads(model, RAYS).skipped
