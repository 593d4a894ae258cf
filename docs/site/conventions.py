"""Reads the project's docstrings for mkdocstrings: an extension of griffe.

After the prose a docstring has items `name: text` (or `a, b: text`), one for each parameter; a
field of a dataclass may have a comment beside it instead. They become a table with the types and
defaults of the signature. Public names that are imported from elsewhere are described under the
name by which they are public, also where a module of the same name hides them.
"""

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import griffe

from api import surface, value

ITEM = re.compile(r"^((?:\*{0,2}[A-Za-z_]\w*)(?:, \*{0,2}[A-Za-z_]\w*)*): ", re.MULTILINE)
DOCTEST = re.compile(r"^>>> .*?(?=\n\s*\n|\Z)", re.DOTALL | re.MULTILINE)


class Conventions(griffe.Extension):
    """Public names under their public paths, with a table of every option."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Describe what is public in a package that was just loaded."""
        found = list(_public(pkg))
        at: dict[str, Any] = {one.path: lookup(pkg, one.path) for one, _, _ in found}
        for namespace, name, thing in {id(one[-1]): one for one in found}.values():
            if isinstance(thing, griffe.Function):
                as_decorated(thing, value(namespace.path, name))
                describe_function(thing)
            elif isinstance(thing, griffe.Class):
                describe_class(thing)
        for namespace, name, thing in found:
            where = at[namespace.path]  # a function, if one hides the namespace
            if thing.parent is not where:
                where.members[name] = griffe.Alias(name, thing, parent=where)


def _public(pkg: griffe.Module) -> Iterator[tuple[griffe.Module, str, griffe.Object]]:
    """Each namespace with a name and what it is."""
    for path, names in surface().items():
        if path.split(".")[0] != pkg.name:
            continue
        namespace = lookup(pkg, path, module=True)
        assert isinstance(namespace, griffe.Module)
        for name in names:
            thing = lookup(pkg, f"{path}.{name}")
            if thing is not None and not isinstance(thing, griffe.Module):
                yield namespace, name, thing


def lookup(pkg: griffe.Module, path: str, *, module: bool = False) -> griffe.Object | None:
    """What is at a path. A function wins over the module of its name, unless `module`."""
    here: Any = pkg
    parts = path.split(".")
    for index, part in enumerate(parts[1:], start=2):
        last = index == len(parts)
        imported = here.imports.get(part) if isinstance(here, griffe.Module) else None
        below = here.members.get(part)
        hidden = last and not module and imported not in (None, ".".join(parts[:index]))
        if below is None or below.is_alias or hidden:
            target = imported if imported is not None else getattr(below, "target_path", None)
            below = lookup(pkg, target) if target and target.split(".")[0] == pkg.name else None
        if below is None:
            return None
        here = below
    return here  # type: ignore[no-any-return]


def as_decorated(function: griffe.Function, thing: Any) -> None:
    """Give a function the parameters that it has after its decorators, where they differ."""
    if not inspect.isfunction(thing):
        return
    found = inspect.signature(thing)
    if [one.name for one in function.parameters] == list(found.parameters):
        return
    function.parameters = griffe.Parameters(
        *(
            griffe.Parameter(
                one.name,
                annotation=_annotation(one.annotation),
                kind=griffe.ParameterKind[one.kind.name.lower()],
                default=None if one.default is one.empty else repr(one.default),
            )
            for one in found.parameters.values()
        )
    )
    function.returns = _annotation(found.return_annotation)


def _annotation(annotation: Any) -> str | None:
    """An annotation without the modules of its names."""
    if annotation is inspect.Parameter.empty:
        return None
    return re.sub(r"\b[\w.]+\.(?=\w)", "", inspect.formatannotation(annotation))


def describe_function(function: griffe.Function) -> None:
    """Give a function its prose and a table of its parameters."""
    own = [one for one in function.parameters if one.name not in ("self", "cls")]
    for parameter in own:
        parameter.default = constant(function, parameter.default)
    prose, said = split(function.docstring, [one.name for one in own])
    rows = [
        griffe.DocstringParameter(
            one.name,
            description=said.get(one.name, ""),
            annotation=one.annotation,
            value=None if one.default is None else str(one.default),
        )
        for one in own
    ]
    _write(function, prose, rows, "Options" if len(rows) > 1 else "Option")


def describe_class(class_: griffe.Class) -> None:
    """Give a class a table of what it is made from, and describe its methods."""
    init: Any = class_.members.get("__init__")
    own = [one for one in init.parameters if one.name != "self"] if init is not None else []
    fields = {one.name for one in own if not one.name.startswith("_")}
    prose, said = split(class_.docstring, sorted(fields))
    if init is not None and init.docstring is not None:
        more, about = split(init.docstring, sorted(fields))
        prose, said = f"{prose}\n\n{more}".strip(), said | about
    rows = []
    for one in own:
        if one.name in fields:
            one.default = constant(class_, one.default)
            rows.append(
                griffe.DocstringParameter(
                    one.name,
                    description=said.get(one.name) or beside(class_, one.name),
                    annotation=one.annotation,
                    value=None if one.default is None else str(one.default),
                )
            )
    if not own:
        rows = list(_attributes(class_, said))
    _write(class_, prose, rows, "Fields" if len(rows) > 1 else "Field")
    for name, member in list(class_.members.items()):
        if isinstance(member, griffe.Function) and name != "__init__":
            describe_function(member)
        elif name in {row.name for row in rows}:
            del class_.members[name]


def _attributes(class_: griffe.Class, said: dict[str, str]) -> Iterator[griffe.DocstringParameter]:
    """The fields of a named tuple or a protocol."""
    for name, one in class_.members.items():
        if not isinstance(one, griffe.Attribute) or "property" in one.labels:
            continue
        if one.annotation is not None and not name.startswith("_"):
            value = None if one.value is None else str(one.value)
            text = said.get(name) or beside(class_, name)
            yield griffe.DocstringParameter(
                name, description=text, annotation=one.annotation, value=value
            )


def _write(
    thing: griffe.Object, prose: str, rows: list[griffe.DocstringParameter], title: str
) -> None:
    docstring = thing.docstring or griffe.Docstring("", parent=thing)
    sections: list[griffe.DocstringSection] = [griffe.DocstringSectionText(prose)] if prose else []
    if rows:
        sections.append(griffe.DocstringSectionParameters(rows, title=title))
    docstring.__dict__["parsed"] = sections  # what mkdocstrings reads, instead of a parser
    thing.docstring = docstring


def split(docstring: griffe.Docstring | None, names: list[str]) -> tuple[str, dict[str, str]]:
    """The prose of a docstring, and the text about each of the names."""
    text = docstring.value if docstring is not None else ""
    found = [one for one in ITEM.finditer(text) if _about(one[1]) & {*names}]
    said: dict[str, str] = {}
    ends = [one.start() for one in found[1:]] + [len(text)]
    rest = ""
    for item, end in zip(found, ends, strict=False):
        body, blank, after = text[item.end() : end].partition("\n\n")
        rest += f"{blank}{after}" if after.strip() else ""
        said |= dict.fromkeys(_about(item[1]), " ".join(body.split()))
    prose = text[: found[0].start()] if found else text
    return markdown((prose + rest).strip()), said


def _about(names: str) -> set[str]:
    return {name.lstrip("*") for name in names.split(", ")}


def markdown(prose: str) -> str:
    """Prose with its examples as code blocks."""
    prose = re.sub(r"\s*# doctest: \S+( \S+)*", "", prose)
    return DOCTEST.sub(lambda found: f"```pycon\n{found[0]}\n```", prose)


def beside(class_: griffe.Class, name: str) -> str:
    """The comment beside a field, of the class or of one that it extends."""
    for one in (class_, *class_.mro()):
        if (field := one.members.get(name)) is not None and field.endlineno:
            assert isinstance(field.filepath, Path)
            last = field.lines_collection[field.filepath][field.endlineno - 1]
            found = re.search(r"\s# (?!noqa|type:)(.*)", last)
            return found[1] if found else ""
    return ""


def constant(thing: griffe.Object, default: Any) -> Any:
    """A default as a number or a word where it is the name of one."""
    if isinstance(default, griffe.ExprName):
        named = getattr(import_module(thing.module.path), default.name, thing)
        if isinstance(named, (int, float, str, tuple)):
            return repr(named)
    return default
