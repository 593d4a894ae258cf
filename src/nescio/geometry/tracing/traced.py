"""A tensor that runs through a user's own `forward` and keeps what it is as a function.

`Traced` looks to the network like a batch of one sample. Each operation on it goes to the function
that handles it, which tells the domain how the affine maps behind the tensor change. Whatever
nobody handles is refused by name.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor

from nescio.core import NescioError
from nescio.geometry.tracing.domain import Domain, Part

READS = {  # properties and questions that the stand-in answers itself
    "__get__", "size", "dim", "numel", "nelement", "__len__", "is_floating_point", "is_complex",
    "ndimension", "stride", "is_contiguous", "element_size",
}  # fmt: skip

NUMBERS = {  # what a network asks to decide its way
    "bool", "item", "tolist", "float", "int", "index", "any", "all", "gt", "ge", "lt", "le", "eq",
    "ne", "greater", "less", "isfinite", "isnan", "equal", "allclose", "numpy",
}  # fmt: skip

H = TypeVar("H", bound=Callable[..., Any])
HANDLERS: dict[str, Callable[..., Any]] = {}


def handles(*names: str) -> Callable[[H], H]:
    """Register a function for operations of these names.

    It is called with the operation itself and the arguments of the call.
    """

    def register(handler: H) -> H:
        HANDLERS.update(dict.fromkeys(names, handler))
        return handler

    return register


class Traced(Tensor):
    """A tensor `(1, *features)` without numbers; `part` holds the affine maps of all rows."""

    part: Part
    domain: Domain

    @classmethod
    def of(cls, part: Part, domain: Domain) -> "Traced":
        empty = torch.empty((1, *part.features), dtype=torch.float64, device="meta")
        traced = empty.as_subclass(cls)
        traced.part, traced.domain = part, domain
        return traced

    @classmethod
    def __torch_function__(
        cls,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", str(func))
        if name in READS:
            return _read(func, args, kwargs)
        handler = HANDLERS.get(name)
        if handler is None:
            if name.strip("_") in NUMBERS:
                raise NescioError("the network's way depends on the numbers that run through it")
            raise NescioError(f"{name} is not piecewise affine, or not known to be")
        if name.endswith("_") and not name.startswith("__"):
            return overwrite(args[0], handler(func, *args, **kwargs))
        if name.startswith("__i") and name.endswith("__"):
            return overwrite(args[0], handler(func, *args, **kwargs))
        return handler(func, *args, **kwargs)


def _read(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    attribute = getattr(getattr(func, "__self__", None), "__name__", "")
    if attribute == "mT":
        return args[0].transpose(-1, -2)
    if attribute == "data":
        return args[0]
    with torch._C.DisableTorchFunctionSubclass():
        answer = func(*args, **kwargs)
    if isinstance(answer, torch.device):
        return args[0].part.coefs.device
    if isinstance(answer, Tensor):
        raise NescioError(f"the attribute {attribute} of a tensor is not known here")
    return answer


def overwrite(target: Any, result: Traced) -> Traced:
    """An in-place operation: the tensor itself becomes the result."""
    if not isinstance(target, Traced) or target.shape != result.shape:
        raise NescioError("an in-place operation that changes a tensor's shape")
    target.part = result.part
    return target


def apparent(x: Any) -> Any:
    """A stand-in without numbers for a traced tensor, to see what shapes an operation gives."""
    if not isinstance(x, Traced):
        return x
    return torch.empty(tuple(x.shape), dtype=torch.float64, device="meta")
