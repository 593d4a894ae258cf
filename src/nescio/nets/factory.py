"""What a network function is: its modules record name and options, for files."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec

from torch import nn

from nescio.core import NescioError
from nescio.core.registry import nets

P = ParamSpec("P")


def network(function: Callable[P, nn.Module]) -> Callable[P, nn.Module]:
    """Register a function that returns an `nn.Module`; the module keeps its name and options."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def recorded(*args: P.args, **options: P.kwargs) -> nn.Module:
        bound = signature.bind(*args, **options)
        bound.apply_defaults()
        module = function(*args, **options)
        module.nescio_made = {"net": function.__name__, "options": dict(bound.arguments)}  # type: ignore[assignment]
        return module

    return nets.register(recorded)


def check_dropout(dropout: float) -> float:
    """The share of dropped units, or an error."""
    if not 0 <= dropout < 1:
        raise NescioError(f"dropout must be in [0, 1), got {dropout}")
    return dropout


def made_by(module: nn.Module) -> dict[str, Any] | None:
    """Name and options of a network made by nescio, or None for any other module."""
    return getattr(module, "nescio_made", None)


def rebuild(made: dict[str, Any] | None) -> nn.Module:
    """A fresh network from `made_by`; only nescio's own networks can be rebuilt from a file."""
    if made is None:
        raise NescioError(
            "this model was trained on your own network; a file never names code to run, "
            "so pass the network: load(folder, net=make_net()), or --net package.module:factory"
        )
    return nets[made["net"]](**made["options"])  # type: ignore[no-any-return]
