"""A network that is only read: how inputs enter it, where its logits are, and nothing changed."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from nescio.core import Bundle, NescioError, as_batch, layout_hint, shape_of
from nescio.nets.copies import copied, unwrapped

Output = int | str | Callable[[Any], Tensor] | None
LOGITS = "logits"


def reads_tokens(net: nn.Module) -> bool:
    """Whether whole numbers enter `net` as they are."""
    return any(isinstance(m, (nn.Embedding, nn.EmbeddingBag)) for m in net.modules())


def entering(x: Any, device: torch.device, dtype: torch.dtype, *, tokens: bool) -> Any:
    """Checked inputs as a network reads them; of several tensors, whole numbers stay whole.

    x: the inputs, a tensor or several.
    device, dtype: device and number type of the network.
    tokens: whether whole numbers of one tensor stay whole, too.
    """
    if isinstance(x, Bundle):
        return x.map(lambda part: entering(part, device, dtype, tokens=True))
    whole = not (x.is_floating_point() or x.dtype == torch.uint8)
    return x.to(device) if whole and tokens else as_batch(x.to(device), dtype)


def arguments(net: nn.Module, x: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """How a network is called on inputs: a tuple by position, a mapping by keywords.

    A network whose forward does not take the parts one by one gets the tuple or mapping itself.

    net: the network.
    x: its inputs, a tensor or several.
    """
    if not isinstance(x, Bundle):
        return (x,), {}
    args, keywords = (), dict(x.parts)
    if x.is_tuple:
        args, keywords = tuple(x[str(index)] for index in range(len(x.parts))), {}
    try:
        inspect.signature(net.forward).bind(*args, **keywords)
    except (TypeError, ValueError):  # a scripted network may have no signature
        return (args or keywords,), {}
    return args, keywords


def called(net: nn.Module, x: Any) -> Any:
    """What `net` returns for inputs `x` as it reads them."""
    args, keywords = arguments(net, x)
    return net(*args, **keywords)


@contextmanager
def refusing_shapes(x: Any) -> Iterator[None]:
    """Say which inputs `x` a network did not take, in one line."""
    try:
        yield
    except NescioError:
        raise
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        line = str(error).strip().split("\n")[0]
        if "nference tensor" in line:
            raise NescioError(
                "the network's weights were made or loaded under torch.inference_mode, so nothing "
                "about it has a gradient; make or load it outside"
            ) from error
        raise NescioError(
            f"the network does not take inputs of shape {shape_of(x)}: {line}{layout_hint(x)}"
        ) from error


def located(result: Any) -> Output:
    """Where the logits are in what a network returns; None: it is the logits, or unclear.

    `.logits` or the key "logits"; in a tuple, the only tensor of shape (samples, classes).

    result: what the network returns.
    """
    if isinstance(result, Mapping):
        return LOGITS if LOGITS in result else None
    if isinstance(getattr(result, LOGITS, None), Tensor):
        return LOGITS
    if isinstance(result, (tuple, list)):
        tensors = [(i, value) for i, value in enumerate(result) if isinstance(value, Tensor)]
        rows = [i for i, value in tensors if value.ndim == 2 and value.is_floating_point()]
        return rows[0] if len(rows) == 1 else None
    return None


def selected(result: Any, output: Output = None, *, net: nn.Module | None = None) -> Tensor:
    """The logits in what a network returns, `(N, C)` or for maps and sequences `(N, *axes, C)`.

    A network returns the classes on axis 1, `(N, C, *axes)`, as torch's cross_entropy reads them.
    This is the one place where they become the last axis. One that is known to have them there
    already, as it ends in a linear layer, is refused: the user may mean either.

    result: what the network returns.
    output: an index, a key or a function; None: they are looked for.
    net: the network; None: unknown.
    """
    logits = found(result, output)
    if logits.ndim > 2 and net is not None and _ends_linear(net):
        raise NescioError(
            f"the network ends in a linear layer and returns {_what(logits)}, with the classes on "
            "the last axis; they are read on axis 1: give nescio.nets.classes_last(net)"
        )
    return logits.movedim(1, -1) if logits.ndim > 2 else logits


def _ends_linear(net: nn.Module) -> bool:
    """Whether it is known, without a look at its forward, that a linear layer is the last."""
    while type(net) is nn.Sequential and len(net) and not net._forward_hooks:
        net = net[-1]
    return isinstance(net, nn.Linear) and not net._forward_hooks


def found(result: Any, output: Output = None) -> Tensor:
    """The logits as the network returns them: named by `output`, or where they are found.

    result: what the network returns.
    output: an index, a key or a function; None: they are looked for.
    """
    place = located(result) if output is None and not isinstance(result, Tensor) else output
    try:
        chosen = result if place is None else _pick(result, place)
    except (KeyError, IndexError, AttributeError, TypeError) as error:
        raise NescioError(
            f"output={place!r} does not fit what the network returns, {_what(result)}"
        ) from error
    if not isinstance(chosen, Tensor):
        which = "" if place is None else f", and output={place!r} is {_what(chosen)}"
        raise NescioError(
            f"the network returns {_what(result)}{which}; say which tensor holds the logits: "
            "output= takes an index, a key or a function of what it returns"
        )
    if chosen.ndim == 3 and place is not None and not callable(place):
        raise NescioError(
            f"output={place!r} is {_what(chosen)}, and it is not known which axis has the classes; "
            "give a function that returns (samples, classes, steps): for classes on the last axis "
            f"output=lambda result: {_taken(result, place)}.movedim(-1, 1)"
        )
    return chosen[:, None] if chosen.ndim == 1 else chosen  # one number a sample is one output


def _taken(result: Any, place: Any) -> str:
    """How a part of what a network returns is written."""
    named = isinstance(place, str) and not isinstance(result, Mapping)
    return f"result.{place}" if named else f"result[{place!r}]"


class ClassesSecond(nn.Module):
    """Outputs `(N, *axes, C)` as `(N, C, *axes)`."""

    def forward(self, outputs: Tensor) -> Tensor:
        return outputs.movedim(-1, 1)


def classes_last(net: nn.Module) -> nn.Sequential:
    """A network whose classes are on the last axis, `(N, T, C)`, as one that returns `(N, C, T)`.

    A linear layer on every step of a sequence gives such outputs; nescio, as torch's
    cross_entropy, reads classes on axis 1.

    net: the network.
    """
    return nn.Sequential(net, ClassesSecond())


def returning(net: nn.Module, output: Output) -> nn.Module:
    """A copy of `net` that returns the logits alone, at `output`; None: the network itself."""
    net = unwrapped(net)
    if output is None:
        return net
    copy = copied(net)
    copy.register_forward_hook(partial(_only_logits, output))
    return copy


def _only_logits(output: Output, _: nn.Module, __: Any, result: Any) -> Tensor:
    return found(result, output)


def _pick(result: Any, output: Any) -> Any:
    if callable(output):
        return output(result)
    if isinstance(output, str) and not isinstance(result, Mapping):
        return getattr(result, output)
    if isinstance(result, Tensor):
        raise TypeError("one tensor")
    return result[output]


def _what(result: Any) -> str:
    if isinstance(result, Tensor):
        return f"a tensor of shape {tuple(result.shape)}"
    if isinstance(result, Mapping):
        return f"a dictionary with {', '.join(map(repr, result))}"
    if isinstance(result, (tuple, list)):
        return f"a {type(result).__name__} of {len(result)}"
    return f"a {type(result).__name__}"
