"""Lipschitz constants: exact on linear regions, beside a sampled bound and that of the layers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nescio import data, nets
from nescio.core import digest, from_json, kept, to_json
from nescio.geometry import (
    local_lipschitz,
    plane_lipschitz,
    product_bound,
    sampled_lipschitz,
    segment_lipschitz,
)
from nescio.report.plots import deformation_plot as pictures
from nescio.training.train import train
from nescio_papers.kit import (
    Claim,
    Findings,
    InData,
    Settings,
    exactly,
    folder_of,
    table,
)
from nescio_papers.robust_deep_learning.stability_networks import FIXED, PART, Sizes

MAP, HISTOGRAMS = "stability-lipschitz-map.png", "stability-lipschitz.png"
CHECK = "the bounds are proved: this checks what computes them"
BOX = [(-2.0, 3.0), (-1.8, 2.3)]
EXACT = 1e-9  # how close to brute force
REGIONS = "computed on all linear regions of the box"
PROVED = "a proved bound; every constant counts"


@dataclass(frozen=True, kw_only=True)
class Constants:
    """The constants of one network; `local` at each input."""

    local: tuple[float, ...]
    sampled: float
    segments: float
    product: float

    def numbers(self) -> dict[str, float]:
        """For the results."""
        shares = torch.tensor([0.5, 0.95], dtype=torch.float64)
        spread = torch.tensor(self.local, dtype=torch.float64).quantile(shares).tolist()
        return {
            "median": spread[0],
            "quantile_95": spread[1],
            "largest": max(self.local),
            "largest_on_segments": self.segments,
            "sampled": self.sampled,
            "product": self.product,
        }


def toy(settings: Settings, sizes: Sizes) -> Findings:
    """A network of two inputs, all of whose linear regions are known."""
    moons = data.load("half_moons", seed=settings.seed)
    model = train(
        lambda: nets.mlp(2, 2, widths=(32, 32)),
        moons.train,
        epochs=sizes.toy_epochs,
        learning_rate=0.01,
        seed=settings.seed,
        run=folder_of(settings, PART) / "moons",
        progress=False,
    )
    net = model.member(0)
    found = plane_lipschitz(net, BOX)
    assert not isinstance(found, tuple)
    off = _off_brute_force(net, settings.seed)
    product = float(product_bound(net, moons.train[0]))
    sampled = float(sampled_lipschitz(net, moons.train[0], draws=sizes.draws, seed=settings.seed))
    figure = pictures.lipschitz_map(
        found,
        f"{len(found.regions):,} linear regions: largest constant {found.largest:.3g}, product "
        f"bound {product:.3g}",
        *(part[:300] for part in moons.train),
    )
    return Findings(
        numbers={
            "regions": len(found.regions),
            "largest": found.largest,
            "median": float(found.constants.median()),
            "sampled": sampled,
            "product": product,
            "relative_error_against_jacobians": off,
        },
        figures={MAP: figure},
        captions={
            MAP: "The Lipschitz constant of every linear region of a 2-32-32-2 network on "
            "half-moons, by color."
        },
    )


def _off_brute_force(net: nn.Module, seed: int) -> float:
    """The largest relative error against the singular values of Jacobians by autograd."""
    draws = torch.Generator().manual_seed(seed)
    x = 4 * torch.rand(200, 2, generator=draws, dtype=torch.float64) - 2
    wide = nets.copied(net).double()
    brute = torch.stack(
        [torch.autograd.functional.jacobian(lambda z: wide(z[None])[0], point) for point in x]
    )
    exact = torch.linalg.svdvals(brute)[:, 0]
    return float(((local_lipschitz(net, x) - exact) / exact).abs().max())


def digits(
    settings: Settings, sizes: Sizes, images: InData, networks: Mapping[str, nn.Module]
) -> Findings:
    """Networks on MNIST: constants at test digits and between them."""
    linear = {name: net for name, net in networks.items() if name != FIXED}
    found = {
        name: _constants(name, net, images.test[0], sizes, settings) for name, net in linear.items()
    }
    columns = ("median", "quantile_95", "largest", "largest_on_segments", "sampled", "product")
    numbers = {name: one.numbers() for name, one in found.items()}
    head = [
        "network",
        "local: median",
        "95 %",
        "largest",
        "on segments",
        "sampled",
        "product bound",
    ]
    rows = [[name, *(f"{row[c]:.3g}" for c in columns)] for name, row in numbers.items()]
    return Findings(
        numbers=numbers,
        figures={HISTOGRAMS: _histograms(found)},
        captions={
            HISTOGRAMS: "MNIST: exact Lipschitz constants of the logits at test digits, the "
            "largest on segments between digits, a sampled lower bound, and the product bound."
        },
        text=table(head, rows),
    )


def _constants(name: str, net: nn.Module, x: Tensor, sizes: Sizes, settings: Settings) -> Constants:
    """Computed once and stored."""

    def make() -> Any:
        pairs = x[: 2 * sizes.segments].unflatten(0, (2, -1))
        found = Constants(
            local=tuple(local_lipschitz(net, x[: sizes.points]).tolist()),
            sampled=float(sampled_lipschitz(net, x, draws=sizes.draws, seed=settings.seed)),
            segments=float(segment_lipschitz(net, pairs[0], pairs[1]).largest.max()),
            product=float(product_bound(net, x)),
        )
        return to_json(found)

    path = folder_of(settings, PART) / f"lipschitz-{name}.json"
    key = [str(sizes), digest(*net.state_dict().values())]
    return from_json(Constants, kept(path, {"key": key}, make), str(path))


def _histograms(found: Mapping[str, Constants]) -> Any:
    marks = {
        name: {
            "largest on segments": one.segments,
            "sampled": one.sampled,
            "product bound": one.product,
        }
        for name, one in found.items()
    }
    local = {name: one.local for name, one in found.items()}
    return pictures.lipschitz_histograms(local, marks, "How fast the logits can change (MNIST)")


def claims(numbers: Mapping[str, Any]) -> list[Claim]:
    """Do the constants lie where theory says, and does the product bound hold?

    numbers: those of the whole part, with `half_moons` and, where MNIST is at hand, `lipschitz`.
    """
    found = [_toy_claim(numbers["half_moons"])]
    if "lipschitz" in numbers:
        found.append(_bound_claim(numbers["lipschitz"]))
    return found


def _toy_claim(toy: Mapping[str, float]) -> Claim:
    return Claim(
        source="here",
        sentence="The exact Lipschitz constant lies between the sampled one and the product of the "
        "layers. (half-moons)",
        facts=[
            exactly("exact constant over the sampled one", toy["largest"] / toy["sampled"],
                    why=REGIONS, above=1 - EXACT),
            exactly("product of the layers over the exact one", toy["product"] / toy["largest"],
                    why=REGIONS, above=1 - EXACT),
            exactly("relative error against Jacobians", toy["relative_error_against_jacobians"],
                    why=REGIONS, below=EXACT),
        ],
        note=f"exact over the box {toy['largest']:.4g}; {CHECK}",
    )  # fmt: skip


def _bound_claim(numbers: Mapping[str, Mapping[str, float]]) -> Claim:
    known = ("largest", "largest_on_segments", "sampled")
    return Claim(
        source="here",
        sentence="The product bound holds on MNIST.",
        facts=[
            exactly(f"{name}: product bound over the largest constant that was found",
                    row["product"] / max(row[key] for key in known), why=PROVED, above=1 - EXACT)
            for name, row in numbers.items()
        ],
        note=f"found: at digits and on segments between them, exactly, and by sampling; {CHECK}",
    )  # fmt: skip
