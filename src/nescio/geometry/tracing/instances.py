"""The fixed networks behind what a user has, and how a traced tensor runs through one."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from nescio.core import InputShapeError, NescioError, as_batch, as_tensor, generator
from nescio.geometry.tracing import bends, slopes  # noqa: F401 (what they handle)
from nescio.geometry.tracing.arithmetic import as_constant
from nescio.geometry.tracing.domain import Domain, Linear, Part, Values, generic
from nescio.geometry.tracing.traced import Traced as Traced
from nescio.models import Predictor, networks
from nescio.nets import copied, is_scripted, unwrapped
from nescio.nets.modes import MaskPerPass

GATES = " is not piecewise affine: its gates multiply what depends on the input"
WHY = {
    nn.MultiheadAttention: " is not piecewise affine: it multiplies what depends on the input",
    nn.RNNBase: GATES,
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
    if not part.features:  # one number a sample
        part = out.domain.map(part, Linear(lambda f: f[..., None]))
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
    gated = GATES if getattr(found, "gated", False) else ""  # as nets.lstm and nets.gru are
    why = next((words for kind, words in WHY.items() if isinstance(found, kind)), gated)
    return f"the network cannot be analyzed: {where} ({type(found).__name__}){why}"


Source = nn.Module | Predictor
D = TypeVar("D")


CASTS = {"float", "half", "bfloat16", "to", "type"}
ALIKE = 1e-6  # relative, of the traced logits and the network's own


@dataclass(frozen=True, eq=False, kw_only=True)
class Instance:
    """One fixed network in float64 and evaluation mode; its logits are scaled and shifted after."""

    net: nn.Module
    masks: tuple[int, int] | None = None  # seed and number of the pass whose dropout masks hold
    expand: Callable[[Tensor], Tensor] | None = None  # linear: outputs to class logits
    slope: float = 1.0
    intercept: Tensor | None = None
    checked: set[tuple[int, ...]] = field(default_factory=set)  # shapes the tracing is right for

    @cached_property
    def names(self) -> dict[nn.Module, str]:
        return {module: name for name, module in self.net.named_modules()}

    def run(self, domain: Domain, part: Part) -> Part:
        """The logits as a part, over the domain's rows."""
        if part.features not in self.checked:
            self._check(part)
            self.checked.add(part.features)
        out = self._trace(domain, part)
        if self.expand is not None:
            out = domain.map(out, Linear(self.expand))
        if self.slope == 1.0 and self.intercept is None:
            return out
        scale, size = self.slope, abs(self.slope)
        scaled = Linear(lambda f: f * scale, absolute=lambda f: f * size, constant=self.intercept)
        return domain.map(out, scaled)

    @torch.no_grad()
    def __call__(self, x: Tensor) -> Tensor:
        """Logits `(N, C)` of inputs in float64."""
        return self.logits(x)

    def logits(self, x: Tensor) -> Tensor:
        """The same with gradients where they are wanted."""
        out = self._plain(x)
        out = (out if self.expand is None else self.expand(out)) * self.slope
        return out if self.intercept is None else out + self.intercept

    def _trace(self, domain: Domain, part: Part) -> Part:
        with self._fixed():
            return run(self.net, self.names, Traced.of(part, domain))

    def _plain(self, x: Tensor) -> Tensor:
        try:
            with self._fixed(), _Wide():
                out: Tensor = self.net(x.clone())
        except Exception as error:  # a user's forward may raise anything
            line = str(error).strip().split("\n")[0]
            raise NescioError(
                f"the network does not run in float64 on inputs of shape {tuple(x.shape[1:])}: "
                f"{line}. Tensors of its own must be parameters or buffers"
            ) from error
        return out[:, None] if out.ndim == 1 else out

    @torch.no_grad()
    def _check(self, part: Part) -> None:
        """Compare what is traced with the network itself at a few points."""
        reached = part.coefs[:, :1].detach().sum(0)  # where all unknowns are 1
        spread = reached.square().mean().sqrt().clamp(1.0, 1e6) * generic(part.features)
        x = torch.cat([reached, -reached, spread[None], -spread[None]])
        points = Values()
        linear, _, constant = self._trace(points, points.start(x, torch.zeros_like(x))).coefs
        truth = self._plain(x)
        size = (linear.abs() + constant.abs() + truth.abs()).amax().item()
        apart = (linear + constant - truth).abs().amax().item()
        if not apart <= ALIKE * size:  # not a number either
            raise NescioError(
                "the network cannot be analyzed: its linear regions do not give its own outputs. "
                "An in-place operation on a view, random numbers, or samples that depend on each "
                "other are the usual causes; write y = f(x) in place of f_(x)"
            )

    def _fixed(self) -> AbstractContextManager[Any]:
        if self.masks is None:
            return nullcontext()
        seed, number = self.masks
        return MaskPerPass([generator(seed, "pass", number)], 1)


class _Wide(TorchFunctionMode):
    """Where a network turns its numbers into float32, they stay float64 like its weights."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        cast = getattr(func, "__name__", "") in CASTS and isinstance(out, Tensor)
        if not cast or not out.is_floating_point() or out.dtype == torch.float64:
            return out
        return args[0].double()


def instances(source: Source, *, raw: bool = False) -> list[Instance]:
    """The networks of a source, each copied: nothing of the user's is changed.

    raw: their outputs as they are, whatever the head; otherwise class logits.
    """
    members = networks(source)
    for head in (member.head for member in members if not raw):
        means = head.gives_logits and head.log_concentrations is not None  # softmax of outputs
        if head.name != "categorical" and head.expand is None and not means:
            raise NescioError(
                f"the geometry reads class logits; the head here is {head.name}. Of a network with "
                "several labels it reads one: head=nescio.heads.binary(label=0); of concentrations "
                "the precision: geometry.far_precision; of others raw outputs: geometry.far_outputs"
            )
    shared = {id(m.net): m.net for m in members}  # passes of dropout share a network
    copies = {key: _ready(net) for key, net in shared.items()}
    checked: dict[int, set[tuple[int, ...]]] = {}  # of one template one member is checked
    return [
        Instance(
            net=copies[id(m.net)],
            masks=m.masks,
            expand=None if raw else m.head.expand,
            slope=m.slope,
            intercept=None if m.intercept is None else as_constant(m.intercept),
            checked=checked.setdefault(id(m.template or m.net), set()),
        )
        for m in members
    ]


def check_no_concentrations(source: Source) -> None:
    """Refuse Dirichlets where measures are those of class probabilities alone."""
    if any(member.head.log_concentrations is not None for member in networks(source)):
        raise NescioError(
            "the limits of measures are those of class probabilities, and the network answers with "
            "a Dirichlet; geometry.far_field has the limit of its mean, geometry.far_precision "
            "that of its precision"
        )


def _ready(net: nn.Module) -> nn.Module:
    net = unwrapped(net)
    if is_scripted(net):
        raise NescioError("a TorchScript module hides its layers; pass the nn.Module it came from")
    for name, tensor in [*net.named_parameters(), *net.named_buffers()]:
        if not tensor.isfinite().all():
            raise NescioError(f"the weights hold NaN or infinity: {name}")
    return copied(net).double().cpu().eval().requires_grad_(False)


def check_classes(outputs: int) -> None:
    """Refuse a network with one output where probabilities are asked for."""
    if outputs < 2:
        raise NescioError(
            "a network with one output has no classes to be sure of; where it is the logit of "
            "class 1, give nescio.models.plain(net, head='binary')"
        )


def as_number(value: Any, name: str) -> float:
    """`value` as a float."""
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise NescioError(f"{name} must be a number, got {value!r}") from error


def together(source: Source, members: Sequence[D]) -> D:
    """The results of all members as one, with fields `(M, ...)`; of a bare module as they are."""
    return members[0] if isinstance(source, nn.Module) else with_members(members)


def with_members(members: Sequence[D]) -> D:
    """Values of members as one with an axis more in front, field by field."""
    given: Sequence[Any] = members
    found: Any = given[0]
    if isinstance(found, Tensor):
        found = torch.stack(tuple(given))
    elif isinstance(found, np.ndarray):
        found = np.stack(given)
    elif is_dataclass(found) and not isinstance(found, type):
        columns = {f.name: [getattr(member, f.name) for member in given] for f in fields(found)}
        changed = {name: with_members(column) for name, column in columns.items()}
        found = replace(found, **changed)
    return found  # type: ignore[no-any-return]


def as_points(value: Any, name: str) -> Tensor:
    """Points `(N, *features)` in float64; a single vector is one point."""
    x = as_tensor(value, name)
    x = x[None] if x.ndim == 1 else x
    if x.ndim < 2 or x.numel() == 0:
        raise NescioError(f"{name} must have shape (samples, features, ...), got {tuple(x.shape)}")
    if x.dtype == torch.uint8 and x.ndim == 4:  # images
        x = as_batch(x, torch.float64)
    if x.dtype in (torch.uint8, torch.bool) or x.is_complex():
        raise NescioError(
            f"{name} must be real numbers, got {x.dtype}; scale images first: x / 255"
        )
    x = x.double().cpu()
    if not x.isfinite().all():
        raise NescioError(f"{name} contain NaN or infinite values")
    return x


def as_rays(origin: Any, direction: Any) -> tuple[Tensor, Tensor]:
    """Origins and directions `(N, *features)`, broadcast against each other."""
    start, way = as_points(origin, "origin"), as_points(direction, "direction")
    if start.shape[1:] != way.shape[1:] or (
        len(start) != len(way) and 1 not in (len(start), len(way))
    ):
        raise NescioError(
            f"origin {tuple(start.shape)} and direction {tuple(way.shape)} do not fit: both are "
            "(rays, features, ...), or one of them is a single point"
        )
    count = max(len(start), len(way))
    return start.expand(count, *start.shape[1:]), way.expand(count, *way.shape[1:])


def blocks(count: int, size: int) -> Iterator[slice]:
    """Slices of at most `size`, or 1, that cover `count`."""
    size = max(1, size)
    yield from (slice(i, min(i + size, count)) for i in range(0, count, size))
