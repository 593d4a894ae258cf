"""The fixed networks behind what a user has: a module, a model, sampled passes, a scaled model."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from nescio.core import Head, NescioError, as_batch, as_tensor, generator
from nescio.geometry.tracing.domain import Domain, Part
from nescio.geometry.tracing.points import Points, generic
from nescio.geometry.tracing.tracing import Traced, run
from nescio.models import Predictor, networks
from nescio.nets.dropout import MaskPerPass

Source = nn.Module | Predictor
D = TypeVar("D")


CASTS = {"float", "half", "bfloat16", "to", "type"}
ALIKE = 1e-6  # relative, of the traced logits and the network's own


@dataclass(frozen=True, eq=False, kw_only=True)
class Instance:
    """One fixed network in float64 and evaluation mode; its logits are scaled and shifted after."""

    net: nn.Module
    masks: tuple[int, int] | None = None  # seed and number of the pass whose dropout masks hold
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
        if self.slope == 1.0 and self.intercept is None:
            return out
        return domain.map(
            out,
            lambda flat: flat * self.slope,
            absolute=lambda flat: flat * abs(self.slope),
            constant=self.intercept,
        )

    @torch.no_grad()
    def __call__(self, x: Tensor) -> Tensor:
        """Logits `(N, C)` of inputs in float64."""
        out = self._plain(x) * self.slope
        return out if self.intercept is None else out + self.intercept

    def _trace(self, domain: Domain, part: Part) -> Part:
        with self._fixed():
            return run(self.net, self.names, Traced.of(part, domain))

    def _plain(self, x: Tensor) -> Tensor:
        with self._fixed(), _Wide():
            out: Tensor = self.net(x.clone())
        return out

    @torch.no_grad()
    def _check(self, part: Part) -> None:
        """Compare what is traced with the network itself at a few points.

        An in-place operation on a view also changes what is viewed; the tracing does not see that.
        """
        reached = part.coefs[:, :1].detach().sum(0)  # where all unknowns are 1
        spread = reached.square().mean().sqrt().clamp(1.0, 1e6) * generic(part.features)
        x = torch.cat([reached, -reached, spread[None], -spread[None]])
        points = Points()
        linear, _, constant = self._trace(points, points.start(x, torch.zeros_like(x))).coefs
        try:
            truth = self._plain(x)
        except Exception as error:  # a user's forward may raise anything
            line = str(error).strip().split("\n")[0]
            raise NescioError(
                f"the network does not run in float64: {line}. Tensors of its own must be "
                "parameters or buffers"
            ) from error
        size = (linear.abs() + constant.abs() + truth.abs()).amax().item()
        apart = (linear + constant - truth).abs().amax().item()
        if not apart <= ALIKE * size:  # not a number either
            raise NescioError(
                "the network cannot be analyzed: its linear regions do not give its own outputs. "
                "An in-place operation on a view, random numbers, or samples that depend on each "
                "other are the usual causes; write y = f(x) in place of f_(x)"
            )

    def _fixed(self) -> ExitStack:
        stack = ExitStack()
        if self.masks is not None:
            seed, number = self.masks
            stack.enter_context(MaskPerPass([generator(seed, "pass", number)], 1))
        return stack


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


def instances(source: Source) -> list[Instance]:
    """The networks of a source, each copied: nothing of the user's is changed."""
    members = networks(source)
    for member in members:
        _check_head(member.head)
    copies = {id(m.net): m.net for m in members}  # passes of dropout share a network
    copies = {key: _ready(net) for key, net in copies.items()}
    checked: dict[int, set[tuple[int, ...]]] = {}  # of one template one member is checked
    return [
        Instance(
            net=copies[id(m.net)],
            masks=m.masks,
            slope=m.slope,
            intercept=None
            if m.intercept is None
            else torch.tensor(m.intercept, dtype=torch.float64),
            checked=checked.setdefault(id(m.template or m.net), set()),
        )
        for m in members
    ]


def _ready(net: nn.Module) -> nn.Module:
    net = getattr(net, "_orig_mod", net)  # a compiled network, as it was written
    if isinstance(net, torch.jit.ScriptModule):
        raise NescioError("a TorchScript module hides its layers; pass the nn.Module it came from")
    for name, tensor in [*net.named_parameters(), *net.named_buffers()]:
        if not tensor.isfinite().all():
            raise NescioError(f"the weights hold NaN or infinity: {name}")
    try:
        own = deepcopy(net)
    except RuntimeError as error:
        raise NescioError(
            f"the network cannot be copied: {error}. Old-style weight_norm is one cause: use "
            "torch.nn.utils.parametrizations.weight_norm"
        ) from error
    return own.double().cpu().eval().requires_grad_(False)


def _check_head(head: Head) -> None:
    if head.name != "categorical":
        raise NescioError(f"the geometry reads softmax classifiers; the head here is {head.name}")


def check_classes(outputs: int) -> None:
    """Refuse a network with one output where probabilities are asked for."""
    if outputs < 2:
        raise NescioError("a network with one output has no classes to be sure of; give it two")


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
    """Slices of at most `size` that cover `count`."""
    yield from (slice(i, min(i + size, count)) for i in range(0, count, max(1, size)))
