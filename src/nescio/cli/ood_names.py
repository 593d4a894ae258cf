"""Out-of-distribution data by name: other data, or noise made of the training inputs."""

import inspect
from collections.abc import Callable
from typing import Any

from torch import Tensor

from nescio.cli.data_names import dataset_named, inputs_named, named
from nescio.core import NescioError
from nescio.core.registry import ood_sources
from nescio.data import ood
from nescio.training.recipes import Source


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
    text: str,
    shape: tuple[int, ...],
    train: Tensor | None,
    *,
    count: int,
    seed: int = 0,
    read: Callable[[str], Tensor] = inputs_named,
) -> tuple[str, Any]:
    """The same, or an OOD source of `nescio list ood_sources`, made of the training inputs."""
    name, _, rest = text.rpartition("=")
    if rest not in ood_sources:
        return ood_data(text, shape, read)
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
    if named(text).whole_file:
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
    given = tuple(x.shape[1:])
    if given == shape:
        return
    hint = _changes(given, shape)
    what = f"say {text}:{hint}" if hint else "no change of nescio makes them fit"
    raise NescioError(f"{text} has inputs of shape {given}, the data {shape}; {what}")


def _changes(given: tuple[int, ...], shape: tuple[int, ...]) -> str:
    """Changes that make one shape the other, as they are written; empty where there are none."""
    if len(given) != 3 or len(shape) != 3:
        return ""
    colors = {(1, 1): [], (3, 3): [], (3, 1): ["gray"], (1, 3): ["color"]}
    words: list[str] | None = colors.get((given[0], shape[0]))
    room = [have - want for have, want in zip(given[1:], shape[1:], strict=True)]
    if words is None or min(room) < 0 < max(room):
        return ""
    size = str(shape[1]) if shape[1] == shape[2] else f"{shape[1]}x{shape[2]}"
    if any(room):
        words = [*words, f"{'crop' if max(room) > 0 else 'pad'}={size}"]
    return ":".join(words)
