"""M networks as one: weights `(M, ...)`, outputs `(M, N, *axes, O)` from one call.

Sequences of linear layers run as batched products with features before samples, `(M, F, N)`: the
products and the gradients of the weights then come out contiguous. Every other network runs member
by member with the same result, images in the order that is fastest on a processor.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from itertools import chain, pairwise
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm

from nescio.core import Bundle, Inputs, NescioError, Rng, Slope
from nescio.nets.copies import Copies, copied, is_scripted, sharing
from nescio.nets.factory import Standardize
from nescio.nets.mlp import VariationalLinear
from nescio.nets.modes import QuickImages, draw_mask, masks_from
from nescio.nets.reading import arguments, selected
from nescio.nets.recurrent_layers import Recurrent

Tensors = Mapping[str, Tensor]
Draws = Callable[[], Sequence[torch.Generator]] | None  # one per member; None: dropout is off
Layer = Callable[[Tensors, Tensor, Draws], Tensor]

ELEMENTWISE = (
    nn.ReLU, nn.LeakyReLU, nn.Tanh, nn.SiLU, nn.GELU, nn.Sigmoid, nn.ELU, nn.Softplus, nn.Hardtanh,
    nn.ReLU6, nn.Identity,
)  # fmt: skip
PIECE, PIXELS = 128, 1 << 20  # images at a time, and their pixels: maps keep them all
DRAWING = (  # layers of torch that draw random numbers by themselves, where no mode sees them
    nn.RNNBase, nn.MultiheadAttention, nn.RReLU, nn.AlphaDropout, nn.FeatureAlphaDropout,
    nn.FractionalMaxPool2d, nn.FractionalMaxPool3d,
)  # fmt: skip
FRESH = (nn.Conv2d, nn.Linear, nn.BatchNorm1d, nn.BatchNorm2d)  # ReLU may overwrite


@torch.inference_mode(False)  # these weights may be attacked later
def stack(nets: Sequence[nn.Module]) -> dict[str, Tensor]:
    """Parameters and buffers of networks of one architecture, stacked to `(M, ...)`."""
    states = [{**dict(net.named_parameters()), **dict(net.named_buffers())} for net in nets]
    shapes = [{name: value.shape for name, value in state.items()} for state in states]
    if not states or not states[0]:
        raise NescioError("a network without weights cannot be trained or stacked")
    for member, shape in enumerate(shapes):
        if shape != shapes[0]:
            raise NescioError(
                f"member {member} has other weights than member 0; the factory must return the "
                "same architecture every time"
            )
    return {  # contiguous, whatever the networks' memory format: optimizers read memory
        name: torch.stack([state[name].detach() for state in states]).contiguous()
        for name in states[0]
    }


class Stack:
    """The architecture of M networks, to be called with their stacked tensors.

    Threads may call it at the same time: networks that run member by member get the weights of one
    in a copy that no other call has.

    net: one of the networks, whose weights are not read.
    """

    def __init__(self, net: nn.Module) -> None:
        self.net = copied(net)
        self._sealed = is_scripted(self.net)
        for module in self.net.modules():
            if (
                hasattr(module, "inplace") and not self._sealed
            ):  # must reach neither the inputs nor the next member
                setattr(module, "inplace", False)  # noqa: B010
        self.trained = tuple(n for n, p in net.named_parameters() if p.requires_grad)
        loose = not self._sealed and not _tied(self.net)
        self._layers = _in_place(_plan(self.net, "")) if loose else None
        self._known = self._layers is None and _known(self.net)
        if self._known:
            _rearrange(self.net)
        # BatchNorm stands between convolutions of few weights, which then take 0.8 of the time.
        self._last = self._known and any(isinstance(m, nn.BatchNorm2d) for m in self.net.modules())
        self._reseeded = not self._known or any(isinstance(m, DRAWING) for m in self.net.modules())
        self._copies = Copies(self.net, copied if self._sealed else sharing)

    def __reduce__(self) -> Any:
        return Stack, (self.net,)

    @property
    def stacked(self) -> bool:
        """Whether all members run in one product rather than in a loop."""
        return self._layers is not None

    @cached_property
    def normalizes(self) -> bool:
        """Whether the networks have BatchNorm, whose outputs depend on the whole batch."""
        return any(isinstance(module, _BatchNorm) for module in self.net.modules())

    @property
    def draws(self) -> bool:
        """Whether a layer draws random numbers in training, a number for each sample."""
        return any(
            isinstance(module, (VariationalLinear, *DRAWING)) or getattr(module, "p", 0) > 0
            for module in self.net.modules()
        )

    def takes(self, features: Sequence[int]) -> bool:
        """Whether inputs can run stacked: vectors, sequences, or what is flattened.

        Sequences are scaled by channel, `(channels, 1)`.

        features: shape of one input.
        """
        first = _first(self.net)
        flat = len(features) == 1 or isinstance(first, nn.Flatten)
        if isinstance(first, Recurrent):
            flat = first.reads(features)
        shapes = [(), tuple(features), *([(features[0], 1)] if len(features) == 2 else [])]
        return self.stacked and flat and all(s in shapes for s in self._scalings)

    @cached_property
    def _scalings(self) -> list[tuple[int, ...]]:
        modules = self.net.modules()
        return [tuple(m.mean.shape) for m in modules if isinstance(m, Standardize)]

    def __call__(self, tensors: Tensors, x: Inputs, rng: Rng | None = None) -> Tensor:
        """Outputs `(M, N, *axes, O)` of the M networks.

        tensors: weights and buffers by name, each `(M, ...)`.
        x: inputs of each network, `(M, N, ...)`.
        rng: random numbers of dropout, in training mode; None: evaluation mode.
        """
        if isinstance(x, Bundle) or self._layers is None or not self.takes(x.shape[2:]):
            return self._loop(tensors, x, rng)
        if not x.numel():  # products of nothing refuse nothing
            return self._loop(tensors, x, rng)
        draws = None if rng is None else cache(partial(rng.generators, "dropout"))
        hidden = x.flatten(2).transpose(1, 2)  # (M, F, N)
        for layer in self._layers:
            hidden = layer(tensors, hidden, draws)
        return hidden.transpose(1, 2)

    def _loop(self, tensors: Tensors, x: Inputs, rng: Rng | None) -> Tensor:
        generators = [None] * len(x) if rng is None else rng.generators("dropout")
        slices = {name: tensor.unbind(0) for name, tensor in tensors.items()}
        outputs = []
        each: Sequence[Inputs] = x.unbind(0)
        with self._copies.lent() as net:
            if net.training != (rng is not None):
                net.train(rng is not None)
            for member, (inputs, generator) in enumerate(zip(each, generators, strict=True)):
                weights = {name: parts[member] for name, parts in slices.items()}
                with (
                    nullcontext()
                    if generator is None
                    else masks_from(generator, reseeded=self._reseeded),
                    QuickImages() if _are_images(inputs) else nullcontext(),
                ):
                    outputs.append(self._answer(net, weights, inputs))
        return torch.stack(outputs)

    def _answer(self, net: nn.Module, weights: dict[str, Tensor], x: Inputs) -> Tensor:
        """The outputs of one network; images without gradients in pieces that fit the cache."""
        whole = not _are_images(x) or net.training or torch.is_grad_enabled()
        answers = []
        for part in [x] if whole else x.split(_piece(x)):
            args, keywords = arguments(net, self._laid_out(part, training=net.training))
            answers.append(selected(self._call(net, weights, args, keywords), net=net))
        return answers[0] if len(answers) == 1 else torch.cat(answers)

    def _call(
        self, net: nn.Module, weights: dict[str, Tensor], args: Any, keywords: dict[str, Any]
    ) -> Any:
        if not self._sealed:
            return torch.func.functional_call(net, weights, args, keywords)
        if net.training:
            raise NescioError(
                "a TorchScript network cannot be trained here: give the nn.Module it was made from"
            )
        with torch.no_grad():  # its weights can be overwritten, not replaced
            for name, tensor in chain(net.named_parameters(), net.named_buffers()):
                tensor.copy_(weights[name])
        return net(*args, **keywords)

    def _laid_out(self, x: Inputs, *, training: bool) -> Inputs:
        """Color images with the channels last in memory, where that is faster."""
        if not self._known and not training:
            return x.clone()  # a forward of the user's own may write on it
        if isinstance(x, Bundle) or not self._last or x.ndim != 4 or x.shape[1] == 1:
            return x
        return x.contiguous(memory_format=torch.channels_last)


def _piece(images: Inputs) -> int:
    """How many images run at a time."""
    shape = images.shape[2:] if isinstance(images, Tensor) else ()
    return max(1, min(PIECE, PIXELS // max(1, math.prod(shape))))


def _are_images(x: Inputs) -> bool:
    return isinstance(x, Tensor) and x.ndim == 4


def _first(net: nn.Module) -> nn.Module:
    """The first layer behind any input scaling."""
    while isinstance(net, nn.Sequential) and len(net):
        net = net[1] if len(net) > 1 and isinstance(net[0], Standardize) else net[0]
    return net


def _plan(module: nn.Module, prefix: str) -> list[Layer] | None:
    """The layers as functions of stacked tensors, or None where a layer cannot be stacked."""
    if _watched(module):
        return None
    kind = type(module)
    if kind.forward is nn.Sequential.forward:
        children = cast(dict[str, nn.Module], module._modules)  # as Sequential runs them
        plans = [_plan(child, f"{prefix}{name}.") for name, child in children.items()]
        return None if None in plans else [layer for plan in plans for layer in plan or []]
    if kind is nn.Linear:
        bias = f"{prefix}bias" if module.bias is not None else None
        return [partial(_linear, f"{prefix}weight", bias)]
    if kind is nn.ReLU:
        return [_relu]
    if kind in ELEMENTWISE:
        return [lambda _, hidden, __: module(hidden)]
    if isinstance(module, nn.Flatten) and kind is nn.Flatten:
        return [] if (module.start_dim, module.end_dim) == (1, -1) else None
    if isinstance(module, nn.Dropout) and kind is nn.Dropout:
        return [partial(_dropout, module.p)] if module.p else []
    if kind is VariationalLinear:
        return [partial(_variational, prefix)]
    if isinstance(module, Recurrent) and not module.options.per_step:
        return [partial(_recurrent, module, prefix)]
    if kind is Standardize:
        return [partial(_standardize, f"{prefix}mean", f"{prefix}scale")]
    return None


def _watched(module: nn.Module) -> bool:
    hooks = module._forward_hooks or module._forward_pre_hooks or module._backward_hooks
    return bool(hooks) or "forward" in vars(module)


def _known(net: nn.Module) -> bool:
    """Whether all layers are PyTorch's or nescio's own: no forward can take them apart."""
    homes = ("torch.nn.", "nescio.nets.")
    return all(type(m).__module__.startswith(homes) and not _watched(m) for m in net.modules())


def _rearrange(net: nn.Module) -> None:
    """Pool before ReLU, which gives the same from a quarter of the work, and ReLU in place."""
    for block in net.modules():
        if type(block) is not nn.Sequential:
            continue
        layers = block._modules
        for first, second in pairwise(layers):
            if type(layers[first]) is nn.ReLU and _pools(layers[second]):
                layers[first], layers[second] = layers[second], layers[first]
        for first, second in pairwise(layers):
            fresh = type(layers[first]) in FRESH or _pools(layers[first])
            if fresh and type(layers[second]) is nn.ReLU:
                layers[second] = nn.ReLU(inplace=True)  # one of its own: it may be shared


def _pools(layer: nn.Module) -> bool:
    return type(layer) is nn.MaxPool2d and not layer.return_indices


def _tied(net: nn.Module) -> bool:
    """Whether a parameter or buffer occurs twice."""
    parts = net.named_parameters(remove_duplicate=False), net.named_buffers(remove_duplicate=False)
    every = [id(tensor) for part in parts for _, tensor in part]
    return len(every) > len(set(every))


def _linear(weight: str, bias: str | None, t: Tensors, hidden: Tensor, _: Draws) -> Tensor:
    if bias is None:
        return torch.bmm(t[weight], hidden)
    return torch.baddbmm(t[bias][:, :, None], t[weight], hidden)


def _relu(_: Tensors, hidden: Tensor, __: Draws, *, inplace: bool = False) -> Tensor:
    return torch.relu_(hidden) if inplace else torch.relu(hidden)


def _in_place(layers: list[Layer] | None) -> list[Layer] | None:
    """ReLU directly after a linear layer may overwrite: a product's gradient needs no output."""
    if layers is None:
        return None
    after = [None, *layers[:-1]]
    fresh = [isinstance(layer, partial) and layer.func is _linear for layer in after]
    quick = partial(_relu, inplace=True)
    return [quick if ok and f is _relu else f for ok, f in zip(fresh, layers, strict=True)]


def _dropout(p: float, _: Tensors, hidden: Tensor, draws: Draws) -> Tensor:
    if draws is None:
        return hidden
    features, samples = hidden.shape[1:]
    masks = [draw_mask((samples, features), p, g, hidden) for g in draws()]
    return hidden * torch.stack(masks).transpose(1, 2)


def _variational(prefix: str, t: Tensors, hidden: Tensor, draws: Draws) -> Tensor:
    mean = torch.baddbmm(t[f"{prefix}bias_mean"][:, :, None], t[f"{prefix}weight_mean"], hidden)
    if draws is None:
        return mean
    weight, bias = (F.softplus(t[f"{prefix}{part}_rho"]).square() for part in ("weight", "bias"))
    spread = torch.baddbmm(bias[:, :, None], weight, hidden.square()).sqrt()
    features, samples = mean.shape[1:]
    noise = [torch.randn(samples, features, generator=g) for g in draws()]
    return mean + spread * torch.stack(noise).transpose(1, 2).to(mean)


def _recurrent(module: Recurrent, prefix: str, t: Tensors, hidden: Tensor, draws: Draws) -> Tensor:
    own = {name: t[f"{prefix}{name}"] for name, _ in module.named_parameters()}
    x = hidden.transpose(1, 2)
    if module.channels is not None:
        x = x.unflatten(2, (module.channels + module.marked, -1))
    return module.stacked(own, x, draws).transpose(1, 2)


def _standardize(mean: str, scale: str, t: Tensors, hidden: Tensor, _: Draws) -> Tensor:
    shift, width = (t[name].reshape(len(t[name]), -1, 1) for name in (mean, scale))
    steps = hidden.shape[1] // shift.shape[1]
    if shift.shape[1] > 1 and steps > 1:  # of sequences, by channel
        shift, width = (part.repeat_interleave(steps, 1) for part in (shift, width))
    return (hidden - shift) / width


@dataclass(frozen=True)
class Forward:
    """What a loss sees of the networks: call it on inputs `(M, N, ...)`, or read the parameters."""

    architecture: Stack
    tensors: Tensors
    rng: Rng | None = None  # None: evaluation, dropout off
    averaged: Tensors | None = field(default=None, kw_only=True)  # where a run averages weights

    def __call__(self, x: Tensor) -> Tensor:
        outputs = self.architecture(self.tensors, x, self.rng)
        # products of a training step may be in 16 bits; losses are not
        return outputs.float() if outputs.dtype is torch.bfloat16 else outputs

    @property
    def average(self) -> "Forward":
        """The networks with the moving average of their weights, as constants, in the same mode.

        `.frozen()` is the same in evaluation mode, `.again(name)` with other masks. Calls leave
        the statistics of BatchNorm as they are.
        """
        if self.averaged is None:
            raise NescioError("no weights are averaged in this run; train(..., average=0.999)")
        trained = set(self.architecture.trained)
        tensors = {n: t if n in trained else t.clone() for n, t in self.averaged.items()}
        return Forward(self.architecture, tensors, self.rng, averaged=self.averaged)

    def again(self, name: str) -> "Forward":
        """The same networks with other dropout masks and noise, a function of `name` too.

        All passes of a step draw the same ones otherwise, and two of them differ in nothing. In
        evaluation there are none, and this is the same.
        """
        if not isinstance(name, str):
            raise NescioError(
                f'the name of a pass is a text, as in forward.again("second"), got {name!r}'
            )
        return self if self.rng is None else replace(self, rng=self.rng.again(name))

    def frozen(self) -> "Forward":
        """The same networks in evaluation mode, with gradients for the inputs alone."""
        fixed = {name: t.detach() for name, t in self.tensors.items()}
        return Forward(self.architecture, fixed, averaged=self.averaged)

    @property
    def parameters(self) -> dict[str, Tensor]:
        """The trained weights by name, each `(M, ...)`, in the order of the network."""
        return {name: self.tensors[name] for name in self.architecture.trained}


@dataclass(frozen=True)
class Dense:
    """Linear layers with ReLU between, by the names of their weights and biases.

    Small networks spend most of a training step in autograd's bookkeeping. Where the loss knows its
    derivative, the chain rule is a few products, with the same result.
    """

    weights: tuple[str, ...]
    biases: tuple[str, ...]
    scaling: tuple[str, str] | None = None  # mean and scale of the inputs

    @torch.inference_mode()
    def __call__(
        self, tensors: Tensors, x: Tensor, y: Tensor, slope: Slope, counts: Tensor | None = None
    ) -> tuple[Tensor, list[Tensor]]:
        """Mean scores `(M,)`, and their gradients in the order weight, bias, weight, bias, ...

        counts: `(M, N)` weights of the samples; None: all count alike.
        """
        hidden = [x.flatten(2).transpose(1, 2)]  # (M, F, N), as in a stack
        if self.scaling is not None:
            hidden = [_standardize(*self.scaling, tensors, hidden[0], None)]
        for weight, bias in zip(self.weights, self.biases, strict=True):
            after = torch.baddbmm(tensors[bias][:, :, None], tensors[weight], hidden[-1])
            hidden.append(after if weight == self.weights[-1] else after.clamp_min_(0))
        scores, rise = slope(hidden.pop().transpose(1, 2), y)
        if counts is None:
            rise = rise.transpose(1, 2) / x.shape[1]
            return scores.mean(1), self._backward(tensors, hidden, rise)
        total = counts.sum(1, keepdim=True)
        share = counts / torch.where(total > 0, total, 1.0)
        scores, rise = torch.where(share > 0, scores, 0.0), rise.where(share[..., None] > 0, 0.0)
        rise = rise.transpose(1, 2) * share[:, None]
        return (share * scores).sum(1), self._backward(tensors, hidden, rise)

    def _backward(self, tensors: Tensors, hidden: list[Tensor], rise: Tensor) -> list[Tensor]:
        slopes: list[Tensor] = []
        for weight, before in zip(reversed(self.weights), reversed(hidden), strict=True):
            slopes = [torch.bmm(rise, before.mT), rise.sum(2), *slopes]
            if weight != self.weights[0]:
                rise = torch.bmm(tensors[weight].mT, rise)
                rise = torch.ops.aten.threshold_backward(rise, before, 0)
        return slopes


def dense(
    architecture: Stack, features: Sequence[int] = (1,), *, scaled: bool = False
) -> Dense | None:
    """The network as dense layers for inputs of this shape, or None where it is anything else.

    scaled: whether the inputs may be standardized first.
    """
    every = architecture.net.named_modules(remove_duplicate=False)  # a ReLU may occur several times
    leaves = [(name, module) for name, module in every if not list(module.children())]
    layers = [layer for layer in leaves if not isinstance(layer[1], nn.Flatten)]
    scaling = None
    if scaled and layers and type(layers[0][1]) is Standardize:
        name, _ = layers.pop(0)
        scaling = f"{name}.mean", f"{name}.scale"
    linear, between = layers[::2], layers[1::2]
    if not (
        architecture.takes(features)
        and len(linear) == len(between) + 1
        and all(type(layer) is nn.Linear and layer.bias is not None for _, layer in linear)
        and all(type(layer) is nn.ReLU for _, layer in between)
    ):
        return None
    names = [f"{name}.{part}" for name, _ in linear for part in ("weight", "bias")]
    if tuple(names) != architecture.trained:  # frozen weights: autograd knows how
        return None
    return Dense(tuple(names[::2]), tuple(names[1::2]), scaling)
