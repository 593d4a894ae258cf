"""Scores of every subject on every data set, from one forward pass per set; what they cost."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from nescio.core import Inputs, NescioError
from nescio.core.registry import measures
from nescio.detectors import Activations, Detector
from nescio.detectors.observe.observe import observe
from nescio.evaluation.answers import as_classification
from nescio.evaluation.compare.comparison import SubjectAbout
from nescio.evaluation.compare.ood_inputs import pieces
from nescio.evaluation.compare.subjects import Candidate, Subject
from nescio.models import Predictor

Array: TypeAlias = NDArray[Any]
PASSING = ("odin", "tuned_odin")  # run the network again, with gradients
CONSTANT = ("mutual_information", "expected_pairwise_kl", "class_variance", "variation_ratio")


@dataclass(frozen=True, eq=False)
class Scored:
    """A detector, a function or a measure of a predictor: its scores by data set, its costs."""

    about: SubjectAbout
    scores: Mapping[str, Array]  # (N,) by data set, larger = further out
    fit_seconds: float
    score_seconds: float  # for all inputs
    bytes: int  # of what was fitted

    @property
    def name(self) -> str:
        """Under which it is compared."""
        return self.about.name


@dataclass(frozen=True, eq=False)
class Observed:
    """Activations by data set, and how long the forward passes took."""

    sets: Mapping[str, Activations]
    train: Activations | None
    seconds: float

    @property
    def samples(self) -> int:
        """Inputs that are scored."""
        return sum(found.samples for found in self.sets.values())

    @property
    def passed(self) -> int:
        """Inputs that went through the networks."""
        return self.samples + (0 if self.train is None else self.train.samples)


def observed(source: Any, data: Mapping[str, Any], train: Any, **options: Any) -> Observed:
    """One forward pass over each data set; the inputs are kept where they are."""
    start = time.perf_counter()
    sets = {name: observe_given(source, name, given, **options) for name, given in data.items()}
    fitted = None if train is None else observe_given(source, "train", train, **options)
    return Observed(sets, fitted, time.perf_counter() - start)


def observe_given(source: Any, name: str, given: Any, **options: Any) -> Activations:
    """Inputs, or an OOD source with a count, observed; activations as they are."""
    if isinstance(given, Activations):
        return given
    try:
        if isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], (int, np.integer)):
            found = observe(source, given[0], count=int(given[1]), inputs=True, **options)
        else:
            found = observe(source, given, inputs=True, **options)
    except NescioError as error:
        raise NescioError(f"data {name!r}: {error}") from error
    if found.samples < 2:
        raise NescioError(f"data {name!r} hold 1 input; a comparison needs at least two")
    return found


def of_detector(one: Candidate, found: Observed) -> Scored:
    """Fit a detector and score all data sets."""
    start = time.perf_counter()
    detector = one.ready(found.train)
    fitted = time.perf_counter()
    _check_tuned(one.name, detector, found)
    detector(next(iter(found.sets.values()))[:2])  # what only the first call costs is not timed
    scored = time.perf_counter()
    scores = {name: _numbers(one.name, name, detector(a)) for name, a in found.sets.items()}
    end = time.perf_counter()
    tensors = [tensor for state in detector.states for tensor in state.values()]
    stored = {tensor.data_ptr(): tensor.nbytes for tensor in tensors}
    about = about_detector(one.name, detector)
    return Scored(about, scores, fitted - start, end - scored, sum(stored.values()))


def about_detector(name: str, detector: Detector) -> SubjectAbout:
    """What a fitted detector is."""
    return SubjectAbout(
        name=name,
        kind="detector",
        detector=detector.name,
        options=dict(detector.options) if len(str(detector.options)) < 500 else {},
        layers=tuple(detector.layers),
        tuned=_tuned(detector),
        said=_odin(detector),
        own_pass=_passes(detector),
    )


def of_function(one: Subject, found: Observed) -> Scored:
    """Scores that a function gives for the inputs."""
    start = time.perf_counter()
    scores = {name: one.look(name, pieces(_inputs(a))).scores for name, a in found.sets.items()}
    about = SubjectAbout(name=one.name, kind="function", own_pass=True)
    return Scored(about, scores, 0.0, time.perf_counter() - start, 0)


def of_predictor(
    name: str, predictor: Predictor, chosen: Sequence[str], found: Observed
) -> list[Scored]:
    """Measures of a predictor's answers, from passes of its own; constant ones are left out.

    One member cannot differ from itself.
    """
    start = time.perf_counter()
    scores: dict[str, dict[str, Array]] = {measure: {} for measure in chosen}
    members = 1
    for where, activations in found.sets.items():
        parts: list[list[Array]] = []
        for piece in pieces(_inputs(activations)):
            with torch.no_grad():
                prediction = as_classification(predictor(piece))
            members = prediction.members
            parts.append([measures[measure](prediction).numpy() for measure in chosen])
        for measure, column in zip(chosen, zip(*parts, strict=True), strict=True):
            scores[measure][where] = np.concatenate(column)
    seconds = time.perf_counter() - start
    about = SubjectAbout(name=name, kind="predictor", detector="measured", predictor=name,
                         members=members, own_pass=True)  # fmt: skip
    return [
        Scored(replace(about, name=f"{name}: {m}", measure=m), scores[m], 0.0, seconds, 0)
        for m in chosen
        if members > 1 or m not in CONSTANT
    ]


def _inputs(activations: Activations) -> Inputs:
    if activations.inputs is None:
        raise NescioError("these activations have no inputs; observe with inputs=True")
    return activations.inputs


def overlap(found: Observed) -> dict[str, int]:
    """How many inputs of each data set are among the training inputs."""
    if found.train is None or found.train.hashes is None:
        return dict.fromkeys(found.sets, 0)
    return {name: _shared(a, found.train.hashes) for name, a in found.sets.items()}


def _shared(activations: Activations, hashes: torch.Tensor) -> int:
    own = activations.hashes
    return 0 if own is None else int(torch.isin(own, hashes).sum())


def _check_tuned(name: str, detector: Detector, found: Observed) -> None:
    """Refuse a detector that was tuned on inputs that it is then tested on, itself or a part."""
    used = [number for made in _histories(detector) for number in made["tuned"]["hashes"]]
    hashes = torch.tensor(used, dtype=torch.int64)
    for where, activations in found.sets.items():
        count = _shared(activations, hashes) if len(hashes) else 0
        if count:
            raise NescioError(
                f"{name} was tuned on {count} of the {activations.samples} inputs of {where!r}, "
                "which would flatter it; tune it on other data"
            )


def _histories(detector: Detector) -> list[Mapping[str, Any]]:
    """How a detector and the parts of a combined one came about, of those that were tuned."""
    parts: list[Mapping[str, Any]] = [{"about": detector.about, "options": detector.options}]
    found = []
    while parts:
        part = parts.pop()
        parts += part["options"].get("parts", [])
        found += [part["about"]] if "tuned" in part["about"] else []
    return found


def _tuned(detector: Detector) -> dict[str, Any] | None:
    record = detector.about.get("tuned")
    return None if record is None else {k: record[k] for k in ("by", "on", "in_dist", "ood")}


def _odin(detector: Detector) -> str | None:
    """How the temperature and radius of ODIN came about, and what they are."""
    if detector.name != "odin":
        return None
    tuned = detector.about.get("tuned")
    options = detector.options
    chosen = f"temperature {options['temperature']:g}, radius {options['radius']:g}."
    if tuned is None:
        return f"was not tuned: {chosen}"
    on = f"{tuned['on']} ({tuned['ood']} inputs)" if tuned["on"] else "no OOD data"
    return f"was tuned on {on} by {tuned['by']}: {chosen}"


def _passes(detector: Detector) -> bool:
    inner = [part["name"] for part in detector.options.get("parts", [])]
    return any(name in PASSING for name in (detector.name, *inner))


def _numbers(name: str, where: str, scores: torch.Tensor) -> Array:
    values: Array = scores.detach().cpu().numpy()
    if np.isnan(values).any():
        lost = int(np.isnan(values).sum())
        raise NescioError(f"{name} on {where!r}: {lost} of {len(values)} scores are NaN")
    return values
