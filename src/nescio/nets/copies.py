"""Networks for calls from several threads: one call, one copy; the weights are shared.

A call may put hooks on layers, weights into them, or flags: never on those of the user, nor on
those that another call is using. A copy has separate layers and the weights of the network, so
it costs little. It goes back when the call ends, and the next call takes it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import partial
from itertools import chain
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from nescio.core import NescioError

WRAPPERS = {"OptimizedModule": "_orig_mod", "DataParallel": "module"}
WRAPPERS["DistributedDataParallel"] = "module"
C = TypeVar("C")


def unwrapped(net: nn.Module) -> nn.Module:
    """The network as it was written, behind `torch.compile` and `DataParallel`."""
    while type(net).__name__ in WRAPPERS:
        net = getattr(net, WRAPPERS[type(net).__name__])
    return net


def is_scripted(net: nn.Module) -> bool:
    """Whether a network, or a part of it, is TorchScript, whose layers and weights are sealed."""
    return any(isinstance(module, torch.jit.ScriptModule) for module in net.modules())


def copied(net: nn.Module) -> nn.Module:
    """A deep copy, or an error that says why there is none."""
    return _copy(net, {})


def sharing(net: nn.Module) -> nn.Module:
    """A copy in evaluation mode whose frozen weights are those of the network, in its memory."""
    memo: dict[int, Any] = {}
    for module in net.modules():
        if isinstance(module, torch.jit.ScriptModule):
            continue  # copied with its weights
        for tensor in chain(module._parameters.values(), module._buffers.values()):
            if tensor is not None:
                memo[id(tensor)] = _frozen(tensor)
        for value in vars(module).values():  # old-style weight_norm has its product there
            if isinstance(value, Tensor) and not value.is_leaf:
                memo[id(value)] = value.detach()
    copy = _copy(net, memo).eval()
    for weight in copy.parameters():  # of scripted parts
        if weight.requires_grad:
            weight.requires_grad_(False)
    return copy


class Copies(Generic[C]):
    """What `make` makes of a network, with a copy of it; as often as there are calls at a time."""

    def __init__(
        self, net: nn.Module, make: Callable[[nn.Module], C], *, fixed: bool = True
    ) -> None:
        """fixed: whether nobody else can change the network; if not, it is looked at every time."""
        self.net, self.make, self.fixed = net, make, fixed
        self._free: list[C] = []
        self._state: object = None

    def __reduce__(self) -> Any:
        return partial(Copies, fixed=self.fixed), (self.net, self.make)

    @contextmanager
    def lent(self) -> Iterator[C]:
        """A copy for one call; after an error it is not used again."""
        free = self._current()
        try:
            copy = free.pop()
        except IndexError:
            copy = self.make(self.net)
        yield copy
        free.append(copy)

    def _current(self) -> list[C]:
        """The copies that are free; none if the weights were replaced, moved or changed."""
        if not self.fixed:
            state = [
                (id(t), t.data_ptr(), 0 if t.is_inference() else t._version)
                for t in chain(self.net.parameters(), self.net.buffers())
            ]
            if state != self._state:
                self._free, self._state = [], state
        return self._free


def _frozen(tensor: Tensor) -> Tensor:
    if is_lazy(tensor):
        raise NescioError(
            "the network has lazy layers without weights; call it once on an input, then use it"
        )
    if isinstance(tensor, nn.Parameter):
        return nn.Parameter(tensor.detach(), requires_grad=False)
    return tensor.detach()


def _copy(net: nn.Module, memo: dict[int, Any]) -> nn.Module:
    try:
        return deepcopy(net, memo)
    except (RuntimeError, TypeError) as error:
        raise NescioError(
            f"the network cannot be copied: {error}. Old-style weight_norm is one cause: use "
            "torch.nn.utils.parametrizations.weight_norm, or make the network again"
        ) from error
