"""Networks for images: published sizes, layers, and what geometry reads of them."""

import copy
from math import prod

import pytest
import torch
from torch import nn

from nescio import nets
from nescio.core import NescioError
from nescio.geometry.affine_maps import affine
from nescio.geometry.rays.far_field import far_field
from nescio.nets.convolutional import Block


def weights(net):
    return sum(p.numel() for p in net.parameters())


def of_kind(net, kind):
    return [module for module in net.modules() if isinstance(module, kind)]


@pytest.mark.parametrize(
    ("blocks", "millions"), [(3, 0.27), (5, 0.46), (7, 0.66), (9, 0.85), (18, 1.7)]
)
def test_residual_networks_have_the_published_sizes(blocks, millions):
    """He et al. (2016), table 6: ResNet-20 to ResNet-110."""
    net = nets.resnet(blocks=blocks)
    assert round(weights(net) / 1e6, 1 if millions > 1 else 2) == millions
    assert len(of_kind(net, (nn.Conv2d, nn.Linear))) == 6 * blocks + 2


def test_numbers_of_weights_by_hand():
    first, second = 32 * 25 + 32, 64 * 32 * 25 + 64
    assert weights(nets.lenet()) == first + second + 3136 * 1024 + 1024 + 1024 * 10 + 10
    assert weights(nets.lenet()) == 3_274_634
    small = 16 * 25 + 16 + 32 * 16 * 25 + 32 + 1568 * 128 + 128 + 1290
    assert weights(nets.small_cnn()) == small == 215_370
    assert weights(nets.resnet()) == 269_722


@pytest.mark.parametrize("make", [nets.lenet, nets.small_cnn, nets.resnet])
@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (2, 9, 14), (1, 4, 5)])
def test_images_of_any_size(make, shape):
    net = make(shape, 7)
    assert net(torch.rand(3, *shape)).shape == (3, 7)


def test_convolutions_keep_the_size_and_poolings_halve_it():
    net = nets.lenet()
    sizes = []
    for layer in of_kind(net, (nn.Conv2d, nn.MaxPool2d)):
        layer.register_forward_hook(lambda _, __, out: sizes.append(tuple(out.shape[1:])))
    net(torch.rand(2, 1, 28, 28))
    assert sizes == [(32, 28, 28), (32, 14, 14), (64, 14, 14), (64, 7, 7)]


@pytest.mark.parametrize("make", [nets.lenet, nets.small_cnn])
def test_dropout_stands_before_the_last_layer(make):
    kinds = [type(layer) for layer in make(dropout=0.5)]
    assert kinds[-2:] == [nn.Dropout, nn.Linear]
    assert kinds.count(nn.Dropout) == 1
    assert not of_kind(make(), nn.Dropout)


def test_width_is_the_number_of_channels():
    assert [c.out_channels for c in of_kind(nets.small_cnn(width=5), nn.Conv2d)] == [5, 10]
    channels = [c.out_channels for c in of_kind(nets.resnet(blocks=1, width=3), nn.Conv2d)]
    assert channels == [3, 3, 3, 6, 6, 12, 12]


def test_a_block_whose_convolutions_say_nothing_passes_its_input_on():
    x = torch.randn(2, 3, 6, 5)
    same, halved = Block(3, 3, 1).eval(), Block(3, 6, 2).eval()
    for block in (same, halved):
        for layer in of_kind(block, nn.Conv2d):
            nn.init.zeros_(layer.weight)
    assert torch.equal(same(x), x.relu())
    out = halved(x)
    assert torch.equal(out[:, :3], x[:, :, ::2, ::2].relu())
    assert out[:, 3:].abs().max() == 0


def test_a_block_by_hand():
    block, x = Block(2, 4, 2).double().eval(), torch.randn(3, 2, 5, 6, dtype=torch.float64)
    first, norm, _, second, last = block.body
    convolve = nn.functional.conv2d
    hidden = last(second(norm(convolve(x, first.weight, stride=2, padding=1)).relu()))
    hidden[:, :2] += x[:, :, ::2, ::2]
    torch.testing.assert_close(block(x), hidden.relu())


def randomized(net):
    """Statistics and biases that no layer passes through unchanged."""
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, value in net.named_buffers():
            if "running_var" in name:
                value.copy_(0.5 + torch.rand(value.shape, generator=draw))
            elif "running_mean" in name:
                value.copy_(torch.randn(value.shape, generator=draw))
    return net.eval()


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (nets.lenet, (1, 8, 8)),
        (nets.lenet, (3, 9, 6)),
        (lambda shape: nets.small_cnn(shape, dropout=0.3), (1, 9, 8)),
        (nets.small_cnn, (3, 8, 8)),
        (lambda shape: nets.resnet(shape, blocks=1, width=4), (3, 8, 8)),
        (lambda shape: nets.resnet(shape, blocks=2, width=2), (1, 7, 9)),
        (lambda shape: nets.resnet(shape, blocks=1, width=4, stem=2, hidden=5), (3, 9, 8)),
        (lambda shape: nets.resnet(shape, blocks=1, width=4, dropout=0.3), (3, 8, 8)),
    ],
)
@torch.no_grad()
def test_geometry_reads_them(make, shape):
    torch.manual_seed(1)
    net = randomized(make(shape))
    own = copy.deepcopy(net).double()
    origin, way = torch.randn(2, 3, *shape, dtype=torch.float64)
    V, a = affine(net, origin)
    assert V.shape == (3, 10, prod(shape))
    pieces = torch.einsum("ncd,nd->nc", V, origin.flatten(1)) + a
    torch.testing.assert_close(pieces, own(origin), rtol=1e-10, atol=1e-12)
    far = far_field(net, origin, way)
    for t in (1.001 * far.radius, 2 * far.radius + 1, 1e5 * (far.radius + 1)):
        truth = own(origin + t.view(-1, 1, 1, 1) * way)
        torch.testing.assert_close(far.logits(t) / (1 + t[:, None]), truth / (1 + t[:, None]))


@pytest.mark.parametrize("make", [nets.lenet, nets.small_cnn, nets.resnet])
def test_what_is_no_image_is_refused(make):
    for inputs in (784, (28, 28), (1, 1, 28, 28)):
        with pytest.raises(NescioError, match="reads images .channels, height, width., got"):
            make(inputs, 10)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nets.lenet((1, 3, 28), 10), "at least 4x4"),
        (lambda: nets.lenet(outputs=0), "at least 4x4 and an output"),
        (lambda: nets.lenet(dropout=1.0), "dropout must be in"),
        (lambda: nets.small_cnn((0, 28, 28), 10), "sizes must be positive"),
        (lambda: nets.small_cnn(width=0), "sizes must be positive"),
        (lambda: nets.small_cnn(dropout=-0.1), "dropout must be in"),
        (lambda: nets.resnet(blocks=0), "sizes must be positive.*blocks 0"),
        (lambda: nets.resnet(width=0), "sizes must be positive.*width 0"),
        (lambda: nets.resnet((3, 0, 32)), "sizes must be positive"),
        (lambda: nets.resnet(stem=0), "sizes must be positive.*stem 0"),
        (lambda: nets.resnet(hidden=-1), "sizes must be positive.*hidden -1"),
        (lambda: nets.resnet(dropout=1.0), "dropout must be in"),
    ],
)
def test_options_are_checked(make, message):
    with pytest.raises(NescioError, match=message):
        make()


def test_a_resnet_with_a_stem_sees_an_image_of_half_the_size_through_wider_windows():
    net = nets.resnet(blocks=1, width=4, stem=2, hidden=7)
    seen = net[:3](torch.rand(1, 3, 32, 32))
    assert seen.shape == (1, 4, 16, 16)
    assert net[0].kernel_size == (5, 5)
    assert [layer.out_features for layer in of_kind(net, nn.Linear)] == [7, 10]


def test_dropout_of_a_resnet_is_between_the_means_over_the_image_and_the_last_layer():
    net = nets.resnet(blocks=1, width=4, dropout=0.5)
    assert [type(layer) for layer in net[-3:]] == [nn.Flatten, nn.Dropout, nn.Linear]
    assert net[-2].p == 0.5
    assert not of_kind(nets.resnet(blocks=1, width=4), nn.Dropout)


def test_a_dilated_network_answers_each_pixel_and_sees_as_far_as_it_says():
    net = nets.dilated_cnn((2, 20, 25), 3, width=4, depth=3).double()
    x = torch.rand(1, 2, 20, 25, dtype=torch.double, requires_grad=True)
    assert net(x).shape == (1, 3, 20, 25)
    assert net(x[..., :10, :11]).shape == (1, 3, 10, 11)
    (slope,) = torch.autograd.grad(net(x)[0, :, 10, 12].sum(), x)
    rows, columns = (slope[0].abs().sum(0) > 0).nonzero().unbind(1)
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (3, 17, 5, 19)  # 7 each way
    with pytest.raises(NescioError, match="sizes must be positive"):
        nets.dilated_cnn(depth=0)
