"""What the words of the command line stand for: data, OOD sets, augmentations, options.

Data are named by a data set, the path of an .npz file or of a folder of images, and after colons
how they are changed: `cifar10:gray:crop=28`, `letters:without=OISZ`.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from nescio import data
from nescio.core import NescioError, unknown
from nescio.core.registry import ood_sources
from nescio.data import Dataset, augmentation, ood
from nescio.data.readers.arrays import arrays_of
from nescio.training.loop import Pair
from nescio.training.recipes import Source, recipe_options

CHANGES: dict[str, Callable[..., Tensor]] = {
    "gray": data.gray,
    "color": data.color,
    "crop": data.crop,
    "pad": data.pad,
}
SIZED = ("crop", "pad")
AUGMENTS = {"crops": augmentation.crops, "mirrors": augmentation.mirrors}
YES_NO = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


@dataclass(frozen=True)
class Named:
    """A name of data, read: where they come from, options of their reader, changes of images."""

    source: str
    options: Mapping[str, Any]
    changes: tuple[tuple[str, tuple[Any, ...]], ...]

    @property
    def whole_file(self) -> bool:
        """Whether it is an .npz file of inputs `x` that nobody has split."""
        return self.source.endswith(".npz") and "x" in arrays_of(self.source)

    def change(self, x: Tensor) -> Tensor:
        """The inputs after all changes."""
        for name, sizes in self.changes:
            x = CHANGES[name](x, *sizes)
        return x

    def read(self) -> tuple[Tensor, Tensor | None]:
        """All inputs of a whole file, changed, and its targets, if it has any."""
        if self.options:
            words = ", ".join(f"{name}={value}" for name, value in self.options.items())
            raise NescioError(
                f"{self.source} is taken as a whole here, so nothing can be done with {words}; "
                "leave it out (gray, color, crop=SIZE and pad=SIZE change images)"
            )
        x, y = data.read_npz(self.source)
        return self.change(x), y


def named(text: str) -> Named:
    """Read `NAME:CHANGE:...`; what is no change is an option of the data set."""
    if Path(text).exists():
        return Named(text, {}, ())
    source, *words = text.split(":")
    options, changes = {}, []
    for word in words:
        name, equals, value = word.partition("=")
        if name in CHANGES and (name in SIZED) == bool(equals):
            changes.append((name, (_size(word, value),) if equals else ()))
        elif name and name not in CHANGES and value:
            options[name] = int(value) if value.isdigit() else YES_NO.get(value, value)
        else:
            raise NescioError(
                f"cannot read {word!r} in {text!r}; expected gray, color, crop=SIZE, pad=SIZE or "
                "OPTION=VALUE of the data set, for example cifar10:gray:crop=28"
            )
    return Named(source, options, tuple(changes))


def _size(word: str, text: str) -> tuple[int, int]:
    sides = text.split("x")
    if not all(side.isdigit() for side in sides) or len(sides) > 2:
        raise NescioError(f"{word!r} needs a size in pixels: 28, or 28x32 (height x width)")
    return int(sides[0]), int(sides[-1])


def dataset_named(text: str) -> Dataset:
    """All parts of a data set."""
    found = named(text)
    whole = data.load(found.source, **found.options)
    if not found.changes:
        return whole
    x, y = whole.train
    held, test = (
        None if part is None else (found.change(part[0]), part[1])
        for part in (whole.validation, whole.test)
    )
    return replace(whole, name=text, train=(found.change(x), y), validation=held, test=test)


def labeled(text: str, part: str = "test") -> Pair:
    """Inputs and labels: x and y of an .npz, or a part of a data set."""
    found = named(text)
    if found.whole_file:
        x, y = found.read()
        if y is None:
            raise NescioError(f"{found.source} has no labels: add an array y to the file")
        return x, y
    pair: Pair | None = getattr(dataset_named(text), part)
    if pair is None or not len(pair[0]):
        raise NescioError(f"the data set {text!r} has no {part} part")
    return pair


def inputs_named(text: str) -> Tensor:
    """Inputs alone: x of an .npz, or the test inputs of a data set."""
    found = named(text)
    if found.whole_file:
        return found.read()[0]
    return labeled(text)[0]


def ood_data(
    text: str, shape: tuple[int, ...], read: Callable[[str], Tensor] = inputs_named
) -> tuple[str, Tensor]:
    """The name and the inputs of `NAME=DATA`, or of `DATA` alone, which is its own name."""
    name, equals, rest = text.partition("=")
    if not equals or ":" in name:  # an equals sign further on belongs to a change
        name, rest = text, text
    if not name or not rest:
        raise NescioError(f"--ood takes DATA or NAME=DATA, each name once, got {text!r}")
    x = read(rest)
    check_fit(rest, x, shape)
    return name, x


def ood_named(
    text: str, shape: tuple[int, ...], train: Tensor | None, *, count: int, seed: int = 0
) -> tuple[str, Any]:
    """The same, or an OOD source of `nescio list ood_sources`, made of the training inputs."""
    name, _, rest = text.rpartition("=")
    if rest not in ood_sources:
        return ood_data(text, shape)
    options = {"seed": seed} if "seed" in inspect.signature(ood_sources[rest]).parameters else {}
    if "shape" in inspect.signature(ood_sources[rest]).parameters:
        return name or rest, (ood_sources[rest](shape, **options), count)
    if not _made_of_inputs(rest):
        raise NescioError(f"{rest} cannot be made of inputs alone; use it in Python")
    if train is None:
        raise NescioError(f"{rest} is made of training inputs; give --train")
    return name or rest, (ood_sources[rest](train, **options), count)


def outliers(text: str) -> Source:
    """Inputs to be unsure on, for training: a data set, or noise made of the training inputs."""
    if text in ood_sources and _made_of_inputs(text):
        return ood_sources[text]
    found = named(text)
    if found.whole_file:
        return ood.another(inputs_named(text), text)
    try:
        whole = dataset_named(text)
    except NescioError as error:
        made = ", ".join(name for name in ood_sources if _made_of_inputs(name))
        raise NescioError(f"{error}. Made of the training inputs: {made}") from None
    part = whole.train if len(whole.train[0]) or whole.test is None else whole.test
    return ood.another(part[0], text)


def _made_of_inputs(name: str) -> bool:
    """Whether an OOD source needs the training inputs and nothing else."""
    parameters = inspect.signature(ood_sources[name]).parameters.values()
    return [p.name for p in parameters if p.default is p.empty] == ["x"]


def check_fit(text: str, x: Tensor, shape: tuple[int, ...]) -> None:
    """Refuse inputs of another shape, and say which change makes them fit."""
    found = tuple(x.shape[1:])
    if found == shape:
        return
    hint = _changes(found, shape)
    what = f"say {text}:{hint}" if hint else "no change of nescio makes them fit"
    raise NescioError(f"{text} has inputs of shape {found}, the data {shape}; {what}")


def _changes(found: tuple[int, ...], shape: tuple[int, ...]) -> str:
    """Changes that make one shape the other, as they are written; empty where there are none."""
    if len(found) != 3 or len(shape) != 3:
        return ""
    colors = {(1, 1): [], (3, 3): [], (3, 1): ["gray"], (1, 3): ["color"]}
    words: list[str] | None = colors.get((found[0], shape[0]))
    room = [have - want for have, want in zip(found[1:], shape[1:], strict=True)]
    if words is None or min(room) < 0 < max(room):
        return ""
    size = str(shape[1]) if shape[1] == shape[2] else f"{shape[1]}x{shape[2]}"
    if any(room):
        words = [*words, f"{'crop' if max(room) > 0 else 'pad'}={size}"]
    return ":".join(words)


def augments(text: str | None) -> tuple[augmentation.Augment, ...]:
    """Augmentations from `crops,mirrors`, or `crops=2` for another width than 4."""
    steps = []
    for word in text.split(",") if text else []:
        name, equals, value = word.strip().partition("=")
        if name not in AUGMENTS:
            raise NescioError(unknown("augmentation", name, AUGMENTS))
        if equals and (name != "crops" or not value.isdigit()):
            raise NescioError(f"--augment takes crops, crops=PIXELS or mirrors, got {word!r}")
        steps.append(AUGMENTS[name](*([int(value)] if equals else [])))
    return tuple(steps)


def settings(recipe: str, texts: Mapping[str, str]) -> dict[str, Any]:
    """Options of a recipe from text, as what they are."""
    known = recipe_options(recipe)
    for key in texts:
        if key not in known:
            names = ", ".join(f"{k}={v}" for k, v in known.items()) or "none"
            raise NescioError(f"the recipe {recipe!r} has no option {key!r}; its options: {names}")
    return {key: _setting(key, known[key], text) for key, text in texts.items()}


def _setting(key: str, default: Any, text: str) -> Any:
    if key == "ood":
        return outliers(text)
    if isinstance(default, bool):
        if text.lower() not in YES_NO:
            raise NescioError(f"the option {key!r} must be 1 or 0, got {text!r}")
        return YES_NO[text.lower()]
    try:
        return int(text) if isinstance(default, int) else float(text)
    except ValueError as error:
        raise NescioError(f"the option {key!r} must be a number, got {text!r}") from error
