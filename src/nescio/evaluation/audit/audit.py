"""How far can a network be trusted: on its data, on noise, and along rays away from the data."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nescio import data as sets
from nescio import metrics
from nescio.core import (
    NescioError,
    as_inputs,
    as_targets,
    finite,
    make_folder,
    write_atomically,
    write_json,
)
from nescio.core.running import progress
from nescio.data.ranges import Units, units_of
from nescio.evaluation.answers import ADVERSARIAL, FAR, Seen, quality, see, separation
from nescio.evaluation.audit import Guarded, Held, calibration, failure, guarded, hold, moved
from nescio.evaluation.audit.attack_section import ATTACKED, Attack, attack_on, attacked
from nescio.evaluation.audit.attack_section import check_attack as check_attack
from nescio.evaluation.audit.calibration_section import bins
from nescio.evaluation.audit.failure_section import BASELINE, GUARDS, RECOMMENDED
from nescio.evaluation.audit.input_range import out_of_range
from nescio.guards import Guard
from nescio.models import Predictor, plain
from nescio.training.loop import Pair
from nescio.version import VERSION

ALPHAS = tuple(round(10 ** (k / 4), 6) for k in range(17))  # 1 to 10^4, four a decade
BINS = 20
RAYS = 200  # of each kind that are followed to infinity
STEPS = 50  # of the attack on noise
GUARD = "guard.safetensors"  # beside the page
Look = Callable[[Tensor], Seen]
Sets = dict[str, Tensor]


@dataclass(frozen=True)
class Audit:
    """The findings; `result` is what `audit.json` holds, `guard` decides about new inputs."""

    result: dict[str, Any]
    guard: Guard | None = field(default=None, repr=False, compare=False)

    @property
    def table(self) -> list[dict[str, Any]]:
        """One row for each predictor, set and measure."""
        rows = []
        for name, found in self.result["predictors"].items():
            rows.append({"predictor": name, "data": "test", "measure": None, **found["test"]})
            for where, part in found["ood"].items():
                shared = {"mean_max_confidence": part["mean_max_confidence"]}
                rows += [
                    {"predictor": name, "data": where, "measure": measure, **shared, **numbers}
                    for measure, numbers in part["measures"].items()
                ]
        return rows

    def save(self, folder: str | Path) -> Path:
        """Write `audit.json`, `audit.html`, a page complete in itself, and the guard.

        Returns the path of the page.
        """
        from nescio.report import audit_page

        folder = make_folder(Path(folder))
        result = self.result
        if self.guard is not None:
            path = self.guard.save(folder / GUARD, weights=True)
            result = {**result, "guard": {**result["guard"], "file": str(path)}}
        else:  # one of an earlier audit would speak for another network
            (folder / GUARD).unlink(missing_ok=True)
        write_json(folder / "audit.json", result)
        write_atomically(folder / "audit.html", audit_page(result))
        return folder / "audit.html"

    def bound_for(
        self, folder: str | Path, *, net: str | None = None, columns: Sequence[str] | None = None
    ) -> "Audit":
        """The same, with the words to use the guard once it is saved in `folder`.

        net: `package.module:factory` of the network, or the folder of a run. columns: the names of
        the inputs, where the data are a table; the guard takes them by name.
        """
        if self.guard is None:
            return self
        file = {"file": str(Path(folder) / GUARD), "net": net}
        notes = dict(self.guard.notes) | ({} if columns is None else {"columns": list(columns)})
        result = {**self.result, "guard": {**self.result["guard"], **file}}
        return replace(self, result=result, guard=replace(self.guard, notes=notes))

    def with_command(self, command: Sequence[str]) -> "Audit":
        """The same, with the command that made it."""
        return replace(self, result={**self.result, "command": list(command)})

    def __str__(self) -> str:
        from nescio.report import audit_text

        return audit_text(self.result)


@torch.inference_mode(False)  # whatever the caller is in: attacks need gradients
def audit(
    net: nn.Module | Predictor | Mapping[str, nn.Module | Predictor],
    data: tuple[Any, Any],
    *,
    train: tuple[Any, Any] | None = None,
    validation: tuple[Any, Any] | None = None,
    ood: Mapping[str, Any] | None = None,
    alphas: Sequence[float] = ALPHAS,
    rays: int = RAYS,
    attack_steps: int = STEPS,
    attack_radius: float | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> Audit:
    """Say how overconfident a classifier is on its test data, off it, under attack, and far away.

    net: a network, a predictor, or several by name; the first gets a guard. data: test inputs and
    labels. train: training data, for the range of the noise and the detector of the guard.
    validation: other held-out data, which fit temperatures and the guard; without them a half of
    the test data does. outside: other inputs by name, for example `{"letters": z}`; uniform noise
    and permuted pixels are always there.
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
    if ood is not None and not isinstance(ood, Mapping):
        raise NescioError('outside data come by name: ood={"letters": z}')
    _check_alphas(alphas)
    if isinstance(rays, bool) or not isinstance(rays, int) or rays < 0:
        raise NescioError(f"rays must be a whole number from 0 up, got {rays}")
    from nescio.evaluation.audit.far_field_section import (
        rays_from,  # the geometry is loaded where it is used
    )

    known = x if train is None else as_inputs(train[0], "training inputs", keep_bytes=True)
    _check_shape("training inputs", known, x)
    held = hold((x, y), _validation(validation, x), seed=seed)
    units = units_of(known)
    ours, given = _ood(x, units, ood or {}, seed)
    attack = attack_on(known, units, attack_steps, attack_radius, seed)
    ways = rays_from(x, count=rays, seed=seed) if rays else {}
    name, first = next(iter(predictors.items()))
    trained = None if train is None else (known, _labels(train[1], len(known)))
    own = guarded(name, first, held, trained, seed=seed, progress=progress)
    found, surest = _findings(
        predictors, x, y, (ours, given), alphas, ways, attack, progress, (held, own, seed)
    )
    if own.guard is not None:
        far = {f"{FAR}{alphas[-1]:.12g}": sets.scaling()(x, alphas[-1])}
        tried = {**given, **ours, **surest, **far}
        own.result["ood"] = {where: own.on(inputs) for where, inputs in tried.items()}
    guards = {} if own.guard is None else {"guard": own.guard}
    result: dict[str, Any] = {
        "nescio": VERSION,
        "samples": len(x),
        "features": list(x.shape[1:]),
        "seed": seed,
        "sets": {
            **{name: len(inputs) for name, inputs in ours.items()},
            **({attack.name: ATTACKED} if attack else {}),
            **{name: len(inputs) for name, inputs in given.items()},
        },
        "held_out": held.words,
        **({} if train is None else {"range": out_of_range(x, known)}),
        "guard": own.result,
        "predictors": found,
        "shift": moved(predictors, guards, held, seed=seed),
    }
    if attack is not None:
        result["attack"] = attack.options
    return Audit(finite(result), own.guard)  # empty bins have no mean: None, as in the file


def _validation(given: tuple[Any, Any] | None, x: Tensor) -> Pair | None:
    if given is None:
        return None
    inputs = as_inputs(given[0], "validation inputs")
    _check_shape("validation inputs", inputs, x)
    return inputs, as_targets(given[1], len(inputs), task="classification")


def _labels(given: Any, samples: int) -> Tensor | None:
    return None if given is None else as_targets(given, samples, task="classification")


def _check_alphas(alphas: Sequence[float]) -> None:
    ordered = all(a < b for a, b in pairwise(alphas))
    if not alphas or not ordered or not alphas[0] > 0 or not alphas[-1] < float("inf"):
        raise NescioError(f"alphas must be positive, increasing and finite, got {list(alphas)}")


def _ood(x: Tensor, units: Units, given: Mapping[str, Any], seed: int) -> tuple[Sets, Sets]:
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
            f"{what} have shape {tuple(found.shape[1:])} per sample, the test data "
            f"{tuple(x.shape[1:])}; resize them first, images with data.gray, crop or pad"
        )


def _findings(
    predictors: Mapping[str, Predictor],
    x: Tensor,
    y: Tensor,
    others: tuple[Sets, Sets],
    alphas: Sequence[float],
    rays: dict[str, tuple[Tensor, Tensor, float]],
    attack: Attack | None,
    show: bool | None,
    trusted: tuple[Held, Guarded, int],
) -> tuple[dict[str, Any], Sets]:
    """What is found of each predictor, and the attacked noise of the first."""
    from nescio.evaluation.audit.far_field_section import far_away

    found: dict[str, Any] = {}
    first: Sets = {}
    held, own, seed = trusted
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

            surest, report = attacked(predictor, attack)
            in_dist = look(x)
            main = not found
            first = surest if main else first
            found[name] = _examine(look, in_dist, x, y, {**ours, **surest, **given}, alphas)
            found[name]["attack"] = report
            found[name]["calibration"] = calibration(predictor, held, seed=seed)
            found[name]["failure"] = _failure(in_dist, held, own if main else None, seed)
            if rays:
                found[name]["far_field"] = far_away(predictor, rays, tick=tick)
    return found, first


def _failure(in_dist: Seen, held: Held, own: Guarded | None, seed: int) -> dict[str, Any]:
    """How well the errors on the measured samples are found; by the guard's doubt too, if any."""
    places = held.places.cpu()
    wrong = (in_dist.labels != held.test[1].cpu())[places].numpy()
    scores = {BASELINE: in_dist.scores["log_odds"][places.numpy()]}
    if own is not None and own.guard is not None and own.guard.failure is not None:
        assert own.decisions is not None
        used = own.guard.failure.name
        named = RECOMMENDED if used == "recommended" else f"{GUARDS} ({used})"
        scores[named] = own.decisions.failure_score.cpu().numpy()
    return failure(scores, wrong, seed=seed)


def _examine(
    look: Look,
    in_dist: Seen,
    x: Tensor,
    y: Tensor,
    others: Mapping[str, Tensor],
    alphas: Sequence[float],
) -> dict[str, Any]:
    test = quality(in_dist, y)
    histograms = {"test": _histogram(in_dist)}
    ood = {}
    for name, inputs in others.items():
        seen = look(inputs)
        ood[name], histograms[name] = _against(in_dist, seen), _histogram(seen)
    ray, far = _ray(look, x, in_dist, alphas)
    name = f"{FAR}{alphas[-1]:.12g}"
    ood[name], histograms[name] = _against(in_dist, far), _histogram(far)
    return {
        "members": in_dist.members,
        "classes": in_dist.log_probs.shape[1],
        "test": test,
        "reliability": bins(in_dist.confidence, in_dist.labels == y.cpu()),
        "ood": ood,
        "scaling": ray,
        "confidence_histograms": histograms,
    }


def _against(in_dist: Seen, seen: Seen) -> dict[str, Any]:
    return {
        "mean_max_confidence": metrics.mean_max_confidence(seen.probs),
        "measures": separation(in_dist, seen),
    }


def _ray(
    look: Look, x: Tensor, in_dist: Seen, alphas: Sequence[float]
) -> tuple[dict[str, Any], Seen]:
    """Confidence and separation along alpha * x, and what is seen at the last alpha."""
    shift = sets.scaling()
    confidence, areas = [], []
    for alpha in alphas:
        seen = look(shift(x, alpha))
        confidence.append(metrics.mean_max_confidence(seen.probs))
        areas.append({n: metrics.auroc(s, seen.scores[n]) for n, s in in_dist.scores.items()})
    auroc = {name: [area[name] for area in areas] for name in in_dist.scores}
    return {"alpha": list(alphas), "mean_max_confidence": confidence, "auroc": auroc}, seen


def _histogram(seen: Seen) -> list[int]:
    """Counts of the confidence in equal bins of [0, 1]."""
    counts = torch.histc(seen.confidence, bins=BINS, min=0.0, max=1.0)
    return [int(count) for count in counts.tolist()]
