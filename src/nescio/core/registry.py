"""Named parts and their options as text: what the command line, reports, docs and tests list."""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from importlib import import_module
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from nescio.core.errors import NescioError, quoted
from nescio.spelling import did_you_mean

Part = Callable[..., Any]
P = TypeVar("P", bound=Part)
YES_NO = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
MEANING = re.compile(r"^(\w+(?:, \w+)*): (.*(?:\n  .*)*)", re.MULTILINE)


def unknown(kind: str, name: object, known: Iterable[str]) -> str:
    """The message for an unknown name: the nearest known one, and all of them."""
    known = sorted(known)
    return f"unknown {kind} {quoted(name)}{did_you_mean(name, known)} Known: {', '.join(known)}"


def spelled(name: str, known: Iterable[str]) -> str:
    """A known name that differs in hyphens, underscores and spaces alone, or the name as it is."""
    alike = str.maketrans("- ", "__")
    same = {one.translate(alike): one for one in known}
    return same.get(name.translate(alike), name)


class Registry(Mapping[str, Part]):
    """Functions of one kind by name; an unknown name is an error that lists the known ones.

    room: where they are written; it is loaded when the registry is first asked for something.
    """

    def __init__(self, kind: str, room: str | None = None) -> None:
        self.kind = kind
        self._parts: dict[str, Part] = {}
        self._room = room

    @property
    def _known(self) -> dict[str, Part]:
        if self._room is not None:
            import_module(f"nescio.{self._room}")  # while it is being loaded, this does nothing
            self._room = None
        return self._parts

    def register(self, part: P) -> P:
        """Add `part` under its own name; used as a decorator."""
        return self.named(part.__name__)(part)

    def named(self, name: str) -> Callable[[P], P]:
        """Add a part under a name that is not its own; used as a decorator."""

        def add(part: P) -> P:
            if name in self._parts:
                raise NescioError(f"the {self.kind} {name!r} is registered twice; rename one")
            self._parts[name] = part
            return part

        return add

    def __getitem__(self, name: str) -> Part:
        if name not in self._known:
            raise NescioError(unknown(self.kind, name, self))
        return self._known[name]

    def get(self, name: str, default: Any = None) -> Any:
        """The part, or `default` where there is none."""
        return self._known.get(name, default)

    def __contains__(self, name: object) -> bool:
        return name in self._known

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._known))

    def __len__(self) -> int:
        return len(self._known)

    def built(self, text: str) -> Part:
        """The part that `knn,k=10` names, with these options."""
        name, words = parse(text)
        return partial(self[name], **options_for(self[name], words))

    def summary(self, name: str) -> str:
        """The first sentence of a part's docstring: its help on the command line."""
        return (self[name].__doc__ or "").strip().split("\n")[0]


def parse(text: str) -> tuple[str, dict[str, str]]:
    """The name and the options of `NAME,OPTION=VALUE,...`; hyphens in names are underscores.

    >>> parse("outlier-exposure,weight=0.5")
    ('outlier_exposure', {'weight': '0.5'})
    """
    name, *words = text.split(",")
    return name.strip().replace("-", "_"), dict(setting(word, text) for word in words)


def setting(word: str, text: str | None = None) -> tuple[str, str]:
    """The two sides of `NAME=VALUE`; `text` is what the word is a part of."""
    name, _, value = (side.strip() for side in word.partition("="))
    if not (name and value):
        form = "NAME=VALUE, for example members=10" if text is None else "NAME,OPTION=VALUE,..."
        raise NescioError(f"expected {form}; got {text or word!r}")
    return name, value


def options_for(
    part: Part, words: Mapping[str, str], readers: Mapping[str, Callable[[str], Any]] | None = None
) -> dict[str, Any]:
    """Options of a function as its annotations want them, from text.

    readers: what reads an option that is neither a number, yes or no, nor a word.
    """
    known = {p.name: p for p in keyword_only(part)}
    name = part.__name__
    options = {}
    for key, text in words.items():
        if key not in known:
            listed = ", ".join(map(written, known.values())) or "none"
            hint = did_you_mean(key, known).rstrip(".")
            raise NescioError(f"{name} has no option {key!r}{hint or ';'} its options: {listed}")
        if reader := (readers or {}).get(key):
            options[key] = reader(text)
            continue
        try:
            options[key] = _read(text, known[key].annotation)
        except (KeyError, TypeError):
            raise NescioError(
                f"{name}: {key}={text} does not fit, the default is {known[key].default}; expected "
                f"{_kinds(known[key].annotation)}"
            ) from None
    return options


def keyword_only(part: Part) -> list[inspect.Parameter]:
    """The options of a function: its keyword-only parameters; of what is none, none."""
    if not callable(part):
        return []
    parameters = inspect.signature(part).parameters.values()
    return [p for p in parameters if p.kind is p.KEYWORD_ONLY]


def written(option: inspect.Parameter) -> str:
    """An option with its default, as it is given: `members=10`; `radius=...` where it has none."""
    value = "..." if option.default is option.empty else option.default
    return f"{option.name}={getattr(value, '__name__', value)}"


def described(part: Part) -> str:
    """What a part is: its docstring up to the options."""
    return MEANING.split(inspect.getdoc(part) or "", maxsplit=1)[0].strip()


def meanings(part: Part) -> dict[str, str]:
    """What each option is, by name, from the lines `name: meaning` of the docstring.

    >>> def knn(*, k: int = 5) -> None:
    ...     \"\"\"Distance to a neighbor.
    ...
    ...     k: which neighbor,
    ...       counted from 1.
    ...     \"\"\"
    >>> meanings(knn)
    {'k': 'which neighbor, counted from 1.'}
    """
    known = {p.name for p in keyword_only(part)}
    return {
        name: " ".join(text.split())
        for names, text in MEANING.findall(inspect.getdoc(part) or "")
        for name in names.split(", ")
        if name in known
    }


def _read(text: str, annotation: Any) -> Any:
    """A text as the first of yes or no, a number and a word that an annotation allows."""
    kinds = _each(annotation)
    if NoneType in kinds and text == "None":
        return None
    if bool in kinds:
        return YES_NO[text.lower()]
    for kind in (int, float):
        if kind in kinds:
            with suppress(ValueError):
                return kind(text)
    if str in kinds or text in _words(kinds):
        return text
    raise TypeError(text)


def _each(annotation: Any) -> tuple[Any, ...]:
    """The kinds that an annotation allows; `Literal[...] | None` is another union than of types."""
    whole = get_origin(annotation) in (UnionType, Union)
    return get_args(annotation) if whole else (annotation,)


def _words(kinds: tuple[Any, ...]) -> list[Any]:
    """The words that the kinds allow, where they are listed."""
    return [word for kind in kinds if get_origin(kind) is Literal for word in get_args(kind)]


def _kinds(annotation: Any) -> str:
    kinds = _each(annotation)
    if words := _words(kinds):
        return f"one of {', '.join(map(str, words))}"
    if bool in kinds:
        return "1 or 0"
    if int in kinds and float not in kinds:
        return "a whole number"
    return "a number" if float in kinds else "a value that only Python can give"


heads = Registry("head")
measures = Registry("measure")
metrics = Registry("metric", "metrics")
datasets = Registry("data set", "data")
corruptions = Registry("corruption", "data.corruptions")
ood_sources = Registry("OOD source", "data.ood")
nets = Registry("network", "nets")
attacks = Registry("attack", "attacks")
losses = Registry("loss", "losses")
detectors = Registry("detector", "detectors")
calibrators = Registry("calibration", "calibration")
conformal_methods = Registry("conformal method", "conformal")
predictors = Registry("predictor", "models")
optimizers = Registry("optimizer", "training.optimizers")  # what checks and returns the options
recipes = Registry("recipe", "training.recipes")
acquisitions = Registry("acquisition", "applications.active_learning")
agents = Registry("agent", "applications.exploration")
audit_sections = Registry("audit section", "evaluation.audit")
experiments = Registry("experiment")
