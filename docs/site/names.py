"""What a page names exists: `nescio.a.b` is a public thing, `nescio verb --option` a command.

Both are read in code spans and in code blocks. A problem says the line, the name and, where one is
near, the name that was meant.
"""

import re
import shlex
import textwrap
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import click

from nescio.cli.main import main
from nescio.spelling import did_you_mean

BLOCK = re.compile(
    r"^(?P<indent> *)```(?P<kind>\w+)(?P<info>[^\n]*)\n(?P<code>.*?)^(?P=indent)```|"
    r"^<!-- setup\n(?P<setup>.*?)^-->\n?",
    re.DOTALL | re.MULTILINE,
)
SPAN = re.compile(r"(?<!`)(`+)(?!`)((?:(?!\n\s*\n).)+?)(?<!`)\1(?!`)", re.DOTALL)
NAME = re.compile(r"(?<![\w./@-])nescio(?:_papers)?(?:\.[A-Za-z_]\w*)+")
COMMAND = re.compile(r"(?:^|[;&|(] ?)nescio ([^;&|)]*)")
FILES = {
    "csv",
    "html",
    "json",
    "log",
    "md",
    "npz",
    "py",
    "safetensors",
    "toml",
    "txt",
    "yaml",
    "yml",
}
HELP = {"-h", "--help", "--explain", "--version"}


class Problem(NamedTuple):
    """A name that does not exist."""

    line: int
    text: str  # what is wrong, with the name


class Block(NamedTuple):
    """A code block; what sets up a page is `python`."""

    kind: str
    code: str
    line: int  # of its first line of code
    file: str = ""  # the file that a reader writes, `title="own.py"`


def blocks(text: str) -> Iterator[Block]:
    """The code blocks of a page in order, with those that set it up."""
    for found in BLOCK.finditer(text):
        part = "code" if found["kind"] else "setup"
        line = text.count("\n", 0, found.start(part)) + 1
        file = re.search(r'title="([\w.]+)"', found["info"] or "")
        code = textwrap.dedent(found[part])
        yield Block(found["kind"] or "python", code, line, file[1] if file else "")


def spans(text: str) -> Iterator[tuple[int, str]]:
    """The code spans of a page that are not in its blocks, with their lines."""
    prose = BLOCK.sub(lambda found: "\n" * found[0].count("\n"), text)
    for found in SPAN.finditer(prose):
        code = " ".join(found[2].split()).replace("\\|", "|")  # as tables write it
        yield prose.count("\n", 0, found.start()) + 1, code


def problems(text: str) -> list[Problem]:
    """Every name of a page that does not exist."""
    found: list[Problem] = []
    for line, code in spans(text):
        found += [Problem(line, why) for why in (*unknown_names(code), *unknown_commands(code))]
    for block in blocks(text):
        for number, code in enumerate(block.code.splitlines(), start=block.line):
            found += [Problem(number, why) for why in unknown_names(code)]
        for offset, command in shell_lines(block.code) if block.kind in ("sh", "bash") else ():
            found += [Problem(block.line + offset, why) for why in unknown_commands(command)]
    return sorted(found)


def unknown_names(code: str) -> Iterator[str]:
    """What is wrong with each public name in a piece of code."""
    for found in NAME.finditer(code):
        if (why := unknown(found[0])) is not None:
            yield why


@cache
def unknown(name: str) -> str | None:
    """Why there is no such public thing; None if there is, or if it is the name of a file."""
    first, *rest = name.split(".")
    if len(rest) == 1 and rest[0] in FILES:
        return None
    here: Any = import_module(first)
    path = first
    for part in rest:
        below = _below(here, path, part)
        if below is None:
            return f"there is no {name}: {path} has no {part!r}{did_you_mean(part, _names(here))}"
        here, path = below[0], f"{path}.{part}"
    return None


def _below(here: Any, path: str, part: str) -> tuple[Any] | None:
    """What is called `part` in a module, a class or a value; None if nothing is."""
    try:
        if hasattr(here, part):
            return (getattr(here, part),)
    except (ImportError, ValueError):  # it needs a package that is not installed
        return (None,)
    if part in getattr(here, "__dataclass_fields__", ()) or part in getattr(
        here, "__annotations__", ()
    ):
        return (None,)
    try:
        return (import_module(f"{path}.{part}"),)
    except ImportError:
        return None


def _names(here: Any) -> list[str]:
    return [name for name in dir(here) if not name.startswith("_")]


def shell_lines(code: str) -> Iterator[tuple[int, str]]:
    """The commands of a block with the offset of their first line; continued lines are joined.

    Those that are said to be wrong, with exit code 1, are left out.
    """
    joined, start = "", 0
    for number, line in enumerate(code.splitlines()):
        start = start if joined else number
        joined += line.removesuffix("\\")
        if not line.endswith("\\"):
            command, _, remark = joined.strip().partition(" # ")
            if command and not command.startswith("#") and remark != "exit code 1":
                yield start, command
            joined = ""


def unknown_commands(code: str) -> Iterator[str]:
    """What is wrong with each command of nescio in a line."""
    for words in COMMAND.findall(code):
        try:
            parse(shlex.split(words.split(" # ")[0]))
        except (click.UsageError, ValueError) as error:
            said = error.message if isinstance(error, click.UsageError) else error
            yield f"nescio {words.strip()}: {said}"


def parse(words: list[str]) -> None:
    """Read the words after `nescio` without running them: the command and its options exist.

    A first word in capitals or dots, as in `nescio COMMAND --help`, may be any command.
    """
    command: click.Command = main
    context = click.Context(main)
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        if re.fullmatch(r"[A-Z_]+|\.+|…|<.*>", words[0]):
            return
        name, below, words = command.resolve_command(context, words)
        if below is None:
            raise click.UsageError(f"there is no command {name!r}.")
        command, context = below, click.Context(below, parent=context, info_name=name)
    known = {opt for one in command.params for opt in (*one.opts, *one.secondary_opts)} | HELP
    for word in words:
        option = word.split("=")[0]
        if re.match(r"--?[a-z]", option) and option not in known:
            raise click.UsageError(f"there is no option {option}{did_you_mean(option, known)}")
