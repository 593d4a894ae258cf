"""A network run on affine maps: every supported layer against the network itself in float64."""

import copy
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from nescio import heads, losses, models, nets
from nescio.calibration import scaled as scaled_by
from nescio.core import NescioError, generator
from nescio.geometry.affine_maps import affine
from nescio.geometry.rays.far_field import far_field
from nescio.geometry.tracing.instances import instances
from nescio.models.model import Model
from nescio.nets.modes import MaskPerPass
from nescio.nets.stack import stack
from nescio.training.train import train


class Function(nn.Module):
    """A network from a function of its layers and its inputs."""

    def __init__(self, function, *layers, **buffers):
        super().__init__()
        self.function = function
        self.layers = nn.ModuleList(layers)
        for name, value in buffers.items():
            self.register_buffer(name, value)

    def forward(self, x):
        return self.function(self, x)


def ended(*layers, inputs, outputs=3):
    """Layers, then a linear layer on what they give."""
    body = nn.Sequential(*layers, nn.Flatten())
    size = body.eval()(torch.zeros(2, *inputs)).shape[1]
    return nn.Sequential(body, nn.Linear(size, outputs))


def randomized(net, seed=0):
    """Weights, statistics and slopes at random: no unit starts dead, no layer is the identity."""
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, value in [*net.named_parameters(), *net.named_buffers()]:
            if not value.is_floating_point():
                continue
            noise = torch.randn(value.shape, generator=draw)
            if "running_var" in name:
                value.copy_(noise.abs() + 0.2)
            elif value.ndim > 1 and "weight" in name:
                value.copy_(noise / value[0].numel() ** 0.5)
            else:
                value.copy_(0.5 * noise)
    return net


def relative(found, truth):
    return float((found - truth).abs().max() / truth.abs().max().clamp(min=1e-300))


def beyond(net, origin, direction, t):
    t = t.reshape(-1, *(1 for _ in origin.shape[1:]))
    with torch.no_grad():
        return net(origin + t * direction)


def worst_far(net, origin, direction):
    """The largest relative error of the far field beyond the last breakpoints."""
    far = far_field(net, origin, direction)
    own = copy.deepcopy(net).double().eval()
    return max(
        relative(far.logits(t), beyond(own, origin, direction, t))
        for t in (1.001 * far.radius, 2 * far.radius + 1, 1e6 * (far.radius + 1))
    )


def slopes(net, x, step=1e-6):
    """Central differences: exact on one piece, up to rounding."""
    moves = step * torch.eye(x[0].numel(), dtype=torch.float64).reshape(-1, *x.shape[1:])
    return torch.stack(
        [((net(sample + moves) - net(sample - moves)) / (2 * step)).T for sample in x]
    )


@torch.no_grad()
def check(net, shape, samples=4, scale=2.0, seed=1):
    draw = torch.Generator().manual_seed(seed)
    origin, direction = (
        scale * torch.randn(samples, *shape, dtype=torch.float64, generator=draw) for _ in range(2)
    )
    assert worst_far(net, origin, direction) < 1e-9
    V, a = affine(net, origin)
    own = copy.deepcopy(net).double().eval()
    assert relative(torch.einsum("ncd,nd->nc", V, origin.flatten(1)) + a, own(origin)) < 1e-12
    assert relative(V, slopes(own, origin)) < 1e-7


def unary(function):
    """A function between two linear layers, on vectors."""
    ends = nn.Linear(3, 6), nn.Linear(6, 3)
    if isinstance(function, nn.Module):
        return nn.Sequential(ends[0], function, ends[1]), (3,)
    return Function(lambda s, x: s.layers[1](function(s.layers[0](x))), *ends), (3,)


def mapped(function, features=None, **buffers):
    """A function of the images (2, 6, 5) that a convolution gives."""

    def run(self, x):
        return self.layers[1](function(self, self.layers[0](x)).flatten(1))

    net = Function(run, nn.Conv2d(2, 2, 3, padding=1), nn.Identity(), **buffers)
    with torch.no_grad():
        size = net(torch.zeros(2, 2, 6, 5)).shape[1]
    net.layers[1] = nn.Linear(size, 3)
    return net, (2, 6, 5)


def layers(*middle, inputs):
    return ended(*middle, inputs=inputs), inputs


class Block(nn.Module):
    """A residual block with BatchNorm and a strided shortcut."""

    def __init__(self, before, after, stride):
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.norm_first = nn.BatchNorm2d(after)
        self.second = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.norm_second = nn.BatchNorm2d(after)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = nn.Sequential()
        if stride != 1 or before != after:
            self.shortcut = nn.Sequential(
                nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after)
            )

    def forward(self, x):
        out = self.relu(self.norm_first(self.first(x)))
        out = self.norm_second(self.second(out))
        out += self.shortcut(x)
        return self.relu(out)


def resnet():
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1, bias=False),
        nn.BatchNorm2d(4),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
        Block(4, 4, 1),
        Block(4, 6, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(0.3),
        nn.Linear(6, 3),
    )


def widened(self, x):
    """The way depends on the shape alone."""
    for layer in self.layers[:-1]:
        x = layer(x)
        if x.shape[1] > 4 and x.dim() == 2 and len(x) == x.size(0):
            x = F.relu(x)
    return self.layers[-1](x)


def twice(self, x):
    """A tensor used after another that was computed in place from its copy."""
    first = self.layers[0](x)
    other = first.clone()
    other.relu_()
    other += 1
    other *= 2
    other -= first
    other /= 4
    return self.layers[1](torch.cat([first, other], dim=1))


TALL, ROW, COLUMN = torch.randn(2, 1, 1), torch.randn(5), torch.randn(6, 1)
IMAGES = (2, 7, 6)
SUPPORTED = {
    "linear": lambda: (nn.Linear(3, 4), (3,)),
    "linear without bias": lambda: layers(nn.Linear(3, 4, bias=False), nn.ReLU(), inputs=(3,)),
    "linear on the last axis": lambda: layers(nn.Linear(4, 5), nn.ReLU(), inputs=(3, 4)),
    "matmul": lambda: (
        Function(lambda s, x: torch.relu(x @ s.w) @ s.v, w=torch.randn(3, 5), v=torch.randn(5, 2)),
        (3,),
    ),
    "a constant on the left": lambda: (
        Function(lambda s, x: (s.w @ x).relu().sum(2), w=torch.randn(4, 3)),
        (3, 2),
    ),
    "a product by method": lambda: (
        Function(lambda s, x: x.relu().mm(s.w), w=torch.randn(3, 2)),
        (3,),
    ),
    "addmm": lambda: (
        Function(lambda s, x: torch.addmm(s.b, x, s.w), w=torch.randn(3, 5), b=torch.randn(5)),
        (3,),
    ),
    "conv1d": lambda: layers(nn.Conv1d(2, 4, 3, 2, 1, 2), nn.ReLU(), inputs=(2, 11)),
    "conv1d groups": lambda: layers(nn.Conv1d(4, 6, 3, groups=2), nn.ReLU(), inputs=(4, 7)),
    "conv1d same": lambda: layers(nn.Conv1d(2, 4, 3, padding="same"), nn.ReLU(), inputs=(2, 7)),
    "conv2d": lambda: layers(nn.Conv2d(2, 4, 3, (2, 1), (1, 0)), nn.ReLU(), inputs=IMAGES),
    "conv2d dilation": lambda: layers(nn.Conv2d(2, 4, 2, dilation=2), nn.ReLU(), inputs=IMAGES),
    "conv2d valid": lambda: layers(nn.Conv2d(2, 4, 2, padding="valid"), nn.ReLU(), inputs=IMAGES),
    "conv2d reflect": lambda: layers(
        nn.Conv2d(2, 4, 3, padding=1, padding_mode="reflect"), nn.ReLU(), inputs=IMAGES
    ),
    "conv2d circular": lambda: layers(
        nn.Conv2d(2, 4, 3, padding=1, padding_mode="circular"), nn.ReLU(), inputs=IMAGES
    ),
    "depthwise": lambda: layers(
        nn.Conv2d(2, 4, 3, groups=2, bias=False),
        nn.ReLU(),
        nn.Conv2d(4, 4, 1),
        nn.ReLU(),
        inputs=IMAGES,
    ),
    "conv transpose": lambda: layers(
        nn.ConvTranspose2d(2, 3, 3, 2, 1, output_padding=1), nn.ReLU(), inputs=(2, 3, 3)
    ),
    "batch norm 1d": lambda: layers(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.ReLU(), inputs=(3,)),
    "batch norm on rows": lambda: layers(nn.BatchNorm1d(2), nn.ReLU(), inputs=(2, 5)),
    "batch norm without weights": lambda: layers(
        nn.BatchNorm1d(3, affine=False), nn.ReLU(), inputs=(3,)
    ),
    "batch norm 2d": lambda: layers(
        nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), inputs=IMAGES
    ),
    "relu": lambda: unary(nn.ReLU()),
    "relu in place": lambda: unary(nn.ReLU(inplace=True)),
    "torch.relu": lambda: unary(torch.relu),
    "relu method": lambda: unary(lambda x: x.relu()),
    "relu_": lambda: unary(F.relu_),
    "leaky relu": lambda: unary(nn.LeakyReLU(0.2)),
    "leaky relu in place": lambda: unary(nn.LeakyReLU(0.2, inplace=True)),
    "prelu": lambda: layers(nn.Linear(3, 5), nn.PReLU(), inputs=(3,)),
    "prelu by unit": lambda: layers(nn.Linear(3, 5), nn.PReLU(5), inputs=(3,)),
    "prelu by channel": lambda: layers(nn.Conv2d(2, 3, 3), nn.PReLU(3), inputs=IMAGES),
    "hardtanh": lambda: unary(nn.Hardtanh(-0.7, 0.4)),
    "hardtanh in place": lambda: unary(nn.Hardtanh(inplace=True)),
    "relu6": lambda: unary(nn.ReLU6()),
    "relu6 in place": lambda: unary(nn.ReLU6(inplace=True)),
    "threshold": lambda: unary(nn.Threshold(0.3, 0.3)),
    "hardsigmoid": lambda: unary(nn.Hardsigmoid()),
    "softshrink": lambda: unary(nn.Softshrink(0.3)),
    "rrelu": lambda: unary(nn.RReLU()),
    "clamp": lambda: unary(lambda x: torch.clamp(x, -0.5, 1.5)),
    "clamp by name": lambda: unary(lambda x: x.clamp(min=-0.5)),
    "clamp from above": lambda: unary(lambda x: x.clamp(max=0.5)),
    "clamp in place": lambda: unary(lambda x: x.clamp_(min=0)),
    "clamp by tensors": lambda: unary(
        lambda x: torch.clamp(x, torch.linspace(-1, 0, 6), torch.linspace(0, 1, 6))
    ),
    "clip": lambda: unary(lambda x: torch.clip(x, -1, 1)),
    "abs": lambda: unary(torch.abs),
    "abs by operator": lambda: unary(abs),
    "maximum": lambda: unary(lambda x: torch.maximum(x, x.flip(1))),
    "maximum with a constant": lambda: unary(lambda x: torch.maximum(x, torch.tensor(0.3))),
    "maximum with a vector": lambda: unary(lambda x: torch.maximum(torch.linspace(-1, 1, 6), x)),
    "minimum": lambda: unary(lambda x: torch.minimum(x, 2 * x.roll(1, 1))),
    "minimum with a vector": lambda: unary(lambda x: torch.minimum(x, torch.linspace(-1, 1, 6))),
    "max of two": lambda: unary(lambda x: torch.max(x, -0.5 * x)),
    "amax": lambda: unary(lambda x: x - x.amax(1, keepdim=True)),
    "amin": lambda: unary(lambda x: x - x.amin(1, keepdim=True)),
    "amax of two axes": lambda: mapped(lambda s, x: x.amax((2, 3))),
    "amax by name": lambda: mapped(lambda s, x: torch.amax(x, dim=-1)),
    "max values": lambda: unary(lambda x: x - x.max(1, keepdim=True).values),
    "max unpacked": lambda: unary(lambda x: x - torch.max(x, dim=-1)[0][:, None]),
    "min values": lambda: unary(lambda x: x + torch.min(x, 1, keepdim=True).values),
    "maximum of other shapes": lambda: unary(lambda x: torch.maximum(x, x.mean(1, keepdim=True))),
    "maxout": lambda: mapped(lambda s, x: x.unflatten(1, (1, 2)).amax(2)),
    "max pool 1d": lambda: layers(nn.Conv1d(2, 3, 3), nn.MaxPool1d(2), inputs=(2, 9)),
    "max pool 1d all": lambda: layers(
        nn.Conv1d(2, 3, 3), nn.MaxPool1d(3, 2, 1, ceil_mode=True), inputs=(2, 10)
    ),
    "max pool": lambda: layers(nn.Conv2d(2, 3, 3), nn.MaxPool2d(2), inputs=IMAGES),
    "max pool overlapping": lambda: layers(nn.Conv2d(2, 3, 3), nn.MaxPool2d(3, 1), inputs=IMAGES),
    "max pool padded": lambda: layers(nn.Conv2d(2, 3, 3), nn.MaxPool2d(3, 2, 1), inputs=IMAGES),
    "max pool dilated": lambda: layers(nn.MaxPool2d(2, 1, dilation=(2, 3)), inputs=IMAGES),
    "max pool ceil": lambda: layers(nn.MaxPool2d(2, 2, ceil_mode=True), inputs=(2, 7, 5)),
    "max pool all": lambda: layers(
        nn.MaxPool2d((3, 2), (2, 1), (1, 1), (2, 1), ceil_mode=True), inputs=(2, 8, 5)
    ),
    "max pool function": lambda: mapped(lambda s, x: F.max_pool2d(F.relu(x), 2)),
    "max pool then relu": lambda: layers(
        nn.Conv2d(2, 3, 3), nn.ReLU(), nn.MaxPool2d(2), nn.ReLU(), inputs=IMAGES
    ),
    "adaptive max pool": lambda: layers(nn.AdaptiveMaxPool2d((2, 3)), inputs=(2, 7, 6)),
    "adaptive max pool to one": lambda: layers(nn.AdaptiveMaxPool2d(1), inputs=(2, 7, 6)),
    "adaptive max pool 1d": lambda: layers(nn.AdaptiveMaxPool1d(3), inputs=(2, 7)),
    "average pool 1d": lambda: layers(nn.AvgPool1d(3, 2, 1), nn.ReLU(), inputs=(2, 9)),
    "average pool": lambda: layers(
        nn.Conv2d(2, 3, 3), nn.ReLU(), nn.AvgPool2d(2, ceil_mode=True), inputs=IMAGES
    ),
    "average pool, edges apart": lambda: layers(
        nn.AvgPool2d(3, 2, 1, count_include_pad=False), nn.ReLU(), inputs=IMAGES
    ),
    "adaptive average pool 1d": lambda: layers(nn.AdaptiveAvgPool1d(3), nn.ReLU(), inputs=(2, 7)),
    "adaptive average pool": lambda: layers(
        nn.AdaptiveAvgPool2d((2, None)), nn.ReLU(), inputs=IMAGES
    ),
    "dropout": lambda: layers(
        nn.Linear(3, 5), nn.Dropout(0.5), nn.ReLU(), nn.Dropout1d(0.2), inputs=(3,)
    ),
    "dropout 2d": lambda: layers(nn.Conv2d(2, 3, 3), nn.Dropout2d(0.5), nn.ReLU(), inputs=IMAGES),
    "alpha dropout": lambda: layers(nn.Linear(3, 5), nn.AlphaDropout(0.5), nn.ReLU(), inputs=(3,)),
    "dropout function": lambda: (
        Function(lambda s, x: F.dropout(s.layers[0](x), 0.5, s.training), nn.Linear(3, 2)),
        (3,),
    ),
    "identity": lambda: unary(nn.Identity()),
    "flatten": lambda: mapped(lambda s, x: torch.flatten(x, 2)),
    "unflatten": lambda: mapped(lambda s, x: nn.Unflatten(1, (2, 1))(x).relu()),
    "reshape": lambda: mapped(lambda s, x: x.reshape(len(x), -1).relu()),
    "reshape of the shape": lambda: mapped(
        lambda s, x: torch.reshape(x, (x.shape[0], 5, -1)).relu()
    ),
    "view": lambda: mapped(lambda s, x: x.view(-1, 2 * 6 * 5)),
    "view by size": lambda: mapped(lambda s, x: x.view(x.size(0), -1).relu()),
    "view_as": lambda: mapped(lambda s, x: x.reshape(1, -1).view_as(x) if len(x) == 1 else x),
    "permute": lambda: mapped(
        lambda s, x: x.permute(0, 3, 1, 2)[:, :2].contiguous().view(len(x), -1)
    ),
    "transpose": lambda: mapped(lambda s, x: x.transpose(1, -1).relu()[:, 1:, ::2]),
    "swapaxes": lambda: mapped(lambda s, x: torch.swapaxes(x, 2, 3).relu()),
    "movedim": lambda: mapped(lambda s, x: x.movedim(1, -1)[..., 0]),
    "mT": lambda: mapped(lambda s, x: x.mT.relu()),
    "unsqueeze": lambda: mapped(lambda s, x: x.unsqueeze(1).relu().squeeze(1)),
    "squeeze without an axis": lambda: (
        nn.Sequential(
            nn.Conv2d(2, 4, 3),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            Function(lambda s, x: x.squeeze()),
            nn.Linear(4, 3),
        ),
        IMAGES,
    ),
    "squeeze all": lambda: mapped(lambda s, x: x[:, :1].squeeze(1).relu()),
    "indexing": lambda: mapped(lambda s, x: x[:, 0, 1:4, -1]),
    "indexing by a list": lambda: mapped(lambda s, x: x[:, :, [0, 2, 5]]),
    "indexing with a new axis": lambda: mapped(lambda s, x: x[:, None, ..., 2]),
    "indexing by a tensor": lambda: mapped(lambda s, x: x[:, :, s.rows], rows=torch.tensor([1, 4])),
    "indexing by a mask": lambda: mapped(
        lambda s, x: x[:, s.mask], mask=torch.tensor([True, False])
    ),
    "index select": lambda: mapped(
        lambda s, x: torch.index_select(x, 2, s.rows), rows=torch.tensor([1, 4])
    ),
    "select": lambda: mapped(lambda s, x: x.select(1, 1)),
    "narrow": lambda: mapped(lambda s, x: x.narrow(2, 1, 3)),
    "split": lambda: mapped(lambda s, x: x.split(2, dim=2)[1] - x.split((4, 2), 2)[1]),
    "chunk": lambda: mapped(lambda s, x: torch.cat([p.relu() for p in x.chunk(2, 1)], 1)),
    "unbind": lambda: mapped(lambda s, x: torch.stack(x.unbind(1), 2).relu()),
    "stack": lambda: mapped(lambda s, x: torch.stack([x, x.relu()], dim=-1)),
    "flip": lambda: mapped(lambda s, x: x + x.flip(2, 3).relu()),
    "roll": lambda: mapped(lambda s, x: x + x.roll(1, 2).relu()),
    "expand": lambda: mapped(lambda s, x: x[:, :, :1].expand(-1, -1, 6, -1) + x),
    "expand as": lambda: mapped(lambda s, x: x[:, :1].expand_as(x) + x),
    "repeat": lambda: mapped(lambda s, x: x.repeat(1, 2, 1, 1).relu()),
    "pixel shuffle": lambda: mapped(lambda s, x: F.pixel_unshuffle(x[:, :, :, :4], 2).relu()),
    "channel shuffle": lambda: layers(
        nn.ChannelShuffle(2), nn.Conv2d(4, 2, 2), nn.ReLU(), inputs=(4, 3, 3)
    ),
    "upsample": lambda: layers(
        nn.Conv2d(2, 2, 3), nn.ReLU(), nn.Upsample(scale_factor=2), inputs=(2, 4, 4)
    ),
    "bilinear": lambda: layers(
        nn.Upsample(scale_factor=2, mode="bilinear"), nn.ReLU(), inputs=(2, 3, 3)
    ),
    "mean": lambda: mapped(lambda s, x: x.relu().mean((2, 3))),
    "mean of the last": lambda: mapped(lambda s, x: torch.mean(x.relu(), dim=-1, keepdim=True)),
    "sum": lambda: mapped(lambda s, x: x.relu().sum(1) - x.sum(dim=(1, 2), keepdim=True)[:, 0]),
    "cumsum": lambda: mapped(lambda s, x: x.cumsum(1).relu()),
    "centered": lambda: mapped(lambda s, x: (x - x.mean(1, keepdim=True)).relu()),
    "pad": lambda: mapped(lambda s, x: F.pad(x, (1, 0, 2, 1)).relu()),
    "pad with a value": lambda: mapped(lambda s, x: F.pad(x, (1, 0, 2, 1), value=-1.5)),
    "pad by a layer": lambda: layers(nn.ZeroPad2d(1), nn.Conv2d(2, 3, 3), nn.ReLU(), inputs=IMAGES),
    "pad by reflection": lambda: layers(
        nn.ReflectionPad2d(1), nn.Conv2d(2, 3, 3), nn.ReLU(), inputs=IMAGES
    ),
    "pad by replication": lambda: mapped(
        lambda s, x: F.pad(x, (1, 1, 1, 1), mode="replicate").relu()
    ),
    "residual": lambda: unary(lambda x: x + torch.relu(x)),
    "residual in place": lambda: mapped(twice_relu),
    "in place all": lambda: (Function(twice, nn.Linear(3, 4), nn.Linear(8, 3)), (3,)),
    "add by name": lambda: unary(lambda x: torch.add(x, x.relu(), alpha=-2)),
    "subtract": lambda: unary(lambda x: 1.5 - x.relu()),
    "rsub": lambda: unary(lambda x: torch.rsub(x.relu(), 2.0, alpha=3)),
    "negative": lambda: unary(lambda x: -torch.relu(-x)),
    "times a number": lambda: unary(lambda x: 2 * x.relu() * 0.3),
    "times a channel": lambda: mapped(lambda s, x: (x * s.w).relu(), w=TALL),
    "times a row": lambda: mapped(lambda s, x: (s.w * x).relu(), w=ROW),
    "times a sample": lambda: mapped(lambda s, x: (x * s.w).relu(), w=torch.randn(1, 2, 6, 5)),
    "times a wide case": lambda: mapped(lambda s, x: (x * s.w).relu(), w=torch.randn(1, 1, 6, 1)),
    "times and repeated": lambda: mapped(
        lambda s, x: (x[:, :1] * s.w).relu(), w=torch.randn(3, 1, 1)
    ),
    "times and one more axis": lambda: (
        Function(lambda s, x: (x[:, None] * s.w).relu().sum(-1), w=torch.randn(4, 3)),
        (3,),
    ),
    "plus a number": lambda: mapped(lambda s, x: (1 + x - 0.5).relu()),
    "plus a channel": lambda: mapped(lambda s, x: (x + s.w).relu(), w=TALL),
    "plus a column": lambda: mapped(lambda s, x: (s.w + x).relu(), w=COLUMN),
    "plus a sample": lambda: mapped(lambda s, x: (x - s.w).relu(), w=torch.randn(1, 2, 6, 5)),
    "plus a wide case": lambda: mapped(lambda s, x: (x - s.w).relu(), w=torch.randn(1, 2, 1, 1)),
    "plus and repeated": lambda: mapped(
        lambda s, x: (x[:, :1] + s.w).relu(), w=torch.randn(3, 1, 1)
    ),
    "a constant minus": lambda: mapped(lambda s, x: (s.w - x).relu(), w=ROW),
    "over a channel": lambda: mapped(lambda s, x: (x / s.w).relu(), w=TALL),
    "over a sample": lambda: mapped(lambda s, x: (x / s.w).relu(), w=torch.randn(1, 2, 6, 5)),
    "over and repeated": lambda: mapped(
        lambda s, x: (x[:, :1] / s.w).relu(), w=torch.randn(3, 1, 1)
    ),
    "over a number": lambda: unary(lambda x: torch.div(x.relu(), 3)),
    "sums of different shapes": lambda: mapped(
        lambda s, x: (x.mean((2, 3), keepdim=True) + x).relu()
    ),
    "sums of one more axis": lambda: mapped(lambda s, x: (x[:, :, None, 0] + x).relu()),
    "concatenation": lambda: mapped(lambda s, x: torch.cat((x.relu(), x, x[:, :1]), dim=1)),
    "concatenation behind": lambda: mapped(lambda s, x: torch.cat([x.relu(), -x], -1)),
    "concatenation with a constant": lambda: mapped(
        lambda s, x: torch.cat([x.relu(), s.w.expand(len(x), -1, -1, -1)], 1),
        w=torch.randn(1, 1, 6, 5),
    ),
    "zeros like": lambda: unary(lambda x: torch.cat([x.relu(), torch.zeros_like(x)], 1)[:, :6]),
    "moved to the weights": lambda: (
        Function(lambda s, x: s.layers[0](x.to(s.layers[0].weight)), nn.Linear(3, 2)),
        (3,),
    ),
    "control by shape": lambda: (
        Function(widened, nn.Linear(3, 5), nn.Linear(5, 4), nn.Linear(4, 6), nn.Linear(6, 2)),
        (3,),
    ),
    "a dense block": lambda: (
        Function(dense_block, nn.Linear(3, 4), nn.Linear(7, 4), nn.Linear(11, 2)),
        (3,),
    ),
    "weights shared": lambda: (
        Function(
            lambda s, x: s.layers[1](torch.relu(s.layers[0](torch.relu(s.layers[0](x))))),
            nn.Linear(3, 3),
            nn.Linear(3, 2),
        ),
        (3,),
    ),
    "weight norm": lambda: (
        nn.Sequential(
            nn.utils.parametrizations.weight_norm(nn.Linear(3, 4)), nn.ReLU(), nn.Linear(4, 2)
        ),
        (3,),
    ),
    "a small resnet": lambda: (resnet(), (2, 9, 8)),
    "standardized": lambda: (
        nets.standardized(nets.mlp(3, 2, widths=(5,)), torch.randn(20, 3)),
        (3,),
    ),
    "digit network": lambda: (nets.digit_cnn(dropout=0.3), (1, 8, 8)),
}


def twice_relu(self, x):
    out = x.relu()
    out += x
    return out.relu_()


def dense_block(self, x):
    for layer in self.layers[:-1]:
        x = torch.cat([x, F.relu(layer(x), inplace=True)], 1)
    return self.layers[-1](x)


@pytest.mark.parametrize("name", SUPPORTED)
def test_layers_agree_with_the_network(name):
    net, shape = SUPPORTED[name]()
    if "standardized" not in name:
        randomized(net)
    check(net.eval(), shape)


class Seen:
    """A hook that notes it was called."""

    def __init__(self):
        self.calls = 0

    def __call__(self, *_):
        self.calls += 1


def one(layer, inputs=4, middle=4):
    return nn.Sequential(
        nn.Linear(inputs, middle), nn.Sequential(nn.ReLU(), layer), nn.Linear(middle, 2)
    )


class Branching(nn.Module):
    def forward(self, x):
        return x if x.amax(1) > 0 else -x


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x):
        x = x[:, None]
        return self.attention(x, x, x)[0][:, 0]


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.memory = kind(4, 4, batch_first=True)

    def forward(self, x):
        return self.memory(x[:, None])[0][:, 0]


def of(function):
    return lambda: one(Function(lambda s, x: function(x)))


UNSUPPORTED = {
    "GELU": (lambda: one(nn.GELU()), "'1.1' .GELU.", "gelu is not piecewise affine"),
    "SiLU": (lambda: one(nn.SiLU()), "'1.1' .SiLU.", "silu"),
    "Tanh": (lambda: one(nn.Tanh()), "'1.1' .Tanh.", "tanh"),
    "Sigmoid": (lambda: one(nn.Sigmoid()), "'1.1' .Sigmoid.", "sigmoid"),
    "Softplus": (lambda: one(nn.Softplus()), "'1.1' .Softplus.", "softplus"),
    "ELU": (lambda: one(nn.ELU()), "'1.1' .ELU.", "elu"),
    "Softmax": (lambda: one(nn.Softmax(1)), "'1.1' .Softmax.", "softmax"),
    "LogSoftmax": (lambda: one(nn.LogSoftmax(1)), "'1.1' .LogSoftmax.", "log_softmax"),
    "LayerNorm": (lambda: one(nn.LayerNorm(4)), "'1.1' .LayerNorm.", "layer_norm"),
    "GroupNorm": (lambda: one(nn.GroupNorm(2, 4)), "'1.1' .GroupNorm.", "group_norm"),
    "LocalResponseNorm": (lambda: one(nn.LocalResponseNorm(2)), "'1.1'", "local_response_norm"),
    "Threshold": (lambda: one(nn.Threshold(1.0, 0.0)), "'1.1' .Threshold.", "jumps"),
    "BatchNorm of the batch": (
        lambda: one(nn.BatchNorm1d(4, track_running_stats=False)),
        "'1.1' .BatchNorm1d.",
        "batch's own statistics",
    ),
    "attention": (lambda: one(Attention()), "'1.1.attention' .MultiheadAttention.", "."),
    "LSTM": (lambda: one(Recurrent(nn.LSTM)), "'1.1.memory' .LSTM.", "lstm"),
    "GRU": (lambda: one(Recurrent(nn.GRU)), "'1.1.memory' .GRU.", "gru"),
    "nets.gru": (
        lambda: nn.Sequential(nn.Unflatten(1, (2, 2)), nets.gru((2, 2), 2, width=3)),
        "'1.0' .Recurrent. is not piecewise affine: its gates",
        ".",
    ),
    "square": (of(lambda x: x * x), "'1.1' .Function.", "both depend on the input"),
    "power": (of(lambda x: x**2), "'1.1' .Function.", "pow"),
    "exponential": (of(torch.exp), "'1.1' .Function.", "exp is not piecewise affine"),
    "reciprocal": (of(lambda x: 1 / x), "'1.1' .Function.", "not piecewise affine"),
    "ratio": (of(lambda x: x / x.sum(1, keepdim=True)), "'1.1'", "depends on the input"),
    "norm": (of(lambda x: F.normalize(x)), "'1.1'", "normalize"),
    "own product": (of(lambda x: x[:, None] @ x[..., None]), "'1.1'", "both depend on the input"),
    "a way by the numbers": (
        lambda: one(Branching()),
        "'1.1' .Branching.",
        "depends on the numbers",
    ),
    "a loop by the numbers": (of(lambda x: [x for _ in range(int(x.sum(1)))]), "'1.1'", "numbers"),
    "an item": (of(lambda x: x * x.amax(1).item()), "'1.1'", "numbers"),
    "samples transposed": (of(lambda x: x.transpose(0, 1)), "'1.1'", "first axis"),
    "samples turned": (of(lambda x: x.T), "'1.1'", "."),
    "samples flipped": (of(lambda x: x.flip(0)), "'1.1'", "mixes samples"),
    "samples rolled": (of(lambda x: x.roll(1)), "'1.1'", "mixes samples"),
    "samples added": (of(lambda x: x.sum(0)), "'1.1'", "first axis"),
    "samples and features added": (of(lambda x: x.sum()), "'1.1'", "one number of all samples"),
    "a way by all numbers": (of(lambda x: x if x.sum() > 0 else -x), "'1.1'", "one number"),
    "samples counted up": (of(lambda x: x.cumsum(0)), "'1.1'", "mixes samples"),
    "the first case": (of(lambda x: x[0]), "'1.1'", "first axis"),
    "samples split": (of(lambda x: x.split(1)[0]), "'1.1'", "first axis"),
    "samples joined": (of(lambda x: torch.cat([x, x])), "'1.1'", "samples joined to samples"),
    "samples stacked": (of(lambda x: torch.stack([x, x])), "'1.1'", "samples joined to samples"),
    "samples flattened": (of(torch.flatten), "'1.1'", "first axis"),
    "samples viewed away": (of(lambda x: x.view(2, 2)), "'1.1'", "first axis"),
    "the largest of all": (of(lambda x: x - x.max()), "'1.1'", "over samples"),
    "the largest of all by amax": (of(lambda x: x - x.amax()), "'1.1'", "over samples"),
    "the place of the largest": (of(lambda x: x.max(1).indices), "'1.1'", "the place"),
    "the place by argmax": (of(lambda x: x.argmax(1)), "'1.1'", "argmax"),
    "a comparison": (
        of(lambda x: (x > 0) * x),
        "'1.1'",
        "the network's way depends on the numbers",
    ),
    "sorted": (of(lambda x: x.sort(1)[0]), "'1.1'", "sort"),
    "always dropout": (of(lambda x: F.dropout(x, 0.5)), "'1.1'", "use models.mc_dropout"),
    "written into": (of(lambda x: x.__setitem__((slice(None), 0), 0.0)), "'1.1'", "__setitem__"),
    "rounded": (of(lambda x: x.to(torch.int64).double()), "'1.1'", "rounded to torch.int64"),
    "rounded by name": (of(lambda x: x.long()), "'1.1'", "long"),
    "other inputs": (
        lambda: nn.Sequential(nn.Linear(5, 2)),
        "'0' .Linear.",
        "shape .4,. do not pass",
    ),
    "images out": (lambda: nn.Unflatten(1, (2, 2)), "", "must return .samples, outputs."),
    "two results": (lambda: Function(lambda s, x: (x, x)), "", "must return one tensor"),
    "a constant": (lambda: Function(lambda s, x: torch.zeros(1, 2)), "", "must return one tensor"),
    "by numpy": (of(lambda x: torch.from_numpy(x.numpy())), "'1.1'", "depends on the numbers"),
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_what_is_not_piecewise_affine_is_refused_by_name_and_place(name):
    make, place, reason = UNSUPPORTED[name]
    x = torch.randn(3, 4)
    for call in (lambda net: far_field(net, x, x), lambda net: affine(net, x)):
        with pytest.raises(NescioError, match=f"{place}.*({reason})"):
            call(make())


def test_the_network_is_left_as_it_was():
    net = randomized(resnet()).half().float().train()
    seen = Seen()
    net[5].register_forward_hook(seen)
    before = copy.deepcopy(net.state_dict())
    modes = [module.training for module in net.modules()]
    x = torch.randn(3, 2, 9, 8)
    kept = x.clone()
    far_field(net, x, x, last_region=True)
    affine(net, x, half_spaces=True)
    assert torch.equal(x, kept)
    assert [module.training for module in net.modules()] == modes
    assert all(
        p.dtype == torch.float32 and p.requires_grad and p.grad is None for p in net.parameters()
    )
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert len(net[5]._forward_hooks) == 1


def test_a_network_in_training_mode_is_analysed_as_in_evaluation():
    net = randomized(resnet()).train()
    x = torch.randn(3, 2, 9, 8, dtype=torch.float64)
    V, a = affine(net, x)
    truth = copy.deepcopy(net).double().eval()(x).detach()
    assert relative(torch.einsum("ncd,nd->nc", V, x.flatten(1)) + a, truth) < 1e-12


def test_numbers_that_a_network_makes_narrow_stay_wide():
    net = randomized(unary(lambda x: x.to(torch.float32).float().relu())[0])
    plain = nn.Sequential(net.layers[0], nn.ReLU(), net.layers[1])
    x = torch.randn(5, 3, dtype=torch.float64)
    V, a = affine(net, x)
    assert relative(torch.einsum("ncd,nd->nc", V, x) + a, plain.double()(x).detach()) < 1e-12


def test_a_compiled_network_is_analysed_as_it_was_written():
    net = randomized(small())
    assert torch.equal(affine(torch.compile(net), X).V, affine(net, X).V)


def test_a_tensor_that_does_not_follow_its_network_is_named():
    net = Function(lambda s, x: F.linear(x, s.weight))
    net.weight = torch.randn(2, 3)
    with pytest.raises(NescioError, match="does not run in float64.*parameters or buffers"):
        affine(net, X)


def test_a_network_that_cannot_be_copied_is_refused():
    net = nn.Linear(3, 2)
    net.scaled = net.weight * 2
    with pytest.raises(NescioError, match="cannot be copied"):
        affine(net, X)


def viewed(self, x):
    hidden = self.layers[0](x)
    hidden.view(len(x), 2, 3).relu_()
    return self.layers[1](hidden)


def sliced(self, x):
    hidden = self.layers[0](x)
    hidden[:, :2].mul_(2)
    return self.layers[1](hidden)


def noisy(self, x):
    return self.layers[1](self.layers[0](x) + torch.rand(6))


def batched(self, x):
    return self.layers[1](self.layers[0](x) + len(x))


@pytest.mark.parametrize("function", [viewed, sliced, noisy, batched])
def test_what_the_tracing_does_not_see_is_an_error(function):
    net = Function(function, nn.Linear(3, 6), nn.Linear(6, 2))
    x = torch.randn(2, 3)
    for call in (lambda: far_field(net, x, x), lambda: affine(net, x)):
        with pytest.raises(NescioError, match="do not give its own outputs.*in-place"):
            call()


def test_in_place_on_a_view_is_right_where_the_rest_is_not_used_again():
    net = Function(
        lambda s, x: s.layers[1](s.layers[0](x).view(-1, 2, 3).relu_().flatten(1)),
        nn.Linear(3, 6),
        nn.Linear(6, 2),
    )
    check(randomized(net), (3,))


# -- the networks behind predictors


def small(dropout=0.0):
    return nets.mlp(3, 4, widths=(6, 5), dropout=dropout)


def trained(make, **options):
    x = torch.randn(60, 3, generator=torch.Generator().manual_seed(3))
    return train(
        make, (x, (x[:, 0] > 0).long() + 2 * (x[:, 1] > 0)), epochs=2, progress=False, **options
    )


X = torch.randn(7, 3, generator=torch.Generator().manual_seed(4), dtype=torch.float64)


def traced_outputs(source, x=X):
    """Logits of every member from its affine pieces, `(M, N, C)`."""
    V, a = affine(source, x)
    return torch.einsum("mncd,nd->mnc", V, x.flatten(1)) + a


def assert_members(source, truth):
    own = torch.stack([instance(X) for instance in instances(source)])
    assert relative(own, truth) < 1e-12
    assert relative(traced_outputs(source), truth) < 1e-12
    far = far_field(source, X, X)
    assert far.slope.shape == truth.shape
    t = 2 * far.radius.amax(0) + 1
    beyond = [instance(X * (1 + t[:, None])) for instance in instances(source)]
    assert relative(far.logits(t), torch.stack(beyond)) < 1e-9


def test_a_model_gives_its_members():
    model = trained(small, members=3, standardize=True).to(torch.float64)
    assert_members(model, model.outputs(X))
    narrow = trained(small, members=2)
    own = narrow.outputs(X.float()).double()
    assert relative(traced_outputs(narrow), own) < 1e-5


def test_mc_dropout_gives_its_passes():
    net = randomized(small(dropout=0.4)).double()
    sampled = models.mc_dropout(net, passes=6, seed=5)
    truth = sampled.outputs(X)
    assert len({tuple(row) for row in truth[:, 0].tolist()}) == 6
    found = traced_outputs(sampled)
    assert relative(found, truth) < 1e-6  # its masks are drawn and scaled in float32
    for t, instance in enumerate(instances(sampled)):
        with MaskPerPass([generator(5, "pass", t)], len(X)), torch.no_grad():
            alone = copy.deepcopy(net).eval()(X)
        assert relative(found[t], alone) < 1e-12
        assert relative(instance(X), alone) < 1e-12


def test_mc_dropout_of_channels_and_of_a_model():
    net = randomized(
        nn.Sequential(
            nn.Conv2d(1, 4, 3),
            nn.Dropout2d(0.5),
            nn.ReLU(),
            nn.Flatten(),
            nn.Dropout(0.3),
            nn.Linear(16, 2),
        )
    ).double()
    x = torch.randn(3, 1, 4, 4, dtype=torch.float64)
    sampled = models.mc_dropout(net, passes=4)
    V, a = affine(sampled, x)
    truth = sampled.outputs(x)
    assert relative(torch.einsum("mncd,nd->mnc", V, x.flatten(1)) + a, truth) < 1e-12
    model = trained(lambda: small(0.3), members=2).to(torch.float64)
    sampled = models.mc_dropout(model, passes=3)
    assert_members(sampled, sampled.outputs(X))


def test_weight_samples_give_their_draws():
    model = trained(
        lambda: nets.bayesian_mlp(3, 4, widths=(6,), spread=0.3), loss=losses.elbo(losses.nll())
    ).to(torch.float64)
    drawn = models.weight_samples(model, passes=4)
    assert_members(drawn, drawn.outputs(X))
    assert_members(model, model.outputs(X))


def test_pooled_and_scaled_predictors_give_their_members():
    first, second = (
        trained(small, members=2).to(torch.float64),
        randomized(nn.Linear(3, 4).double()),
    )
    pooled = models.ensemble([first, second])
    truth = torch.cat([first.outputs(X), second(X).detach()[None]])
    assert_members(pooled, truth)
    shift, more = torch.tensor([[0.1, -0.2, 0.3, 0.0], [1.0, 0.0, 0.0, 2.0]], dtype=torch.float64)
    scaled = scaled_by(scaled_by(pooled, 0.5, tuple(shift.tolist())), 3.0, tuple(more.tolist()))
    again = (truth * 0.5 + shift) * 3 + more
    assert_members(scaled, again)
    assert relative(scaled(X).member_probs.log(), again.log_softmax(-1)) < 1e-12


def test_a_stack_of_networks_and_one_alone():
    members = [randomized(small(), seed).double() for seed in range(3)]
    model = Model(members[0], stack(members), models.plain(members[0]).head)
    assert_members(model, torch.stack([net(X).detach() for net in members]))
    V, a = affine(members[1], X)
    assert torch.equal(V, affine(model, X).V[1])
    assert torch.equal(a, affine(model, X).a[1])


def test_what_shows_no_networks_is_refused():
    with pytest.raises(NescioError, match="a function shows no networks"):
        instances(lambda x: x)
    net = small(dropout=0.2)
    for head in (heads.gaussian(), heads.dirichlet(activation="softplus")):
        for source in (models.plain(net, head=head), models.mc_dropout(net, head=head)):
            with pytest.raises(NescioError, match=f"reads class logits; .* {head.name}"):
                instances(source)


def test_a_window_sinks_when_its_last_member_does():
    """relu(max(-t / 10, 10 - t)): the first wins in the end, the second sinks at t = 10."""

    def sinking(self, x):
        units = torch.cat([-0.1 * x, 10 - x], 1)
        return F.max_pool1d(units.relu()[:, None], 2)[:, 0] * self.w

    far = far_field(Function(sinking, w=torch.tensor([1.0, 2.0])), [[0.0]], [[1.0]])
    assert far.radius.item() == 10
    assert far.slope.tolist() == far.intercept.tolist() == [[0.0, 0.0]]


# -- random networks


def random_net(seed):
    """A random MLP, convolutional or residual network and the shape of its inputs."""
    draw = torch.Generator().manual_seed(seed)

    def pick(*values):
        return values[int(torch.randint(len(values), (1,), generator=draw))]

    def activation():
        return pick(nn.ReLU, nn.ReLU, lambda: nn.LeakyReLU(0.1), nn.Hardtanh, nn.ReLU6, nn.PReLU)()

    kind = pick("mlp", "conv", "residual")
    if kind == "mlp":
        sizes = [pick(2, 3, 8), *(pick(4, 16, 40) for _ in range(pick(1, 2, 3)))]
        parts = []
        for before, after in pairwise(sizes):
            parts += [nn.Linear(before, after), activation()]
        net = nn.Sequential(*parts, nn.Linear(sizes[-1], pick(2, 3, 10)))
        return randomized(net, seed), (sizes[0],)
    if kind == "conv":
        shape = (pick(1, 2), pick(6, 7, 8), pick(6, 7, 8))
        pool = pick(nn.MaxPool2d(2), nn.MaxPool2d(3, 2, 1), nn.AvgPool2d(2), nn.MaxPool2d(2, 1))
        body = [nn.Conv2d(shape[0], 4, 3, pick(1, 2), pick(0, 1)), nn.BatchNorm2d(4), activation()]
        more = [nn.Conv2d(4, 4, 2, 1, 1, groups=pick(1, 2, 4)), activation()]
        return randomized(ended(*body, pool, *more, inputs=shape), seed), shape
    shape = (2, pick(6, 8), pick(6, 8))
    body = [nn.Conv2d(2, 4, 3, padding=1), Block(4, 4, 1), Block(4, pick(4, 6), 2)]
    return randomized(ended(*body, nn.AdaptiveAvgPool2d(pick(1, 2)), inputs=shape), seed), shape


POINTS = {nn.Hardtanh: (-1.0, 1.0), nn.ReLU6: (0.0, 6.0)}


def pattern(net, x):
    """Where every unit of every activation and every pooling lies, case by case.

    Of a ReLU under a max pooling only the winner counts: the others change nothing.
    """
    found, hooks, pooled = [], [], set()

    def note(module, inputs):
        z = inputs[0]
        if isinstance(module, nn.MaxPool2d):
            options = module.kernel_size, module.stride, module.padding, module.dilation
            best, place = F.max_pool2d(z, *options, module.ceil_mode, True)
            found.append(torch.where((best > 0) | (module not in pooled), place, -1).flatten(1))
        elif module not in pooled:
            found.extend((z > p).flatten(1).long() for p in POINTS.get(type(module), (0.0,)))

    kinds = (nn.ReLU, nn.LeakyReLU, nn.PReLU, nn.Hardtanh, nn.ReLU6, nn.MaxPool2d)
    for module in net.modules():
        if isinstance(module, kinds):
            hooks.append(module.register_forward_pre_hook(note))
        if isinstance(module, nn.Sequential):
            for first, second in pairwise(module):
                if type(first) is nn.ReLU and isinstance(second, nn.MaxPool2d):
                    pooled |= {first, second}
    with torch.no_grad():
        net(x)
    for hook in hooks:
        hook.remove()
    return torch.cat(found, 1)


def far_errors(seed, rays=3):
    """Worst relative error beyond the radius; whether the pattern holds there and breaks before."""
    net, shape = random_net(seed)
    net.eval()
    draw = torch.Generator().manual_seed(seed + 1)
    origin, way = (torch.randn(rays, *shape, generator=draw, dtype=torch.float64) for _ in range(2))
    far = far_field(net, origin, way)
    own = copy.deepcopy(net).double()
    some = far.radius > 0
    r = far.radius
    error = max(
        relative(far.logits(t), beyond(own, origin, way, t))
        for t in (1.001 * r, 2 * r + ~some, 1e6 * (r + ~some))
    )

    def at(t):
        return pattern(own, origin + t.reshape(-1, *(1 for _ in shape)) * way)

    last = at(1e6 * (r + 1))
    holds = bool((at(r * (1 + 1e-6) + 1e-9) == last).all())
    before = (at(r * (1 - 1e-6)) != last).any(1)
    return error, holds, bool(before[some].all())


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10**6))
def test_random_networks_beyond_and_just_before_the_last_breakpoint(seed):
    error, holds, breaks = far_errors(seed)
    assert error < 1e-9
    assert holds
    assert breaks
