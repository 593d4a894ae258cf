"""Cases that went wrong once."""

import pytest
import torch
from torch import nn

import nescio
from nescio import NescioError, geometry
from nescio.calibration import scaled as scaled_by
from nescio.models import plain

ZERO, ONE = torch.zeros(1, 2), torch.ones(1, 2)


class OneNumber(nn.Module):
    """Logits from a single number per sample."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(2, 5), nn.ReLU(), nn.Linear(5, 1))

    def forward(self, x):
        z = self.inner(x).squeeze(1)
        z = torch.relu(z) + torch.maximum(z, -z)
        return torch.stack([-z, z], 1)


def test_a_sample_may_be_a_single_number_on_its_way() -> None:
    torch.manual_seed(0)
    net = OneNumber().double()
    far = geometry.far_field(net, ZERO, ONE)
    t = 2 * far.radius + 1
    assert torch.allclose(far.logits(t), net(t * ONE.double()), rtol=1e-12)
    assert torch.allclose(geometry.ray(net, ZERO, ONE).at(0.7), net(0.7 * ONE.double()))
    box = [(-2, 2), (-2, 2)]
    assert len(geometry.regions(net, box)) == len(geometry.exact_regions(net, box))
    assert geometry.exact_far_field(net, ZERO, ONE).kind.tolist() == far.kind.tolist()
    first = geometry.first_confident(net, ZERO, ONE, confidence=0.9, start=0.0).factor
    assert net(first * ONE.double()).softmax(1).amax().item() == pytest.approx(0.9)


def test_a_negative_slope_of_platt_scaling_keeps_the_bounds() -> None:
    torch.manual_seed(1)
    net = nescio.nets.mlp(2, 3, widths=(20, 20)).double()
    scaled = scaled_by(plain(net), -1.5, (0.0, 0.3, -0.2))
    d = 3 * torch.randn(40, 2, dtype=torch.float64)
    found = geometry.first_confident(scaled, 0 * d, d, confidence=0.9, start=0.0, pooled=True)
    t = torch.linspace(0, 20, 20_001, dtype=torch.float64)
    shift = torch.tensor([0.0, 0.3, -0.2])
    logits = -1.5 * net(t[:, None, None] * d) + shift
    sure = logits.softmax(2).amax(2) >= 0.9
    for ray in range(40):
        first = t[sure[:, ray]][0] if sure[:, ray].any() else torch.inf
        assert found.factor[ray] <= first + 1e-9
        assert found.factor[ray] >= first - 1e-3 or found.factor[ray] > 20


@pytest.mark.parametrize("low", [0.0, -1.0])
def test_an_infinite_bound_bounds_nothing(low) -> None:
    torch.manual_seed(0)
    layers = nn.Linear(2, 3), nn.Hardtanh(low, float("inf")), nn.Linear(3, 2)
    net = nn.Sequential(*layers).double()
    far = geometry.far_field(net, ZERO, ONE)
    t = 2 * far.radius + 1
    assert torch.allclose(far.logits(t), net(t * ONE.double()), rtol=1e-12)


def test_one_output_has_no_classes() -> None:
    net = nn.Linear(2, 1)
    for call in (geometry.far_field, geometry.limits, geometry.first_confident):
        with pytest.raises(NescioError, match="no classes to be sure of"):
            call(net, ZERO, ONE)
    with pytest.raises(NescioError, match="no classes to be sure of"):
        geometry.limit_map(net)


def test_a_radius_of_nothing_is_a_plain_zero() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 5), nn.ReLU(), nn.Linear(5, 2))
    radius = geometry.far_field(net, torch.ones(20, 2), torch.zeros(20, 2)).radius
    assert not radius.signbit().any()


def test_factors_below_the_radius_are_refused() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 5), nn.ReLU(), nn.Linear(5, 2))
    far = geometry.far_field(net, torch.full((3, 2), -5.0), torch.ones(3, 2))
    assert (far.radius > 0).all()
    with pytest.raises(NescioError, match="below the radius"):
        far.logits(0.5 * far.radius)
    with pytest.raises(NescioError, match=r"factors \(5,\) for radii \(3,\)"):
        far.logits(torch.full((5,), 1e6))


@pytest.mark.parametrize(
    "call",
    [
        lambda net: geometry.first_confident(net, ZERO, ONE, confidence="a"),
        lambda net: geometry.ray(net, ZERO, ONE, stop="a"),
    ],
)
def test_words_are_not_numbers(call) -> None:
    with pytest.raises(NescioError, match="must be a number, got 'a'"):
        call(nn.Linear(2, 2))


def test_weights_that_are_no_numbers_are_named() -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2))
    with torch.no_grad():
        net[2].bias[0] = torch.nan
    for call in (geometry.far_field, geometry.first_confident):
        with pytest.raises(NescioError, match=r"NaN or infinity: 2\.bias"):
            call(net, ZERO, ONE)
    with pytest.raises(NescioError, match=r"NaN or infinity: 2\.bias"):
        geometry.regions(net, [(-1, 1), (-1, 1)])


def test_attention_is_named_as_what_it_is() -> None:
    net = nn.Sequential(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), nn.Flatten())
    with pytest.raises(NescioError, match=r"\(MultiheadAttention\) is not piecewise affine"):
        geometry.far_field(net, torch.zeros(1, 3, 4), torch.ones(1, 3, 4))


def test_the_limit_map_asks_for_two_inputs() -> None:
    with pytest.raises(NescioError, match="needs a network of two inputs"):
        geometry.limit_map(nn.Linear(3, 2))
    with pytest.raises(NescioError, match="needs a network of two inputs"):
        geometry.limit_map(nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten()))


def test_results_print_in_a_line() -> None:
    net = nn.Sequential(nn.Linear(2, 1, bias=False), nn.ReLU(), nn.Linear(1, 2))
    found = geometry.regions(net, [(-1, 1), (-1, 1)])
    assert repr(found) == "Regions(2 regions, 2 without end, box ((-1.0, 1.0), (-1.0, 1.0)))"
    proof = geometry.certificate(nescio.nets.rbf(2, 2, centers=3))
    assert repr(proof).startswith("Certificate(radius ")
    assert len(repr(proof)) < 80


def test_boxes_and_features_of_words_are_refused() -> None:
    with pytest.raises(NescioError, match="a box is .* got 'a'"):
        geometry.regions(nn.Linear(2, 2), "a")
    with pytest.raises(NescioError, match=r"feature must be a whole number, got 0\.5"):
        geometry.along_axis(ONE, 0.5)
