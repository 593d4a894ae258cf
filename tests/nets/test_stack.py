"""A stack of networks gives what each network gives alone: outputs, gradients, dropout masks."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from nescio import heads, nets
from nescio.core import NescioError, Rng
from nescio.nets import Standardize
from nescio.nets.stack import Forward, Stack, dense, stack
from nescio.training.train import train

EXACT = {"rtol": 0, "atol": 1e-12}


class Own(nn.Module):
    """The same network behind a forward of its own, so that it cannot be stacked."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        return self.net(x)


class Doubled(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


class Reversed(nn.Sequential):
    def forward(self, x):
        return super().forward(x.flip(-1))


def affine(features):
    rng = torch.Generator().manual_seed(features)
    return Standardize(
        torch.randn(features, generator=rng), 1 + torch.rand(features, generator=rng)
    )


def shared_layer():
    layer = nn.Linear(4, 4)
    return nn.Sequential(layer, nn.Tanh(), layer, nn.Linear(4, 3))


def shared_activation():
    relu = nn.ReLU()
    return nn.Sequential(nn.Linear(4, 6), relu, nn.Linear(6, 6), relu, nn.Linear(6, 3), relu)


def shared_across_blocks():
    layer = nn.Linear(4, 4)
    block = nn.Sequential(layer, nn.Tanh())
    return nn.Sequential(block, nn.Sequential(layer, nn.ReLU()), nn.Linear(4, 3))


def tied_weights():
    net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.Linear(4, 3))
    net[2].weight = net[0].weight
    return net


def hooked():
    net = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))
    net[0].register_forward_hook(lambda module, args, output: output + 1)
    return net


def pre_hooked():
    net = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))
    net.register_forward_pre_hook(lambda module, args: (2 * args[0],))
    return net


def patched():
    net = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))
    net[1].forward = torch.sin
    return net


def normalized():
    return nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(4, 5)), nn.Linear(5, 3))


STACKED = {
    "relu": lambda: nn.Sequential(nn.Linear(4, 7), nn.ReLU(), nn.Linear(7, 3)),
    "inplace relu": lambda: nn.Sequential(nn.Linear(4, 7), nn.ReLU(True), nn.Linear(7, 3)),
    "two relus": lambda: nn.Sequential(nn.Linear(4, 7), nn.ReLU(), nn.ReLU(), nn.Linear(7, 3)),
    "leaky": lambda: nn.Sequential(nn.Linear(4, 7), nn.LeakyReLU(0.3), nn.Linear(7, 3)),
    "tanh": lambda: nn.Sequential(nn.Linear(4, 7), nn.Tanh(), nn.ReLU(), nn.Linear(7, 3)),
    "swish": lambda: nn.Sequential(nn.Linear(4, 7), nn.SiLU(), nn.Linear(7, 3), nn.ReLU()),
    "dropout": lambda: nn.Sequential(nn.Linear(4, 7), nn.Dropout(0.4), nn.ReLU(), nn.Linear(7, 3)),
    "standardize": lambda: nn.Sequential(affine(4), nn.Linear(4, 3)),
    "broadcast scaling": lambda: nn.Sequential(affine(1), nn.Linear(4, 3)),
    "no bias": lambda: nn.Sequential(nn.Linear(4, 7, bias=False), nn.ReLU(), nn.Linear(7, 3)),
    "nested": lambda: nn.Sequential(
        nn.Sequential(nn.Linear(4, 7), nn.Sequential(nn.ReLU())), nn.Sequential(), nn.Linear(7, 3)
    ),
    "flatten": lambda: nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.Flatten()),
    "linear": lambda: nn.Linear(4, 3),
}
LOOPED = {
    "own forward": lambda: Own(nn.Linear(4, 3)),
    "batch norm": lambda: nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 3)),
    "softmax": lambda: nn.Sequential(nn.Linear(4, 5), nn.Softmax(-1), nn.Linear(5, 3)),
    "subclass of Linear": lambda: nn.Sequential(Doubled(4, 5), nn.ReLU(), nn.Linear(5, 3)),
    "subclass of Sequential": lambda: Reversed(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3)),
    "hook": hooked,
    "hook before": pre_hooked,
    "weight norm": normalized,
    "partial flatten": lambda: nn.Sequential(
        nn.Unflatten(1, (2, 2)), nn.Flatten(1, 2), nn.Linear(4, 3)
    ),
}
EITHER = {
    "shared activation": shared_activation,
    "shared layer": shared_layer,
    "shared across blocks": shared_across_blocks,
    "tied weights": tied_weights,
    "patched forward": patched,
}
ALL = STACKED | LOOPED | EITHER


def members_of(make, members=3, seed=0):
    """Networks of one architecture with different weights and buffers, in float64."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        nets = [make().double() for _ in range(members)]
        for net in nets:
            for name, buffer in net.named_buffers():
                if buffer.is_floating_point() and ("mean" in name or "scale" in name):
                    buffer.add_(torch.rand_like(buffer))
    return nets


def inputs(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("name", ALL)
def test_outputs_and_gradients_are_those_of_each_network_alone(name):
    nets = members_of(ALL[name])
    stacked, tensors = Stack(nets[0]), stack(nets)
    x = inputs(3, 5, 4)
    if name in STACKED:
        assert stacked.stacked
    if name in LOOPED:
        assert not stacked.stacked
    leaves = {n: t.requires_grad_(n in stacked.trained) for n, t in tensors.items()}
    outputs = stacked(leaves, x.requires_grad_())
    expected = torch.stack([net.eval()(part) for net, part in zip(nets, x, strict=True)])
    torch.testing.assert_close(outputs, expected, **EXACT)
    weight = inputs(*outputs.shape, seed=2)
    names = sorted(stacked.trained)
    slopes = torch.autograd.grad((outputs * weight).sum(), [x, *(leaves[n] for n in names)])
    (own_x,) = torch.autograd.grad((expected * weight).sum(), x, retain_graph=True)
    (expected * weight).sum().backward()
    torch.testing.assert_close(slopes[0], own_x, **EXACT)
    for slope, key in zip(slopes[1:], names, strict=True):
        own = torch.stack([dict(net.named_parameters())[key].grad for net in nets])
        torch.testing.assert_close(slope, own, **EXACT)


@pytest.mark.parametrize("members", [1, 3])
def test_convolutions_run_member_by_member(members):
    make = lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(72, 3))  # noqa: E731
    nets, x = members_of(make, members), inputs(members, 4, 1, 8, 8)
    stacked = Stack(nets[0])
    assert not stacked.stacked
    expected = torch.stack([net(part) for net, part in zip(nets, x, strict=True)])
    torch.testing.assert_close(stacked(stack(nets), x), expected, **EXACT)


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(12, 3)),
        lambda: nn.Sequential(nn.Sequential(nn.Flatten()), nn.Linear(12, 3)),
        lambda: nn.Sequential(
            Standardize(torch.ones(1, 3, 4), 2 * torch.ones(1, 3, 4)),
            nn.Sequential(nn.Flatten(), nn.Linear(12, 3)),
        ),
        lambda: nn.Sequential(
            Standardize(torch.ones(1, 1, 4), torch.rand(1, 1, 4) + 1),
            nn.Flatten(),
            nn.Linear(12, 3),
        ),
        lambda: nn.Sequential(
            Standardize(torch.tensor(1.0), torch.tensor(2.0)), nn.Flatten(), nn.Linear(12, 3)
        ),
        lambda: nn.Sequential(nn.Linear(4, 5), nn.Flatten(), nn.Linear(15, 3)),
    ],
)
def test_images_pass_through_linear_layers(make):
    nets, x = members_of(make), inputs(3, 5, 1, 3, 4)
    expected = torch.stack([net(part) for net, part in zip(nets, x, strict=True)])
    torch.testing.assert_close(Stack(nets[0])(stack(nets), x), expected, **EXACT)


def test_rows_of_images_are_not_scaled_as_channels():
    by_row = Standardize(torch.rand(3, 1), torch.rand(3, 1) + 1)
    nets = members_of(lambda: nn.Sequential(by_row, nn.Flatten(), nn.Linear(36, 3)))
    x = inputs(3, 5, 3, 3, 4)
    expected = torch.stack([net(part) for net, part in zip(nets, x, strict=True)])
    torch.testing.assert_close(Stack(nets[0])(stack(nets), x), expected, **EXACT)


def test_scaling_by_one_number():
    make = lambda: nn.Sequential(  # noqa: E731
        Standardize(torch.tensor(1.0), torch.tensor(2.0)), nn.Linear(4, 3)
    )
    nets, x = members_of(make), inputs(3, 5, 4)
    expected = torch.stack([net(part) for net, part in zip(nets, x, strict=True)])
    torch.testing.assert_close(Stack(nets[0])(stack(nets), x), expected, **EXACT)


def dropping(p=0.5):
    return nn.Sequential(
        nn.Dropout(0.2), nn.Linear(4, 9), nn.ReLU(), nn.Dropout(p), nn.Linear(9, 3), nn.Dropout(p)
    )


def test_the_stack_and_the_loop_draw_the_same_masks():
    nets, x = members_of(dropping), inputs(3, 5, 4)
    loop = [Own(net) for net in nets]
    rng = Rng(7, (0, 1, 2), (3, 4))
    one, two = Stack(nets[0]), Stack(loop[0])
    assert one.stacked
    assert not two.stacked
    outputs = one(stack(nets), x, rng)
    torch.testing.assert_close(outputs, two(stack(loop), x, rng), **EXACT)
    assert not torch.allclose(outputs, one(stack(nets), x))


def test_masks_differ_between_samples_and_members_and_keep_the_mean():
    net = nn.Sequential(nn.Dropout(0.25), nn.Linear(1, 1, bias=False))
    nn.init.ones_(net[1].weight)
    for kind in (net, Own(net)):
        outputs = Stack(kind)(stack([kind] * 2), torch.ones(2, 4000, 1), Rng(0, (0, 1)))
        assert outputs.unique().tolist() == pytest.approx([0, 4 / 3])
        assert outputs.mean().item() == pytest.approx(1, abs=0.03)
        assert not torch.equal(outputs[0], outputs[1])


@pytest.mark.parametrize("wrap", [nn.Sequential, Own])
def test_a_member_draws_in_the_stack_what_it_draws_alone(wrap):
    nets, x = members_of(lambda: wrap(dropping())), inputs(3, 5, 4)
    stacked = Stack(nets[0])
    together = stacked(stack(nets), x, Rng(7, (4, 1, 6), (0, 2)))
    for place, member in enumerate((4, 1, 6)):
        alone = stacked(
            stack(nets[place : place + 1]), x[place : place + 1], Rng(7, (member,), (0, 2))
        )
        torch.testing.assert_close(alone, together[place : place + 1], **EXACT)


def test_functional_dropout_is_drawn_from_the_same_generator():
    class Functional(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 3)

        def forward(self, x):
            return self.layer(F.dropout(x, 0.5, self.training))

    nets, x = members_of(Functional), inputs(3, 5, 4)
    twins = [nn.Sequential(nn.Dropout(0.5), net.layer) for net in nets]
    rng = Rng(7, (0, 1, 2))
    outputs = Stack(nets[0])(stack(nets), x, rng)
    torch.testing.assert_close(outputs, Stack(twins[0])(stack(twins), x, rng), **EXACT)


def test_other_random_layers_are_seeded_too_and_the_global_state_stays():
    net = nn.Sequential(nn.Linear(4, 6), nn.RReLU(), nn.Linear(6, 3)).double()
    stacked, tensors, x = Stack(net), stack([net] * 2), inputs(2, 5, 4)
    before = torch.get_rng_state()
    first, again = (stacked(tensors, x, Rng(1, (0, 1))) for _ in "ab")
    assert torch.equal(first, again)
    assert not torch.equal(first, stacked(tensors, x, Rng(2, (0, 1))))
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("p", [0.0, 1.0])
@pytest.mark.parametrize("wrap", [nn.Sequential, Own])
def test_dropout_of_nothing_and_of_everything(p, wrap):
    net = wrap(nn.Sequential(nn.Linear(4, 6), nn.Dropout(p), nn.Linear(6, 3))).double()
    x = inputs(1, 5, 4)
    outputs = Stack(net)(stack([net]), x, Rng(0, (0,)))
    expected = net.train()(x[0])  # nothing is random here
    torch.testing.assert_close(outputs[0], expected, **EXACT)


@pytest.mark.parametrize("inplace", [True, False])
@pytest.mark.parametrize(
    "layers",
    [
        lambda i: [nn.Linear(2, 3), nn.ReLU(i), nn.Linear(3, 2)],
        lambda i: [nn.Linear(2, 3), nn.ReLU(i), nn.ReLU(i), nn.Linear(3, 2), nn.ReLU(i)],
        lambda i: [nn.ReLU(i), nn.Linear(2, 3, bias=False), nn.ReLU(i), nn.Dropout(0.4)],
        lambda i: [nn.Linear(2, 3), nn.Tanh(), nn.ReLU(i), nn.Linear(3, 2)],
    ],
)
def test_overwriting_activations_does_not_spoil_gradients(layers, inplace):
    nets = members_of(lambda: nn.Sequential(*layers(inplace)), members=2)
    stacked, tensors = Stack(nets[0]), stack(nets)
    names = list(tensors)

    def function(x, *weights):
        return stacked(dict(zip(names, weights, strict=True)), x, Rng(0, (0, 1)))

    leaves = [inputs(2, 3, 2), *tensors.values()]
    assert torch.autograd.gradcheck(function, [t.requires_grad_() for t in leaves])


@pytest.mark.parametrize("name", ["relu", "inplace relu", "dropout", "batch norm", "own forward"])
def test_neither_the_network_nor_the_inputs_change(name):
    (net,) = members_of(ALL[name], 1)
    before, x = copy.deepcopy(net.state_dict()), inputs(1, 5, 4)
    kept = x.clone()
    Stack(net)(stack([net]), x, Rng(0, (0,)))
    assert torch.equal(x, kept)
    assert all(torch.equal(before[key], value) for key, value in net.state_dict().items())
    assert net.training


def test_forward_offers_the_trained_weights_only():
    net = nn.Sequential(affine(4), nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3)).double()
    net[1].bias.requires_grad_(False)
    forward = Forward(Stack(net), stack([net, net]))
    assert sorted(forward.parameters) == ["1.weight", "3.bias", "3.weight"]
    x = inputs(2, 5, 4)
    torch.testing.assert_close(forward(x)[0], net(x[0]), **EXACT)


def test_networks_that_differ_or_have_no_weights_are_refused():
    with pytest.raises(NescioError, match="member 1 has other weights"):
        stack([nn.Linear(2, 3), nn.Linear(2, 4)])
    with pytest.raises(NescioError, match="without weights"):
        stack([nn.ReLU()])
    with pytest.raises(NescioError, match="without weights"):
        stack([])


def frozen():
    net = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))
    net[0].weight.requires_grad_(False)
    return net


BY_HAND = {
    "deep": lambda: nn.Sequential(
        nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 5), nn.ReLU(True), nn.Linear(5, 4)
    ),
    "one layer": lambda: nn.Sequential(nn.Linear(4, 4)),
    "shared relu": lambda relu=nn.ReLU(): nn.Sequential(  # noqa: B008
        nn.Linear(4, 6), relu, nn.Linear(6, 5), relu, nn.Linear(5, 4)
    ),
    "blocks": lambda: nn.Sequential(
        nn.Flatten(), nn.Sequential(nn.Linear(4, 6), nn.ReLU()), nn.Linear(6, 4)
    ),
}


@pytest.mark.parametrize("head", [heads.categorical(), heads.gaussian()], ids=lambda h: h.name)
@pytest.mark.parametrize("name", BY_HAND)
def test_losses_and_gradients_by_hand_are_those_of_autograd(name, head):
    nets, x = members_of(BY_HAND[name]), inputs(3, 7, 4)
    stacked, tensors = Stack(nets[0]), stack(nets)
    regression = head.task == "regression"
    y = inputs(3, 7, 2, seed=5) if regression else torch.arange(21).reshape(3, 7) % 4
    leaves = {key: tensor.clone().requires_grad_() for key, tensor in tensors.items()}
    expected = head.nll(stacked(leaves, x), y).mean(1)
    slopes = torch.autograd.grad(expected.sum(), [leaves[key] for key in stacked.trained])
    losses, ours = dense(stacked)(tensors, x, y, head.nll_slope)
    torch.testing.assert_close(losses, expected.detach(), **EXACT)
    for slope, truth in zip(ours, slopes, strict=True):
        torch.testing.assert_close(slope, truth, **EXACT)


OTHERS = {name: ALL[name] for name in ALL if name not in ("relu", "inplace relu", "flatten")} | {
    "frozen": frozen,
    "two linear": lambda: nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 3)),
    "activation first": lambda: nn.Sequential(nn.ReLU(), nn.Linear(4, 5)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_networks_are_left_to_autograd(name):
    assert dense(Stack(OTHERS[name]())) is None


def test_linear_layers_on_the_last_axis_of_images_are_not_done_by_hand_on_flat_ones():
    """The plan of a stack stands for flat inputs; images take the loop, and so must training."""
    x, y = inputs(30, 3, 4).float(), torch.arange(30) % 3
    make = lambda: nn.Sequential(  # noqa: E731
        nn.Linear(4, 5), nn.ReLU(), nn.Flatten(), nn.Linear(15, 3)
    )
    model = train(make, (x, y), epochs=1, members=2, progress=False)
    expected = torch.stack([model.member(m)(x) for m in range(2)])
    torch.testing.assert_close(model.outputs(x), expected)


# -- images


class Apart(nn.Module):
    """Takes a Sequential apart: its layers must stay as they are."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        self.last = nn.Linear(3 * 8 * 8 + 3 * 4 * 4, 3)

    def forward(self, x):
        sharp = self.features[:2](x)
        return self.last(torch.cat([sharp.flatten(1), self.features[2](sharp).flatten(1)], 1))


class Viewing(nn.Module):
    """Reads memory in order, as many networks do: channels must not come last."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(2, 3, 3, padding=1), nn.BatchNorm2d(3)
        self.last = nn.Linear(192, 3)

    def forward(self, x):
        return self.last(self.norm(self.first(x)).view(len(x), -1))


def shared_between_images():
    relu, pool = nn.ReLU(), nn.MaxPool2d(2)
    return nn.Sequential(
        relu, nn.Conv2d(1, 3, 3, padding=1), relu, pool, nn.Conv2d(3, 4, 3, padding=1), relu, pool,
        nn.Flatten(), nn.Linear(16, 3), relu,
    )  # fmt: skip


def watched_images():
    net = nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(27, 3)
    )
    net[1].register_forward_hook(lambda _, __, output: output + 1)
    return net


def pooled(*layers, channels=3, size=4, colors=1):
    return nn.Sequential(
        nn.Conv2d(colors, channels, 3, padding=1),
        *layers,
        nn.Flatten(),
        nn.Linear(channels * size * size, 3),
    )


IMAGES = {
    "relu, pool": (lambda: pooled(nn.ReLU(), nn.MaxPool2d(2)), (1, 8, 8)),
    "pool, relu": (lambda: pooled(nn.MaxPool2d(2), nn.ReLU()), (1, 8, 8)),
    "relu twice, pool": (lambda: pooled(nn.ReLU(), nn.ReLU(), nn.MaxPool2d(2)), (1, 8, 8)),
    "relu, two pools": (lambda: pooled(nn.ReLU(), nn.MaxPool2d(2), nn.MaxPool2d(2), size=2),
                        (1, 8, 8)),
    "relu, padded pool": (lambda: pooled(nn.ReLU(), nn.MaxPool2d(3, 2, 1)), (1, 8, 8)),
    "relu, average": (lambda: pooled(nn.ReLU(), nn.AvgPool2d(2)), (1, 8, 8)),
    "tanh, relu": (lambda: pooled(nn.Tanh(), nn.ReLU(), size=8), (1, 8, 8)),
    "leaky, pool": (lambda: pooled(nn.LeakyReLU(0.2), nn.MaxPool2d(2)), (1, 8, 8)),
    "odd": (lambda: pooled(nn.ReLU(), nn.MaxPool2d(2)), (1, 9, 9)),
    "color": (lambda: pooled(nn.ReLU(), nn.MaxPool2d(2), colors=2), (2, 8, 8)),
    "batch norm": (lambda: pooled(nn.BatchNorm2d(3), nn.ReLU(), nn.MaxPool2d(2), colors=2),
                   (2, 8, 8)),
    "gray batch norm": (lambda: pooled(nn.BatchNorm2d(3), nn.ReLU(), size=8), (1, 8, 8)),
    "shared layers": (shared_between_images, (1, 8, 8)),
    "a hook": (watched_images, (1, 8, 8)),
    "taken apart": (Apart, (1, 8, 8)),
    "viewing": (Viewing, (2, 8, 8)),
    "digits": (nets.digit_cnn, (1, 8, 8)),
    "lenet": (lambda: nets.lenet((1, 8, 8), 3), (1, 8, 8)),
    "small_cnn": (lambda: nets.small_cnn((1, 9, 8), 3), (1, 9, 8)),
    "resnet": (lambda: nets.resnet((3, 8, 8), 3, blocks=1, width=4), (3, 8, 8)),
}  # fmt: skip


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", IMAGES)
def test_images_give_what_each_network_gives_alone(name, training):
    make, shape = IMAGES[name]
    nets, x = members_of(make, 2), inputs(2, 5, *shape)
    stacked, tensors = Stack(nets[0]), stack(nets)
    assert not stacked.stacked
    leaves = {n: t.requires_grad_(n in stacked.trained) for n, t in tensors.items()}
    rng = Rng(0, (0, 1)) if training else None
    outputs = stacked(leaves, x.requires_grad_(), rng)
    pairs = zip(nets, x, strict=True)
    expected = torch.stack([net.train(training)(part) for net, part in pairs])
    torch.testing.assert_close(outputs, expected, **EXACT)
    weight, names = inputs(*outputs.shape, seed=2), sorted(stacked.trained)
    slopes = torch.autograd.grad((outputs * weight).sum(), [x, *(leaves[n] for n in names)])
    (own_x,) = torch.autograd.grad((expected * weight).sum(), x, retain_graph=True)
    (expected * weight).sum().backward()
    torch.testing.assert_close(slopes[0], own_x, **EXACT)
    for slope, key in zip(slopes[1:], names, strict=True):
        own = torch.stack([dict(net.named_parameters())[key].grad for net in nets])
        torch.testing.assert_close(slope, own, **EXACT)
    for key, buffer in leaves.items():  # running statistics
        if key not in stacked.trained:
            own = torch.stack([dict(net.named_buffers())[key] for net in nets])
            torch.testing.assert_close(buffer, own, **EXACT)


def test_pooling_before_relu_changes_no_bit():
    """Whole numbers make ties, zeros of both signs and windows without a positive number."""
    net = nn.Sequential(
        nn.Conv2d(1, 1, 1, bias=False), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()
    ).double()
    net[0].weight.data.fill_(-1.0)
    x = inputs(1, 400, 1, 4, 4).mul(1.5).round().requires_grad_()
    frozen = stack([net])
    out = Stack(net)(frozen, x)
    truth = net(x[0])
    assert torch.equal(out[0], truth)
    weight = inputs(*truth.shape, seed=2)
    (ours,) = torch.autograd.grad((out[0] * weight).sum(), x)
    (theirs,) = torch.autograd.grad((truth * weight).sum(), x)
    assert torch.equal(ours, theirs)


@pytest.mark.parametrize("name", ["relu, pool", "shared layers", "resnet", "batch norm"])
def test_neither_the_image_network_nor_its_inputs_change(name):
    make, shape = IMAGES[name]
    (net,) = members_of(make, 1)
    before, words, x = copy.deepcopy(net.state_dict()), str(net), inputs(1, 5, *shape)
    kept = x.clone()
    stacked = Stack(net)
    stacked(stack([net]), x, Rng(0, (0,)))
    stacked(stack([net]), x)
    assert torch.equal(x, kept)
    assert str(net) == words
    assert all(torch.equal(before[key], value) for key, value in net.state_dict().items())


def test_many_images_run_in_pieces_where_no_gradient_needs_them_all():
    sizes = []

    class Counting(nn.Conv2d):
        def forward(self, x):
            sizes.append(len(x))
            return super().forward(x)

    net = nn.Sequential(Counting(1, 2, 3), nn.Flatten(), nn.Linear(8, 3)).double().eval()
    stacked, tensors, x = Stack(net), stack([net]), inputs(1, 300, 1, 4, 4)
    with torch.no_grad():
        outputs = stacked(tensors, x)
        assert sizes == [128, 128, 44]
        torch.testing.assert_close(outputs[0], net(x[0]), **EXACT)
        sizes.clear()
        stacked(tensors, x, Rng(0, (0,)))
    stacked(tensors, x)
    assert sizes == [300, 300]


def test_frozen_weights_give_gradients_of_the_inputs_alone():
    nets, x = members_of(IMAGES["lenet"][0], 2), inputs(2, 3, 1, 8, 8).requires_grad_()
    outputs = Forward(Stack(nets[0]), stack(nets)).frozen()(x)
    (slope,) = torch.autograd.grad(outputs.square().sum(), x)
    for place, net in enumerate(nets):
        own = x[place].detach().requires_grad_()
        (truth,) = torch.autograd.grad(net.eval()(own).square().sum(), own)
        torch.testing.assert_close(slope[place], truth, **EXACT)


@pytest.mark.parametrize("name", ["lenet", "small_cnn", "resnet"])
def test_an_image_network_alone_is_trained_to_the_bits_it_has_in_an_ensemble(name):
    make, shape = IMAGES[name]
    x, y = inputs(40, *shape).float(), torch.arange(40) % 3
    options = {"epochs": 2, "batch_size": 16, "progress": False}
    together = train(make, (x, y), members=3, **options)
    alone = train(make, (x, y), members=[1], **options)
    assert all(torch.equal(alone.tensors[n][0], t[1]) for n, t in together.tensors.items())
