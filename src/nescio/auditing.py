"""How far can a network be trusted: on its data, on noise, and along rays away from the data."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nescio import data as sets
from nescio import metrics
from nescio.checks import as_inputs, as_targets
from nescio.errors import NescioError
from nescio.evaluate import FAR, Seen, quality, see, separation
from nescio.files import finite, make_folder, write_atomically, write_json
from nescio.predictors import Predictor, plain
from nescio.progress import progress
from nescio.version import VERSION

ALPHAS = tuple(round(10 ** (k / 4), 6) for k in range(17))  # 1 to 10^4, four a decade
BINS = 20
RAYS = 200  # of each kind that are followed to infinity
Look = Callable[[Tensor], Seen]


@dataclass(frozen=True)
class Audit:
    """The findings; `result` is what `audit.json` holds."""

    result: dict[str, Any]

    @property
    def table(self) -> list[dict[str, Any]]:
        """One row for each predictor, set and measure."""
        rows = []
        for name, found in self.result["predictors"].items():
            rows.append({"predictor": name, "data": "test", "measure": None, **found["test"]})
            for where, part in found["outside"].items():
                shared = {"mean_max_confidence": part["mean_max_confidence"]}
                rows += [
                    {"predictor": name, "data": where, "measure": measure, **shared, **numbers}
                    for measure, numbers in part["measures"].items()
                ]
        return rows

    def save(self, folder: str | Path) -> Path:
        """Write `audit.json` and `audit.html`, one page complete in itself; returns the page."""
        from nescio.report import audit_page

        folder = make_folder(Path(folder))
        write_json(folder / "audit.json", self.result)
        write_atomically(folder / "audit.html", audit_page(self.result))
        return folder / "audit.html"

    def __str__(self) -> str:
        from nescio.report import audit_text

        return audit_text(self.result)


def audit(
    net: nn.Module | Predictor | Mapping[str, nn.Module | Predictor],
    data: tuple[Any, Any],
    *,
    train: tuple[Any, Any] | None = None,
    outside: Mapping[str, Any] | None = None,
    alphas: Sequence[float] = ALPHAS,
    rays: int = RAYS,
    seed: int = 0,
    progress: bool | None = None,
) -> Audit:
    """Say how overconfident a classifier is on its test data, off it, and far away.

    net: a network, a predictor, or several by name. data: test inputs and labels.
    train: training data, for the range of the noise. outside: other inputs by name, for example
    `{"letters": z}`; uniform noise and permuted pixels are always there.
    rays: how many of each kind to follow to infinity, exactly; 0 leaves the far field out.
    """
    named = dict(net) if isinstance(net, Mapping) else {"network": net}
    predictors = {name: plain(n) if isinstance(n, nn.Module) else n for name, n in named.items()}
    x = as_inputs(data[0])
    y = as_targets(data[1], len(x), task="classification")
    if not predictors:
        raise NescioError("nothing to audit: the mapping of networks is empty")
    if outside is not None and not isinstance(outside, Mapping):
        raise NescioError('outside data come by name: outside={"letters": z}')
    _check_alphas(alphas)
    if isinstance(rays, bool) or not isinstance(rays, int) or rays < 0:
        raise NescioError(f"rays must be a whole number from 0 up, got {rays}")
    from nescio.faraway import rays_from  # the geometry is loaded where it is used

    others = _outside(x, train, outside or {}, seed)
    ways = rays_from(x, count=rays, seed=seed) if rays else {}
    result = {
        "nescio": VERSION,
        "cases": len(x),
        "features": list(x.shape[1:]),
        "seed": seed,
        "sets": {name: len(inputs) for name, inputs in others.items()},
        "predictors": _findings(predictors, x, y, others, alphas, ways, progress),
    }
    return Audit(finite(result))  # empty bins have no mean: None, as in the file


def _check_alphas(alphas: Sequence[float]) -> None:
    ordered = all(a < b for a, b in pairwise(alphas))
    if not alphas or not ordered or not alphas[0] > 0 or not alphas[-1] < float("inf"):
        raise NescioError(f"alphas must be positive, increasing and finite, got {list(alphas)}")


def _outside(
    x: Tensor, train: tuple[Any, Any] | None, given: Mapping[str, Any], seed: int
) -> dict[str, Tensor]:
    known = x if train is None else as_inputs(train[0], "training inputs")
    images = x.ndim == 4
    low = known.amin() if images else known.amin(0)
    high = known.amax() if images else known.amax(0)
    noise = sets.uniform_noise(len(x), x.shape[1:], seed=seed, low=low, high=high)
    if images:
        shuffled = {"permuted pixels": sets.permuted_pixels(x, seed=seed)}
    else:
        shuffled = {"shuffled features": sets.shuffled_features(x, seed=seed)}
    for name in given:
        if name == "test" or name.startswith(FAR) or name in {"uniform noise", *shuffled}:
            raise NescioError(f"the name {name!r} is taken; choose another for your outside data")
    own = {name: as_inputs(inputs, f"outside data {name!r}") for name, inputs in given.items()}
    for name, inputs in own.items():
        if inputs.shape[1:] != x.shape[1:]:
            raise NescioError(
                f"outside data {name!r} have shape {tuple(inputs.shape[1:])} a case, "
                f"the test data {tuple(x.shape[1:])}; resize them first"
            )
    return {"uniform noise": noise, **shuffled, **own}


def _findings(
    predictors: Mapping[str, Predictor],
    x: Tensor,
    y: Tensor,
    others: Mapping[str, Tensor],
    alphas: Sequence[float],
    rays: dict[str, tuple[Tensor, Tensor, float]],
    show: bool | None,
) -> dict[str, Any]:
    from nescio.faraway import far_away

    found = {}
    total = len(predictors) * (1 + len(others) + len(alphas) + len(rays))
    with progress(total, "auditing", show=show) as advance:
        for name, predictor in predictors.items():

            def look(inputs: Tensor, predictor: Predictor = predictor, name: str = name) -> Seen:
                seen = see(predictor, inputs)
                advance(1, lambda: name)
                return seen

            def tick(name: str = name) -> None:
                advance(1, lambda: f"{name}, far away")

            found[name] = _examine(look, x, y, others, alphas)
            if rays:
                found[name]["far_field"] = far_away(predictor, rays, tick=tick)
    return found


def _examine(
    look: Look, x: Tensor, y: Tensor, others: Mapping[str, Tensor], alphas: Sequence[float]
) -> dict[str, Any]:
    inside = look(x)
    test = quality(inside, y)
    reliability = metrics.reliability(inside.confidence, inside.labels == y.cpu())
    histograms = {"test": _histogram(inside)}
    outside = {}
    for name, inputs in others.items():
        seen = look(inputs)
        outside[name], histograms[name] = _against(inside, seen), _histogram(seen)
    ray, far = _ray(look, x, inside, alphas)
    name = f"{FAR}{alphas[-1]:.12g}"
    outside[name], histograms[name] = _against(inside, far), _histogram(far)
    return {
        "members": inside.members,
        "classes": inside.log_probs.shape[1],
        "test": test,
        "reliability": {
            "edges": reliability.edges.tolist(),
            "count": reliability.count.tolist(),
            "confidence": reliability.confidence.tolist(),
            "accuracy": reliability.accuracy.tolist(),
        },
        "outside": outside,
        "scaling": ray,
        "confidence_histograms": histograms,
    }


def _against(inside: Seen, seen: Seen) -> dict[str, Any]:
    return {
        "mean_max_confidence": metrics.mean_max_confidence(seen.probs),
        "measures": separation(inside, seen),
    }


def _ray(
    look: Look, x: Tensor, inside: Seen, alphas: Sequence[float]
) -> tuple[dict[str, Any], Seen]:
    """Confidence and separation along alpha * x, and what is seen at the last alpha."""
    shift = sets.scaling()
    confidence, areas = [], []
    for alpha in alphas:
        seen = look(shift(x, alpha))
        confidence.append(metrics.mean_max_confidence(seen.probs))
        areas.append({n: metrics.auroc(s, seen.scores[n]) for n, s in inside.scores.items()})
    auroc = {name: [area[name] for area in areas] for name in inside.scores}
    return {"alpha": list(alphas), "mean_max_confidence": confidence, "auroc": auroc}, seen


def _histogram(seen: Seen) -> list[int]:
    """Counts of the confidence in equal bins of [0, 1]."""
    counts = torch.histc(seen.confidence, bins=BINS, min=0.0, max=1.0)
    return [int(count) for count in counts.tolist()]
