"""Many small random networks and their axis rays: what the papers' statements are checked on.

Half of the networks have drawn weights. The others have whole numbers from -2 to 2: there zero
entries, equal slopes and dead pieces are frequent, and float64 makes no rounding error.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nescio import nets
from nescio.core import categorical, generator
from nescio.geometry.affine_maps import affine
from nescio.geometry.rays.far_field import along_axis, far_field, through_origin
from nescio.geometry.rays.limits import limits
from nescio.models.model import Model
from nescio.nets.stack import stack
from nescio_papers.kit import Settings
from nescio_papers.know_your_limits.models import Network
from nescio_papers.know_your_limits.surfaces import (
    ENTROPY,
    INFORMATION,
    LEAST,
    OF_MANY,
    VARIANCE,
    fields,
)

# inputs, classes, widths
SHAPES = ((2, 2, (6, 6)), (3, 3, (8,)), (4, 2, (5, 5, 5)), (2, 5, (4, 4)))
MEMBERS = 3
FAR = 1e6  # times one more than the last breakpoint: where the network itself is asked
NAMES = {
    "least_confidence": LEAST,
    "class_variance": VARIANCE,
    "predictive_entropy": ENTROPY,
    "mutual_information": INFORMATION,
}
ONE, MEAN = "probability", "mean probability"  # of the classes, beside the measures


@dataclass(frozen=True, eq=False)
class Drawn:
    """Networks of one shape, and points `(N, D)` with no coordinate at zero."""

    members: tuple[nn.Module, ...]
    points: Tensor
    whole: bool  # weights and points are whole numbers

    @property
    def model(self) -> Model:
        return Model(self.members[0], stack(list(self.members)), categorical())


def drawn(settings: Settings) -> Iterator[Drawn]:
    """Groups of networks and points, by the seed; whole and drawn weights in turn."""
    count, points = (8, 10) if settings.quick else (48, 40)
    for i in range(count):
        source = generator(settings.seed, "statements", i)
        inputs, classes, widths = SHAPES[(i // 2) % len(SHAPES)]
        whole = i % 2 == 1
        members = tuple(_net(inputs, classes, widths, source, whole) for _ in range(MEMBERS))
        if whole:
            x = torch.randint(1, 4, (points, inputs), generator=source).double()
            x = x * (2 * torch.randint(0, 2, x.shape, generator=source) - 1)
        else:
            x = torch.randn(points, inputs, generator=source, dtype=torch.float64)
        yield Drawn(members, x, whole)


def _net(
    inputs: int, classes: int, widths: Sequence[int], source: torch.Generator, whole: bool
) -> nn.Module:
    net = nets.mlp(inputs, classes, widths=widths).double()
    with torch.no_grad():
        for value in net.parameters():
            if whole:
                value.copy_(torch.randint(-2, 3, value.shape, generator=source))
            else:
                size = 1 / math.sqrt(value.shape[-1])
                value.copy_(size * torch.randn(value.shape, generator=source, dtype=value.dtype))
    return net.eval()


def linear(*rows: Sequence[float]) -> nn.Module:
    """A network of one layer without a shift: V itself."""
    layer = nn.Linear(len(rows[0]), len(rows), bias=False).double()
    layer.weight.data = torch.tensor(rows, dtype=torch.float64)
    return layer.eval()


def layers(net: nn.Module) -> list[nn.Linear]:
    return [module for module in net.modules() if isinstance(module, nn.Linear)]


class Tally:
    """Counts and the largest value of each of several things."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.largest: dict[str, float] = {}

    def add(self, name: str, values: Any, among: Tensor | None = None) -> None:
        """Count samples, and keep the largest of their values."""
        values = torch.as_tensor(values).double().flatten()
        values = values if among is None else values[among.flatten()]
        self.counts[name] = self.counts.get(name, 0) + len(values)
        worst = float(values.abs().max()) if len(values) else 0.0
        self.largest[name] = max(self.largest.get(name, 0.0), worst)

    def row(self, name: str) -> dict[str, float]:
        """The count and the largest value under a name."""
        return {"samples": self.counts.get(name, 0), "largest": self.largest.get(name, 0.0)}


def check_maps(settings: Settings) -> dict[str, Any]:
    """V x + a, its printed products, and monotony inside pieces."""
    tally = Tally()
    for group in drawn(settings):
        net, x = group.members[0], group.points
        result = affine(net, x, half_spaces=True)
        size = 1 + result.V.abs().amax()
        with torch.no_grad():
            value = net(x)
        apart = torch.einsum("ncd,nd->nc", result.V, x) + result.a - value
        tally.add("V x + a is the network", apart / size)
        if not group.whole:  # with whole numbers points lie on faces, which have two sides
            right, printed = _products(net, x)
            tally.add("product with L - l", (right - result.V).abs().amax((1, 2)) / size)
            if printed is not None:
                tally.add("product as printed", (printed - result.V).abs().amax((1, 2)))
            tally.add("bound of Lemma 6", _bound(group))
        _monotony(tally, net, x, result)
    return {name: tally.row(name) for name in tally.counts}


def _products(net: nn.Module, x: Tensor) -> tuple[Tensor, Tensor | None]:
    """W_L Phi_{L-1} W_{L-1} ... Phi_1 W_1, and with the printed Phi_l where the shapes allow it."""
    weights = [layer.weight.detach() for layer in layers(net)]
    masks, hidden = [], x
    for layer in layers(net)[:-1]:
        value = layer(hidden).detach()
        masks.append((value > 0).double())
        hidden = value.clamp_min(0)
    last = len(weights) - 1
    right = printed = weights[last].expand(len(x), *weights[last].shape)
    same = len({mask.shape[1] for mask in masks}) == 1 and len(masks) > 1
    for l in range(1, last + 1):
        right = (right * masks[last - l][:, None]) @ weights[last - l]
        if same:
            printed = (printed * masks[l - 1][:, None]) @ weights[last - l]
    return right, printed if same else None


def _bound(group: Drawn) -> Tensor:
    """The gradient of each mean probability over `2 max |v| E[p]`: at most 1."""
    model = group.model
    network = Network(model, intercept=(0.0,) * model.outputs(group.points).shape[-1])
    probs, slopes = _mean_probabilities(network, group.points)
    steepest: Tensor = affine(model, group.points).V.norm(dim=-1).amax((0, 2))
    return slopes / (2 * steepest[:, None] * probs)


def _monotony(tally: Tally, net: nn.Module, x: Tensor, result: Any) -> None:
    """Half way to the nearest face along each axis, the logits move by V, with its signs."""
    room = torch.einsum("nud,nd->nu", result.normals, x) + result.offsets
    for d in range(x.shape[1]):
        fall = -result.normals[..., d]
        step = torch.where(fall > 0, room / fall.clamp_min(1e-300), math.inf).amin(1).clamp_max(2)
        moved = x.clone()
        moved[:, d] += step / 2
        with torch.no_grad():
            rise = net(moved) - net(x)
        expected = result.V[..., d] * (moved[:, d] - x[:, d])[:, None]
        in_dist = (step > 1e-6) & (result.V != 0).all(2).all(1)
        wrong = (rise - expected).abs().amax(1) / (1 + expected.abs().amax(1))
        tally.add("monotone", wrong, in_dist)


def check_ends(settings: Settings) -> dict[str, Any]:
    """Whether rays stay in one piece beyond their last breakpoint."""
    tally = Tally()
    for group in drawn(settings):
        net, x = group.members[0], group.points
        for kind, (origin, way) in (("axis", all_axes(x)), ("origin", through_origin(x))):
            field = far_field(net, origin, way, last_region=True)
            assert field.last_region is not None
            sure = torch.as_tensor(field.kind != "undecided")
            size = 1 + field.last_region.V.abs().amax()
            for factor in (1.5, 10.0, 1e4):
                t = factor * (1 + field.radius)
                points = origin + t[:, None] * way
                with torch.no_grad():
                    apart = net(points) - field.logits(t)
                tally.add(kind, apart.abs().amax(1) / (t * size), sure)
                if not group.whole:
                    maps = affine(net, points).V - field.last_region.V
                    tally.add(f"{kind}, V", maps.abs().amax((1, 2)) / size, sure)
    return {name: tally.row(name) for name in ("axis", "axis, V", "origin", "origin, V")}


def all_axes(x: Tensor) -> tuple[Tensor, Tensor]:
    """The rays along each axis from points `(N, D)`, one axis after the other."""
    pairs = [along_axis(x, d) for d in range(x.shape[1])]
    return torch.cat([pair[0] for pair in pairs]), torch.cat([pair[1] for pair in pairs])


def check_limits(settings: Settings) -> dict[str, Any]:
    """Exact limits of all measures and gradients against the networks themselves, far out."""
    tally = Tally()
    shares: dict[str, Any] = {"negative": [0, 0, 0], "one": [0, 0]}
    for group in drawn(settings):
        for members in (1, MEMBERS):
            part = Drawn(group.members[:members], group.points, group.whole)
            _of_group(tally, shares, part)
    names = [*OF_MANY, ONE, MEAN]
    kinds = ("value", "gradient", "printed", "printed and not 0", "corrected")
    rows = {n: {k: tally.row(f"{n}, {k}") for k in kinds} for n in names}
    return {**rows, "winner": shares}


def _of_group(tally: Tally, shares: dict[str, Any], part: Drawn) -> None:
    """All rays of a group: what the limits are, by which hypotheses hold."""
    model = part.model
    origin, way = all_axes(part.points)
    result = limits(model, origin, way)
    assert result.gradients is not None
    assert result.class_gradients is not None
    field = far_field(model, origin, way, last_region=True)
    assert field.last_region is not None
    sure = torch.as_tensor((field.kind != "undecided").all(0))
    free = sure & ~field.last_region.zero_entries.any(0)  # the printed hypothesis
    unique = sure & ~field.last_region.tied_top.any(0)  # what is needed instead
    t = FAR * (1 + field.radius.amax(0))[:, None]
    network = Network(model, intercept=(0.0,) * result.probs.shape[-1])
    direct = fields(network, origin + t * way, OF_MANY, math.e)
    for key, name in NAMES.items():
        if len(part.members) == 1 and name in (VARIANCE, INFORMATION):
            continue
        value, slope = result.measures[key], result.gradients[key]
        tally.add(f"{name}, value", value - torch.from_numpy(direct[name].value), sure)
        smooth = sure if name != LEAST else sure & _one_largest(result.probs)
        tally.add(f"{name}, gradient", slope - torch.from_numpy(direct[name].slope), smooth)
        _hypotheses(tally, name, slope, free, unique)
    probs, slopes = _mean_probabilities(network, origin + t * way)
    name = ONE if len(part.members) == 1 else MEAN
    tally.add(f"{name}, value", (result.probs.mean(0) - probs).abs().amax(1), sure)
    tally.add(f"{name}, gradient", (result.class_gradients - slopes).abs().amax(1), sure)
    _hypotheses(tally, name, result.class_gradients.amax(1), free, unique)
    if len(part.members) == 1:
        _winners(shares, way, field, result.probs[0])


def _mean_probabilities(network: Network, x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean probabilities `(N, C)` of the members, and the norms of their gradients, by autograd."""
    inputs = x.clone().requires_grad_()
    probs = network.logits(inputs).softmax(-1).mean(0)
    slopes = [torch.autograd.grad(p.sum(), inputs, retain_graph=True)[0] for p in probs.unbind(1)]
    return probs.detach(), torch.stack(slopes, 1).norm(dim=-1)


def _hypotheses(tally: Tally, name: str, slope: Tensor, free: Tensor, unique: Tensor) -> None:
    tally.add(f"{name}, printed", slope, free)
    tally.add(f"{name}, printed and not 0", slope, free & (slope > 1e-9))
    tally.add(f"{name}, corrected", slope, unique)


def _one_largest(probs: Tensor) -> Tensor:
    """Where the mixture's largest probability is that of one class: the maximum has a slope."""
    top = probs.mean(0).topk(2, dim=-1).values
    return top[:, 0] - top[:, 1] > 1e-6


def _winners(shares: dict[str, Any], way: Tensor, field: Any, limit: Tensor) -> None:
    """Proposition 2 and its proof: one class gets all, and which entry of the column it has."""
    last = field.last_region
    meant = ~last.zero_entries[0] & ~last.duplicate_slopes[0]
    meant &= torch.as_tensor(field.kind[0] != "undecided")
    way, limit = way[meant], limit[meant]
    winner, below = limit.argmax(-1), way.sum(1) < 0
    column = torch.einsum("ncd,nd->nc", last.V[0][meant], way.sign().abs())
    shares["one"][0] += len(way)
    shares["one"][1] += int((limit.amax(-1) == 1).sum())
    shares["negative"][0] += int(below.sum())
    shares["negative"][1] += int((column.argmin(-1) == winner)[below].sum())
    shares["negative"][2] += int((column.argmax(-1) == winner)[below].sum())
