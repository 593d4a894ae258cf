"""The statements of Hein et al. (2019) about scaled inputs, checked like those of the paper."""

import math
from collections.abc import Mapping
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from nescio.core import generator
from nescio.geometry.affine_maps import affine
from nescio.geometry.rays.limit_map import limit_map
from nescio_papers.kit import Settings, percent
from nescio_papers.know_your_limits.blobs import trained_blobs
from nescio_papers.know_your_limits.random_networks import drawn, linear
from nescio_papers.know_your_limits.statement import Statement, samples, verdict


def hein_statements(settings: Settings, ends: Mapping[str, Any]) -> dict[str, Statement]:
    """The rows of Hein et al., by a short key."""
    origin, dead, face = ends["origin"], dead_pieces(settings), _on_a_face()
    ratio, count = radial_bound(settings)
    return {
        "polytope": Statement(
            name="Hein et al., Q(x)",
            says="Q(x) from sign() of the units is the linear region of x",
            verdict=verdict(0.0, miss=face),
            needs="active if above 0, or at 0 and about to rise",
            check="relu(x_1) at (0, 1), which lies on a face",
            worst=None,
            counter="sign is 0 there, so Q is the whole plane; the map of (0, 1) is off by "
            f"{face:g} at (1, 1)",
            miss=face,
        ),
        "hein_lemma": Statement(
            name="Hein et al., Lemma 3.1",
            says="scaling a point ends in one linear region for good",
            verdict=verdict(max(origin["largest"], ends["origin, V"]["largest"])),
            needs="",
            check=f"as Lemma 2, through the origin: {samples(origin, 'points')}",
            worst=origin["largest"],
        ),
        "hein_theorem": Statement(
            name="Hein et al., Theorem 3.1",
            says="V of no region has equal rows: almost every ray ends at probability 1",
            verdict=verdict(dead["not sure without equal rows"]),
            needs="regions with equal rows are not rare: a dead one has V = 0",
            check=f"all directions of {dead['networks']} networks of two inputs",
            worst=dead["not sure without equal rows"],
            counter=f"{dead['with dead directions']} of them have dead directions, up to "
            f"{percent(dead['largest share'])} of the circle; confidence there from "
            f"{dead['lowest confidence']:.2f}",
        ),
        "hein_radial": Statement(
            name="Hein et al., Theorem 3.2",
            says="an RBF network is within eps of uniform beyond its radius",
            verdict=verdict(0.0 if ratio <= 1 else ratio),
            needs="",
            check=f"random RBF networks at that distance: {count} points; the largest distance "
            f"from 1 / K is {ratio:.3g} eps",
            worst=0.0 if ratio <= 1 else ratio - 1,
        ),
    }


def _on_a_face() -> float:
    """How far relu(x_1) at (1, 1) is from the map of (0, 1), whose unit counts as inactive."""
    net = nn.Sequential(linear((1.0, 0.0)), nn.ReLU())
    V, a = affine(net, torch.tensor([[0.0, 1.0]]), direction=torch.tensor([-1.0, 0.0]))
    point = torch.ones(1, 2, dtype=torch.float64)
    with torch.no_grad():
        return float((net(point) - V[0] @ point[0] - a).abs().max())


@cache
def dead_pieces(settings: Settings) -> dict[str, Any]:
    """Directions without a single fastest class, of random and trained networks of two inputs."""
    random = [net for group in drawn(settings) for net in group.members if _inputs(net) == 2]
    model, _ = trained_blobs(settings.seed, 5 if settings.quick else 20)
    trained = [model.member(i) for i in range(model.members)]
    dead, wrong, lowest = [], 0.0, 1.0
    for net in (*random, *trained):
        result = limit_map(net)
        share = result.share()
        dead.append(share["constant"])
        one = torch.as_tensor(result.kind[0] == "one")
        confidence = result.limit[0].amax(-1)
        wrong = max(wrong, float((1 - confidence[one]).max()) if one.any() else 0.0)
        flat = torch.as_tensor(result.kind[0] == "constant")
        lowest = min(lowest, float(confidence[flat].min()) if flat.any() else 1.0)
    return {
        "networks": len(dead),
        "trained": len(trained),
        "with dead directions": sum(share > 0 for share in dead),
        "trained with dead directions": sum(share > 0 for share in dead[len(random) :]),
        "largest share": max(dead),
        "lowest confidence": lowest,
        "not sure without equal rows": wrong,
    }


def _inputs(net: nn.Module) -> int:
    return next(m.in_features for m in net.modules() if isinstance(m, nn.Linear))


def radial_bound(settings: Settings) -> tuple[float, int]:
    """The largest |p - 1/K| / eps of random RBF networks at the distance of Theorem 3.2."""
    source = generator(settings.seed, "radial")
    worst, count = 0.0, 0
    for i in range(20 if settings.quick else 200):
        classes, eps, gamma = 2 + i % 5, (0.01, 0.1, 0.3)[i % 3], (0.5, 2.0)[i % 2]
        centers = torch.randn(12, 2, generator=source, dtype=torch.float64)
        weights = 3 * torch.randn(classes, 12, generator=source, dtype=torch.float64)
        spread = (weights[:, None] - weights).abs().sum(-1).max()
        inner = math.log(float(spread) / math.log(1 + classes * eps)) / gamma
        x = _at_distance(centers, math.sqrt(max(0.0, inner)), source)
        kernel = torch.exp(-gamma * torch.cdist(x, centers).square())
        probs = (kernel @ weights.T).softmax(-1)
        worst = max(worst, float((probs - 1 / classes).abs().max()) / eps)
        count += len(x)
    return worst, count


def _at_distance(centers: Tensor, distance: float, source: torch.Generator) -> Tensor:
    """Points whose nearest center is just so far, by bisection along rays from the middle."""
    angle = 2 * math.pi * torch.rand(25, generator=source, dtype=torch.float64)
    way = torch.stack([angle.cos(), angle.sin()], 1)
    low = torch.zeros(25, dtype=torch.float64)
    high = low + 20 + distance
    for _ in range(60):
        middle = (low + high) / 2
        near = torch.cdist(middle[:, None] * way, centers).amin(1) < distance
        low, high = torch.where(near, middle, low), torch.where(near, high, middle)
    return high[:, None] * way
