"""Whatever replaces torch's forward gives what torch gives, and refuses what torch refuses.

Random shapes, number types and memory layouts. 20,000 cases:
`NESCIO_CASES=20000 pytest tests/nets/test_fast_paths.py`.
"""

import os
import random
from copy import deepcopy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import nescio
from nescio import geometry
from nescio.core import NescioError, generator
from nescio.models import ensemble, mc_dropout, plain
from nescio.nets import selected
from nescio.nets.copies import sharing
from nescio.nets.modes import MaskPerPass, QuickImages
from nescio.nets.stack import Stack, dense, stack

CASES = int(os.environ.get("NESCIO_CASES", "600"))
CHUNKS = 10
REFUSED = (RuntimeError, ValueError, TypeError, IndexError)
FLOATS = (torch.float32, torch.float32, torch.float64, torch.float16, torch.bfloat16)
DTYPES = (*FLOATS, torch.int64, torch.uint8, torch.bool)
NEAR = {torch.float64: 1e-9, torch.float32: 2e-4, torch.float16: 3e-2, torch.bfloat16: 3e-1}


def laid_out(x, chance):
    """The same numbers in another layout of the memory."""
    how = chance.choice(["plain", "plain", "last", "turned", "strided", "expanded", "offset"])
    if how == "last" and x.ndim == 4:
        return x.contiguous(memory_format=torch.channels_last)
    if how == "turned" and x.ndim > 1:
        return x.transpose(0, -1).contiguous().transpose(0, -1)
    if how == "strided":
        return torch.stack([x, x], -1)[..., 0]
    if how == "expanded" and len(x):
        return x[:1].expand(x.shape)
    if how == "offset":
        return torch.cat([x[:1], x])[1:] if len(x) else x
    return x


def tensor(shape, chance, dtype=torch.float32):
    draws = torch.Generator().manual_seed(chance.randrange(1 << 30))
    x = torch.randn(shape, generator=draws, dtype=torch.float64)
    if chance.random() < 0.3:
        x = x.round()  # with ties
    return laid_out((x * 3).abs().to(dtype) if dtype == torch.uint8 else x.to(dtype), chance)


def image_shape(chance):
    shape = [
        chance.choice([0, 1, 2, 3]),
        chance.choice([1, 1, 2, 3]),
        *chance.choices(range(1, 9), k=2),
    ]
    if chance.random() < 0.2:
        shape = [shape[0], *shape[2:], shape[1]]  # channels last
    if chance.random() < 0.1:
        shape.insert(chance.randrange(5), chance.choice([1, 2]))
    if chance.random() < 0.1:
        del shape[chance.randrange(4)]
    return shape


def outcome(call):
    """What a call gives, or that it refuses."""
    try:
        return call(), None
    except REFUSED as error:
        return None, error


def compare(ours, theirs, case, *, strict=True):
    """Equal results, or two refusals; not `strict`: ours may refuse more."""
    (found, our_error), (expected, their_error) = ours, theirs
    if their_error is not None:
        assert our_error is not None, f"{case}: torch refuses: {their_error}"
        return
    if our_error is not None:
        assert not strict, f"{case}: torch takes it: {our_error}"
        return
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape, case
        assert a.dtype == b.dtype, case
        if not a.numel():
            continue
        near = NEAR.get(b.dtype, 0)
        scale = max(1.0, b[b.isfinite()].abs().max().item() if b.isfinite().any() else 1.0)
        torch.testing.assert_close(
            a, b, rtol=near, atol=near * scale, equal_nan=True, msg=str(case)
        )


def with_gradients(function, *inputs):
    """The result and its gradients with respect to the inputs that have some."""
    leaves = [x.detach().clone(memory_format=torch.preserve_format) for x in inputs]
    floats = [x.requires_grad_() for x in leaves if x.is_floating_point()]
    result = function(*leaves)
    total = (result * torch.arange(result.numel()).reshape(result.shape).to(result)).sum()
    return [result.detach(), *torch.autograd.grad(total, floats)] if floats else [result]


def both(function, inputs, chance):
    """Under the mode of quick images and without it; with gradients or not."""
    if chance.random() < 0.5:
        run = lambda: with_gradients(function, *inputs)  # noqa: E731
    else:
        run = torch.no_grad()(lambda: [function(*inputs)])
    with QuickImages():
        ours = outcome(run)
    return ours, outcome(run)


def pair(chance, values):
    kind = chance.choice(["one", "two", "two", "list", "three"])
    number = chance.choice(values)
    if kind == "one":
        return number
    count = 3 if kind == "three" and chance.random() < 0.2 else 2
    several = [chance.choice(values) for _ in range(count)]
    return several if kind == "list" else tuple(several)


def convolution(chance):
    kind = chance.choice(DTYPES)
    other = chance.choice(DTYPES) if chance.random() < 0.15 else kind
    x = tensor(image_shape(chance), chance, kind)
    weight = tensor(
        [
            chance.choice([1, 3, 8, 20]),
            chance.choice([1, 1, 1, 2]),
            *chance.choices([1, 2, 3, 5], k=2),
        ],
        chance,
        other,
    )
    inputs = [x, weight]
    if chance.random() < 0.5:
        size = len(weight) if chance.random() < 0.9 else chance.choice([1, 2])
        inputs.append(tensor([size], chance, other))
    options = {
        "stride": pair(chance, [1, 1, 2, 3]), "padding": pair(chance, [0, 1, 2]),
        "dilation": pair(chance, [1, 1, 1, 2]), "groups": chance.choice([1, 1, 1, 2]),
    }  # fmt: skip
    if chance.random() < 0.1:
        options |= {"padding": chance.choice(["same", "valid", "odd"]), "stride": 1}
    call = F.conv2d if chance.random() < 0.5 else torch.conv2d
    case = (tuple(x.shape), kind, tuple(weight.shape), other, options)
    compare(*both(lambda *tensors: call(*tensors, **options), inputs, chance), case)


def pooling(chance):
    kind = chance.choice(DTYPES)
    x = tensor(image_shape(chance), chance, kind)
    if chance.random() < 0.1 and kind.is_floating_point:
        x = torch.where(x > 0.5, torch.inf, torch.where(x < -0.5, -torch.inf, x))
    options = {"kernel_size": pair(chance, [2, 2, 2, 3])}
    for name, values in {"stride": [2, 2, 1], "padding": [0, 1], "dilation": [1, 2]}.items():
        if chance.random() < 0.3:
            options[name] = pair(chance, values)
    if "padding" in options:  # windows that lie outside corrupt the memory of torch itself
        options.pop("dilation", None)
    if chance.random() < 0.2:
        options["ceil_mode"] = True
    call = F.max_pool2d if chance.random() < 0.5 else torch.max_pool2d
    compare(*both(lambda x: call(x, **options), [x], chance), (tuple(x.shape), kind, options))


def random_mlp(chance):
    widths = [chance.choice([1, 2, 4, 6]) for _ in range(chance.choice([1, 2, 3]))]
    layers = [nn.Flatten()] if chance.random() < 0.5 else []
    for index, (before, after) in enumerate(zip(widths, [*widths[1:], 3], strict=True)):
        layers.append(nn.Linear(before, after, bias=chance.random() < 0.7))
        if index < len(widths) - 1:
            layers.append(
                chance.choice(
                    [nn.ReLU(), nn.ReLU(inplace=True), nn.Tanh(), nn.GELU(), nn.Dropout(0.5)]
                )
            )
    if chance.random() < 0.2:
        layers = [
            nescio.nets.Standardize(torch.zeros(widths[0]), torch.full((widths[0],), 2.0)),
            *layers,
        ]
    return nn.Sequential(*layers), widths[0]


def random_cnn(chance):
    channels, kernel = chance.choice([1, 1, 2, 3]), chance.choice([1, 2, 3])
    activation = chance.choice([nn.ReLU(), nn.ReLU(inplace=True), nn.Tanh()])
    layers = [
        nn.Conv2d(channels, 4, kernel, stride=chance.choice([1, 2]), padding=chance.choice([0, 1]))
    ]
    if chance.random() < 0.4:
        layers.append(nn.BatchNorm2d(4))
    order = [activation, nn.MaxPool2d(2, ceil_mode=chance.random() < 0.2)]
    layers += order if chance.random() < 0.7 else order[::-1]
    if chance.random() < 0.3:
        layers.append(nn.Dropout2d(0.4))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)), channels


def random_net(chance):
    """A network and inputs that it takes, or almost."""
    torch.manual_seed(chance.randrange(1 << 30))
    if chance.random() < 0.5:
        net, features = random_mlp(chance)
        shape = [chance.choice([0, 1, 3]), features if chance.random() < 0.8 else features + 1]
        if chance.random() < 0.3:
            shape.insert(chance.randrange(3), chance.choice([1, 2]))
    else:
        net, channels = random_cnn(chance)
        shape = image_shape(chance)
        if len(shape) == 4 and chance.random() < 0.6:
            shape[1] = channels
    return net.eval(), shape


def others(net, count):
    nets = [deepcopy(net) for _ in range(count)]
    for other in nets[1:]:
        for tensor in [*other.parameters(), *other.buffers()]:
            if tensor.is_floating_point():
                tensor.data *= 1.25
    return nets


def stacked(chance):
    """M networks as one, weights and inputs of any type."""
    net, shape = random_net(chance)
    kind = chance.choice(FLOATS)
    nets = others(net.to(kind), chance.choice([1, 2, 3]))
    x = tensor(shape, chance, chance.choice(DTYPES) if chance.random() < 0.3 else kind)
    architecture, weights = Stack(net), stack(nets)

    def ours(x):
        return architecture(weights, x.expand(len(nets), *x.shape))

    def theirs(x):
        return torch.stack([selected(one(x.clone())) for one in nets])

    if chance.random() < 0.5:
        found, expected = (outcome(lambda f=f: with_gradients(f, x)) for f in (ours, theirs))
    else:
        found, expected = (outcome(torch.no_grad()(lambda f=f: [f(x)])) for f in (ours, theirs))
    usual = expected[1] is not None or expected[0][0].ndim == 3  # else: on which axis are classes?
    compare(found, expected, (net, tuple(x.shape), x.dtype, kind), strict=usual)


def predictors(chance):
    """Public calls: uint8 images are divided by 255, other numbers become those of the weights."""
    net, shape = random_net(chance)
    kind = chance.choice(FLOATS[:3])
    nets = others(net.to(kind), chance.choice([1, 2]))
    x = tensor(shape, chance, chance.choice(DTYPES))
    call = plain(nets[0]).outputs if len(nets) == 1 else ensemble(nets).outputs
    if len(nets) == 1 and chance.random() < 0.4:
        call = lambda x: nescio.observe(nets[0], x, layers=[]).logits  # noqa: E731
    ready = x.to(kind) / 255 if x.dtype == torch.uint8 else x.to(kind)
    with torch.no_grad():
        expected = outcome(lambda: [torch.stack([selected(one(ready.clone())) for one in nets])])
        odd = x.dtype == torch.uint8 and x.ndim != 4  # refused: nobody says what they mean
        found = outcome(lambda: [call(x)])
    if odd:
        assert isinstance(found[1], NescioError)
        return
    if found[1] is not None:
        assert isinstance(found[1], NescioError), found[1]
    shapes = None if expected[1] else expected[0][0].shape
    empty = not x.numel() or x.ndim < 2 or (shapes and (len(shapes) != 3 or shapes[-1] < 2))
    if call.__name__ == "<lambda>":  # in double or single precision
        expected = (
            expected[0] and [expected[0][0].to(found[0][0].dtype)] if found[0] else None,
            expected[1],
        )
    compare(found, expected, (net, tuple(x.shape), x.dtype, kind), strict=not empty)


def dropout(chance):
    """All passes together, from the prefix on, against one pass after the other."""
    net, shape = random_net(chance)
    net.insert(len(net) - 1, nn.Dropout(0.5))
    x = tensor(shape, chance).double()
    net.double()

    def one_by_one():
        passes, copy = [], sharing(net)
        for t in range(3):
            with torch.no_grad(), MaskPerPass([generator(0, "pass", t)], len(x)):
                passes.append(selected(copy(x.clone())))
        return [torch.stack(passes)]

    found = outcome(lambda: [mc_dropout(net, passes=3).outputs(x)])
    expected = outcome(one_by_one)
    shapes = None if expected[1] else expected[0][0].shape
    usual = x.numel() and x.ndim > 1 and shapes and len(shapes) == 3
    compare(found, expected, (net, tuple(x.shape)), strict=bool(usual))


def traced(chance):
    """The affine map at a point is the network's answer there."""
    net, shape = random_net(chance)
    x = tensor(shape, chance)

    def value():
        found = geometry.affine(net, x)
        flat = x.flatten(1).double()
        return [torch.einsum("nck,nk->nc", found.V.flatten(2), flat) + found.a]

    smooth = any(isinstance(layer, nn.Tanh | nn.GELU) for layer in net)
    twin = deepcopy(net).double()
    expected = outcome(torch.no_grad()(lambda: [twin(x.double().clone())]))
    usual = x.numel() and x.ndim > 1 and not smooth
    found = outcome(value)
    if found[1] is not None:
        assert isinstance(found[1], NescioError), found[1]
        usual = False  # points on a bend, and shapes the geometry does not read
    compare(found, expected, (net, tuple(x.shape)), strict=bool(usual))


def by_hand(chance):
    """Gradients in closed form."""
    torch.manual_seed(chance.randrange(1 << 30))
    widths = [chance.choice([1, 3, 5]) for _ in range(2)]
    net = nn.Sequential(nn.Linear(widths[0], widths[1]), nn.ReLU(), nn.Linear(widths[1], 2))
    nets = others(net, 2)
    x = tensor([2, 4, widths[0] + (chance.random() < 0.2)], chance)
    y = tensor([2, 4, 2], chance)
    weights, layers = stack(nets), dense(Stack(net), (widths[0],))
    assert layers is not None

    def slope(outputs, targets):
        return (outputs - targets).square().sum(-1), 2 * (outputs - targets)

    def ours():
        scores, slopes = layers(weights, x, y, slope)
        return [scores, *slopes]

    def theirs():
        leaves = [weights[n].detach().clone().requires_grad_() for n in weights]
        named = dict(zip(weights, leaves, strict=True))
        outputs = [
            torch.func.functional_call(net, {n: t[m] for n, t in named.items()}, (x[m],))
            for m in range(2)
        ]
        scores = (torch.stack(outputs) - y).square().sum(-1).mean(1)
        return [scores.detach(), *torch.autograd.grad(scores.sum(), leaves)]

    compare(outcome(ours), outcome(theirs), (widths, tuple(x.shape)))


PATHS = {
    convolution: 6, pooling: 4, stacked: 6, predictors: 5, dropout: 1, traced: 2, by_hand: 1,
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_fast_paths_are_torch(chunk):
    for case in range(chunk, CASES, CHUNKS):
        chance = random.Random(case)
        path = chance.choices(list(PATHS), weights=PATHS.values())[0]
        try:
            path(chance)
        except AssertionError as error:
            raise AssertionError(f"case {case}, {path.__name__}: {error}") from error


@pytest.mark.parametrize("make", [plain, lambda net: ensemble([net, net])])
def test_images_with_the_channels_last_are_refused_and_named(make):
    net = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3)
    )
    x = torch.rand(5, 28, 28, 1)
    with pytest.raises(NescioError, match=r"channels-last \(N, H, W, C\).*wants \(N, C, H, W\)"):
        make(net)(x)
    with pytest.raises(NescioError, match="channels-last"):
        nescio.observe(net, x)
    with pytest.raises(NescioError, match="channels-last"):
        mc_dropout(nn.Sequential(net, nn.Dropout(0.5)))(x)
    assert make(net)(x.permute(0, 3, 1, 2)).probs.shape == (5, 3)
