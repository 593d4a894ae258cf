"""Q-learning on a stack: the options, and the update of all members of all runs at once.

The target of a transition is r + discount * Q'(s', argmax_a Q(s', a)), where Q' is the target
network (double Q-learning, van Hasselt et al., 2016), and the loss (Q(s, a) - target)^2.
An episode that reaches its limit of steps is cut off, not ended: its last value is still estimated
from what would come after.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import torch
from torch import Tensor

from nescio.core import NescioError, fixed_variance, unknown
from nescio.losses import Loss, pointwise


@dataclass(frozen=True, kw_only=True)
class QLearning:
    """How an agent learns, the same for all agents.

    discount: weight of a reward one step later.
    learning_rate: learning rate of the networks.
    updates: number of updates after each episode.
    batch_size: transitions of a run in an update.
    capacity: number of transitions of a run that are stored.
    target_every: number of updates after which the target network is replaced.
    double: whether the network that learns chooses the next action, which the target network then
      values; otherwise the target network does both.
    widths: widths of the hidden layers, where no network is given.
    """

    discount: float = 0.99
    learning_rate: float = 1e-3
    updates: int = 20
    batch_size: int = 32
    capacity: int = 10_000
    target_every: int = 50
    double: bool = True
    widths: Sequence[int] = (64, 64)

    def __post_init__(self) -> None:
        if not isinstance(self.widths, Sequence):
            raise NescioError(f"widths are those of hidden layers, as (64, 64), got {self.widths}")
        object.__setattr__(self, "widths", tuple(self.widths))
        if not 0 <= self.discount <= 1:
            raise NescioError(f"discount must be 0 to 1, got {self.discount}")
        for name in ("updates", "batch_size", "capacity", "target_every"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise NescioError(f"{name} must be a positive whole number, got {value!r}")

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> "QLearning":
        """From `options` by name; one that does not exist is refused."""
        known = [field.name for field in fields(cls)]
        for name in options:
            if name not in known:
                raise NescioError(unknown("option of learn", name, known))
        return cls(**options)

    @property
    def described(self) -> dict[str, Any]:
        """All options, as JSON."""
        return asdict(self)


def td_loss() -> Loss:
    """(Q(s, a) - target)^2; the targets of a sample are the action and its value, then zeros."""
    return pointwise("td", fixed_variance(), _scores, _slope)


def packed(action: Tensor, value: Tensor, actions: int) -> Tensor:
    """Actions and their values, `(..., N)` each, as the targets that `td_loss` reads."""
    targets = value.new_zeros(*value.shape, actions)
    targets[..., 0], targets[..., 1] = action.to(value.dtype), value
    return targets


def _scores(outputs: Tensor, y: Tensor) -> Tensor:
    return (outputs.gather(-1, y[..., :1].long())[..., 0] - y[..., 1]).square()


def _slope(outputs: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    action = y[..., :1].long()
    error = outputs.gather(-1, action) - y[..., 1:2]
    rise = torch.zeros_like(outputs).scatter_(-1, action, 2 * error)
    return error[..., 0].square(), rise
