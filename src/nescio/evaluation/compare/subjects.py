"""What is compared: predictors, functions of inputs, detectors fitted or by name."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nescio import detectors as _detectors
from nescio.core import Categorical, Dirichlet, NescioError, numbers, options_for, parse, unknown
from nescio.core.registry import detectors, measures
from nescio.detectors import Activations, Detector, measured
from nescio.evaluation.answers import as_classification
from nescio.evaluation.compare.ood_inputs import AdversarialNoise, AdversarialSamples, pieces
from nescio.models import Predictor, plain

Array: TypeAlias = NDArray[Any]
Given: TypeAlias = str | Detector | Callable[[Activations], Detector]
OF_TABLES = ("gower", "smoothed_density")  # read inputs as columns, not as images
OF_OTHERS = ("combined", "measured")  # made of other detectors or measures
VOTES = "variation_ratio"  # of several networks: one always agrees with itself
EVERYTHING = "all"
TUNED = "tuned_odin"
TUNING = 500  # training inputs that tune ODIN where no OOD data are given


@dataclass(frozen=True, eq=False)
class Look:
    """What is kept of the answers to N inputs."""

    scores: Array  # (N,) float64, larger = further out


@dataclass(frozen=True, eq=False)
class Answers(Look):
    """The same of a predictor."""

    confidence: Array  # (N,)
    labels: Array  # (N,) the most probable classes
    classes: int

    def where(self, chosen: Array) -> "Answers":
        """Those to some of the inputs."""
        parts = (self.scores[chosen], self.confidence[chosen], self.labels[chosen])
        return Answers(*parts, self.classes)


@dataclass(frozen=True, eq=False)
class Subject:
    """A predictor, ranked by a measure, or a detector, which has none."""

    name: str
    source: Callable[[Tensor], Any]
    measure: Callable[[Any], Tensor] | None

    def look(self, row: str, inputs: Iterable[Tensor]) -> Look:
        """Ask about all inputs, a piece at a time."""
        if self.measure is None:
            return Look(np.concatenate([self._scores(row, piece) for piece in inputs]))
        parts = []
        for piece in inputs:
            with torch.no_grad():
                prediction = as_classification(self.source(piece))
            logs = prediction.log_probs
            parts.append((self.measure(prediction), logs.amax(-1).exp(), logs.argmax(-1)))
        scores, confidence, labels = (
            torch.cat(column).numpy() for column in zip(*parts, strict=True)
        )
        return Answers(scores, confidence, labels, prediction.classes)

    def looks(self, row: str, x: Tensor, redrawn: int) -> list[Look]:
        """The same, first as it is, then with fresh masks where members share masks."""
        redraw = getattr(self.source, "redrawn", None)
        fresh = [] if redraw is None else redraw(redrawn)
        every = [self, *(replace(self, source=source) for source in fresh)]
        return [subject.look(row, pieces(x)) for subject in every]

    def _scores(self, row: str, piece: Tensor) -> Array:
        where = f"detector {self.name!r} on {row!r}"
        with torch.no_grad():
            given = self.source(piece)
        try:
            scores = numbers("scores", given, axes=1).astype(np.float64)
        except NescioError as error:
            raise NescioError(f"{where}: {error}") from None
        if len(scores) != len(piece):
            raise NescioError(
                f"{where} gave {len(scores)} scores for {len(piece)} inputs; expected one each"
            )
        if np.isnan(scores).any():
            raise NescioError(f"{where} gave NaN, which has no rank; expected numbers or +-inf")
        return scores

    def obstacle(self, attack: AdversarialNoise | AdversarialSamples, x: Tensor) -> str | None:
        """Why it cannot be attacked, or None; `x` is an input to try."""
        if self.measure is not None:
            if callable(getattr(self.source, "answer", None)):
                return None
            return f"a {type(self.source).__name__} has no method answer(x) with gradients"
        if isinstance(attack, AdversarialSamples):
            return "a detector has no label to get wrong"
        with torch.inference_mode(False), torch.enable_grad():
            score = self.source(next(pieces(x)).clone().requires_grad_())
        if isinstance(score, Tensor) and score.requires_grad:
            return None
        return "its scores have no gradient"


def as_predictors(given: Any) -> dict[str, Predictor]:
    """A network, a predictor, or several by name."""
    named = given if isinstance(given, Mapping) else {"network": given}
    for name, one in named.items():
        if not callable(one):
            kind = type(one).__name__
            raise NescioError(f"{name!r} must be a network or a function of inputs, got a {kind}")
    return {name: plain(n) if isinstance(n, nn.Module) else n for name, n in named.items()}


def as_functions(given: Any, taken: Iterable[str]) -> dict[str, Callable[[Tensor], Any]]:
    """Functions of inputs to scores, by name."""
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(callable(one) for one in given.values()):
        raise NescioError('scores are functions of inputs by name: scores={"mine": function}')
    for name in given:
        if name in taken:
            raise NescioError(f"the name {name!r} is given twice; give one another name")
    return dict(given)


@dataclass(frozen=True, eq=False)
class Candidate:
    """A detector under its name, and how it comes about."""

    name: str
    make: Callable[[Activations], Detector] | Callable[[], Detector]
    fitted: bool  # whether it needs training activations
    asked: bool  # for by name: then it is an error if it does not fit

    def ready(self, train: Activations | None) -> Detector:
        """The fitted detector."""
        if not self.fitted:
            made = self.make()  # type: ignore[call-arg]
        elif train is None:
            raise NescioError(f"{self.name} is fitted on training data; give train=(x, y)")
        else:
            made = self.make(train)  # type: ignore[call-arg]
        if not isinstance(made, Detector):
            raise NescioError(
                f"{self.name!r} made a {type(made).__name__}, not a detector of nescio.detectors"
            )
        return made


def candidates(
    given: Any, *, members: int, vectors: bool, concentrations: bool = False
) -> list[Candidate]:
    """The detectors that a user named, or all that can be made without being told more.

    concentrations: whether the networks answer with Dirichlets, which measures then read.
    """
    if given is None or isinstance(given, str):
        given = [given or EVERYTHING]
    if isinstance(given, Sequence):
        given = _by_title(given)
    if not isinstance(given, Mapping):
        raise NescioError(
            'detectors are names, such as ["knn", "energy"], or by name: {"nearest": "knn,k=1"}'
        )
    found = []
    for name, one in given.items():
        if one == EVERYTHING:
            found += _all(members, vectors, concentrations)
        else:
            found.append(_candidate(name, one, concentrations))
    return found


def _all(members: int, vectors: bool, concentrations: bool) -> list[Candidate]:
    names = [n for n in detectors if n not in OF_OTHERS and (vectors or n not in OF_TABLES)]
    kind = Dirichlet if concentrations else Categorical
    if members > 1 or concentrations:  # measures of answers that disagree, or of their spread
        names += [name for name in measures if issubclass(kind, measures[name].kind)]  # type: ignore[attr-defined]
    alone = VOTES if members == 1 else ""
    return [_named(name, name, concentrations, asked=False) for name in names if name != alone]


def _by_title(given: Sequence[Any]) -> dict[str, Any]:
    """A list by names; a name that stands there twice is one, two detectors of a name are not."""
    found: dict[str, Any] = {}
    for one in given:
        if found.setdefault(_title(one), one) != one:
            raise NescioError(
                f"two detectors are called {_title(one)!r}; give them by name: "
                '{"near": detector, "far": other}'
            )
    return found


def _title(given: Any) -> str:
    if not isinstance(given, (str, Detector)):
        raise NescioError(
            f"a {type(given).__name__} among the detectors has no name; give them by name: "
            '{"mine": function}'
        )
    return given if isinstance(given, str) else given.name


def _candidate(name: str, given: Given, concentrations: bool) -> Candidate:
    if isinstance(given, str):
        return _named(name, given, concentrations, asked=True)
    if isinstance(given, Detector):
        return Candidate(name, lambda: given, False, True)
    if callable(given):
        return Candidate(name, given, True, True)
    raise NescioError(
        f"{name!r} must be a detector's name, a detector, or a function of training activations; "
        f"got a {type(given).__name__}"
    )


def _named(name: str, text: str, concentrations: bool, *, asked: bool) -> Candidate:
    """Read `knn`, or with options `knn,k=10`; a measure's name is that measure.

    concentrations: whether a measure reads those.
    """
    kind, words = parse(text)
    if kind in OF_OTHERS:
        raise NescioError(
            f"{kind} is made of others; make it yourself: "
            f'{{"mine": lambda train: nescio.detectors.{kind}(...)}}'
        )
    if kind in measures:
        if words:
            raise NescioError(f"the measure {kind} takes no options here, got {text!r}")
        read = "dirichlet" if concentrations else "categorical"  # detectors see log concentrations
        return Candidate(name, lambda: measured(kind, head=read), False, asked)
    if kind != TUNED and kind not in detectors:
        raise NescioError(unknown("detector or measure", kind, [*detectors, *measures, TUNED]))
    build = _detectors.tuned_odin if kind == TUNED else detectors[kind]
    options = options_for(build, words)
    if kind == TUNED:
        return Candidate(name, lambda train: build(train[:TUNING], **options), True, asked)
    if "train" in inspect.signature(build).parameters:
        return Candidate(name, lambda train: build(train, **options), True, asked)
    return Candidate(name, lambda: build(**options), False, asked)
