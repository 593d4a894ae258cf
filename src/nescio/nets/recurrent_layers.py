"""Recurrent layers as one module: sequences in, states out, and where dropout masks come from.

In training a call of dropout draws a mask for every sequence, in MC dropout one for every pass
(`nescio.nets.modes`). Masks that are drawn once and used at every step are tied. Stacked members
draw theirs here, each from its generator, in the same order.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nescio.core import NescioError, unknown
from nescio.nets.factory import check_dropout
from nescio.nets.modes import draw_mask
from nescio.nets.recurrent_steps import CELLS, LayerWeights, entered, stepped

KINDS = ("variational", "naive")
POOLINGS = ("last", "mean")
NUMBERS = 1 << 24  # of the gates computed in one go in evaluation
Drop = Callable[[Sequence[int], float], Tensor | None]  # masks (M, N, *shape); None: dropout is off
Draws = Callable[[], Sequence[torch.Generator]] | None


@dataclass(frozen=True, kw_only=True)
class RecurrentOptions:
    """The options of `nets.lstm`, checked."""

    cell: str
    width: int
    depth: int
    dropout: float
    dropout_kind: str
    input_dropout: float | None
    pooling: str
    per_step: bool
    marked: bool
    vocabulary: int | None
    embedding: int
    word_dropout: float
    padding: int

    def __post_init__(self) -> None:
        for one in (self.dropout, self.dropped_inputs, self.word_dropout):
            check_dropout(one)
        if self.dropout_kind not in KINDS:
            raise NescioError(unknown("kind of dropout", self.dropout_kind, KINDS))
        if self.pooling not in POOLINGS:
            raise NescioError(unknown("pooling", self.pooling, POOLINGS))
        sizes = {"width": self.width, "depth": self.depth, "embedding": self.embedding}
        wrong = [f"{name} {size}" for name, size in sizes.items() if size < 1]
        if wrong:
            raise NescioError(f"sizes must be positive, got {', '.join(wrong)}")
        if self.vocabulary is not None and not 0 <= self.padding < self.vocabulary:
            raise NescioError(
                f"the padding must be one of the {self.vocabulary} tokens, got {self.padding}"
            )
        if self.word_dropout and self.vocabulary is None:
            raise NescioError("word_dropout drops tokens; numbers have input_dropout")

    @property
    def is_tied(self) -> bool:
        """Whether all steps share a mask."""
        return self.dropout_kind == "variational"

    @property
    def dropped_inputs(self) -> float:
        return self.dropout if self.input_dropout is None else self.input_dropout


class Recurrent(nn.Module):
    """LSTM or GRU layers: `(N, channels + 1, L)` or tokens `(N, L)` to `(N, H)` or `(N, H, L)`."""

    gated = True  # products of what depends on the input: not piecewise affine

    def __init__(self, channels: int | None, options: RecurrentOptions) -> None:
        super().__init__()
        self.channels, self.options = channels, options
        self.marked = options.marked and channels is not None
        self.p = max(options.dropout, options.dropped_inputs, options.word_dropout)
        size = options.embedding if channels is None else channels
        if options.vocabulary is not None:
            self.embedding = nn.Embedding(options.vocabulary, size, options.padding)
        for layer in range(options.depth):
            for name, start in _starting(options.cell, size, options.width).items():
                self.register_parameter(f"{name}_{layer}", nn.Parameter(start))
            size = options.width

    def extra_repr(self) -> str:
        said = ", ".join(f"{name}={value!r}" for name, value in asdict(self.options).items())
        return f"channels={self.channels}, {said}"

    def forward(self, x: Tensor) -> Tensor:
        def drop(shape: Sequence[int], p: float) -> Tensor | None:
            whole = next(self.parameters()).new_ones(len(x), *shape)
            mask = F.dropout(whole, p, self.training)
            return None if mask is whole else mask[None]

        return self.run({name: t[None] for name, t in self.named_parameters()}, x[None], drop)[0]

    def stacked(self, tensors: Mapping[str, Tensor], x: Tensor, draws: Draws) -> Tensor:
        """The same for M members: weights `(M, ...)`, inputs `(M, N, ...)`."""

        def drop(shape: Sequence[int], p: float) -> Tensor | None:
            if draws is None:
                return None
            like = tensors["bias_0"]
            masks = [draw_mask((x.shape[1], *shape), p, g, like) for g in draws()]
            return torch.stack(masks)

        if draws is not None or torch.is_grad_enabled():
            return self.run(tensors, x, drop)
        gates = CELLS[self.options.cell].gates * self.options.width
        together = max(1, NUMBERS // (len(x) * x.shape[-1] * gates))
        return torch.cat([self.run(tensors, part, drop) for part in x.split(together, 1)], 1)

    def run(self, tensors: Mapping[str, Tensor], x: Tensor, drop: Drop) -> Tensor:
        """States `(M, N, H)`, or `(M, N, H, L)` at every step, of sequences `(M, N, ...)`."""
        steps, marks = self._read(tensors, x, drop)
        last = marks.any(1).any(0).nonzero()[-1:]  # step of the longest sequence, if there is one
        length = int(last.sum()) + 1
        states = steps
        for layer in range(self.options.depth):
            steps = self._drop_inputs(steps, layer, drop)
            tied = self.options.is_tied and self.options.dropout > 0
            mask = drop((self.options.width,), self.options.dropout) if tied else None
            if mask is not None:
                steps, mask = _as_many(steps, mask), mask.transpose(1, 2).contiguous()
            weights = self._layer(tensors, layer)
            entering = entered(weights, steps[:, :, :length])
            here = _as_many(marks, steps)[:, :, :length]
            states = stepped(CELLS[self.options.cell], weights, entering, here, mask)
            steps = F.pad(states.permute(1, 3, 0, 2), (0, 0, 0, marks.shape[2] - length))
        return self._answer(states, _as_many(marks, steps))

    def _read(self, tensors: Mapping[str, Tensor], x: Tensor, drop: Drop) -> tuple[Tensor, Tensor]:
        """The steps `(M, N, L, F)`, and which of them there are, `(M, N, L)`."""
        if self.options.vocabulary is not None:
            marks, steps = x != self.options.padding, self._embedded(tensors, x, drop)
        else:
            self._check_shape(x)
            values = x[:, :, :-1] if self.marked else x
            marks = (
                x[:, :, -1] > 0.5 if self.marked else torch.ones_like(x[:, :, 0], dtype=torch.bool)
            )
            steps = values.transpose(2, 3).where(marks[..., None], 0.0)  # whatever is there
        empty = (~marks.any(-1)).nonzero()
        if x.shape[-1] == 0 or len(empty):
            what = "have length 0"
            if x.shape[-1]:
                what = f"are all padding (first: sample {int(empty[0, 1])} of the batch)"
            raise NescioError(
                f"sequences {what}; a network answers from at least one step: leave them out"
            )
        return steps, marks

    def reads(self, shape: Sequence[int]) -> bool:
        """Whether it reads sequences of this shape."""
        if self.channels is None:
            return len(shape) == 1
        return len(shape) == 2 and shape[0] == self.channels + self.marked

    def _check_shape(self, x: Tensor) -> None:
        if not self.reads(x.shape[2:]):
            rows = (self.channels or 0) + self.marked
            said = ", the last of which marks steps" * self.marked
            raise NescioError(
                f"the network reads sequences (N, {rows}, length) of {rows} channels{said}; got "
                f"{tuple(x.shape[1:])}"
            )

    def _embedded(self, tensors: Mapping[str, Tensor], x: Tensor, drop: Drop) -> Tensor:
        """The vectors `(M, N, L, E)` of tokens `(M, N, L)`; dropped words are zero."""
        size = self.options.vocabulary or 0
        if x.ndim != 3 or x.is_floating_point():
            raise NescioError(
                f"the network reads tokens, whole numbers (N, length); got {x.dtype} of shape "
                f"{tuple(x.shape[1:])}"
            )
        tokens = x.long()
        if tokens.numel() and not 0 <= int(tokens.min()) <= int(tokens.max()) < size:
            raise NescioError(
                f"tokens must be 0 to {size - 1}, the vocabulary of the network; got "
                f"{int(tokens.min())} to {int(tokens.max())}"
            )
        first = size * torch.arange(len(x), device=x.device)[:, None, None]
        vectors = F.embedding(tokens + first, tensors["embedding.weight"].flatten(0, 1))
        types = drop((size,), self.options.word_dropout) if self.options.word_dropout else None
        if types is None:
            return vectors
        kept = types.gather(2, _as_many(tokens, types))  # the same for every use of a word
        return _as_many(vectors, types) * kept[..., None]

    def _drop_inputs(self, steps: Tensor, layer: int, drop: Drop) -> Tensor:
        p = self.options.dropout if layer else self.options.dropped_inputs
        size = steps.shape[3:] if self.options.is_tied else steps.shape[2:]
        mask = drop(size, p) if p else None
        if mask is None:
            return steps
        return _as_many(steps, mask) * (mask[:, :, None] if self.options.is_tied else mask)

    def _layer(self, tensors: Mapping[str, Tensor], layer: int) -> LayerWeights:
        return LayerWeights(
            inputs=tensors[f"weight_ih_{layer}"],
            states=tensors[f"weight_hh_{layer}"],
            bias=tensors[f"bias_{layer}"],
            state_bias=tensors.get(f"bias_hn_{layer}"),
        )

    def _answer(self, states: Tensor, marks: Tensor) -> Tensor:
        """What is answered from: the last state, the mean of the states, or all of them."""
        if self.options.per_step:
            missing = marks.shape[2] - len(states)  # the state stays as it is in the padding
            every = torch.cat([states, states[-1:].expand(missing, -1, -1, -1)])
            return every.permute(1, 3, 2, 0)
        if self.options.pooling == "last":
            return states[-1].transpose(1, 2)
        weight = marks[:, :, : len(states)].to(states)
        return torch.einsum("mnl,lmhn->mnh", weight / weight.sum(-1, keepdim=True), states)


def _as_many(x: Tensor, like: Tensor) -> Tensor:
    """Sequences `(M, N, ...)` as often as there are passes in `like`, `(M, T x N, ...)`."""
    times = like.shape[1] // max(1, x.shape[1])
    return x if times == 1 else x.repeat(1, times, *(1 for _ in x.shape[2:]))


def _starting(cell: str, inputs: int, width: int) -> dict[str, Tensor]:
    """Weights at the start as in PyTorch; an LSTM remembers at first: forget gates begin at 1."""
    gates, limit = CELLS[cell].gates * width, 1 / math.sqrt(width)
    shapes = {"weight_ih": (gates, inputs), "weight_hh": (gates, width), "bias": (gates,)}
    if cell == "gru":
        shapes["bias_hn"] = (width,)
    start = {name: torch.empty(shape).uniform_(-limit, limit) for name, shape in shapes.items()}
    if cell == "lstm":
        start["bias"][width : 2 * width] = 1.0
    return start
