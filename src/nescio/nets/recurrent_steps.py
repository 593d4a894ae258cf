"""The steps of recurrent layers, M networks at a time: LSTM and GRU cells over marked steps.

States are `(M, H, N)`, features before samples, so that a gate is a block in memory. A step that is
not marked leaves the state of its sequence as it is, so padding never changes an answer, wherever
it stands.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

State = tuple[Tensor, ...]  # the hidden state (M, H, N), and of an LSTM the cell


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
    gates = torch.baddbmm(entering, weights.states, hidden)
    write, forget, new, show = gates.chunk(4, 1)
    cell = forget.sigmoid() * state[1] + write.sigmoid() * new.tanh()
    return show.sigmoid() * cell.tanh(), cell


def _gru(weights: LayerWeights, entering: Tensor, hidden: Tensor, state: State) -> State:
    assert weights.state_bias is not None
    width = hidden.shape[1]
    both = torch.bmm(weights.states, hidden)
    gates = (entering[:, : 2 * width] + both[:, : 2 * width]).sigmoid()
    reset, old = gates.chunk(2, 1)
    new = both[:, 2 * width :] + weights.state_bias[:, :, None].to(both.dtype)
    new = (entering[:, 2 * width :] + reset * new).tanh()
    return (torch.lerp(new, state[0], old),)


CELLS = {
    "lstm": RecurrentCell(gates=4, parts=2, step=_lstm),
    "gru": RecurrentCell(gates=3, parts=1, step=_gru),
}


def entered(weights: LayerWeights, steps: Tensor) -> Tensor:
    """What steps `(M, N, L, F)` add to the gates, `(M, G x H, L, N)`: one product for all."""
    _, samples, length, _ = steps.shape
    flat = steps.permute(0, 3, 2, 1).flatten(2)  # (M, F, L x N)
    gates = torch.baddbmm(weights.bias[:, :, None], weights.inputs, flat)
    found: Tensor = gates.unflatten(2, (length, samples))
    return found


def stepped(
    cell: RecurrentCell,
    weights: LayerWeights,
    entering: Tensor,
    marks: Tensor,
    state_mask: Tensor | None,
) -> Tensor:
    """The hidden states `(L, M, H, N)` after each step, from what enters `(M, G x H, L, N)`.

    marks: `(M, N, L)`, where there is a step. state_mask: `(M, H, N)`, the dropout mask that all
      steps apply to the state they read; None: no dropout.
    """
    members, wide, _, samples = entering.shape
    state: State = (entering.new_zeros(members, wide // cell.gates, samples),) * cell.parts
    whole: Sequence[bool] = marks.all(1).all(0).tolist()
    found = []
    for own, mark, full in zip(entering.unbind(2), marks.unbind(2), whole, strict=True):
        hidden = state[0] if state_mask is None else state[0] * state_mask
        after = cell.step(weights, own, hidden, state)
        if not full:
            here = mark[:, None]
            after = tuple(torch.where(here, a, b) for a, b in zip(after, state, strict=True))
        state = after
        found.append(state[0])
    return torch.stack(found)
