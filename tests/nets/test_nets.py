"""Networks: shapes, options, and files that can make them again."""

import copy
import json

import pytest
import torch
from torch import nn

from nescio import nets
from nescio.core import NescioError
from nescio.core.registry import nets as registry
from nescio.nets.factory import made_by, rebuild

EXAMPLES = [
    ("mlp", (4, 3), {}, (4,)),
    ("mlp", (4, 3), {"widths": (), "activation": "tanh"}, (4,)),
    ("mlp", ((1, 6, 5), 7), {"widths": [8, 9, 10], "dropout": 0.2}, (1, 6, 5)),
    ("mlp", ([2, 3], 7), {"activation": "leaky_relu", "slope": 0.3}, (2, 3)),
    ("bayesian_mlp", (4, 3), {}, (4,)),
    ("bayesian_mlp", ((1, 6, 5), 7), {"widths": [8], "spread": 0.3, "dropout": 0.2}, (1, 6, 5)),
    ("rbf", (4, 3), {"gamma": 0.2}, (4,)),
    ("rbf", ((1, 3, 2), 4), {"centers": 7}, (1, 3, 2)),
    ("posterior_network", (4, 3), {}, (4,)),
    ("posterior_network", ((1, 8, 8), 4), {"density": "shared", "latent": 2}, (1, 8, 8)),
    ("digit_cnn", (), {}, (1, 8, 8)),
    ("digit_cnn", ((3, 7, 10), 4), {"dropout": 0.5}, (3, 7, 10)),
    ("lenet", (), {}, (1, 28, 28)),
    ("lenet", ((3, 9, 6), 4), {"dropout": 0.5}, (3, 9, 6)),
    ("small_cnn", (), {}, (1, 28, 28)),
    ("small_cnn", ([3, 32, 32], 4), {"width": 5, "dropout": 0.5}, (3, 32, 32)),
    ("scattering", ((2, 9, 8), 4), {"scales": 1, "orientations": 3, "hidden": 5}, (2, 9, 8)),
    ("dilated_cnn", ((3, 9, 8), 4), {"width": 5, "depth": 2, "dropout": 0.5}, (3, 9, 8)),
    ("unet", ((3, 9, 7), 4), {"width": 3, "depth": 3, "dropout": 0.5, "stem": 2}, (3, 9, 7)),
    ("lstm", ((3, 7), 4), {"width": 5, "dropout": 0.5}, (3, 7)),
    ("gru", ((3, 7), 4), {"width": 5, "depth": 2, "pooling": "mean"}, (3, 7)),
    ("resnet", (), {"blocks": 1}, (3, 32, 32)),
    ("recorded_columns", (7, 3), {}, (7,)),
    ("recorded_columns", (14, 3), {"members": 2, "member": 1}, (14,)),
    ("resnet", ((1, 9, 8), 4), {"blocks": 2, "width": 3}, (1, 9, 8)),
]


def kinds(net):
    return [type(layer) for layer in net]


@pytest.mark.parametrize(("name", "args", "options", "shape"), EXAMPLES)
def test_outputs_have_one_row_a_sample(name, args, options, shape):
    net = registry[name](*args, **options)
    outputs = args[1] if args else 10
    pixels = shape[1:] if name in ("dilated_cnn", "unet") else ()
    assert net(torch.randn(5, *shape)).shape == (5, outputs, *pixels)


def test_every_network_has_an_example():
    assert {name for name, *_ in EXAMPLES} == set(registry)


@pytest.mark.parametrize(("name", "args", "options", "shape"), EXAMPLES)
def test_a_network_can_be_made_again_from_json(name, args, options, shape):
    net = registry[name](*args, **options)
    assert made_by(net)["net"] == name
    again = rebuild(json.loads(json.dumps(made_by(net))))
    again.load_state_dict(net.state_dict())
    x = torch.randn(5, *shape)
    assert torch.equal(net.eval()(x), again.eval()(x))
    assert str(net) == str(again)
    assert made_by(copy.deepcopy(net)) == made_by(net)


def test_a_network_of_ones_own_has_no_maker():
    assert made_by(nn.Linear(2, 3)) is None
    with pytest.raises(NescioError, match="pass the network"):
        rebuild(None)
    with pytest.raises(NescioError, match="unknown network 'os.system'"):
        rebuild({"net": "os.system", "options": {}})


def test_mlp_widths_and_layers():
    net = nets.mlp(4, 3, widths=(8, 5), dropout=0.25)
    assert kinds(net) == [nn.Linear, nn.ReLU, nn.Dropout] * 2 + [nn.Linear]
    linear = [layer for layer in net if isinstance(layer, nn.Linear)]
    assert [(l.in_features, l.out_features) for l in linear] == [(4, 8), (8, 5), (5, 3)]
    assert [layer.p for layer in net if isinstance(layer, nn.Dropout)] == [0.25, 0.25]
    assert kinds(nets.mlp(4, 3)) == [nn.Linear, nn.ReLU] * 2 + [nn.Linear]


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("relu", torch.relu),
        ("leaky_relu", lambda x: torch.where(x > 0, x, 0.2 * x)),
        ("tanh", torch.tanh),
        ("swish", lambda x: x * torch.sigmoid(x)),
    ],
)
def test_activations_by_hand(name, function):
    net = nets.mlp(4, 3, widths=(8,), activation=name, slope=0.2)
    x = torch.randn(5, 4)
    torch.testing.assert_close(net(x), net[2](function(net[0](x))))


def test_images_are_flattened():
    net = nets.mlp((2, 3, 4), 5, widths=(6,))
    x = torch.randn(7, 2, 3, 4)
    assert net[1].in_features == 24
    torch.testing.assert_close(net(x), net[1:](x.reshape(7, 24)))


def test_the_digit_network_puts_dropout_before_the_last_layer():
    assert kinds(nets.digit_cnn(dropout=0.5))[-2:] == [nn.Dropout, nn.Linear]
    assert nn.Dropout not in kinds(nets.digit_cnn())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nets.mlp(2, 3, activation="gelu"), "unknown activation 'gelu'; known: relu"),
        (lambda: nets.mlp(2, 3, dropout=1.0), "dropout must be in"),
        (lambda: nets.mlp(2, 3, dropout=-0.1), "dropout must be in"),
        (lambda: nets.mlp(2, 3, widths=(4, 0)), "sizes must be positive"),
        (lambda: nets.mlp(0, 3), "sizes must be positive"),
        (lambda: nets.mlp(2, 0), "sizes must be positive"),
        (lambda: nets.digit_cnn(dropout=1.5), "dropout must be in"),
        (lambda: nets.bayesian_mlp(2, 3, spread=0.0), "spread must be positive, got 0.0"),
        (lambda: nets.bayesian_mlp(2, 3, dropout=1.0), "dropout must be in"),
        (lambda: nets.bayesian_mlp(2, 3, activation="gelu"), "unknown activation"),
    ],
)
def test_options_are_checked(make, message):
    with pytest.raises(NescioError, match=message):
        make()


def test_standardized_inputs_have_mean_zero_and_deviation_one():
    x = torch.randn(200, 3) * torch.tensor([1.0, 100.0, 1e-3]) + 5
    net = nets.standardized(nn.Identity(), x)
    scaled = net(x)
    torch.testing.assert_close(scaled.mean(0), torch.zeros(3), rtol=0, atol=2e-3)
    torch.testing.assert_close(scaled.std(0, correction=0), torch.ones(3), rtol=1e-3, atol=0)


def test_constant_features_are_only_centered():
    x = torch.tensor([[1.0, 7.0], [3.0, 7.0]])
    net = nets.standardized(nn.Identity(), x)
    assert net(x).tolist() == [[-1.0, 0.0], [1.0, 0.0]]
    assert net(torch.tensor([[2.0, 8.0]])).tolist() == [[0.0, 1.0]]


def test_constant_features_of_many_rows_are_only_centered():
    """0.1 has no exact mean in binary: its deviation must still count as none."""
    x = torch.cat([torch.randn(1000, 1), torch.full((1000, 1), 0.1)], 1)
    net = nets.standardized(nn.Identity(), x)
    assert net[0].scale[1].item() == 1.0
    assert net(torch.tensor([[0.0, 0.2]]))[0, 1].item() == pytest.approx(0.1, abs=1e-6)


def test_scaling_is_saved_and_not_trained():
    net = nets.standardized(nn.Linear(3, 2), torch.randn(9, 3))
    assert set(net.state_dict()) == {"scaling.mean", "scaling.scale", "net.weight", "net.bias"}
    assert {name for name, _ in net.named_parameters()} == {"net.weight", "net.bias"}


@pytest.mark.parametrize("value", [0.1, 1 / 3, 1234.567])
def test_a_constant_feature_is_only_centered(value):
    x = torch.cat([torch.randn(1000, 1), torch.full((1000, 1), value)], 1)
    net = nets.standardized(nn.Identity(), x)
    assert net.scaling.scale[1] == 1


def test_images_are_scaled_pixel_by_pixel():
    x = torch.rand(50, 1, 4, 4)
    scaled = nets.standardized(nn.Identity(), x)(x)
    torch.testing.assert_close(scaled.mean(0), torch.zeros(1, 4, 4), rtol=0, atol=1e-5)
