"""Raw outputs far away, against the network itself beyond the last breakpoint."""

import torch
from torch import nn

import nescio
from nescio.geometry import far_field, far_outputs


def make(outputs, seed=0):
    torch.manual_seed(seed)
    layers = nn.Linear(3, 20), nn.ReLU(), nn.Linear(20, 20), nn.ReLU(), nn.Linear(20, outputs)
    return nn.Sequential(*layers).double()


def test_outputs_of_every_member_are_affine_beyond_the_radius():
    model = nescio.models.ensemble([make(2, seed) for seed in range(3)], head="gaussian")
    rng = torch.Generator().manual_seed(0)
    origin, way = (torch.randn(30, 3, generator=rng, dtype=torch.float64) for _ in range(2))
    found = far_outputs(model, origin, way)
    assert found.slope.shape == found.intercept.shape == (3, 30, 2)
    for factor in (1.0001, 7.0):
        for member in range(3):
            t = factor * found.radius[member] + factor
            there = make(2, member)(origin + t[:, None] * way)
            ours = found.slope[member] * t[:, None] + found.intercept[member]
            torch.testing.assert_close(ours, there, rtol=1e-9, atol=1e-9)
    assert (found.sign == found.slope.sign()).all()
    assert not found.undecided.any()


def test_a_single_output_has_no_classes_and_is_followed_all_the_same():
    net = make(1)
    x = torch.randn(5, 3, dtype=torch.float64)
    found = far_outputs(nescio.models.plain(net, head="fixed_variance"), 0 * x, x)
    torch.testing.assert_close(found.slope[0] * 1e6 + found.intercept[0], net(1e6 * x))


def test_it_agrees_with_the_far_field_of_classes():
    net, x = make(4), torch.randn(20, 3, dtype=torch.float64)
    ours, theirs = far_outputs(net, x, 2 * x), far_field(net, x, 2 * x)
    assert torch.equal(ours.slope[0], theirs.slope)
    assert torch.equal(ours.intercept[0], theirs.intercept)
    assert torch.equal(ours.radius[0], theirs.radius)


def test_a_slope_within_its_rounding_has_no_sign():
    net = make(2)
    with torch.no_grad():
        net[4].weight[1] = 0  # exactly 0
    x = torch.randn(8, 3, dtype=torch.float64)
    found = far_outputs(net, 0 * x, x)
    assert (found.sign[..., 1] == 0).all()
    with torch.no_grad():
        net[4].weight[1] = 1e-25 * net[4].weight[0]
    within = far_outputs(net, 0 * x, x)
    assert within.sign[..., 1].isnan().any()
