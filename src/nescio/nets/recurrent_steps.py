"""The steps of recurrent layers, M networks at a time: LSTM and GRU cells over marked steps.

States are `(M, N, H)`. A step that is not marked leaves the state of its sequence as it is, so
padding never changes an answer, wherever it stands.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

State = tuple[Tensor, ...]  # the hidden state (M, N, H), and of an LSTM the cell


@dataclass(frozen=True, kw_only=True)
class LayerWeights:
    """The stacked weights of one recurrent layer, as PyTorch orders the G gates."""

    inputs: Tensor  # (M, G x H, F)
    states: Tensor  # (M, G x H, H)
    bias: Tensor  # (M, G x H)
    state_bias: Tensor | None = None  # (M, H), of a GRU: what its reset gate scales


@dataclass(frozen=True, kw_only=True)
class RecurrentCell:
    """How a state follows from the one before."""

    gates: int
    parts: int  # tensors of a state
    step: Callable[[LayerWeights, Tensor, Tensor, State], State]


def _lstm(weights: LayerWeights, entering: Tensor, hidden: Tensor, state: State) -> State:
    gates = torch.baddbmm(entering, hidden, weights.states.mT)
    write, forget, new, show = gates.chunk(4, -1)
    cell = forget.sigmoid() * state[1] + write.sigmoid() * new.tanh()
    return show.sigmoid() * cell.tanh(), cell


def _gru(weights: LayerWeights, entering: Tensor, hidden: Tensor, state: State) -> State:
    assert weights.state_bias is not None
    width = hidden.shape[-1]
    both = torch.bmm(hidden, weights.states.mT)
    gates = (entering[..., : 2 * width] + both[..., : 2 * width]).sigmoid()
    reset, old = gates.chunk(2, -1)
    new = both[..., 2 * width :] + weights.state_bias[:, None]
    new = (entering[..., 2 * width :] + reset * new).tanh()
    return (torch.lerp(new, state[0], old),)


CELLS = {
    "lstm": RecurrentCell(gates=4, parts=2, step=_lstm),
    "gru": RecurrentCell(gates=3, parts=1, step=_gru),
}


def unrolled(
    cell: RecurrentCell,
    weights: LayerWeights,
    steps: Tensor,
    marks: Tensor,
    state_mask: Tensor | None,
) -> list[Tensor]:
    """The hidden states `(M, N, H)` after each of the steps `(M, N, L, F)`.

    marks: `(M, N, L)`, where there is a step. state_mask: `(M, N, H)`, the dropout mask that all
      steps apply to the state they read; None: no dropout.
    """
    members, samples, length, _ = steps.shape
    flat = steps.transpose(1, 2).flatten(1, 2)  # (M, L x N, F): one product for all steps
    entering = torch.baddbmm(weights.bias[:, None], flat, weights.inputs.mT)
    whole: Sequence[bool] = marks.all(1).all(0).tolist()
    start = steps.new_zeros(members, samples, weights.states.shape[-1])
    state: State = (start,) * cell.parts
    found = []
    each = entering.unflatten(1, (length, samples)).unbind(1)
    for own, mark, full in zip(each, marks.unbind(2), whole, strict=True):
        hidden = state[0] if state_mask is None else state[0] * state_mask
        after = cell.step(weights, own, hidden, state)
        if not full:
            here = mark[..., None]
            after = tuple(torch.where(here, a, b) for a, b in zip(after, state, strict=True))
        state = after
        found.append(state[0])
    return found
