"""A bound on the Lipschitz constant of a whole network: the product of those of its layers.

Szegedy et al. (2014), section 4.3. Sums of branches add, branches side by side add in squares.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import fsum, inf, sqrt
from typing import Any

import torch
from torch import Tensor, nn

from nescio.core import NescioError
from nescio.geometry.affine_maps import gradients
from nescio.geometry.lipschitz.norms import check_norm, operator_norm
from nescio.geometry.tracing.domain import Bend, Curve, Domain, Function, Linear, Part
from nescio.geometry.tracing.instances import Instance, Source, as_points, instances, together
from nescio.geometry.tracing.operator_norms import OUTWARD

SMALL = 1 << 22  # entries of a matrix that is written out
FEW = 64  # outputs of affine layers that are multiplied out


@dataclass(frozen=True, eq=False, kw_only=True)
class ProductBound:
    """No two inputs have outputs further apart than `bound` times their own distance.

    bound: the bound, `()`, or `(M,)` of a model.
    norm: the norm of inputs and outputs.
    layers: names and factors of the layers of the first member.
    """

    bound: Tensor
    norm: str
    layers: tuple[tuple[str, float], ...]

    def __float__(self) -> float:
        return float(self.bound.max())


def product_bound(source: Source, x: Any, *, norm: str = "l2") -> ProductBound:
    """A bound on the Lipschitz constant of the logits, over all inputs of the shape of `x`.

    It is never below the constant of the network, and for a deep network often far above it. In
    `"l2"` a linear layer counts with its largest singular value, and a convolution with a bound
    that is nearly that of the layer. Affine layers that follow each other and end in few units are
    multiplied out.

    source: a network, a model or a predictor; each member is analyzed by itself.
    x: inputs `(N, *features)`; only their shape is read.
    norm: `"l2"`, `"linf"` or `"l1"`, of inputs and outputs alike.
    """
    check_norm(norm)
    features = tuple(as_points(x, "x").shape[1:])
    found = [_of_one(instance, features, norm) for instance in instances(source)]
    bounds = [torch.tensor(bound, dtype=torch.float64) for bound, _ in found]
    return ProductBound(bound=together(source, bounds), norm=norm, layers=found[0][1])


def _of_one(
    instance: Instance, features: tuple[int, ...], norm: str
) -> tuple[float, tuple[tuple[str, float], ...]]:
    domain = Stretch(norm)
    with _telling(instance.net, instance.names, domain):
        out = instance.run(domain, domain.start(features))
    return domain.constant([out]), tuple(domain.factors)


@contextmanager
def _telling(net: nn.Module, names: Any, domain: "Stretch") -> Iterator[None]:
    """Say to the domain which layer is running."""

    def hook(module: nn.Module, _: Any) -> None:
        domain.layer = names[module]

    hooks = [module.register_forward_pre_hook(hook) for module in net.modules()]
    try:
        yield
    finally:
        for one in hooks:
            one.remove()


@dataclass(frozen=True, eq=False, kw_only=True)
class Base:
    """A tensor of the network that changes by at most `constant` times the change of the input.

    After affine layers, `function` computes it from `origin`, the last tensor that is not affine
    in one before it.
    """

    constant: float
    features: tuple[int, ...]
    origin: "Base | None" = None
    function: Function | None = None


class Stretch(Domain):
    """A part is units taken from one base: coefs are `(1, 1, *features)`, their numbers from 1 on.

    0 is a unit that never changes. Taking, moving and copying units is not a factor:
    copies count where units are used, so that the windows of a pooling together count once.
    """

    def __init__(self, norm: str) -> None:
        super().__init__()
        self.norm = norm
        self.layer = ""
        self.factors: list[tuple[str, float]] = []

    def start(self, features: Sequence[int]) -> Part:
        return self._fresh(1.0, features)

    def above(self, lines: Tensor, error: Any = None) -> Tensor:
        raise NotImplementedError  # sides are not asked for: every unit may be on either

    def map(self, part: Part, linear: Linear) -> Part:
        units = part.coefs[0]
        taken = linear.function(units)
        if linear.absolute is None and linear.terms == 1 and _takes(linear.function, units, taken):
            return self.made(replace(part, coefs=taken[None]))
        factor = self._factor(linear, part.features, taken.numel())
        self.factors.append((self.layer, factor))
        base = _after(part, linear.function, taken.shape[1:], self.constant([part]) * factor)
        if part.error.function is not None:  # several affine layers: multiplied out where small
            base = replace(base, constant=min(base.constant, self._multiplied_out(base)))
        return self._whole(base)

    def _multiplied_out(self, base: Base) -> float:
        """The constant of a base by the matrix of all affine layers since its origin."""
        assert base.origin is not None
        assert base.function is not None
        inputs = torch.zeros(1, *base.origin.features, dtype=torch.float64)
        if torch.Size(base.features).numel() > FEW or inputs.numel() * FEW > SMALL:
            return inf
        with torch.enable_grad():
            matrix = gradients(base.function(inputs.requires_grad_()).flatten(1), inputs)
        return base.origin.constant * float(operator_norm(matrix[0], self.norm)) * OUTWARD

    def _factor(self, linear: Linear, features: tuple[int, ...], outputs: int) -> float:
        if self.norm == "l2" and linear.norm is not None:
            return linear.norm()
        ones = torch.ones(1, *features, dtype=torch.float64)
        if linear.absolute is None and ones.numel() * outputs <= SMALL:
            unit = torch.eye(ones.numel(), dtype=torch.float64).reshape(-1, *features)
            matrix = linear.function(unit).flatten(1).T
            return float(operator_norm(matrix, self.norm)) * OUTWARD
        with torch.enable_grad():
            rows = linear.magnitudes(ones.requires_grad_())
            (columns,) = torch.autograd.grad(rows.sum(), ones)
        widest, tallest = float(rows.detach().max()), float(columns.max())
        found = {"linf": widest, "l1": tallest, "l2": sqrt(widest * tallest)}  # Schur's test
        return found[self.norm] * OUTWARD

    def constant(self, parts: Sequence[Part]) -> float:
        """How much parts side by side can change, all together."""
        bases = {id(part.error): part.error for part in parts}
        found: list[float] = []
        for key, base in bases.items():
            used = torch.cat([p.coefs.flatten() for p in parts if id(p.error) == key]).long()
            copies = int(used[used > 0].bincount().max()) if (used > 0).any() else 0
            times = {"l2": sqrt(copies), "l1": float(copies), "linf": float(copies > 0)}
            found.append(base.constant * times[self.norm])
        if self.norm == "l2":
            return sqrt(fsum(one**2 for one in found)) if len(found) > 1 else found[0]
        return max(found) if self.norm == "linf" else fsum(found)

    def add(self, first: Part, second: Part) -> Part:
        return self._fresh(self.constant([first]) + self.constant([second]), first.features)

    def join(self, parts: Sequence[Part], dim: int) -> Part:
        axis = dim + 1 if dim >= 0 else dim
        joined = torch.cat([part.coefs for part in parts], axis)
        if len({id(part.error) for part in parts}) == 1:
            return self.made(Part(joined, error=parts[0].error))
        return self._fresh(self.constant(parts), joined.shape[2:])

    def bend(self, part: Part, bend: Bend) -> Part:
        steepest = max(float(torch.as_tensor(slope).abs().max()) for slope in bend.slopes)
        return self._stretched(part, steepest)

    def curve(self, part: Part, curve: Curve) -> Part:
        if curve.shape is None:
            return self._stretched(part, curve.steepest)
        if self.norm != "l2":
            raise NescioError(
                f'{curve.name} is bounded in the norm "l2" only, asked for {self.norm!r}'
            )
        self.factors.append((self.layer, curve.steepest))
        return self._fresh(self.constant([part]) * curve.steepest, curve.shape)

    def _stretched(self, part: Part, times: float) -> Part:
        return replace(part, error=_base(part.error.constant * times, part.error.features))

    def largest(self, parts: Sequence[Part]) -> Part:
        return self._fresh(self.constant(parts), parts[0].features)

    def _fresh(self, constant: float, features: Sequence[int]) -> Part:
        return self._whole(_base(constant, features))

    def _whole(self, base: Base) -> Part:
        units = 1 + torch.arange(torch.Size(base.features).numel(), dtype=torch.float64)
        return self.made(Part(units.reshape(1, 1, *base.features), error=base))


def _base(constant: float, features: Sequence[int]) -> Base:
    return Base(constant=constant, features=tuple(features))


def _after(part: Part, function: Function, features: Sequence[int], constant: float) -> Base:
    """What an affine layer makes of a part."""
    base: Base = part.error
    units = part.coefs[0, 0].long()

    def composed(x: Tensor) -> Tensor:
        x = x if base.function is None else base.function(x)
        with_constant = torch.cat([x.new_zeros(len(x), 1), x.flatten(1)], 1)
        return function(with_constant[:, units])

    return replace(_base(constant, features), origin=base.origin or base, function=composed)


def _takes(function: Callable[[Tensor], Tensor], units: Tensor, taken: Tensor) -> bool:
    """Whether a function only takes units: other numbers in their places must come out alike."""
    numbers = taken.flatten()
    if not ((numbers >= 0) & (numbers == numbers.round())).all():
        return False
    draws = torch.Generator().manual_seed(0)
    other = torch.rand(int(units.max()) + 1, dtype=torch.float64, generator=draws)
    other[0] = 0.0
    if not numbers.numel() or numbers.max() >= len(other):
        return False
    expected = other[taken.long()]
    return bool((function(other[units.long()]) == expected).all())
