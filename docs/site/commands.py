"""The command reference: a page per command, generated from its help, and an index by groups."""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import click

import prose
from nescio.cli.main import COMMANDS, Reference, reference

FOLDER = "reference/commands"
DOCS = Path(__file__).parents[1]
BOUNDS = re.compile(r"(?:[\d.]+<=?)?x<=?[\d.]+|x>=?[\d.]+")
SIGNS = re.compile(r"([\\*_\[\]$#|])")  # what Markdown would read as marks


def nav() -> list[str | dict[str, str]]:
    """The part of the navigation."""
    return [f"{FOLDER}/index.md", *({name: f"{FOLDER}/{name}.md"} for name in COMMANDS)]


def sources() -> dict[str, str]:
    """The page of each source file of a command; that of the list of all commands is the index."""
    every = {name: f"{FOLDER}/{name}.md" for name in COMMANDS} | {"main": f"{FOLDER}/index.md"}
    return {f"src/nescio/cli/{name}.py": page for name, page in every.items()}


def url(words: str) -> str | None:
    """Where a command such as `nescio audit` is described, from the root of the site."""
    name = words.split()[1]
    return f"{FOLDER}/{name}.html" if name in COMMANDS else None


def pages() -> dict[str, str]:
    """The Markdown of every page, by its path."""
    found = {f"{FOLDER}/index.md": _index()}
    for one in reference():
        path = f"{FOLDER}/{one.name.split()[0]}.md"
        found[path] = found.get(path, "") + "".join(_parts(one))
    return found


def _index() -> str:
    text = (
        "# Commands\n\nWhat one wants, and the command for it. `nescio --help` prints the same.\n"
    )
    for group in dict.fromkeys(line.group for line in COMMANDS.values()):
        rows = "".join(
            f"| [`nescio {name}`]({name}.md) | {line.sentence} |\n"
            for name, line in COMMANDS.items()
            if line.group == group
        )
        text += f"\n## {group}\n\n| command | what it does |\n|---|---|\n{rows}"
    return text


def _parts(one: Reference) -> Iterator[str]:
    """A command: usage, help, the page that explains it, examples, options."""
    root = click.Context(click.Command("nescio"), info_name="nescio")
    context = click.Context(one.command, info_name=one.name, parent=root)
    depth = "#" * (1 + one.name.count(" "))
    usage = one.command.get_usage(context).removeprefix("Usage: ")
    yield f"{depth} nescio {one.name}\n\n{markdown(one.command.help)}\n\n"
    yield f"```text\n{usage}\n```\n\n"
    if page := getattr(one.command, "page", None):
        text = (DOCS / page).read_text("utf-8")
        link = f"[{prose.title(text)}](../../{page})"
        yield f'!!! quote ""\n\n    {prose.opening(text)}\n\n    Read more: {link}.\n\n'
    for about, command in getattr(one.command, "examples", {}).items():
        yield f"{about}:\n\n```sh\n{command}\n```\n\n"
    yield "| option | meaning | default |\n|---|---|---|\n"
    yield from (_row(part, context) for part in one.command.get_params(context))
    yield "\n"


def markdown(text: str | None) -> str:
    """Help as Markdown: paragraphs that a terminal does not wrap are blocks."""
    shown = []
    for part in inspect.cleandoc(text or "").split("\n\n"):
        kept = part.startswith("\b")
        body = inspect.cleandoc(part.removeprefix("\b"))
        kind = "sh" if re.match(r"nescio ", body) else "text"
        shown.append(f"```{kind}\n{body}\n```" if kept else escaped(" ".join(body.split())))
    return "\n\n".join(shown)


def escaped(text: str) -> str:
    """Plain text with code in backticks, as Markdown; options become code."""
    parts = re.split(r"(`[^`]+`)", text)
    return "".join(one if one.startswith("`") else _marked(one) for one in parts)


def _marked(text: str) -> str:
    text = SIGNS.sub(r"\\\1", text).replace("<", "&lt;")
    return re.sub(r"(?<![\w-])--[a-z][a-z-]*", r"`\g<0>`", text)


def _row(part: click.Parameter, context: click.Context) -> str:
    """A row of the table for an argument or an option."""
    name, record = part.get_help_record(context) or (part.make_metavar(context), "")
    if bounds := BOUNDS.search(record):  # an INTEGER RANGE is shown as INTEGER>=0
        name = re.sub(r"(\w+) RANGE", lambda kind: bounds[0].replace("x", kind[1]), name)
    said, _, default = (getattr(part, "help", None) or "").partition("[default: ")
    shown = default.removesuffix("]") or _plain(part.get_default(context))
    if part.required:
        shown = "required"
    shown = f"`{shown}`" if re.fullmatch(r"\S+", shown) else escaped(shown)
    cells = [f"`{name}`", escaped(said), shown]
    return "| " + " | ".join(" ".join(cell.split()) for cell in cells) + " |\n"


def _plain(default: object) -> str:
    """A default in words; nothing for a switch that is off."""
    if isinstance(default, tuple):
        return ", ".join(map(str, default))
    known = isinstance(default, (str, int, float)) and not isinstance(default, bool)
    return str(default) if known else ""
