"""Sections of an audit: each is made alone, so that one that fails loses nothing else.

    @section("slices", title="Where it is wrong", place=40)
    def slices_section(material: Material) -> Slices: ...

A section reads the material and returns a frozen dataclass, which `audit.json` holds; where it
cannot be made it raises a NescioError that says why. Its words are in `nescio.report.sections`.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar, cast, get_args, get_type_hints

import torch
from torch import Tensor

from nescio.core import (
    DataSet,
    Inputs,
    NescioError,
    Prediction,
    from_json,
    hash_inputs,
    progress,
)
from nescio.core.registry import audit_sections, unknown
from nescio.evaluation.answers import Seen
from nescio.evaluation.audit.cost import Draws
from nescio.evaluation.audit.held_out import Held
from nescio.evaluation.audit.kept_parts import KeptParts
from nescio.evaluation.audit.observed_features import ObservedFeatures, observed_features
from nescio.models import Predictor, networks
from nescio.version import VERSION

Budget: TypeAlias = Literal["quick", "standard", "thorough"]
BUDGETS: tuple[Budget, ...] = get_args(Budget)
CLASSES, NUMBERS = "classification", "regression"
PARTS = {  # of every predictor, and of the guard: what can be left out beside the registry
    "calibration": "The calibration error before and after a temperature.",
    "failure": "How well errors are found by scores.",
    "noise": "Confidence on noise in the range of the data.",
    "attack": "The most confident inputs near noise, found by gradient ascent.",
    "scaled inputs": "Test inputs times a growing factor.",
    "far field": "The limits of confidence along rays, exactly.",
    "shift": "Accuracy and calibration under a growing shift.",
    "guard": "A guard, which answers or abstains with a guarantee.",
}
SKIPPED = "left out as asked"
FEW = 32  # answers that tell a predictor from others
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, eq=False, kw_only=True)
class Material:
    """What a section may read; None or empty where an audit has none of it.

    predictor: the first, as it answers; net, reading: the same as it was given, its head and where
    its outputs are. x, y: the test data. seen: its answers there; on_test: those of
    every predictor by name; prediction: of a regression.
    held: which samples fit and which measure. train: inputs, and labels or None. decisions: of the
    guard, on the samples that measure; decisions_ood: on OOD inputs by set, spread over the set as
    `draws.spread` says. ood, seen_ood: OOD sets and the answers there, by name.
    features, train_features: `(N, d)`, where they were given. groups: by name the group of each
    test sample. columns: the names of the numbers of a sample of a table. draws: how many samples a
    section may run through the network.
    """

    task: str = CLASSES
    predictor: Predictor | None = None
    predictors: Mapping[str, Predictor] = field(default_factory=dict)
    net: Any = None
    reading: Mapping[str, Any] = field(default_factory=dict)
    x: Inputs | None = None
    y: Tensor
    seen: Seen | None = None
    on_test: Mapping[str, Seen] = field(default_factory=dict)
    prediction: Prediction | None = None
    held: Held
    train: tuple[Any, Tensor | None] | None = None
    guard: Any = None
    decisions: Any = None
    decisions_ood: Mapping[str, Any] = field(default_factory=dict)
    ood: Mapping[str, tuple[DataSet, Any]] = field(default_factory=dict)
    seen_ood: Mapping[str, Any] = field(default_factory=dict)
    features: Tensor | None = None
    train_features: Tensor | None = None
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    class_names: tuple[str, ...] | None = None
    columns: tuple[str, ...] | None = None
    budget: Budget = "standard"
    draws: Draws = field(default_factory=Draws)
    seed: int = 0

    def answers(self) -> Seen:
        """The answers of a classifier on the test data."""
        if self.seen is None:
            raise NescioError("this section is about classes; the network predicts numbers")
        return self.seen

    def inputs(self) -> Any:
        """The test inputs, where there are any."""
        if self.x is None:
            raise NescioError("this section needs the inputs; only answers were given")
        return self.x

    @cached_property
    def observed(self) -> ObservedFeatures:
        """Features of the test samples and of some training samples, observed once."""
        return observed_features(self)

    def class_name(self, label: int) -> str:
        """The name of a class, or its number."""
        return str(label) if self.class_names is None else self.class_names[label]


@dataclass(frozen=True, eq=False, kw_only=True)
class AuditSection:
    """A section: what it is called, what makes it, and in which audits it is made."""

    name: str
    title: str
    make: Callable[[Material], Any]
    place: int  # on the page: smaller first
    budgets: tuple[Budget, ...]
    tasks: tuple[str, ...]

    @property
    def __name__(self) -> str:
        return self.name

    @property
    def kind(self) -> Any:
        """The type of its value."""
        return get_type_hints(self.make)["return"]

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        return self.make.__doc__ or ""


def section(
    name: str,
    *,
    title: str,
    place: int,
    budgets: tuple[Budget, ...] = ("standard", "thorough"),
    tasks: tuple[str, ...] = (CLASSES,),
) -> Callable[[F], F]:
    """Register what makes a section; used as a decorator."""

    def add(make: F) -> F:
        made = AuditSection(
            name=name, title=title, make=make, place=place, budgets=budgets, tasks=tasks
        )
        audit_sections.named(name)(cast(Any, made))
        return make

    return add


def in_order() -> list[AuditSection]:
    """All sections of the registry, in the order of the page."""
    every = cast("Iterable[AuditSection]", audit_sections.values())
    return sorted(every, key=lambda one: (one.place, one.name))


def read_sections(
    sections: Mapping[str, Any], where: str, judged: Collection[str] = ()
) -> tuple[dict[str, Any], dict[str, str]]:
    """Values of sections as `audit.json` holds them, as dataclasses again, and why some are not.

    One that cannot be read is left out, but not if it is among the `judged`: without it the verdict
    would be another.
    """
    kinds = {one.name: one.kind for one in in_order()}
    found: dict[str, Any] = {}
    unread: dict[str, str] = {}
    for name, value in sections.items():
        try:
            if name not in kinds:
                raise NescioError(f"this nescio, {VERSION}, does not know it")
            found[name] = from_json(kinds[name], value, f"the section {name!r} of {where}")
        except NescioError as error:
            if name in judged:
                raise NescioError(
                    f"{where} cannot be judged without its section {name!r}, which cannot be read: "
                    f"{error}; audit again with this nescio, {VERSION}"
                ) from None
            unread[name] = f"it is in the file, but cannot be read: {error}"
    return found, unread


@dataclass(frozen=True, eq=False, kw_only=True)
class AuditPlan:
    """Which sections are made; it isolates each, and collects why some are not there."""

    budget: Budget = "standard"
    skip: frozenset[str] = frozenset()
    also: frozenset[str] = frozenset()
    folder: str | Path | None = None  # that keeps finished parts
    store: KeptParts | None = None
    not_run: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        budget: Any = "standard",
        skip: Iterable[str] = (),
        also: Iterable[str] = (),
        folder: str | Path | None = None,
    ) -> "AuditPlan":
        """The plan; unknown names are refused, with the nearest known one."""
        if budget not in BUDGETS:
            raise NescioError(f"budget must be one of {', '.join(BUDGETS)}, got {budget!r}")
        left, more = frozenset(map(_known, _listed(skip))), frozenset(map(_known, _listed(also)))
        if both := sorted(left & more):
            raise NescioError(f"skip and also both name {', '.join(both)}; keep one of them")
        return cls(budget=budget, skip=left, also=more, folder=folder)

    def bound_to(self, what: Callable[[], Any], *how: Any) -> "AuditPlan":
        """The same for one audit: what it depends on tells its kept parts from others.

        what: it hashes all data, so it is asked only where parts are kept.
        """
        if self.folder is None:
            return self
        return replace(self, store=KeptParts.of(self.folder, VERSION, self.budget, what(), *how))

    def wants(self, name: str) -> bool:
        """Whether a part is made; that it was left out is said."""
        if name in self.skip:
            self.not_run[name] = SKIPPED
        return name not in self.skip

    def attempt(self, name: str, make: Callable[[], T], otherwise: T, of: str = "") -> T:
        """What `make` returns, or `otherwise` where the part is left out or fails.

        of: the predictor, where there are several.
        """
        if not self.wants(name):
            return otherwise
        try:
            return make()
        except Exception as error:  # whatever it is: the other sections are worth having
            self.not_run[f"{name} of {of}" if of else name] = reason(error)
            return otherwise

    def kept(self, name: str, kind: Any, make: Callable[[], T]) -> T:
        """A part that was finished before this run began, or what `make` returns."""
        return make() if self.store is None else self.store.kept(name, kind, make)

    def sections(self, material: Material, *, show: bool | None = None) -> dict[str, Any]:
        """All sections of the registry that this audit has, by name."""
        found: dict[str, Any] = {}
        wanted = [one for one in in_order() if material.task in one.tasks and self._in(one)]
        with progress(len(wanted), "sections", show=show) as advance:
            for one in wanted:
                advance(1, partial(str, one.name))
                make = partial(self.kept, one.name, one.kind, partial(one.make, material))
                value = self.attempt(one.name, make, None)
                if value is not None:
                    found[one.name] = value
        return found

    def _in(self, one: AuditSection) -> bool:
        """Whether a section is in the budget, or asked for; if not, it is said."""
        if self.budget in one.budgets or one.name in self.also | self.skip:
            return True
        how = "name it with --also (also=) to add it"
        self.not_run[one.name] = f"not part of the {self.budget} budget; {how}"
        return False


def audited(
    predictors: Mapping[str, Any],
    held: Held,
    trained: tuple[Any, Tensor | None] | None,
    ood: Mapping[str, tuple[DataSet, Any]],
) -> list[Any]:
    """What tells an audit from others: weights, or some answers of a function, and all data."""
    x, y = held.test
    known: list[Any] = [hash_inputs(x), y, hash_inputs(held.fitting[0]), held.fitting[1]]
    if trained is not None:
        known += [hash_inputs(trained[0]), trained[1]]
    return [
        [[name, *_weights(one, x)] for name, one in predictors.items()],
        known,
        [[name, hash_inputs(inputs)] for name, (_, inputs) in ood.items()],
    ]


def _weights(predictor: Any, x: Any) -> list[Any]:
    """Weights where they are shown, and some answers: they tell MC dropout from its network."""
    nets = networks(predictor) if callable(getattr(predictor, "networks", None)) else []
    with torch.no_grad():
        answers = [part for part in vars(predictor(x[:FEW])).values() if isinstance(part, Tensor)]
    return [[dict(member.net.state_dict()) for member in nets], answers]


def reason(error: Exception) -> str:
    """Why a part is missing: the words of nescio, or an error of another kind with its name."""
    said = str(error).strip()
    if isinstance(error, NescioError):
        return said
    first = said.splitlines()[0] if said else "no message"
    return f"it failed with {type(error).__name__}: {first}"


def _listed(names: Iterable[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _known(name: str) -> str:
    """The section that a name means; hyphens and underscores stand for spaces."""
    plain = str(name).replace("-", " ").replace("_", " ").strip().lower()
    names = sorted({*audit_sections, *PARTS})
    if plain not in names:
        raise NescioError(unknown("audit section", str(name), names))
    return plain
