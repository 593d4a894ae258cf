"""Networks for calls from several threads: one call, one copy; the weights are shared.

A call may put hooks on layers, weights into them, or flags: never on those of the user, nor on
those that another call is using. A copy has separate layers and the weights of the network, so
it costs little. It goes back when the call ends, and the next call takes it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from copy import deepcopy
from functools import partial
from itertools import chain
from types import BuiltinFunctionType, CellType, FunctionType
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from nescio.core import NescioError

WRAPPERS = {"OptimizedModule": "_orig_mod", "DataParallel": "module"}
WRAPPERS["DistributedDataParallel"] = "module"
CONSTANT = (torch.dtype, torch.device, type, FunctionType, BuiltinFunctionType)
C = TypeVar("C")


def unwrapped(net: nn.Module) -> nn.Module:
    """The network `net` as it was written, behind `torch.compile` and `DataParallel`."""
    while type(net).__name__ in WRAPPERS:
        net = getattr(net, WRAPPERS[type(net).__name__])
    return net


def is_scripted(net: nn.Module) -> bool:
    """Whether `net`, or a part of it, is TorchScript, whose layers and weights are sealed."""
    return any(isinstance(module, torch.jit.ScriptModule) for module in net.modules())


def copied(net: nn.Module) -> nn.Module:
    """A deep copy of `net`, or an error that says why there is none."""
    return _copy(net, {})


def sharing(net: nn.Module) -> nn.Module:
    """A copy of `net` in evaluation mode that shares its weights, frozen, in the same memory."""
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
    """What `make` makes of a network, with a copy of it; as often as there are calls at a time.

    net: the network.
    make: a function of a copy of it.
    fixed: whether nobody else can change the network; if not, it is looked at every time.
    """

    def __init__(
        self, net: nn.Module, make: Callable[[nn.Module], C], *, fixed: bool = True
    ) -> None:
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
        """The copies that are free; none if a weight or an attribute of the network changed."""
        if not self.fixed:
            state = [
                _seen(value) for module in self.net.modules() for value in vars(module).values()
            ]
            if state != self._state:
                self._free, self._state = [], state
        return self._free


def _seen(value: Any) -> Any:
    """What tells a value of a module from what it was; nothing equals what can change unseen."""
    if isinstance(value, Tensor):
        return id(value), value.data_ptr(), 0 if value.is_inference() else value._version
    if isinstance(value, dict):
        return [(key, _seen(part)) for key, part in value.items()]
    if isinstance(value, (list, tuple)):
        return list(map(_seen, value))
    if isinstance(value, set):
        return frozenset(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    fixed = getattr(value, "__dataclass_params__", None)
    is_known = isinstance(value, (nn.Module, *CONSTANT)) or (fixed is not None and fixed.frozen)
    return id(value) if is_known else object()


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
        copy = deepcopy(net, memo)
    except (RuntimeError, TypeError) as error:
        raise NescioError(
            f"the network cannot be copied: {error}. Old-style weight_norm is one cause: use "
            "torch.nn.utils.parametrizations.weight_norm, or make the network again"
        ) from error
    _rebind(net, copy)
    return copy


def _rebind(net: nn.Module, copy: nn.Module) -> None:
    """Let functions of the copy that use layers of the network use those of the copy.

    deepcopy leaves functions as they are: a lambda of a module, or a hook, that calls `self.norm`
    would run a layer of the user, with its weights and in its mode.
    """
    pairs = list(zip(net.modules(), copy.modules(), strict=True))
    known: dict[int, Any] = {id(theirs): ours for theirs, ours in pairs}
    for _, ours in pairs:
        hooks = [found for name, found in vars(ours).items() if name.endswith("_hooks")]
        for found in (vars(ours), *hooks):
            for key, value in list(found.items()) if isinstance(found, dict) else ():
                if isinstance(value, FunctionType):
                    found[key] = _bound(value, known)


def _bound(function: FunctionType, known: dict[int, Any]) -> Any:
    """The function with the values of `known`, by their ids, in place of those it closes over."""
    if id(function) in known or not function.__closure__:
        return known.get(id(function), function)
    cells = tuple(CellType() for _ in function.__closure__)
    code, own = function.__code__, function.__globals__
    made = FunctionType(code, own, function.__name__, function.__defaults__, cells)
    made.__kwdefaults__ = function.__kwdefaults__
    known[id(function)] = made  # it may close over itself
    changed = False
    for cell, old in zip(cells, function.__closure__, strict=True):
        with suppress(ValueError):  # it is empty
            value = old.cell_contents
            is_function = isinstance(value, FunctionType)
            cell.cell_contents = (
                _bound(value, known) if is_function else known.get(id(value), value)
            )
            changed |= cell.cell_contents is not value
    return made if changed else function
