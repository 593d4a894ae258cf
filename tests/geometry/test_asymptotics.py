"""The far field against the network itself, closed forms and hand-made degenerate networks."""

import math
import sys

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import nescio
from nescio.core import NescioError
from nescio.geometry import along_axis, far_field, through_origin


def linear(V, a):
    net = nn.Linear(len(V[0]), len(V)).double()
    with torch.no_grad():
        net.weight.copy_(torch.tensor(V, dtype=torch.float64))
        net.bias.copy_(torch.tensor(a, dtype=torch.float64))
    return net


def mlp(seed=0, inputs=4, outputs=3, widths=(20, 20)):
    torch.manual_seed(seed)
    return nescio.nets.mlp(inputs, outputs, widths=widths)


def test_one_class_wins_where_its_slope_is_largest():
    net = linear([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]], [5.0, 0.0, 9.0])
    far = far_field(net, torch.zeros(2, 2), torch.tensor([[2.0, 1.0], [0.0, 1.0]]))
    assert far.kind.tolist() == ["one", "one"]
    assert far.limit.tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    assert far.slope.tolist() == [[2.0, 1.0, 1.5], [0.0, 1.0, 0.5]]
    assert far.intercept.tolist() == [[5.0, 0.0, 9.0]] * 2
    assert far.radius.tolist() == [0.0, 0.0]


def test_equal_slopes_are_a_tie_whose_limit_the_intercepts_decide():
    net = linear([[1.0, 1.0], [1.0, -1.0]], [0.0, 0.0])
    far = far_field(net, *along_axis([[1.0, 0.3]], 0))
    assert far.kind.tolist() == ["tie"]
    p = 1 / (1 + math.exp(-0.6))
    assert far.limit[0].tolist() == pytest.approx([p, 1 - p], abs=1e-15)
    assert p == pytest.approx(0.6457, abs=5e-5)


def test_a_dead_network_is_constant():
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2)).double()
    with torch.no_grad():
        net[0].weight.fill_(-1.0)
        net[0].bias.copy_(torch.tensor([1.0, 2.0, 5.0]))
        net[2].bias.copy_(torch.tensor([0.0, math.log(3.0)], dtype=torch.float64))
    far = far_field(net, torch.zeros(1, 2), torch.ones(1, 2))
    assert far.kind.tolist() == ["constant"]
    assert far.limit[0].tolist() == pytest.approx([0.25, 0.75], abs=1e-15)
    assert far.radius.tolist() == [2.5]  # the last unit dies at 2 t = 5


def test_a_unit_that_the_ray_runs_along_keeps_its_side():
    """Slope exactly 0: the intercept decides, and the unit has no breakpoint."""
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2, bias=False)).double()
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[1.0, -1.0], [-1.0, 1.0]]))
        net[0].bias.copy_(torch.tensor([0.5, -0.5]))
        net[2].weight.copy_(torch.eye(2))
    far = far_field(net, torch.zeros(1, 2), torch.ones(1, 2))
    assert far.intercept.tolist() == [[0.5, 0.0]]
    assert far.radius.tolist() == [0.0]
    assert far.kind.tolist() == ["constant"]


def test_a_sign_within_rounding_is_reported_not_guessed():
    """0.1 + 0.2 - 0.3 is 5.6e-17 in floats and 2.8e-17 in the numbers those floats are."""
    net = nn.Sequential(nn.Linear(3, 1, bias=False), nn.ReLU(), nn.Linear(1, 2)).double()
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[0.1, 0.2, -0.3]], dtype=torch.float64))
    far = far_field(net, torch.zeros(1, 3), torch.ones(1, 3))
    assert far.kind.tolist() == ["undecided"]


def test_a_slope_that_only_rounds_to_zero_is_undecided():
    """0.1 + 0.7 - 0.8 is 0 in floats; the floats 0.1 and 0.7 sum to 2^-55 more than 0.1 + 0.7."""
    weights = torch.tensor([[0.1, 0.7, -(0.1 + 0.7)], [1.0, -1.0, 0.0]], dtype=torch.float64)
    net = nn.Sequential(nn.Linear(3, 2, bias=False), nn.ReLU(), nn.Linear(2, 2)).double()
    with torch.no_grad():
        net[0].weight.copy_(weights)
    assert far_field(net, torch.zeros(1, 3), torch.ones(1, 3)).kind.tolist() == ["undecided"]
    with torch.no_grad():
        net[0].weight[0] = torch.tensor([1.0, 2.0, -3.0])  # a true 0
    assert far_field(net, torch.zeros(1, 3), torch.ones(1, 3)).kind.tolist() == ["constant"]


def test_two_fastest_logits_within_rounding_are_undecided():
    net = linear([[0.1, 0.2], [0.3, 0.0], [0.0, 0.1]], [0.0, 0.0, 0.0])
    far = far_field(net, torch.zeros(1, 2), torch.ones(1, 2))
    assert far.kind.tolist() == ["undecided"]


def test_zero_direction_gives_the_answer_at_the_origin():
    net = mlp().double()
    x = torch.randn(5, 4, dtype=torch.float64)
    far = far_field(net, x, torch.zeros(5, 4))
    assert set(far.kind) == {"constant"}
    assert torch.allclose(far.limit, net(x).softmax(1), atol=1e-14)
    assert far.radius.eq(0).all()


def test_the_limit_is_what_the_network_says_very_far_away():
    net = mlp(3).double()
    d = torch.randn(50, 4, dtype=torch.float64)
    far = far_field(net, torch.zeros(1, 4), d)
    seen = net(d * (1e6 + far.radius[:, None])).softmax(1)
    assert torch.allclose(far.limit, seen, atol=1e-9)
    assert torch.allclose(far.confidence, seen.amax(1), atol=1e-9)


def test_the_last_piece_is_the_gradient_far_away():
    net = mlp(4).double()
    o, d = torch.randn(2, 20, 4, dtype=torch.float64)
    far = far_field(net, o, d, last_region=True)
    x = (o + 2 * (far.radius[:, None] + 1) * d).requires_grad_()
    rows = [torch.autograd.grad(net(x)[:, c].sum(), x)[0] for c in range(3)]
    assert torch.allclose(far.last_region.V, torch.stack(rows, 1), atol=1e-12)
    assert torch.allclose(
        torch.einsum("ncd,nd->nc", far.last_region.V, x) + far.last_region.a, net(x)
    )


def test_the_assumptions_of_the_papers():
    V = torch.tensor([[[1.0, 0.0], [1.0, 2.0], [0.5, 1.0]]])
    net = linear(V[0].tolist(), [0.0, 0.0, 0.0])
    along = [
        far_field(net, *along_axis(torch.ones(1, 2), d), last_region=True).last_region
        for d in (0, 1)
    ]
    assert all(piece.zero_entries.all() for piece in along)
    assert [piece.duplicate_slopes.item() for piece in along] == [True, False]
    assert [piece.tied_top.item() for piece in along] == [True, False]
    back = far_field(net, *along_axis(-torch.ones(1, 2), 0), last_region=True).last_region
    assert back.duplicate_slopes.item()
    assert not back.tied_top.item()


def test_members_are_analysed_one_by_one():
    nets = [mlp(seed) for seed in range(3)]
    model = nescio.models.ensemble(nets)
    d = torch.randn(7, 4)
    far = far_field(model, *through_origin(d), last_region=True)
    assert far.slope.shape == (3, 7, 3)
    assert far.kind.shape == (3, 7)
    assert far.last_region.V.shape == (3, 7, 3, 4)
    for member, net in enumerate(nets):
        own = far_field(net, *through_origin(d))
        assert torch.equal(far.slope[member], own.slope)
        assert torch.equal(far.radius[member], own.radius)


def test_each_dropout_mask_is_a_network():
    torch.manual_seed(0)
    net = nescio.nets.mlp(4, 3, widths=(20, 20), dropout=0.5).double()
    predictor = nescio.models.mc_dropout(net, passes=5, seed=1)
    d = torch.randn(6, 4, dtype=torch.float64)
    far = far_field(predictor, *through_origin(d))
    assert far.slope.shape == (5, 6, 3)
    t = 2 * far.radius.amax() + 1
    assert torch.allclose(far.logits(t), predictor.outputs(t * d), rtol=1e-6)


def test_scaled_predictors_scale_the_far_field():
    net = mlp(5)
    scaled = nescio.calibration.scaled(nescio.models.plain(net), 0.5, (0.0, 1.0, 0.0))
    d = torch.randn(6, 4)
    far, plain = far_field(scaled, *through_origin(d)), far_field(net, *through_origin(d))
    assert torch.allclose(far.slope[0], 0.5 * plain.slope)
    assert torch.allclose(far.intercept[0], 0.5 * plain.intercept + torch.tensor([0.0, 1.0, 0.0]))


def test_the_exact_mode_decides_what_rounding_leaves_open():
    net = linear([[0.1, 0.2], [0.3, 0.0], [0.0, 0.1]], [0.0, 0.0, 0.0])
    far = far_field(net, torch.zeros(1, 2), torch.ones(1, 2), exact=True)
    assert far.kind.tolist() == ["one"]
    assert far.limit.tolist() == [[1.0, 0.0, 0.0]]  # 0.1 + 0.2 is more than 0.3, as floats


def test_blocks_do_not_change_the_result(monkeypatch):
    net = mlp(6)
    d = torch.randn(40, 4)
    whole = far_field(net, *through_origin(d), last_region=True)
    monkeypatch.setattr(sys.modules["nescio.geometry.rays.far_field"], "BYTES", 16 * 20 * 7)
    parts = far_field(net, *through_origin(d), last_region=True)
    assert torch.allclose(whole.slope, parts.slope, rtol=1e-14, atol=0)
    assert torch.allclose(whole.radius, parts.radius, rtol=1e-12)
    assert torch.allclose(whole.last_region.V, parts.last_region.V, rtol=1e-12, atol=1e-15)
    assert np.array_equal(whole.kind, parts.kind)


def test_images_keep_their_shape():
    torch.manual_seed(0)
    net = nescio.nets.digit_cnn()
    x = torch.rand(3, 1, 8, 8)
    far = far_field(net, *along_axis(x, 17))
    assert far.slope.shape == (3, 10)
    with pytest.raises(NescioError, match="feature 64 of inputs with 64"):
        along_axis(x, 64)


@pytest.mark.parametrize(
    ("origin", "direction", "message"),
    [
        (torch.zeros(2, 4), torch.ones(3, 4), "do not fit"),
        (torch.zeros(2, 4), torch.ones(2, 5), "do not fit"),
        (torch.zeros(2, 4), torch.full((2, 4), torch.nan), "NaN"),
        (torch.zeros(0, 4), torch.ones(0, 4), "must have shape"),
        (torch.zeros(2, 5), torch.ones(2, 5), r"layer '0' \(Linear\): inputs of shape \(5,\)"),
        (torch.zeros(2, 4, dtype=torch.uint8), torch.ones(2, 4), "x / 255"),
    ],
)
def test_bad_rays_are_refused(origin, direction, message):
    with pytest.raises(NescioError, match=message):
        far_field(mlp(), origin, direction)


def test_what_has_no_networks_inside_is_refused():
    with pytest.raises(NescioError, match="shows no networks"):
        far_field(lambda x: x, torch.zeros(1, 4), torch.ones(1, 4))


def test_the_network_is_left_as_it_was():
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.ReLU(inplace=True), nn.Linear(3, 2))
    before = {name: value.clone() for name, value in net.state_dict().items()}
    far_field(net, torch.zeros(1, 2), torch.ones(1, 2))
    assert net.training
    assert net[0].weight.dtype == torch.float32
    assert net[0].weight.requires_grad
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


def test_windows_that_tie_where_pixels_are_zero_give_what_fractions_give() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(2, 3, 3), nn.ReLU(),
        nn.Flatten(), nn.Linear(12, 3),
    )  # fmt: skip
    with torch.no_grad():
        for weight in net.parameters():
            weight.copy_((8 * weight).round() / 8)  # so that slopes and intercepts are equal
    images = torch.zeros(6, 1, 10, 10)
    images[:, :, 2:6, 3:8] = torch.rand(6, 1, 4, 5).mul(4).round() / 4
    origin = torch.zeros(1, 1, 10, 10)
    origin[..., 1, 1:4] = 0.25  # intercepts that differ where slopes are 0
    for start in (torch.zeros_like(origin), origin):
        found = far_field(net, start, images)
        truth = far_field(net, start, images, exact=True)
        assert (found.kind != "undecided").all()
        torch.testing.assert_close(found.slope, truth.slope, rtol=0, atol=1e-12)
        torch.testing.assert_close(found.intercept, truth.intercept, rtol=0, atol=1e-12)
        torch.testing.assert_close(found.radius, truth.radius)


def test_the_map_of_the_last_region_of_tied_windows_is_that_of_the_first() -> None:
    class Pooled(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cat([F.max_pool1d(x[:, None], 2)[:, 0], -x[:, :1]], dim=1)

    found = far_field(Pooled(), torch.zeros(1, 2), torch.ones(1, 2), last_region=True)
    assert found.last_region is not None
    assert found.last_region.V[0, 0].tolist() == [1.0, 0.0]


def test_a_constant_is_added_to_a_copy_in_inference_mode_too() -> None:
    class Both(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cat([x + 1.0, x], dim=1)

    with torch.inference_mode():
        found = far_field(Both(), torch.zeros(1, 2), torch.ones(1, 2))
    assert found.intercept.tolist() == [[1.0, 1.0, 0.0, 0.0]]
