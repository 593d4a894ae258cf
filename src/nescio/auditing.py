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
from nescio.attacks import Ascent, confidence, leaking, pgd
from nescio.checks import as_inputs, as_targets
from nescio.errors import NescioError
from nescio.evaluate import ADVERSARIAL, FAR, Seen, quality, see, separation
from nescio.files import finite, make_folder, write_atomically, write_json
from nescio.predictors import Predictor, plain
from nescio.progress import progress
from nescio.randomness import derive
from nescio.units import Units, near, noise, units_of
from nescio.version import VERSION

ALPHAS = tuple(round(10 ** (k / 4), 6) for k in range(17))  # 1 to 10^4, four a decade
BINS = 20
RAYS = 200  # of each kind that are followed to infinity
STEPS = 50  # of the attack on noise
ATTACKED = 200  # noise inputs that are attacked
Look = Callable[[Tensor], Seen]
Sets = dict[str, Tensor]


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


@torch.inference_mode(False)  # whatever the caller is in: attacks need gradients
def audit(
    net: nn.Module | Predictor | Mapping[str, nn.Module | Predictor],
    data: tuple[Any, Any],
    *,
    train: tuple[Any, Any] | None = None,
    outside: Mapping[str, Any] | None = None,
    alphas: Sequence[float] = ALPHAS,
    rays: int = RAYS,
    attack_steps: int = STEPS,
    attack_radius: float | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> Audit:
    """Say how overconfident a classifier is on its test data, off it, under attack, and far away.

    net: a network, a predictor, or several by name. data: test inputs and labels.
    train: training data, for the range of the noise. outside: other inputs by name, for example
    `{"letters": z}`; uniform noise and permuted pixels are always there.
    rays: how many of each kind to follow to infinity, exactly; 0 leaves the far field out.
    attack_steps: of gradient ascent on the confidence, from noise; 0 leaves the attack out.
    attack_radius: how far it may go, as a share of the range of the data; 0.3 for images, 0.05 for
    vectors.
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

    known = x if train is None else as_inputs(train[0], "training inputs", keep_bytes=True)
    _check_shape("training inputs", known, x)
    units = units_of(known)
    ours, given = _outside(x, units, outside or {}, seed)
    attack = _attack(known, units, attack_steps, attack_radius, seed)
    ways = rays_from(x, count=rays, seed=seed) if rays else {}
    result: dict[str, Any] = {
        "nescio": VERSION,
        "cases": len(x),
        "features": list(x.shape[1:]),
        "seed": seed,
        "sets": {
            **{name: len(inputs) for name, inputs in ours.items()},
            **({attack.name: ATTACKED} if attack else {}),
            **{name: len(inputs) for name, inputs in given.items()},
        },
        "predictors": _findings(predictors, x, y, (ours, given), alphas, ways, attack, progress),
    }
    if attack is not None:
        result["attack"] = attack.options
    return Audit(finite(result))  # empty bins have no mean: None, as in the file


def _check_alphas(alphas: Sequence[float]) -> None:
    ordered = all(a < b for a, b in pairwise(alphas))
    if not alphas or not ordered or not alphas[0] > 0 or not alphas[-1] < float("inf"):
        raise NescioError(f"alphas must be positive, increasing and finite, got {list(alphas)}")


@dataclass(frozen=True, eq=False)
class _Attack:
    """Where the attack starts and how it moves, in units of the range of the data."""

    name: str
    start: Tensor
    units: Units
    options: dict[str, Any]

    def surest(self, predictor: Predictor) -> tuple[Tensor, float]:
        """The surest inputs found near the noise, and the share on which the attack was blind.

        Where the network gives no gradient, the attack tries again with one that leaks through
        dead units.
        """
        sure = confidence(predictor)

        def objective(shares: Tensor) -> Tensor:
            return sure(self.units.inputs(shares))

        found = pgd(objective, self.start, **self.options)
        x, blind = found.x, found.blind
        if blind.any():
            again = pgd(leaking(objective), self.start, **self.options)
            better = (again.value > found.value).view(-1, *(1 for _ in x.shape[1:]))
            x, blind = torch.where(better, again.x, x), blind & again.blind
        return self.units.inputs(x), blind.double().mean().item()


def check_attack(steps: int, radius: float | None) -> None:
    """Refuse options of the attack that make no sense, before any work is done."""
    if radius is not None and not radius > 0:
        raise NescioError(f"attack_radius must be positive, got {radius}; 0 steps leave it out")
    Ascent(radius, steps)


def _attack(
    known: Tensor, units: Units, steps: int, radius: float | None, seed: int
) -> _Attack | None:
    check_attack(steps, radius)
    if not steps:
        return None
    own = derive(seed, "audit")  # other noise than a recipe trains on
    reach = near(radius, known)
    options = {"radius": reach, "steps": steps, "seed": own}
    name = f"{ADVERSARIAL} (radius {reach:g}, {steps} step{'s' if steps > 1 else ''})"
    return _Attack(name, noise(known, seed=own).take(ATTACKED), units, options)


def _outside(x: Tensor, units: Units, given: Mapping[str, Any], seed: int) -> tuple[Sets, Sets]:
    """Noise made by us, and the outside data that were given."""
    images = x.ndim == 4
    low, high = units.low, units.low + units.width
    noisy = sets.uniform_noise(len(x), x.shape[1:], seed=seed, low=low, high=high)
    if images:
        shuffled = {"permuted pixels": sets.permuted_pixels(x, seed=seed)}
    else:
        shuffled = {"shuffled features": sets.shuffled_features(x, seed=seed)}
    for name in given:
        ours = name == "test" or name.startswith((FAR, ADVERSARIAL))
        if ours or name in {"uniform noise", *shuffled}:
            raise NescioError(f"the name {name!r} is taken; choose another for your outside data")
    own = {name: as_inputs(inputs, f"outside data {name!r}") for name, inputs in given.items()}
    for name, inputs in own.items():
        _check_shape(f"outside data {name!r}", inputs, x)
    return {"uniform noise": noisy, **shuffled}, own


def _check_shape(what: str, found: Tensor, x: Tensor) -> None:
    if found.shape[1:] != x.shape[1:]:
        raise NescioError(
            f"{what} have shape {tuple(found.shape[1:])} a case, the test data "
            f"{tuple(x.shape[1:])}; resize them first, images with data.grey, crop or pad"
        )


def _findings(
    predictors: Mapping[str, Predictor],
    x: Tensor,
    y: Tensor,
    others: tuple[Sets, Sets],
    alphas: Sequence[float],
    rays: dict[str, tuple[Tensor, Tensor, float]],
    attack: _Attack | None,
    show: bool | None,
) -> dict[str, Any]:
    from nescio.faraway import far_away

    found = {}
    ours, given = others
    sets = len(ours) + len(given) + bool(attack)
    total = len(predictors) * (1 + sets + len(alphas) + len(rays))
    with progress(total, "auditing", show=show) as advance:
        for name, predictor in predictors.items():

            def look(inputs: Tensor, predictor: Predictor = predictor, name: str = name) -> Seen:
                seen = see(predictor, inputs)
                advance(1, lambda: name)
                return seen

            def tick(name: str = name) -> None:
                advance(1, lambda: f"{name}, far away")

            moved, report = _attacked(predictor, attack)
            found[name] = _examine(look, x, y, {**ours, **moved, **given}, alphas)
            found[name]["attack"] = report
            if rays:
                found[name]["far_field"] = far_away(predictor, rays, tick=tick)
    return found


def _attacked(predictor: Predictor, attack: _Attack | None) -> tuple[Sets, dict[str, Any]]:
    """The attacked noise by name, and what became of the attack."""
    if attack is None:
        return {}, {}
    try:
        x, blind = attack.surest(predictor)
    except NescioError as error:
        return {}, {"skipped": str(error)}
    return {attack.name: x}, {"blind": blind}


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
