"""Named parts: the lists that drive the command line, the report, the docs and the tests."""

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from nescio.core.errors import NescioError

Part = Callable[..., Any]
P = TypeVar("P", bound=Part)


def unknown(kind: str, name: object, known: Iterable[str]) -> str:
    """The message for an unknown name: the nearest known one, and all of them."""
    near = difflib.get_close_matches(str(name), list(known), n=1)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    return f"unknown {kind} {name!r}{hint} Known: {', '.join(sorted(known))}"


class Registry(Mapping[str, Part]):
    """Functions of one kind by name; an unknown name is an error that lists the known ones."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._parts: dict[str, Part] = {}

    def register(self, part: P) -> P:
        """Add `part` under its own name; used as a decorator."""
        name: str = part.__name__
        if name in self._parts:
            raise NescioError(f"the {self.kind} {name!r} is registered twice; choose another name")
        self._parts[name] = part
        return part

    def named(self, name: str) -> Callable[[P], P]:
        """Add a part under a name that is not its own; used as a decorator."""

        def add(part: P) -> P:
            if name in self._parts:
                raise NescioError(f"the {self.kind} {name!r} is registered twice")
            self._parts[name] = part
            return part

        return add

    def __getitem__(self, name: str) -> Part:
        if name not in self._parts:
            raise NescioError(unknown(self.kind, name, self))
        return self._parts[name]

    def get(self, name: str, default: Any = None) -> Any:
        """The part, or `default` where there is none."""
        return self._parts.get(name, default)

    def __contains__(self, name: object) -> bool:
        return name in self._parts

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._parts))

    def __len__(self) -> int:
        return len(self._parts)

    def summary(self, name: str) -> str:
        """The first sentence of a part's docstring: its help on the command line."""
        return (self[name].__doc__ or "").strip().split("\n")[0]


heads = Registry("head")
measures = Registry("measure")
metrics = Registry("metric")
datasets = Registry("data set")
shifts = Registry("shift")
ood_sources = Registry("OOD source")
nets = Registry("network")
attacks = Registry("attack")
losses = Registry("loss")
detectors = Registry("detector")
calibrators = Registry("calibration")
conformals = Registry("kind of prediction set")
predictors = Registry("predictor")
recipes = Registry("recipe")
experiments = Registry("experiment")
