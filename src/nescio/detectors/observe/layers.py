"""Layers by name, pattern, place or type: what is called in a forward pass, and which are meant."""

import difflib
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nescio.core import NescioError, unknown
from nescio.nets import is_scripted, sharing
from nescio.nets.factory import is_scaled

BEFORE = "input of "
ROOT = "."  # the name of a network that is a single layer
SHOWN = 20  # names in a message
Pool = str | Callable[[Tensor], Tensor]
Pooling = Callable[[Tensor], Tensor]

GRID, CELLS, WIDEST = "grid", 4, 512  # cells along each axis; features, of which fewer cells follow


def _on_grid(f: Tensor) -> Tensor:
    """Means over the cells of a coarse grid of maps `(N, C, ...)`: some position is kept."""
    axes, cells = f.ndim - 2, min(CELLS, *f.shape[2:])
    while cells > 1 and f.shape[1] * cells**axes > WIDEST:
        cells //= 2
    if cells == 1 or axes > 3:
        return f.flatten(2).mean(2)
    pools = (F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d)
    return pools[axes - 1](f, cells).flatten(1)


POOLS: dict[str, Pooling] = {
    "mean": lambda f: f.flatten(2).mean(2),  # maps (N, C, ...), over all places
    GRID: _on_grid,  # maps, over the cells of a coarse grid
    "max": lambda f: f.flatten(2).amax(2),
    "flatten": lambda f: f.flatten(1),
    "tokens": lambda f: f.flatten(1, -2).mean(1),  # sequences (N, ..., F), over all places
    "first": lambda f: f.flatten(1, -2)[:, 0],  # the first token
}
MAPS = ("mean", "max", GRID)
FEATURES_LAST = (
    nn.Linear, nn.LayerNorm, nn.Embedding, nn.MultiheadAttention, nn.RNNBase, nn.TransformerEncoder,
    nn.TransformerDecoder, nn.TransformerEncoderLayer, nn.TransformerDecoderLayer,
)  # fmt: skip


@dataclass(frozen=True)
class Call:
    """A call of a layer in a forward pass."""

    name: str  # the layer's; the second of several calls is "name#2"
    kind: type[nn.Module]
    leaf: bool  # whether it called no other layer


@dataclass(frozen=True, eq=False)
class Place:
    """Where features are read: what a call of a layer gives, or what enters it."""

    name: str
    layer: nn.Module
    turn: int | None  # which call; None: the only one
    before: bool


def named_layers(net: nn.Module) -> dict[str, nn.Module]:
    """The layers of a network by name, those behind nescio's input scaling by their own."""
    inner = net[1] if is_scaled(net) else net  # type: ignore[index]
    layers = {
        name: layer
        for name, layer in inner.named_modules()
        if name and "parametrizations" not in name.split(".") and not is_scripted(layer)
    }
    if not layers and is_scripted(inner):
        return {}  # nobody can look into it
    return layers or {ROOT: inner}


def traced(net: nn.Module, run: Callable[[], object]) -> list[Call]:
    """The calls of layers while `run` calls the network, in the order in which they end."""
    layers = named_layers(net)
    ended: list[tuple[str, nn.Module, bool]] = []
    open_calls: list[bool] = []  # whether each has called no other

    def begin(*_: Any) -> None:
        if open_calls:
            open_calls[-1] = False
        open_calls.append(True)

    with ExitStack() as hooks:
        for name, layer in layers.items():

            def end(layer: nn.Module, *_: Any, name: str = name) -> None:
                ended.append((name, layer, open_calls.pop()))

            hooks.callback(layer.register_forward_pre_hook(begin).remove)
            hooks.callback(layer.register_forward_hook(end).remove)
        run()
    times, seen = Counter(name for name, *_ in ended), Counter[str]()
    calls = []
    for name, layer, leaf in ended:
        seen[name] += 1
        full = name if times[name] == 1 else f"{name}#{seen[name]}"
        calls.append(Call(full, type(layer), leaf))
    return calls


def chosen(wanted: Any, net: nn.Module, calls: Sequence[Call]) -> list[str]:
    """The names of the places that are meant, each once, in the order asked for."""
    items = wanted if isinstance(wanted, (list, tuple)) else [wanted]
    found = [name for item in items for name in _matching(item, net, calls)]
    return list(dict.fromkeys(found))


def last_linear(calls: Sequence[Call]) -> str | None:
    """The name of the last call of a linear layer."""
    return next((c.name for c in reversed(calls) if issubclass(c.kind, nn.Linear)), None)


def latent_layer(net: nn.Module) -> str | None:
    """The layer that a network says it answers from, in its attribute `latent_layer`."""
    inner = net[1] if is_scaled(net) else net  # type: ignore[index]
    found: str | None = getattr(inner, "latent_layer", None)
    return found


def _matching(item: Any, net: nn.Module, calls: Sequence[Call]) -> list[str]:
    names = [call.name for call in calls]
    if item is None and (own := latent_layer(net)) in names:
        return [str(own)]
    if item is None:
        last = last_linear(calls)
        if last is None:
            hidden = ": TorchScript hides its layers; give the nn.Module it was made from"
            choice = f"; name layers=, one of {_some(names)}"
            raise NescioError(
                "the network calls no linear layer whose input could be taken"
                f"{hidden if is_scripted(net) else choice}, or layers=[] for the logits alone, "
                "which energy, msp and other detectors read"
            )
        return [BEFORE + last]
    if isinstance(item, int) and not isinstance(item, bool):
        leaves = [call.name for call in calls if call.leaf]
        if not -len(leaves) <= item < len(leaves):
            raise NescioError(
                f"there is no layer {item}: a pass calls {len(leaves)} layers: {_some(leaves)}"
            )
        return [leaves[item]]
    if isinstance(item, type) and issubclass(item, nn.Module):
        found = [call.name for call in calls if issubclass(call.kind, item)]
    elif isinstance(item, str):
        if item.removeprefix(BEFORE) in names:
            return [item]
        _refuse_unclear(item.removeprefix(BEFORE), net, names)
        found = [name for name in names if fnmatchcase(name, item)]
    else:
        raise NescioError(
            "layers are named by a name, a pattern ('features.*'), an index (-2), a type "
            f"(nn.Conv2d), None or a list of these; got {item!r}"
        )
    if not found:
        raise NescioError(_nothing(item, names))
    return found


def _refuse_unclear(name: str, net: nn.Module, names: Sequence[str]) -> None:
    several = [full for full in names if full.rpartition("#")[0] == name]
    if several:
        raise NescioError(
            f"layer {name!r} is called {len(several)} times in a pass; say which call: "
            f"{_some(several)}"
        )
    if name in named_layers(net):
        raise NescioError(f"layer {name!r} exists but is not called; those called: {_some(names)}")


def _nothing(item: object, names: Sequence[str]) -> str:
    text = item.__name__ if isinstance(item, type) else str(item)
    near = difflib.get_close_matches(text.removeprefix(BEFORE), names, n=3, cutoff=0.4)
    hint = f"; near: {', '.join(near)}" if near else ""
    return f"no layer matches {text!r}{hint}; a pass calls {len(names)} layers: {_some(names)}"


def _some(names: Sequence[str]) -> str:
    if len(names) <= SHOWN:
        return ", ".join(names)
    return ", ".join([*names[: SHOWN - 5], "...", *names[-5:]])


def place(name: str, net: nn.Module) -> Place:
    """Where the name of a place is in a network."""
    layers = named_layers(net)
    bare = name.removeprefix(BEFORE)
    own, _, turn = bare.rpartition("#")
    if bare in layers:
        return Place(name, layers[bare], None, name != bare)
    if own in layers and turn.isdigit():
        return Place(name, layers[own], int(turn), name != bare)
    raise NescioError(_nothing(bare, list(layers)))


class Reading:
    """A copy of a network that only one call has, with hooks at places: what they hold of it.

    keep: what is kept of the output of a layer, or of its input.
    """

    def __init__(
        self, net: nn.Module, *, places: Sequence[str], keep: Callable[[Place, Tensor, int], Tensor]
    ) -> None:
        self.net = sharing(net)
        tensors = [*self.net.parameters(), *self.net.buffers()]
        self.device = next((t.device for t in tensors), torch.device("cpu"))
        self.dtype = next((t.dtype for t in tensors if t.is_floating_point()), torch.float32)
        self.pools = any(isinstance(layer, nn.MaxPool2d) for layer in self.net.modules())
        self._places = [place(name, self.net) for name in places]
        self._keep, self._samples = keep, 0
        self._rows: dict[str, Tensor] = {}
        self._calls, self._kept = Counter[str](), Counter[str]()
        for spot in self._places:
            if spot.before:
                spot.layer.register_forward_pre_hook(partial(self._read, spot), with_kwargs=True)
            else:
                spot.layer.register_forward_hook(partial(self._read, spot))

    def _read(self, spot: Place, _: nn.Module, args: Any, found: Any) -> None:
        self._calls[spot.name] += 1
        if spot.turn in (None, self._calls[spot.name]):
            value = next(iter([*args, *found.values()]), None) if spot.before else found
            self._rows[spot.name] = self._keep(spot, _first_tensor(value, spot.name), self._samples)
            self._kept[spot.name] += 1

    def begin(self, samples: int) -> None:
        """Get ready for a call on so many inputs."""
        self._samples = samples
        for held in (self._rows, self._calls, self._kept):
            held.clear()

    def end(self) -> dict[str, Tensor]:
        """What the places held in the call since `begin`, in their order."""
        for spot in self._places:
            if self._kept[spot.name] != 1:
                raise NescioError(
                    f"layer {spot.name!r} was called {self._kept[spot.name]} times in this pass, "
                    "not once as before; name a layer that every pass calls once"
                )
        return {spot.name: self._rows.pop(spot.name) for spot in self._places}


def _first_tensor(value: Any, name: str) -> Tensor:
    """A layer's output; of several the first, as recurrent and attention layers give them."""
    first = value[0] if isinstance(value, (tuple, list)) and value else value
    if not isinstance(first, Tensor):
        kind = type(value).__name__
        raise NescioError(f"layer {name!r} gives a {kind}, not a tensor; name one inside it")
    return first


def placed_in(net: nn.Module, names: Sequence[str]) -> tuple[str, ...]:
    """The names, of places that are all in the network."""
    return tuple(place(name, net).name for name in names)


def as_is(_: Place, value: Tensor, __: int) -> Tensor:
    """A copy of what a layer gives, not pooled: what follows may write on it."""
    return value.detach().clone()


def check_pool(pool: Pool) -> None:
    """Refuse a pooling that does not exist."""
    if not callable(pool) and pool not in POOLS:
        raise NescioError(unknown("pooling", pool, POOLS) + "; or give a function")


def named(option: object) -> object:
    """An option as a manifest holds it: of a function its name only."""
    if not callable(option):
        return option
    return {"function": getattr(option, "__qualname__", type(option).__name__)}


def pooled(pool: Pool, spot: Place, value: Tensor, samples: int) -> Tensor:
    """Rows `(N, F)` of a layer's output, never the same memory: what follows may write on it."""
    name = spot.name
    whole = value if value.dtype in (torch.float32, torch.float64) else value.float()
    if callable(pool):
        try:
            rows = pool(whole)
        except (RuntimeError, ValueError, IndexError, TypeError) as error:
            raise NescioError(
                f"pool= does not take what {name!r} gives, {tuple(whole.shape)}: {error}"
            ) from error
    elif whole.ndim < 3:
        rows = whole
    elif pool in MAPS and isinstance(spot.layer, FEATURES_LAST):
        raise NescioError(
            f"{name!r} gives sequences {tuple(value.shape)}, whose features are last, not maps; "
            "use pool='tokens' (their mean), 'first' (the first one), 'flatten' or a function"
        )
    else:
        rows = POOLS[pool](whole)
    if not isinstance(rows, Tensor) or rows.ndim != 2 or len(rows) != samples:
        got = tuple(rows.shape) if isinstance(rows, Tensor) else type(rows).__name__
        raise NescioError(
            f"{name!r} gives {tuple(value.shape)}, pooled to {got}; expected one row for each of "
            f"the {samples} inputs: name another layer, or pool by a function to (samples, "
            "features)"
        )
    same = rows.untyped_storage().data_ptr() == value.untyped_storage().data_ptr()
    return rows.clone() if same else rows
