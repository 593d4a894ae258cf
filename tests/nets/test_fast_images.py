"""Quick pooling and one-channel convolutions against PyTorch's own: values and gradients."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from nescio.nets.modes import QuickImages


def draw(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def gradients(function, *tensors):
    """Outputs and the gradients of a random projection of them."""
    leaves = [t.detach().clone().requires_grad_() for t in tensors]
    out = function(*leaves)
    return out.detach(), torch.autograd.grad((out * draw(*out.shape, seed=9)).sum(), leaves)


def both(function, *tensors):
    plain = gradients(function, *tensors)
    with QuickImages():
        quick = gradients(function, *tensors)
    return plain, quick


def kind(function, *tensors):
    """The name of the backward function of what comes out under the mode."""
    with QuickImages():
        return function(*(t.detach().requires_grad_() for t in tensors)).grad_fn.name()


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 3), st.integers(1, 3), st.integers(1, 5), st.integers(1, 5), st.integers(0, 999)
)
def test_pooling_is_that_of_torch_to_the_bit_also_where_values_are_equal(n, c, h, w, seed):
    x = draw(n, c, 2 * h, 2 * w, seed=seed).round()  # whole numbers: many windows have ties
    plain, quick = both(lambda x: F.max_pool2d(x, 2), x)
    assert torch.equal(plain[0], quick[0])
    assert torch.equal(plain[1][0], quick[1][0])


@pytest.mark.parametrize(
    "values",
    [
        [0.0, -0.0, -0.0, 0.0],
        [-0.0, 0.0, 0.0, -0.0],
        [5e-324, 0.0, 1e-323, 1e-323],
        [-torch.inf, -torch.inf, -1.0, -torch.inf],
        [1.0, 2.0, 2.0, 1.0],
        [2.0, 2.0, 2.0, 2.0],
    ],
    ids=str,
)
def test_of_equal_values_the_first_gets_the_gradient(values):
    x = torch.tensor(values, dtype=torch.float64).view(1, 1, 2, 2)
    plain, quick = both(lambda x: F.max_pool2d(x, 2), x)
    assert torch.equal(plain[0], quick[0])
    assert torch.equal(plain[1][0], quick[1][0])


def test_what_is_no_number_goes_on():
    x = draw(2, 3, 4, 6)
    x[1, 2, 3, 1] = torch.nan
    with QuickImages():
        assert F.max_pool2d(x, 2).isnan().nonzero().tolist() == [[1, 2, 1, 0]]
        assert F.max_pool2d(x.requires_grad_(), 2).isnan().nonzero().tolist() == [[1, 2, 1, 0]]


POOLS = {
    "layer": nn.MaxPool2d(2),
    "layer with its stride": nn.MaxPool2d((2, 2), 2),
    "function": lambda x: F.max_pool2d(x, 2),
    "by names": lambda x: F.max_pool2d(input=x, kernel_size=2, stride=(2, 2), padding=(0, 0)),
    "torch": lambda x: torch.max_pool2d(x, 2),
    "torch with its stride": lambda x: torch.max_pool2d(x, (2, 2), stride=(2, 2)),
}
OTHER_POOLS = {
    "three": nn.MaxPool2d(3),
    "overlapping": nn.MaxPool2d(2, 1),
    "padded": nn.MaxPool2d(2, 2, 1),
    "dilated": nn.MaxPool2d(2, 2, 0, 2),
    "one side": nn.MaxPool2d((2, 1)),
    "with places": lambda x: F.max_pool2d(x, 2, return_indices=True)[0],
    "odd": lambda x: F.max_pool2d(x[..., 1:], 2),
    "odd, rounded up": lambda x: F.max_pool2d(x[..., 1:].contiguous(), 2, ceil_mode=True),
    "no samples": lambda x: F.max_pool2d(x[0], 2),
    "channels last": lambda x: F.max_pool2d(x.contiguous(memory_format=torch.channels_last), 2),
    "torch, odd": lambda x: torch.max_pool2d(x[..., 1:], 2),
    "torch, padded": lambda x: torch.max_pool2d(x, 2, padding=1),
}


@pytest.mark.parametrize("name", [*POOLS, *OTHER_POOLS])
def test_every_pooling_agrees_with_torch(name):
    pool = (POOLS | OTHER_POOLS)[name]
    x = draw(3, 4, 6, 8)
    plain, quick = both(pool, x)
    assert torch.equal(plain[0], quick[0])
    assert torch.equal(plain[1][0], quick[1][0])
    assert ("_Pool" in kind(pool, x)) == (name in POOLS)


CONVOLUTIONS = {
    "plain": ((2, 1, 9, 8), (4, 1, 3, 3), {}),
    "padded": ((2, 1, 9, 8), (4, 1, 5, 5), {"padding": 2}),
    "strided": ((2, 1, 9, 8), (4, 1, 4, 4), {"stride": 2, "padding": 1}),
    "left over": ((3, 1, 10, 9), (2, 1, 3, 3), {"stride": 3}),
    "oblong": ((2, 1, 7, 9), (3, 1, 2, 4), {"stride": (1, 2), "padding": (1, 3)}),
    "one output": ((1, 1, 6, 6), (1, 1, 6, 6), {}),
    "one by one": ((2, 1, 5, 4), (3, 1, 1, 1), {"stride": 2}),
}
OTHER_CONVOLUTIONS = {
    "color": ((2, 3, 6, 6), (4, 3, 3, 3), {}),
    "dilated": ((2, 1, 9, 8), (4, 1, 3, 3), {"dilation": 2}),
    "same": ((2, 1, 9, 8), (4, 1, 3, 3), {"padding": "same"}),
    "groups": ((2, 2, 9, 8), (4, 1, 3, 3), {"groups": 2}),
}


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("name", [*CONVOLUTIONS, *OTHER_CONVOLUTIONS])
def test_every_convolution_agrees_with_torch(name, biased):
    inputs, weights, options = (CONVOLUTIONS | OTHER_CONVOLUTIONS)[name]
    tensors = [draw(*inputs), draw(*weights, seed=1)] + [draw(weights[0], seed=2)] * biased
    convolve = lambda x, w, b=None: F.conv2d(x, w, b, **options)  # noqa: E731
    plain, quick = both(convolve, *tensors)
    assert torch.equal(plain[0], quick[0])
    for truth, found in zip(plain[1], quick[1], strict=True):
        torch.testing.assert_close(found, truth, rtol=1e-12, atol=1e-12)
    assert ("_FromOneChannel" in kind(convolve, *tensors)) == (name in CONVOLUTIONS)


@settings(max_examples=40, deadline=None)
@given(*(st.integers(1, n) for n in (3, 9, 9, 3, 4, 4, 3, 3)), st.integers(0, 2), st.integers(0, 2))
def test_convolutions_of_any_size(n, h, w, o, kh, kw, sh, sw, ph, pw):
    if kh > h + 2 * ph or kw > w + 2 * pw:
        return
    convolve = lambda x, w, b: F.conv2d(x, w, b, (sh, sw), (ph, pw))  # noqa: E731
    plain, quick = both(convolve, draw(n, 1, h, w), draw(o, 1, kh, kw, seed=1), draw(o, seed=2))
    for truth, found in zip(plain[1], quick[1], strict=True):
        torch.testing.assert_close(found, truth, rtol=1e-12, atol=1e-12)


def test_only_the_gradients_that_are_wanted_are_computed():
    x, weight = draw(2, 1, 6, 6), draw(3, 1, 3, 3, seed=1)
    with QuickImages():
        out = F.conv2d(x.requires_grad_(), weight)
        (found,) = torch.autograd.grad(out.sum(), x)
        frozen = F.conv2d(x.detach(), weight.requires_grad_())
        (slope,) = torch.autograd.grad(frozen.sum(), weight)
    assert found.shape == x.shape
    assert slope.shape == weight.shape


@pytest.mark.parametrize("grad", [True, False])
def test_nothing_is_kept_for_gradients_that_nobody_asks_for(grad):
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.MaxPool2d(2)).double().requires_grad_(grad)
    x = draw(2, 1, 8, 8)
    with torch.set_grad_enabled(not grad), QuickImages():
        out = net(x)
    assert not out.requires_grad
    assert torch.equal(out, net(x))


def test_second_derivatives():
    x = draw(2, 1, 6, 6).requires_grad_()
    weight, bias = draw(3, 1, 3, 3, seed=1).requires_grad_(), draw(3, seed=2).requires_grad_()

    def function(x, weight, bias):
        with QuickImages():
            return F.max_pool2d(F.conv2d(x, weight, bias), 2).square()

    assert torch.autograd.gradcheck(function, (x, weight, bias))
    assert torch.autograd.gradgradcheck(function, (x, weight, bias))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_number_types_stay(dtype):
    x = draw(2, 1, 8, 8).to(dtype).requires_grad_()
    layer = nn.Conv2d(1, 3, 3).to(dtype)
    with QuickImages():
        out = F.max_pool2d(layer(x), 2)
    (slope,) = torch.autograd.grad(out.float().sum(), x)
    assert out.dtype == slope.dtype == dtype
    assert torch.equal(out, F.max_pool2d(layer(x), 2))


def test_other_functions_and_what_is_ood_the_mode_are_left_alone():
    x = draw(2, 1, 6, 6).requires_grad_()
    with QuickImages():
        assert F.avg_pool2d(x, 2).grad_fn.name() == "AvgPool2DBackward0"
        assert F.conv_transpose2d(x, draw(1, 2, 3, 3)).shape == (2, 2, 8, 8)
    assert "MaxPool2D" in F.max_pool2d(x, 2).grad_fn.name()


def test_the_result_of_a_quick_convolution_may_be_changed_in_place():
    net = nn.Sequential(nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(inplace=True)).double()
    plain, quick = both(net, draw(3, 1, 8, 8))
    assert torch.allclose(plain[0], quick[0], atol=1e-14)
    assert torch.allclose(plain[1][0], quick[1][0], atol=1e-14)


@pytest.mark.parametrize("channels", [2, 32], ids=["few kernels", "many kernels"])
def test_a_convolution_without_gradients_has_the_same_values(channels):
    x, weight = draw(3, 1, 9, 7), draw(channels, 1, 5, 3, seed=1)
    plain = F.conv2d(x, weight, None, (2, 1), (1, 2))
    with QuickImages():
        assert torch.allclose(F.conv2d(x, weight, None, (2, 1), (1, 2)), plain, atol=1e-14)
