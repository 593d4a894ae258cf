"""Modes around the calls of a network: dropout from a generator, quick pooling and convolutions.

A mode stands where layers and functional calls meet, so nothing of the user's network is replaced
or changed. PyTorch's max pooling over 2 x 2 windows takes longer than the convolution before it,
and so do the gradients of a convolution from a single channel. Both are a few whole-array
operations.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from nescio.core import NescioError, drawing_from, seeded

ELEMENTS = (F.dropout, torch.dropout)
CHANNELS = (F.dropout1d, F.dropout2d, F.dropout3d)
OTHERS = (F.alpha_dropout, F.feature_alpha_dropout)
Options = dict[str, Any]


def draw_mask(shape: Sequence[int], p: float, generator: torch.Generator, like: Tensor) -> Tensor:
    """Zeros with probability `p`, else 1 / (1 - p)."""
    mask = torch.empty(tuple(shape)).bernoulli_(1 - p, generator=generator)
    mask = mask.to(like)
    return mask.div_(1 - p) if p < 1 else mask


def mask_shape(function: Callable[..., Tensor], x: Tensor) -> list[int]:
    """Shape of the mask of one input: its features, or its channels for dropout of whole maps."""
    if function in OTHERS:
        raise NescioError("alpha dropout cannot be sampled here; use nn.Dropout or nn.Dropout2d")
    features = list(x.shape[1:])
    return [features[0], *(1 for _ in features[1:])] if function in CHANNELS else features


@contextmanager
def masks_from(generator: torch.Generator, *, reseeded: bool = True) -> Iterator[None]:
    """One training step of one member: a mask for every input.

    reseeded: whether other draws of layers are seeded too, in torch's one generator for all.
    """
    elsewhere = seeded(generator.initial_seed()) if reseeded else nullcontext()
    with elsewhere, drawing_from(generator), _MaskPerInput(generator):
        yield


class _MaskPerInput(TorchFunctionMode):
    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self.generator = generator

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Options | None = None
    ) -> Any:
        if func not in ELEMENTS + CHANNELS:
            return func(*args, **(kwargs or {}))
        x, p, active, inplace = read_call(*args, **(kwargs or {}))
        if not (active and p > 0):
            return x
        mask = draw_mask([len(x), *mask_shape(func, x)], p, self.generator, x)
        return x.mul_(mask) if inplace else x * mask


def read_call(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False, **other: Any
) -> tuple[Tensor, float, bool, bool]:
    """The arguments of a dropout call, however they are given."""
    return input, p, other.get("train", training), inplace


class MaskPerPass(TorchFunctionMode):
    """Dropout of T passes at once: a mask for every pass, shared by the inputs, always active.

    The batch stays as it is up to the first dropout; there it becomes T x N. What comes before is
    therefore computed once. A linear layer that follows directly takes the masks into its weights,
    one product for all passes. A single pass is plain: its masks are applied where they are drawn.
    """

    def __init__(self, generators: Sequence[torch.Generator], samples: int) -> None:
        super().__init__()
        self.generators, self.samples = generators, max(1, samples)
        self.drawn = 0
        self.before = 1  # numbers per sample of the widest tensor before the first dropout
        self.widest = 1  # numbers per row (a sample in a pass) of the widest tensor after it
        self._waiting: dict[int, tuple[Tensor, Tensor]] = {}  # id: (unmasked batch, masks)

    @property
    def passes(self) -> int:
        return len(self.generators)

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Options | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in ELEMENTS + CHANNELS + OTHERS:
            return self._dropout(func, *args, **kwargs)
        if func is F.scaled_dot_product_attention and kwargs.get("dropout_p", 0.0) > 0:
            raise NescioError("dropout inside attention cannot be sampled; use nn.Dropout after it")
        if not self._waiting:
            result = func(*args, **kwargs)
            if isinstance(result, Tensor):
                self.before = max(self.before, result.numel() // self.samples)
            return result
        if func is F.linear and id(args[0]) in self._waiting and args[0].ndim == 2:
            result = self._linear(*args, **kwargs)
        else:
            result = func(
                *(self.expanded(a) for a in args),
                **{k: self.expanded(v) for k, v in kwargs.items()},
            )
        if isinstance(result, Tensor) and result.ndim:
            self.widest = max(self.widest, result.numel() // (self.passes * self.samples))
        return result

    def expanded(self, value: Any) -> Any:
        """The T x N batch that `value` stands for, where it is a batch that waits for its masks."""
        if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
            return type(value)(self.expanded(part) for part in value)
        if not isinstance(value, Tensor) or id(value) not in self._waiting:
            return value
        x, masks = self._waiting[id(value)]
        return (x * masks[:, None]).flatten(0, 1)

    def _dropout(self, function: Any, *args: Any, **kwargs: Any) -> Tensor:
        value, p, _, inplace = read_call(*args, **kwargs)
        if p == 0:
            return value
        x: Tensor = self.expanded(value)
        self.drawn += 1
        shape = mask_shape(function, x)
        masks = torch.stack([draw_mask(shape, p, g, x) for g in self.generators])  # (T, ...)
        if self.passes == 1:
            return x.mul_(masks[0]) if inplace else x * masks[0]
        self.widest = max(self.widest, x[0].numel())
        if self._waiting and len(x) == self.passes * self.samples:
            grouped: Tensor = x.unflatten(0, (self.passes, self.samples))
            return (grouped * masks[:, None]).flatten(0, 1)
        stand_in = x.view(x.shape)
        self._waiting[id(stand_in)] = (stand_in, masks)  # stored: no other tensor gets its id
        return stand_in

    def _linear(self, stand_in: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        x, masks = self._waiting[id(stand_in)]
        outputs = len(weight)
        if outputs > len(x):  # the masked batch is smaller than the masked weights
            return F.linear(self.expanded(stand_in), weight, bias)
        masked = (masks[:, None] * weight).flatten(0, 1)  # (T x O, F)
        result: Tensor = F.linear(x, masked).unflatten(1, (self.passes, outputs))  # (N, T, O)
        result = result.transpose(0, 1) if bias is None else result.transpose(0, 1) + bias
        return result.flatten(0, 1)


Pair = tuple[int, int]
POOLS = (F.max_pool2d, torch.max_pool2d)
PATCHES = 2  # the numbers of a patch are at most this multiple of the number of kernels
KINDS = (torch.float32, torch.float64)


class QuickImages(TorchFunctionMode):
    """Within it, pooling and one-channel convolutions take the quick way, with the same values."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Options | None = None
    ) -> Any:
        options = kwargs or {}
        if func in POOLS:
            return _pool(func, *args, **options)
        if func is torch.conv2d:
            return _convolve(*args, **options)
        return func(*args, **options)


def _pool(
    function: Any,
    input: Tensor,
    kernel_size: int | Pair,
    stride: int | Pair | None = None,
    padding: int | Pair = 0,
    dilation: int | Pair = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    plain = _pair(padding) == (0, 0) and _pair(dilation) == (1, 1) and not return_indices
    halves = _pair(kernel_size) == _pair(stride or kernel_size) == (2, 2)
    whole = input.ndim == 4 and input.shape[2] % 2 == input.shape[3] % 2 == 0
    if plain and halves and whole and _usual(input) and input.numel():
        if _followed(input):
            return _Pool.apply(input)  # type: ignore[no-untyped-call]
        rows = torch.maximum(input[..., ::2], input[..., 1::2])
        return torch.maximum(rows[..., ::2, :], rows[..., 1::2, :])
    rest: Options = {} if function is torch.max_pool2d else {"return_indices": return_indices}
    return function(input, kernel_size, stride or kernel_size, padding, dilation, ceil_mode, **rest)


def _convolve(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Pair = 1,
    padding: int | Pair | str = 0,
    dilation: int | Pair = 1,
    groups: int = 1,
) -> Tensor:
    options: Any = _pair(stride), None if isinstance(padding, str) else _pair(padding)
    simple = groups == 1 and _pair(dilation) == (1, 1) and None not in options
    if not simple or not _is_gray(input, weight, bias, *options):
        return torch.conv2d(input, weight, bias, stride, padding, dilation, groups)
    if not _followed(input, weight, bias):
        return _product(input, weight, bias, *options)[0]
    out: Tensor = _FromOneChannel.apply(input, weight, bias, *options)  # type: ignore[no-untyped-call]
    return out


def _is_gray(x: Tensor, weight: Tensor, bias: Tensor | None, stride: Pair, padding: Pair) -> bool:
    """Whether it is a convolution of images of one channel that torch takes; torch says if not."""
    if x.ndim != 4 or weight.ndim != 4 or not (x.shape[1] == weight.shape[1] == 1):
        return False
    tensors = (x, weight) if bias is None else (x, weight, bias)
    if bias is not None and bias.shape != weight.shape[:1]:
        return False
    sizes = zip(x.shape[2:], weight.shape[2:], padding, stride, strict=True)
    fits = all(0 < k <= n + 2 * pad and pad >= 0 and by > 0 for n, k, pad, by in sizes)
    kinds = {t.dtype for t in tensors}
    return fits and len(kinds) == 1 and all(map(_usual, tensors[:1])) and x.numel() > 0


def _pair(value: Any) -> Any:
    """Two numbers, also where one stands for both; None: neither."""
    if isinstance(value, int):
        return value, value
    return tuple(value) if len(value) == 2 else value * 2 if len(value) == 1 else None


def _usual(x: Tensor) -> bool:
    """Plain numbers in plain memory; under autocast layers compute in other numbers."""
    plain = x.device.type == "cpu" and x.dtype in KINDS and x.is_contiguous()
    return plain and not torch.is_autocast_enabled("cpu")


def _followed(*tensors: Tensor | None) -> bool:
    return torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors)


class _Pool(torch.autograd.Function):
    """The largest of each 2 x 2 window; of equal ones the first, as in PyTorch."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        left, right = x[..., ::2], x[..., 1::2]
        rows = torch.maximum(left, right)
        top, bottom = rows[..., ::2, :], rows[..., 1::2, :]
        ctx.save_for_backward(_larger(right, left), _larger(bottom, top))
        return torch.maximum(top, bottom)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> Tensor:
        across, down = ctx.saved_tensors
        below = torch.ops.aten.threshold_backward(slope, down, 0)
        rows = torch.stack([slope - below, below], -2).flatten(-3, -2)
        right = torch.ops.aten.threshold_backward(rows, across, 0)
        # The fastest way to lay two arrays side by side: as parts of complex numbers.
        return torch.view_as_real(torch.complex(rows - right, right)).flatten(-2)


def _larger(x: Tensor, other: Tensor) -> Tensor:
    """1 where `x` is larger, otherwise 0; not a difference, which infinite numbers have none of."""
    return torch.gt(x, other, out=torch.empty_like(x, memory_format=torch.contiguous_format))


class _FromOneChannel(torch.autograd.Function):
    """A convolution `(B, 1, H, W) -> (B, O, h, w)`; its gradients are products with patches."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, stride: Pair, padding: Pair
    ) -> Tensor:
        out, patches = _product(x, weight, bias, stride, padding)
        ctx.save_for_backward(x, weight, patches if ctx.needs_input_grad[1] else None)
        ctx.stride, ctx.padding = stride, padding
        return out

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, patches = ctx.saved_tensors
        flat = slope.flatten(2)  # (B, O, hw)
        inputs = weights = bias = None
        if ctx.needs_input_grad[0]:
            slopes = (weight.flatten(1).T @ flat).unflatten(2, slope.shape[2:])  # (B, KL, h, w)
            inputs = _add_up(slopes, x.shape, weight.shape, ctx.stride, ctx.padding)
        if ctx.needs_input_grad[1]:
            if patches is None:
                patches = _patches(x, weight.shape, ctx.stride, ctx.padding)
            weights = torch.bmm(flat, patches.mT).sum(0).view_as(weight)
        if ctx.needs_input_grad[2]:
            bias = slope.sum((0, 2, 3))
        return inputs, weights, bias, None, None


def _product(
    x: Tensor, weight: Tensor, bias: Tensor | None, stride: Pair, padding: Pair
) -> tuple[Tensor, Tensor | None]:
    """The convolution, and the patches if they were computed: not where they dwarf the result."""
    kernels = weight.flatten(1)
    if kernels.shape[1] > PATCHES * len(kernels):
        return torch.conv2d(x, weight, bias, stride, padding), None
    patches = _patches(x, weight.shape, stride, padding)
    sizes = zip(x.shape[2:], padding, weight.shape[2:], stride, strict=True)
    shape = [(n + 2 * pad - k) // by + 1 for n, pad, k, by in sizes]
    out = x.new_empty(len(x), len(kernels), *shape)  # no view: it may be changed in place
    each = kernels.detach().expand(len(x), *kernels.shape)
    start = kernels.new_zeros(()) if bias is None else bias.detach()[:, None]
    torch.baddbmm(start, each, patches, out=out.flatten(2))
    return out, patches


def _patches(x: Tensor, shape: torch.Size, stride: Pair, padding: Pair) -> Tensor:
    """What each weight of the kernel sees, `(B, KL, hw)`."""
    (up, side), (kernel, width) = padding, shape[2:]
    wide = F.pad(x[:, 0], (side, side, up, up))
    patches = wide.unfold(1, kernel, stride[0]).unfold(2, width, stride[1])
    return patches.permute(0, 3, 4, 1, 2).reshape(len(x), kernel * width, -1)


def _add_up(patches: Tensor, x: torch.Size, kernel: torch.Size, stride: Pair, pad: Pair) -> Tensor:
    """The reverse of `_patches`: the sum of what falls on each pixel, `(B, 1, H, W)`."""
    (samples, _, height, width), (high, wide) = x, patches.shape[2:]
    out = patches.new_zeros(samples, height + 2 * pad[0], width + 2 * pad[1])
    for index, part in enumerate(patches.unbind(1)):
        row, column = divmod(index, kernel[3])
        rows = slice(row, row + stride[0] * (high - 1) + 1, stride[0])
        columns = slice(column, column + stride[1] * (wide - 1) + 1, stride[1])
        out[:, rows, columns] += part
    return out[:, None, pad[0] : pad[0] + height, pad[1] : pad[1] + width]
