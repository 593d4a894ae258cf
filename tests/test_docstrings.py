"""Every public function says what its parameters are, and no docstring names one that is gone.

A docstring is a sentence, then prose, then items at its left margin, one on each line, with
continuation lines that are indented by two spaces:

    One sentence.

    data: a pair `(x, y)`.
    low, high: the ends of the range; None: those of the data, which the next
      line continues.

Options (keyword-only, or with a default) are items; other parameters are items or are named in
backticks. The fields of a class are items in its docstring, where there are more than three.
`python tests/test_docstrings.py` prints the shares, and the problems of the namespaces given.
"""

import dataclasses
import functools
import importlib
import inspect
import re
import runpy
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

SURFACE = runpy.run_path(str(Path(__file__).with_name("test_surface.py")))
NAMESPACES, public = SURFACE["NAMESPACES"], SURFACE["public"]
FEW = 3  # fields of a class that may be left to their names
ITEM = re.compile(r"(\*{0,2}[a-z_]\w*(?:, \*{0,2}[a-z_]\w*)*): \S", re.IGNORECASE)


class Documented(NamedTuple):
    """A function, class, method or property: its docstring, and what the docstring must name."""

    where: str
    text: str
    options: tuple[str, ...]  # must be items
    others: tuple[str, ...]  # items, or in backticks
    fields: tuple[str, ...] = ()  # may be items


def without_doctests(text: str) -> list[str]:
    """The lines of a docstring, without its doctests and what they print."""
    lines, inside = [], False
    for line in text.split("\n"):
        inside = line.lstrip().startswith(">>>") or (inside and bool(line.strip()))
        if not inside:
            lines.append(line)
    return lines


def items(text: str) -> list[str]:
    """The names of the items of a docstring, in order."""
    found = (ITEM.match(line) for line in without_doctests(text))
    return [name.strip("* ") for match in found if match for name in match[1].split(",")]


def in_backticks(text: str) -> set[str]:
    """All words between backticks, such as x and y of `(x, y)`; a.b is one word."""
    spans = re.findall(r"`([^`]+)`", " ".join(without_doctests(text)))
    return {word for span in spans for word in re.findall(r"[\w.]+", span)}


def run_on(text: str) -> Iterator[str]:
    """Lines that continue an item and are not indented."""
    after = False
    for line in without_doctests(text):
        match = ITEM.match(line)
        if after and line and not line.startswith("  ") and not match:
            yield line
        after = bool(match) or (after and line.startswith("  "))


def problems(one: Documented) -> Iterator[str]:
    """What a docstring lacks, and what it names that is not there."""
    if not one.text:
        yield f"{one.where}: no docstring"
        return
    if one.text.count("\n") and one.text.split("\n")[1]:
        yield f"{one.where}: the first sentence needs one line, and a blank one after it"
    named, quoted = items(one.text), in_backticks(one.text)
    for name in named:
        if name not in (*one.options, *one.others, *one.fields):
            yield f"{one.where}: the item {name!r} is no parameter"
    yield from (
        f"{one.where}: option {name!r} is no item" for name in one.options if name not in named
    )
    for name in one.others:
        if name not in named and name not in quoted:
            yield f"{one.where}: {name!r} is neither an item nor in backticks"
    yield from (f"{one.where}: indent the continuation {line!r}" for line in run_on(one.text))
    order = [name for name in one.fields if name in named]
    if [name for name in named if name in order] != list(dict.fromkeys(order)):
        yield f"{one.where}: items are those of {', '.join(order)}, in this order and once each"


def function(where: str, part: Any, *, method: bool = False) -> Documented:
    """A function or a method, with its parameters but `self` and those that begin with `_`."""
    parameters = list(inspect.signature(part).parameters.values())[method:]
    named = [p for p in parameters if not p.name.startswith("_")]
    single = [p for p in named if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    options = [p.name for p in single if p.kind is p.KEYWORD_ONLY or p.default is not p.empty]
    return Documented(
        where,
        inspect.cleandoc(part.__doc__ or ""),
        tuple(options),
        tuple(p.name for p in single if p.name not in options),
        tuple(p.name for p in named),
    )


def class_alone(where: str, kind: type) -> Documented:
    """A class with its own fields, or the parameters of its constructor."""
    text = inspect.cleandoc(kind.__doc__ or "")
    if text.startswith(f"{kind.__name__}("):  # a dataclass without a docstring
        text = ""
    if dataclasses.is_dataclass(kind) or hasattr(kind, "_fields"):
        own = [name for name in inspect.get_annotations(kind) if not name.startswith("_")]
        every = own
        if dataclasses.is_dataclass(kind):
            every = [one.name for one in dataclasses.fields(kind)]
            set_later = {one.name for one in dataclasses.fields(kind) if not one.init}
            own = [name for name in own if name not in set_later]
        return Documented(where, text, tuple(own) if len(own) > FEW else (), (), (*every, *own))
    if "__init__" not in vars(kind):
        return Documented(where, text, (), (), tuple(inspect.get_annotations(kind)))
    made = function(where, vars(kind)["__init__"], method=True)
    return made._replace(text="\n\n".join(part for part in (text, made.text) if part))


def parts_of(where: str, kind: type) -> Iterator[Documented]:
    """A class, and the methods and properties that it has from this project."""
    yield class_alone(where, kind)
    own = [base for base in kind.__mro__ if base.__module__.startswith("nescio")]
    every = {name: part for base in reversed(own) for name, part in vars(base).items()}
    fields = {name for base in own for name in inspect.get_annotations(base)}
    for name, part in every.items():
        inner = f"{where}.{name}"
        if (name.startswith("_") and name != "__call__") or name in fields:
            continue
        if isinstance(part, property | functools.cached_property):
            read = part.fget if isinstance(part, property) else part.func
            yield Documented(inner, inspect.cleandoc(getattr(read, "__doc__", "") or ""), (), ())
        elif isinstance(part, classmethod | staticmethod):
            yield function(inner, part.__func__, method=isinstance(part, classmethod))
        elif isinstance(part, types.FunctionType):
            yield function(inner, part, method=True)


def documented(namespace: str) -> Iterator[Documented]:
    """All functions, classes, methods and properties of a namespace."""
    module = importlib.import_module(namespace)
    for name in public(namespace):
        part = getattr(module, name)
        if inspect.isclass(part):
            yield from parts_of(f"{namespace}.{name}", part)
        elif isinstance(part, types.FunctionType) or hasattr(part, "__wrapped__"):
            yield function(f"{namespace}.{name}", part)


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_every_parameter_is_documented(namespace: str) -> None:
    found = [problem for one in documented(namespace) for problem in problems(one)]
    assert not found, "\n" + "\n".join(found)


def shares() -> tuple[float, float]:
    """The share of functions and classes with a docstring, and of parameters that are named."""
    every = {one[1:]: one for namespace in NAMESPACES for one in documented(namespace)}.values()
    known = [
        name in {*items(one.text), *(() if name in one.options else in_backticks(one.text))}
        for one in every
        for name in (*one.options, *one.others)
    ]
    return sum(bool(one.text) for one in every) / len(every), sum(known) / len(known)


def test_all_functions_and_parameters_are_documented() -> None:
    assert shares() == (1.0, 1.0)


def _example(first, *, size=1, **others):
    pass


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Of `first`.\n\nsize: of it,\n  in pixels.\nothers: for it.", []),
        ("Of (`first, size`).", ["option 'size' is no item"]),
        ("One.\n\nfirst, size: both.\n\nSentence.", []),
        ("Of `first`.\n\nsize: of it,\nin pixels.", ["indent the continuation 'in pixels.'"]),
        ("Of `first`.\n\nsize: of it.\nwidth: gone.", ["the item 'width' is no parameter"]),
        ("Of `first`.\n\n>>> 1\nwidth: 1\n\nsize: of it.", []),
        ("Of first.\n\nsize: of it.", ["'first' is neither an item nor in backticks"]),
        (
            "One.\n\nsize: of it.\nfirst: one.",
            ["items are those of first, size, in this order and once each"],
        ),
        (
            "Of\n`first`.\n\nsize: of it.",
            ["the first sentence needs one line, and a blank one after it"],
        ),
        ("", ["no docstring"]),
    ],
)
def test_the_problems_of_a_docstring(text: str, found: list[str]) -> None:
    _example.__doc__ = text
    assert list(problems(function("f", _example))) == [f"f: {problem}" for problem in found]


if __name__ == "__main__":
    for problem in (p for n in sys.argv[1:] for one in documented(n) for p in problems(one)):
        print(problem)
    print("docstrings: {:.1%}, parameters: {:.1%}".format(*shares()))
