"""How well three classes of functions fit random signs of more and more digits."""

from dataclasses import dataclass
from functools import partial
from typing import Any

from nescio import nets
from nescio.evaluation import Rademacher, linear_rademacher, rademacher
from nescio_papers.kit import InData, Settings, folder_of, full_and_quick, size
from nescio_papers.robust_deep_learning.generalization_labels import PART, subset

NETWORK, LINEAR, BOUNDED = "two-layer network", "linear classifier", "linear, norm bounded (exact)"


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The sizes of a run."""

    samples: tuple[int, ...] = size((125, 250, 500, 1000), quick=(10, 20))
    draws: int = size(10, quick=2)
    epochs: int = size(200, quick=3)
    patience: int = size(40, quick=2)
    width: int = size(256, quick=8)


FULL, QUICK = full_and_quick(Budget)
Complexities = dict[str, list[Rademacher]]  # by class, one per number of samples


def complexities(settings: Settings, digits: InData) -> Complexities:
    """The complexity of each class for each number of samples, on the same draws of signs."""
    sizes = QUICK if settings.quick else FULL
    x, _ = subset(digits.train, max(sizes.samples))
    radius = 1 / float(x.norm(dim=1).max())  # so that values lie between -1 and 1
    drawn: dict[str, Any] = {"draws": sizes.draws, "seed": settings.seed}
    found: Complexities = {NETWORK: [], LINEAR: [], BOUNDED: []}
    for count in sizes.samples:
        some = x[:count]
        found[BOUNDED].append(linear_rademacher(some, radius=radius, **drawn))
        for name, widths in ((NETWORK, (sizes.width,)), (LINEAR, ())):
            one = rademacher(
                partial(nets.mlp, x.shape[1], 2, widths=widths),
                some,
                **drawn,
                epochs=sizes.epochs,
                patience=sizes.patience,
                learning_rate=1e-3 if widths else 1e-2,
                run=folder_of(settings, PART) / f"signs-{len(widths)}-{count}",
                progress=False,
            )
            found[name].append(one)
    return found
