"""Lipschitz constants: against brute force over activation patterns, whole matrices and samples."""

from itertools import product

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from nescio import models, nets
from nescio.core import NescioError
from nescio.geometry import (
    local_lipschitz,
    plane_lipschitz,
    product_bound,
    ray,
    sampled_lipschitz,
    segment_lipschitz,
)
from nescio.geometry.tracing.operator_norms import convolution_norm
from nescio.geometry.tracing.slopes import STEEPEST

ORDERS = {"l2": 2.0, "linf": torch.inf, "l1": 1.0}


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def seeded(make, seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return make().double().eval()


def lenet_like():
    return seeded(
        lambda: nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(4, 5, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(5, 3),
        )
    )  # fmt: skip


NETWORKS = {
    "perceptron": (lambda: seeded(lambda: nets.mlp(4, 3, widths=(9, 7))), (4,)),
    "leaky": (lambda: seeded(lambda: nets.mlp(4, 3, widths=(9,), activation="leaky_relu")), (4,)),
    "convolutions": (lenet_like, (1, 8, 8)),
    "residual": (lambda: seeded(lambda: nets.resnet((3, 8, 8), 4, blocks=1, width=4)), (3, 8, 8)),
    "standardized": (
        lambda: nets.standardized(seeded(lambda: nets.mlp(4, 3)), draw(50, 4) * 3).double().eval(),
        (4,),
    ),
}


def jacobian(net, x):
    return torch.stack(
        [torch.autograd.functional.jacobian(lambda z: net(z[None])[0], p) for p in x]
    )


@pytest.mark.parametrize("norm", ORDERS)
@pytest.mark.parametrize("name", NETWORKS)
def test_local_constants_are_the_norms_of_jacobians_and_within_the_product_bound(name, norm):
    make, shape = NETWORKS[name]
    net, x = make(), draw(6, *shape, seed=1)
    found = local_lipschitz(net, x, norm=norm)
    brute = torch.linalg.matrix_norm(jacobian(net, x).flatten(2), ORDERS[norm])
    assert torch.allclose(found, brute, rtol=1e-9, atol=0)
    bound = product_bound(net, x, norm=norm)
    lower = sampled_lipschitz(net, x, norm=norm, draws=40)
    assert found.max() <= bound.bound
    assert 0 < float(lower) <= float(bound)


def weights(net):
    layers = [layer for layer in net if isinstance(layer, nn.Linear)]
    return [(layer.weight.detach(), layer.bias.detach()) for layer in layers]


def test_over_a_box_the_constant_is_the_largest_over_all_activation_patterns_that_occur():
    """All 2^n patterns of a small network; one occurs if a fine grid of the box meets it."""
    net = seeded(lambda: nets.mlp(2, 3, widths=(4, 3)), 3)
    (w1, b1), (w2, b2), (w3, _) = weights(net)
    side = torch.linspace(-2, 2, 301, dtype=torch.float64)
    grid = torch.cartesian_prod(side, side)
    first = grid @ w1.T + b1 > 0
    second = ((grid @ w1.T + b1).relu() @ w2.T + b2) > 0
    met = set(map(tuple, torch.cat([first, second], 1).int().tolist()))
    for norm, order in ORDERS.items():
        found = plane_lipschitz(net, [(-2, 2), (-2, 2)], norm=norm)
        brute = [
            torch.linalg.matrix_norm(
                w3 @ torch.diag(torch.tensor(p[4:]).double()) @ w2
                @ torch.diag(torch.tensor(p[:4]).double()) @ w1,
                order,
            )
            for p in product((0, 1), repeat=7)
            if p in met
        ]  # fmt: skip
        assert found.largest == pytest.approx(float(max(brute)), rel=1e-9)
        assert found.largest <= float(product_bound(net, grid[:1], norm=norm))


def test_on_a_plane_through_inputs_it_is_the_constant_of_moves_within_the_plane():
    net, plane = lenet_like(), draw(3, 1, 8, 8, seed=4)
    found = plane_lipschitz(net, [(-3, 3), (-3, 3)], plane=plane)
    points = found.regions.inputs(torch.rand(4000, 2).double() * 6 - 3)
    basis = found.regions.plane[1].flatten(1)
    within = torch.linalg.matrix_norm(jacobian(net, points[:300]).flatten(2) @ basis.T, 2)
    where = found.regions.locate(found.regions.coordinates(points[:300]))
    assert torch.allclose(found.constants[where], within, rtol=1e-9)
    with pytest.raises(NescioError, match="on a plane through inputs the norm is"):
        plane_lipschitz(net, plane=plane, norm="l1")


@pytest.mark.parametrize("norm", ORDERS)
def test_on_a_segment_every_region_counts(norm):
    net, x, to = lenet_like(), draw(3, 1, 8, 8, seed=5), draw(3, 1, 8, 8, seed=6)
    found = segment_lipschitz(net, x, to, norm=norm)
    shares = torch.linspace(0, 1, 301, dtype=torch.float64)
    for i in range(3):
        points = x[i] + shares[:, None, None, None] * (to[i] - x[i])
        dense = local_lipschitz(net, points, norm=norm)
        assert found.largest[i] >= dense.max() * (1 - 1e-12)
        starts = torch.cat(
            [ray(net, x[i : i + 1], (to - x)[i : i + 1], stop=1.0).starts, torch.ones(1)]
        )
        middles = x[i] + ((starts[1:] + starts[:-1]) / 2)[:, None, None, None] * (to[i] - x[i])
        assert found.regions[i] == len(middles)
        assert found.largest[i] == pytest.approx(
            float(local_lipschitz(net, middles, norm=norm).max()), rel=1e-12
        )
        way = (to[i] - x[i]).flatten()
        speed = torch.linalg.vector_norm(
            jacobian(net, middles).flatten(2) @ way, ORDERS[norm], dim=-1
        )
        speed = speed.max() / torch.linalg.vector_norm(way, ORDERS[norm])
        assert found.along[i] == pytest.approx(float(speed), rel=1e-9)
        best = x[i] + found.at[i] * (to[i] - x[i])
        assert local_lipschitz(net, best[None], norm=norm)[0] == pytest.approx(found.largest[i])
    assert (found.along <= found.largest * (1 + 1e-12)).all()


def test_members_have_an_axis_of_their_own():
    both = [seeded(lambda: nets.mlp(4, 3), seed) for seed in (0, 1)]
    model, x = models.ensemble(both), draw(5, 4)
    found = local_lipschitz(model, x)
    assert found.shape == (2, 5)
    assert torch.allclose(found[1], local_lipschitz(both[1], x), rtol=1e-6)
    assert product_bound(model, x).bound.shape == sampled_lipschitz(model, x, draws=5).bound.shape
    assert segment_lipschitz(model, x[:1], x[1:2]).largest.shape == (2, 1)
    assert len(plane_lipschitz(models.ensemble([nets.mlp(2, 2)] * 2), [(-1, 1)] * 2)) == 2


def matrix(function, shape):
    unit = torch.eye(torch.Size(shape).numel(), dtype=torch.float64).reshape(-1, *shape)
    return function(unit).flatten(1).T


CONVOLUTIONS = {
    "plain": {},
    "padded": {"padding": 2},
    "strided": {"stride": 2, "padding": 1},
    "wide stride": {"stride": (3, 2), "padding": 1},
    "dilated": {"dilation": 2, "padding": 2},
    "grouped": {"groups": 2, "padding": 1},
    "stride past the kernel": {"stride": 4},
}


@pytest.mark.parametrize("options", CONVOLUTIONS.values(), ids=CONVOLUTIONS)
def test_a_convolution_is_bounded_closely_and_never_below(options):
    layer = seeded(lambda: nn.Conv2d(4, 6, 3, bias=False, **options), 2)
    for size in ((7, 6), (13, 12)):
        exact = torch.linalg.matrix_norm(matrix(layer, (4, *size)).detach(), 2)
        bound = product_bound(nn.Sequential(layer, nn.Flatten()), torch.zeros(1, 4, *size)).bound
        assert exact <= bound <= 1.35 * exact


def test_transposed_and_one_dimensional_convolutions_are_bounded_too():
    back = seeded(lambda: nn.ConvTranspose2d(3, 4, 3, stride=2, padding=1, output_padding=1), 1)
    line = seeded(lambda: nn.Conv1d(3, 5, 4, stride=2, padding=1), 1)
    for layer, shape in ((back, (3, 6, 5)), (line, (3, 17))):
        exact = torch.linalg.matrix_norm(
            matrix(lambda z, f=layer: f(z) - f(torch.zeros_like(z)), shape).detach(), 2
        )
        bound = product_bound(nn.Sequential(layer, nn.Flatten()), torch.zeros(1, *shape)).bound
        assert exact <= bound <= 1.35 * exact


def test_around_a_torus_the_bound_is_the_norm_itself():
    weight = draw(5, 3, 3, 3)
    circular = matrix(
        lambda z: F.conv2d(F.pad(z, (1, 1, 1, 1), mode="circular"), weight), (3, 8, 8)
    )
    bound = convolution_norm(
        weight, (4, 4), stride=(1, 1), dilation=(1, 1)
    )  # 8 frequencies each way
    assert bound == pytest.approx(float(torch.linalg.matrix_norm(circular, 2)), rel=1e-9)


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 4)

    def forward(self, x):
        hidden = torch.relu(self.a(x))
        joined = torch.cat([hidden[:, :3] - x[:, :3], self.b(x), x[:, 2:], hidden], 1)
        return F.max_pool1d(joined[:, None], 3, 2)[:, 0] + joined[:, :8].clamp(-1, 1)[:, :8]


@pytest.mark.parametrize("norm", ORDERS)
def test_sums_branches_and_overlapping_windows_are_bounded(norm):
    net, x = seeded(Branches), draw(60, 6, seed=3)
    net = nn.Sequential(net, nn.Linear(8, 3)).double()
    assert local_lipschitz(net, x, norm=norm).max() <= product_bound(net, x, norm=norm).bound


def test_windows_that_do_not_overlap_cost_nothing_and_overlapping_ones_their_overlap():
    apart = nn.Sequential(nn.MaxPool2d(2), nn.Flatten())
    over = nn.Sequential(nn.MaxPool2d(3, 1), nn.Flatten())
    mean = nn.Sequential(nn.AvgPool2d(2), nn.Flatten())
    x = torch.zeros(1, 2, 8, 8)
    assert float(product_bound(apart, x)) == 1.0
    assert float(product_bound(over, x)) == 3.0
    assert float(product_bound(over, x, norm="linf")) == 1.0
    assert float(product_bound(mean, x)) == pytest.approx(0.5)


def test_the_factors_of_the_layers_are_named():
    net = seeded(lambda: nets.mlp(4, 3, widths=(9,)))
    bound = product_bound(net, draw(1, 4))
    norms = [float(torch.linalg.matrix_norm(w, 2)) for w, _ in weights(net)]
    assert [name for name, _ in bound.layers] == ["0", "2"]
    assert [factor for _, factor in bound.layers] == pytest.approx(norms)
    assert float(bound) == pytest.approx(norms[0] * norms[1])


def test_a_head_of_one_logit_and_a_temperature_count():
    net, x = seeded(lambda: nets.mlp(4, 1)), draw(6, 4)
    binary = models.plain(net, head="binary")
    assert torch.allclose(local_lipschitz(binary, x)[0], local_lipschitz(net, x), rtol=1e-6)
    assert product_bound(binary, x).bound[0] == pytest.approx(
        float(product_bound(net, x)), rel=1e-6
    )


@pytest.mark.parametrize(
    "activation", [nn.Tanh(), nn.GELU(), nn.SiLU(), nn.ELU(2.0), nn.Softplus()]
)
def test_smooth_networks_have_bounds_but_no_linear_regions(activation):
    net = seeded(lambda: nn.Sequential(nn.Linear(4, 20), activation, nn.Linear(20, 3)))
    x = draw(20, 4)
    exact = torch.linalg.matrix_norm(jacobian(net, x), 2).max()
    assert exact <= product_bound(net, x).bound
    assert float(sampled_lipschitz(net, x)) <= float(product_bound(net, x))
    with pytest.raises(NescioError, match="is not piecewise affine"):
        local_lipschitz(net, x)


@pytest.mark.parametrize(
    "name", [n for n in STEEPEST if not n.endswith("_") and n != "log_sigmoid"]
)
def test_the_largest_slopes_are_those_of_the_functions(name):
    function = getattr(F, name, None) or getattr(torch, name)
    x = torch.linspace(-20, 20, 400_001, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(function(x).sum(), x)
    assert slope.abs().max() <= STEEPEST[name] <= slope.abs().max() * 1.001


def test_a_sampled_bound_reaches_the_constant_of_a_linear_network():
    net, x = nn.Linear(5, 3).double(), draw(10, 5)
    for norm, order in ORDERS.items():
        exact = float(torch.linalg.matrix_norm(net.weight.detach(), order))
        assert float(sampled_lipschitz(net, x, norm=norm, draws=3)) == pytest.approx(
            exact, rel=1e-8
        )
        assert float(product_bound(net, x, norm=norm)) == pytest.approx(exact, rel=1e-8)


def test_wrong_arguments_are_refused():
    net, x = nets.mlp(4, 3), draw(3, 4)
    with pytest.raises(NescioError, match="unknown norm 'l3'"):
        local_lipschitz(net, x, norm="l3")
    with pytest.raises(NescioError, match="two different inputs"):
        segment_lipschitz(net, x, x)
    with pytest.raises(NescioError, match="draws must be a whole number"):
        sampled_lipschitz(net, x, draws=0)
    with pytest.raises(NescioError, match="do not pass"):
        product_bound(net, draw(3, 5))


class InPlace(nn.Module):
    """Changes a view of a tensor that is used afterwards: tracing does not see it."""

    def __init__(self, activation):
        super().__init__()
        self.activation = activation

    def forward(self, x):
        found = self.activation(x) * 1.0
        found[:, :2].mul_(100.0)
        return found


@pytest.mark.parametrize("activation", [torch.relu, torch.tanh, F.elu])
def test_no_bound_for_a_network_that_is_not_what_was_traced(activation):
    with pytest.raises(NescioError, match="do not give its own outputs"):
        product_bound(InPlace(activation), draw(1, 4))


def test_smooth_layers_pass_the_check_with_their_options():
    layers = [nn.GELU("tanh"), nn.Softplus(3.0), nn.ELU(2.0), nn.CELU(0.5), nn.SiLU(inplace=True)]
    net = seeded(lambda: nn.Sequential(nn.Linear(4, 4), *layers))
    assert float(product_bound(net, draw(1, 4))) >= float(sampled_lipschitz(net, draw(5, 4)))


def test_a_network_that_does_not_run_is_refused_in_words():
    with pytest.raises(NescioError, match=r"inputs of shape \(5,\)"):
        sampled_lipschitz(nn.Linear(4, 3), draw(2, 5))
    broken = nn.Sequential(nn.Tanh(), InPlace(nn.Identity()))
    broken[1].forward = lambda x: x[:, :2].mul_(3.0)
    with pytest.raises(NescioError, match="no gradients"):
        sampled_lipschitz(broken, draw(2, 4))
