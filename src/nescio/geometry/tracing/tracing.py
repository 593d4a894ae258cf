"""Run a traced tensor through a network, and name the layer that does not fit."""

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn

from nescio.core import InputShapeError, NescioError
from nescio.geometry.tracing import arithmetic, bends, maxima, shapes  # noqa: F401 (what they handle)
from nescio.geometry.tracing.domain import Part
from nescio.geometry.tracing.traced import Traced as Traced

WHY = {
    nn.MultiheadAttention: " is not piecewise affine: it multiplies what depends on the input",
    nn.RNNBase: " is not piecewise affine: its gates multiply what depends on the input",
}


def run(net: Callable[[Tensor], Any], names: Mapping[nn.Module, str], start: Traced) -> Part:
    """The outputs of a network `(K, R, C)` as a part; a layer that does not fit is named."""
    try:
        out = net(start)
    except NescioError as error:
        raise type(error)(f"{_place(error, names)}: {error}") from None
    except Exception as error:  # a user's forward may raise anything
        line = str(error).strip().split("\n")[0]
        raise InputShapeError(
            f"{_place(error, names)}: inputs of shape {tuple(start.shape[1:])} do not pass: {line}"
        ) from error
    if not isinstance(out, Traced):
        raise NescioError("the network must return one tensor that depends on its input")
    part = out.domain.current(out.part)
    if len(part.features) != 1:
        raise NescioError(
            f"a network must return (samples, outputs), a sample gives {part.features}"
        )
    return part


def _place(error: BaseException, names: Mapping[nn.Module, str]) -> str:
    """The innermost layer that was running, by its name in the network."""
    trace, found = error.__traceback__, None
    while trace is not None:
        owner = trace.tb_frame.f_locals.get("self")
        if isinstance(owner, nn.Module) and owner in names:
            found = owner
        trace = trace.tb_next
    if found is None:
        return "the network cannot be analyzed"
    where = f"layer {names[found]!r}" if names[found] else "the network's own forward"
    why = next((words for kind, words in WHY.items() if isinstance(found, kind)), "")
    return f"the network cannot be analyzed: {where} ({type(found).__name__}){why}"
