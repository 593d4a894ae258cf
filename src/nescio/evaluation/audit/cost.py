"""What an audit costs, told before it starts, and bounded for a large network by drawing samples.

The bounds depend on multiplications and on numbers of samples, never on the speed of a machine: an
audit gives the same numbers everywhere. Seconds are told and decide nothing.
"""

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from nescio.core import Inputs, generator
from nescio.evaluation.audit.findings import CostFindings
from nescio.models import Predictor, networks

LARGE = 1e12  # multiplications of all passes above which samples are drawn
RAY_WORK = 2.5e10  # multiplications for the far field, in float64
RAY = 3 * 2.5  # kinds of rays, and passes of each
FOLLOWED = 2.5e7  # multiplications of one sample up to which rays are followed to a confidence
SHALLOW = 8  # affine layers of a network up to which they are, too
RAYS, ATTACKED, SHIFTED, TRIED = 200, 200, 500, 2_000  # at most: rays and noise inputs, samples
STRENGTHS = 6  # of the shift
BATCH = 32  # samples that are timed
FEWEST = 20  # samples of any part
FLIP, CORRUPT = 200, 24  # passes of a sample to find its smallest change, and to corrupt it
FLIPPED, CORRUPTED = 20, 200  # samples of a large network, at most
FEWEST_FLIPPED = 6  # the median of fewer has no interval
PASSES = 20  # of MC dropout
LONG = 30.0  # seconds that are told even where no progress is shown
SHARES = {"noise": 0.4, "ood": 0.5, "scaled": 0.08, "shift": 0.08, "guard": 0.2}
ALL = 1 << 62


class _Multiplications(TorchDispatchMode):
    """Counts the multiplications of products, convolutions and attention."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0.0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        name = func.__name__.partition(".")[0]
        tensors = [one for one in args if isinstance(one, Tensor)]
        if name in ("mm", "bmm", "addmm", "baddbmm"):
            self.count += out.numel() * tensors[-1].shape[-2]
        elif "convolution" in name:
            self.count += out.numel() * tensors[1].numel() / max(len(tensors[1]), 1)
        elif "attention" in name and len(tensors) > 1:
            self.count += 2 * tensors[0].numel() * tensors[1].shape[-2]
        return out


@torch.no_grad()
def multiplications(predictor: Predictor, x: Inputs) -> float:
    """Of one sample, all members together."""
    with _Multiplications() as seen:
        predictor(x[:1])
    return float(seen.count)


@dataclass(frozen=True, kw_only=True)
class Draws:
    """How many samples each part of an audit reads, at most, and how many rays are followed."""

    noise: int = ALL
    ood: int = ALL
    scaled: int = ALL
    shift: int = SHIFTED
    guard: int = TRIED
    attack: int = ATTACKED
    training: int = ALL  # whose features are observed, for neighbors
    flip: int = ALL  # correct answers whose smallest change is looked for
    corrupt: int = ALL
    dropout: int = ALL
    rays: int = RAYS
    follow: bool = True  # rays, to where they reach a confidence
    work: float | None = None  # multiplications of one sample, where they are known

    def spread(self, count: int) -> slice:
        """Which of the inputs of an OOD set the guard reads: all, or some at equal steps."""
        return slice(None, None, max(1, -(-count // self.guard)))

    def of(self, part: str, x: Any, seed: int) -> Any:
        """The samples that a part reads: all, or some drawn at random."""
        count = getattr(self, part)
        if len(x) <= count:
            return x
        order = torch.randperm(len(x), generator=generator(seed, "drawn", part))[:count]
        return x[order.sort().values]


QUICK = Draws(
    noise=500, ood=500, scaled=100, shift=100, guard=500, attack=50, rays=20, follow=False
)


@dataclass(frozen=True, kw_only=True)
class Job:
    """What is asked of an audit, as far as it costs something."""

    predictors: Mapping[str, Predictor]
    x: Inputs
    sets: int  # OOD sets that are given
    alphas: tuple[float, ...]
    steps: int
    rays: int | None  # None: as many as are cheap

    def draws(self, budget: str = "standard") -> Draws:
        """All samples for a small network, or where it is asked for; for a large one some."""
        whole = Draws(rays=RAYS if self.rays is None else self.rays)
        if budget == "thorough":
            return whole
        if budget == "quick":
            return replace(QUICK, rays=min(QUICK.rays, whole.rays))
        whole = replace(whole, follow=self._layers() <= SHALLOW)
        if self._most_work() * self.images(whole) <= LARGE:
            return whole
        work = sum(multiplications(one, self.x) for one in self.predictors.values())
        if work * self.images(whole) <= LARGE:
            return replace(whole, work=work)
        samples = len(self.x)
        some = {part: max(FEWEST, int(share * samples)) for part, share in SHARES.items()}
        some |= {"shift": min(SHIFTED, some["shift"]), "guard": min(TRIED, some["guard"])}
        attack = max(1, min(ATTACKED, samples // max(self.steps, 1)))
        flip = int(0.4 * samples / FLIP)
        some |= {
            "training": samples // 2,
            "flip": min(FLIPPED, flip) if flip >= FEWEST_FLIPPED else 0,
            "corrupt": min(CORRUPTED, max(FEWEST, samples // 50)),
            "dropout": samples // (2 * PASSES),
        }
        cheap = min(RAYS, int(RAY_WORK / (RAY * work)))
        rays = cheap if self.rays is None else self.rays
        return Draws(
            **some, attack=attack, rays=rays, follow=whole.follow and work <= FOLLOWED, work=work
        )

    def _layers(self) -> int:
        """Affine layers of the deepest network: a ray bends ever more often with each."""
        depths = (sum(weight.ndim > 1 for weight in net.parameters()) for net in self._nets())
        return max(depths, default=0)

    def _most_work(self) -> float:
        """Every weight at every number of a sample: more than any usual network multiplies."""
        nets = self._nets()
        if not isinstance(self.x, Tensor) or not nets:
            return torch.inf
        weights = sum(weight.numel() for net in nets for weight in net.parameters())
        return float(weights * self.x[0].numel())

    def _nets(self) -> list[nn.Module]:
        """Those of all members; none if a predictor is a function that shows none."""
        sources: Any = self.predictors.values()
        if not all(hasattr(one, "networks") for one in sources):
            return []
        return [member.net for one in sources for member in networks(one)]

    def images(self, draws: Draws) -> int:
        """Samples that run through a network, but for rays; a step of the attack is one pass."""
        samples = len(self.x)
        noise, ood, scaled, shift, guard = (min(getattr(draws, part), samples) for part in SHARES)
        fixed = 2 * samples  # the test data, and the guard on its two parts
        tried = (3 + self.sets) * guard
        moved = 2 * STRENGTHS * min(shift, samples // 2)
        others = 2 * noise + self.sets * ood + len(self.alphas) * scaled
        return int(fixed + tried + moved + others + self.steps * draws.attack)

    def _sections(self, draws: Draws) -> int:
        """The same, of sections that draw fewer samples of a large network."""
        samples = len(self.x)
        flip, corrupt = min(draws.flip, FLIPPED, samples), min(draws.corrupt, CORRUPTED, samples)
        return (FLIP * flip + CORRUPT * corrupt) * bool(self.alphas)

    def told(self, draws: Draws, *, show: bool | None) -> None:
        """Say how long it will take, from one batch, on standard error."""
        batch = self.x[:BATCH]
        with torch.no_grad():
            start = time.perf_counter()
            for predictor in self.predictors.values():
                predictor(batch)
        images = self.images(draws) + self._sections(draws)
        seconds = (time.perf_counter() - start) / len(batch) * images
        if not (seconds > LONG or (sys.stderr.isatty() if show is None else show)):
            return
        passes = images / len(self.x)
        often = f"{passes:,.0f}" if passes >= 10 else f"{passes:.1f}"
        rays = f", and {3 * draws.rays} rays in float64" if draws.rays else ""
        text = f"about {often} passes over {len(self.x):,} samples, {_rounded(seconds)}{rays}"
        print(f"the audit takes {text}", file=sys.stderr)

    def left_out(self, draws: Draws) -> dict[str, str]:
        """Parts that cost too much, and the reason."""
        if draws.rays or self.rays == 0 or draws.work is None:
            return {}
        size = f"one sample takes {draws.work / 1e6:,.0f} million multiplications"
        return {"far field": f"{size}, a ray several times as many in float64; rays=5 follows 5"}

    def found(self, draws: Draws) -> CostFindings | None:
        """What was drawn, for the report; None where nothing was."""
        if draws.noise == ALL or draws.work is None:
            return None
        drawn = {part: getattr(draws, part) for part in (*SHARES, "attack")} | {"rays": draws.rays}
        return CostFindings(
            multiplications=draws.work,
            passes=(self.images(draws) + self._sections(draws)) / len(self.x),
            drawn={part: count for part, count in drawn.items() if part != "ood" or self.sets},
        )


def _rounded(seconds: float) -> str:
    return f"{seconds:.0f} seconds" if seconds < 120 else f"{seconds / 60:.0f} minutes"
