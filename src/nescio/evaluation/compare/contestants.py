"""What is compared: detectors by name, ready-made, or made from training activations."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from nescio import detectors as _detectors
from nescio.core import Categorical, NescioError, options_for, parse, unknown
from nescio.core.registry import detectors, measures
from nescio.detectors import Detector, measured
from nescio.detectors.activations import Activations

Given: TypeAlias = str | Detector | Callable[[Activations], Detector]
OF_TABLES = ("gower", "smoothed_density")  # read inputs as columns, not as images
OF_OTHERS = ("combined", "measured")  # made of other detectors or measures
EVERYTHING = "all"
TUNED = "tuned_odin"
TUNING = 500  # training inputs that tune ODIN where no OOD data is given


@dataclass(frozen=True, eq=False)
class Contestant:
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


def contestants(given: Any, *, members: int, vectors: bool) -> list[Contestant]:
    """The detectors that a user named, or all that can be made without being told more."""
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
        found += _all(members, vectors) if one == EVERYTHING else [_contestant(name, one)]
    return found


def _all(members: int, vectors: bool) -> list[Contestant]:
    names = [n for n in detectors if n not in OF_OTHERS and (vectors or n not in OF_TABLES)]
    names += _of_several() if members > 1 else []
    return [_named(name, name, asked=False) for name in names]


def _of_several() -> list[str]:
    """Measures of the answers of several networks."""
    return [name for name in measures if issubclass(Categorical, measures[name].kind)]  # type: ignore[attr-defined]


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


def _contestant(name: str, given: Given) -> Contestant:
    if isinstance(given, str):
        return _named(name, given, asked=True)
    if isinstance(given, Detector):
        return Contestant(name, lambda: given, False, True)
    if callable(given):
        return Contestant(name, given, True, True)
    raise NescioError(
        f"{name!r} must be a detector's name, a detector, or a function of training activations; "
        f"got a {type(given).__name__}"
    )


def _named(name: str, text: str, *, asked: bool) -> Contestant:
    """Read `knn`, or with options `knn,k=10`; a measure's name is that measure."""
    kind, words = parse(text)
    if kind in OF_OTHERS:
        raise NescioError(
            f"{kind} is made of others; make it yourself: "
            f'{{"mine": lambda train: nescio.detectors.{kind}(...)}}'
        )
    if kind in measures:
        if words:
            raise NescioError(f"the measure {kind} takes no options here, got {text!r}")
        return Contestant(name, lambda: measured(kind), False, asked)
    if kind != TUNED and kind not in detectors:
        raise NescioError(unknown("detector or measure", kind, [*detectors, *measures, TUNED]))
    build = _detectors.tuned_odin if kind == TUNED else detectors[kind]
    options = options_for(build, words)
    if kind == TUNED:
        return Contestant(name, lambda train: build(train[:TUNING], **options), True, asked)
    if "train" in inspect.signature(build).parameters:
        return Contestant(name, lambda train: build(train, **options), True, asked)
    return Contestant(name, lambda: build(**options), False, asked)
