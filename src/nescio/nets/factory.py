"""What a network function is: its modules record name and options; and scaling as a layer."""

import functools
import inspect
from collections import OrderedDict
from collections.abc import Callable
from copy import copy
from typing import Any, ParamSpec

import torch
from torch import Tensor, nn

from nescio.core import NescioError
from nescio.core.registry import nets
from nescio.data import Columns, as_they_are, frame_names

P = ParamSpec("P")


def network(function: Callable[P, nn.Module]) -> Callable[P, nn.Module]:
    """Register a `function` that returns an `nn.Module`; the module keeps its name and options."""
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


def needed_by(make_net: Any) -> list[str]:
    """The positional arguments that the factory `make_net` cannot do without; a module is none."""
    try:
        parameters = inspect.signature(make_net).parameters.values()
    except (TypeError, ValueError):
        return []
    by_position = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    return [p.name for p in parameters if p.default is p.empty and p.kind in by_position]


def rebuild(made: dict[str, Any] | None) -> nn.Module:
    """A fresh network from `made_by`; only nescio's own networks can be rebuilt from a file."""
    if made is None:
        raise NescioError(
            "this model was trained on your own network; a file never names code to run, "
            "so pass the network, or what makes it: load(folder, net=make_net), or --net "
            "package.module:factory"
        )
    return nets[made["net"]](**made["options"])  # type: ignore[no-any-return]


class Standardize(nn.Module):
    """Subtract `mean` and divide by `scale`, per feature; both are saved, neither is trained."""

    mean: Tensor
    scale: Tensor

    def __init__(self, mean: Tensor, scale: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", mean.clone())
        self.register_buffer("scale", scale.clone())

    def forward(self, x: Tensor) -> Tensor:
        """The inputs `x`, standardized."""
        return (x - self.mean) / self.scale


def encoded(net: nn.Module, columns: Columns) -> nn.Module:
    """The network with the encoding of its inputs: it then reads tables wherever it is used.

    The result shares the weights of `net`, which is left as it is; files of models and guards
    hold the encoding too.

    >>> from nescio.data import learn_columns, read_table
    >>> columns = learn_columns(read_table({"age": [40, 51, None], "ward": ["A", "B", "A"]}))
    >>> net = encoded(nn.Linear(columns.width, 2), columns)

    net: the network; it reads the `columns.width` numbers of the encoding.
    columns: from `nescio.data.learn_columns` on the training rows.
    """
    if not isinstance(columns, Columns):
        raise NescioError(f"columns come from learn_columns, got {type(columns).__name__}")
    own = copy(net)
    own.nescio_columns = columns  # type: ignore[assignment]
    return own


def named_columns(net: nn.Module, data: Any) -> nn.Module:
    """The network `net` with the names of its inputs, where `data` are a table of numbers."""
    names = frame_names(data)
    return encoded(net, as_they_are(names)) if names and columns_of(net) is None else net


def columns_of(net: nn.Module) -> Columns | None:
    """The encoding of the inputs of `net`; None: it reads numbers as they are."""
    found = (getattr(module, "nescio_columns", None) for module in net.modules())
    return next((columns for columns in found if columns is not None), None)


def scaled(net: nn.Module, mean: Tensor, scale: Tensor) -> nn.Sequential:
    """`net` behind a `Standardize`, as the layers `scaling` and `net`."""
    return nn.Sequential(OrderedDict(scaling=Standardize(mean, scale), net=net))


def is_scaled(net: nn.Module) -> bool:
    """Whether `net` was made by `scaled`."""
    return isinstance(net, nn.Sequential) and len(net) == 2 and isinstance(net[0], Standardize)


def marks_steps(net: nn.Module) -> bool:
    """Whether the last channel of the inputs of `net` says which steps of a sequence there are."""
    return any(getattr(module, "marked", False) for module in net.modules())


def standardized(net: nn.Module, x: Tensor) -> nn.Sequential:
    """Put a `Standardize` with the mean and deviation of `x` `(N, ...)` before `net`.

    A feature that never varies is only centered. Sequences whose last channel marks their steps are
    scaled by channel, over the steps there are; the marks stay as they are.
    """
    if marks_steps(net):
        return scaled(net, *_over_steps(x))
    wide = x.double()  # in float32 a constant feature has a deviation of rounding noise
    varies = x.amax(0) > x.amin(0)
    scale = torch.where(varies, wide.std(0, correction=0), 1.0)
    return scaled(net, wide.mean(0).to(x.dtype), scale.to(x.dtype))


def _over_steps(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and deviation `(channels + 1, 1)` over the marked steps of `(N, channels + 1, L)`."""
    steps = x.double().movedim(1, -1)[x[:, -1] > 0.5]  # (n, channels + 1)
    mean, scale = steps.mean(0), steps.std(0, correction=0)
    scale = torch.where(steps.amax(0) > steps.amin(0), scale, 1.0)
    mean[-1], scale[-1] = 0.0, 1.0
    return mean.to(x.dtype)[:, None], scale.to(x.dtype)[:, None]
