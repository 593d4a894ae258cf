"""The API reference: a page per public namespace, generated; mkdocstrings writes the entries.

The namespaces and their names are those of `tests/surface.txt`, which a test compares with the
code. A thing that several namespaces offer is described once, under its shortest name.
"""

import inspect
import re
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parents[2]
SURFACE = ROOT / "tests" / "surface.txt"
FOLDER = "reference/api"
VERBS = ("audit", "guard", "score", "monitor", "train", "compare", "observe", "recorded", "load")


class Absent:
    """Needs a package that is not installed where the site was built."""


@cache
def surface() -> dict[str, list[str]]:
    """The public names by namespace, the shortest namespace first."""
    found: dict[str, list[str]] = {}
    names: list[str] = []
    for line in SURFACE.read_text("utf-8").splitlines():
        if not line.startswith(" "):
            names = found.setdefault(line, [])
        else:
            names.append(line.strip())
    return {where: names for where, names in found.items() if where.startswith("nescio")}


@cache
def homes() -> dict[str, str]:
    """The name under which each public thing is described, by each of its names."""
    first: dict[int, str] = {}
    found = {}
    for namespace in sorted(surface(), key=lambda one: (one.count("."), one)):
        for name in surface()[namespace]:
            thing, path = value(namespace, name), f"{namespace}.{name}"
            if isinstance(thing, ModuleType):
                found[path] = thing.__name__
            elif callable(thing) and thing is not Absent:
                found[path] = first.setdefault(id(thing), path)
            else:
                found[path] = path
    return found


@cache
def classes() -> dict[str, str]:
    """Where each public class is described, by its name alone where no two have it."""
    found: dict[str, set[str]] = {}
    for home in set(homes().values()) & set(homes()):
        namespace, _, name = home.rpartition(".")
        if inspect.isclass(value(namespace, name)):
            found.setdefault(name, set()).add(home)
    return {name: next(iter(paths)) for name, paths in found.items() if len(paths) == 1}


def value(namespace: str, name: str) -> Any:
    """The public thing itself; `Absent` where it needs a package that is not installed."""
    try:
        return getattr(import_module(namespace), name)
    except (ImportError, ValueError):  # NescioErrors are ValueErrors
        return Absent


def url(name: str) -> str | None:
    """Where a public name is described, from the root of the site; None if it is not public.

    A class may be named alone, a member of a class after it.

    >>> url("nescio.guards.guard")
    'reference/api/nescio.html#nescio.guard'
    >>> url("Guard.save")
    'reference/api/nescio.html#nescio.Guard'
    """
    parts = name.split(".")
    if parts[0] in classes():
        parts = [*classes()[parts[0]].split("."), *parts[1:]]
    for length in range(len(parts), 0, -1):
        path = ".".join(parts[:length])
        home = homes().get(path, path)
        if home in surface():  # a namespace, unless something in it was meant that is not public
            return f"{FOLDER}/{home}.html" if length == len(parts) else None
        if home in homes() and not isinstance(value(*home.rsplit(".", 1)), ModuleType):
            return f"{FOLDER}/{home.rpartition('.')[0]}.html#{home}"
    return None


def pages() -> dict[str, str]:
    """The Markdown of every page, by its path."""
    found = {f"{FOLDER}/index.md": _index()}
    return found | {f"{FOLDER}/{one}.md": _page(one) for one in surface()}


def sources() -> dict[str, str]:
    """The page of each source file of a namespace; that of the list of all names is the index.

    Pages link to the file, which is there without the site, too.
    """
    found = {f"tests/{SURFACE.name}": f"{FOLDER}/index.md"}
    for one in surface():
        module = Path("src", *one.split("."))
        package = (ROOT / module).is_dir()
        path = module / "__init__.py" if package else module.with_suffix(".py")
        found[path.as_posix()] = f"{FOLDER}/{one}.md"
    return found


def nav() -> list[str | dict[str, str]]:
    """The part of the navigation."""
    short = {one: one.removeprefix("nescio.") for one in surface()}
    return [f"{FOLDER}/index.md", *({short[one]: f"{FOLDER}/{one}.md"} for one in short)]


def _index() -> str:
    rows = [
        f"| [`{one}`]({one}.md) | {_sentence(import_module(one))} | {len(names)} |"
        for one, names in surface().items()
    ]
    head = "| namespace | what it has | names |\n|---|---|---|\n"
    return (
        "# API\n\nEvery public name, with its signature and every option. Start with"
        " [`nescio`](nescio.md): it has the main functions.\n\n" + head + "\n".join(rows) + "\n"
    )


def _page(namespace: str) -> str:
    """The page of a namespace: functions, then classes, then constants, then modules."""
    parts: dict[str, list[str]] = {"Functions": [], "Classes": [], "Constants": [], "Modules": []}
    for name in sorted(surface()[namespace], key=_order):
        parts[_kind(value(namespace, name))].append(name)
    module = import_module(namespace)
    text = f"# {namespace}\n\n{inspect.getdoc(module) or ''}\n"
    for title, names in parts.items():
        if names:
            entries = [_entry(namespace, name) for name in names]
            table = _table(namespace, names) if len(names) > 1 and title != "Modules" else ""
            text += f"\n## {title}\n\n{table}" + "\n".join(entries)
    return text


def _table(namespace: str, names: list[str]) -> str:
    rows = [
        f"| [`{name}`](#{namespace}.{name}) | {_sentence(value(namespace, name))} |\n"
        for name in names
    ]
    return "| name | in a sentence |\n|---|---|\n" + "".join(rows) + "\n"


def _order(name: str) -> tuple[int, str]:
    return (VERBS.index(name) if name in VERBS else len(VERBS), name.lower())


def _kind(thing: Any) -> str:
    if isinstance(thing, ModuleType):
        return "Modules"
    if inspect.isclass(thing):
        return "Classes"
    return "Functions" if callable(thing) else "Constants"


def _entry(namespace: str, name: str) -> str:
    """An entry of mkdocstrings; of what is described elsewhere, a link."""
    path, thing = f"{namespace}.{name}", value(namespace, name)
    home = homes()[path]
    if isinstance(thing, ModuleType):
        page = f"[`{home}`]({home}.md)" if home in surface() else f"`{home}`"
        return f"- {page}: {_sentence(thing)}\n"
    if home != path:
        page = home.rpartition(".")[0]
        return (
            f"### `{path}` {{ #{path} }}\n\n{_sentence(thing)} The same as "
            f"[`{home}`]({page}.md#{home}).\n"
        )
    return f"::: {path}\n"


def _sentence(thing: Any) -> str:
    """The first sentence of a docstring; nothing for a constant."""
    own = isinstance(thing, ModuleType) or inspect.isclass(thing) or hasattr(thing, "__wrapped__")
    doc = inspect.getdoc(thing) if own or inspect.isroutine(thing) else ""
    first = " ".join((doc or "").split("\n\n")[0].split())
    return re.sub(r"\|(?=[^`]*(?:`[^`]*`[^`]*)*$)", r"\|", first)  # a sign of tables outside code
