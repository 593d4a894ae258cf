"""The command reference: a page per command, generated from its help."""

import html
import inspect
import re
from collections.abc import Iterator

import click

from nescio.cli.main import COMMANDS, main

FOLDER = "reference/commands"


def nav() -> list[str | dict[str, str]]:
    """The part of the navigation."""
    return [f"{FOLDER}/index.md", *({name: f"{FOLDER}/{name}.md"} for name in COMMANDS)]


def pages() -> dict[str, str]:
    """The Markdown of every page, by its path."""
    rows = [f"| [`nescio {name}`]({name}.md) | {said} |" for name, (_, said) in COMMANDS.items()]
    table = "| command | what it does |\n|---|---|\n" + "\n".join(rows)
    found = {f"{FOLDER}/index.md": f"# Commands\n\n{table}\n"}
    for name in COMMANDS:
        command = main.get_command(click.Context(main), name)
        assert command is not None
        context = click.Context(main, info_name="nescio")
        found[f"{FOLDER}/{name}.md"] = page(command, context, name)
    return found


def page(command: click.Command, parent: click.Context, name: str, level: int = 1) -> str:
    """A command: usage, help, options; of a group each of its commands."""
    context = click.Context(command, parent=parent, info_name=name)
    text = f"{'#' * level} {context.command_path}\n\n"
    text += f"```text\n{command.get_usage(context)}\n```\n\n{_help(command.help)}\n\n"
    rows = "".join(_rows(command, context))
    text += (
        "<table><thead><tr><th>Option</th><th>Meaning</th><th>Default</th></tr></thead>\n"
        f"<tbody>\n{rows}</tbody></table>\n\n"
    )
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            one = command.get_command(context, below)
            assert one is not None
            text += page(one, context, below, level + 1)
    return text


def _help(text: str | None) -> str:
    """Help as Markdown: what is not wrapped in a terminal is a block of text."""
    parts = inspect.cleandoc(text or "").split("\n\n")
    shown = []
    for part in parts:
        if part.startswith("\b"):
            lines = part.removeprefix("\b\n")
            shown.append(f"```text\n{inspect.cleandoc(lines)}\n```")
        else:
            shown.append(" ".join(html.escape(part, quote=False).split()))
    return "\n\n".join(shown)


def _rows(command: click.Command, context: click.Context) -> Iterator[str]:
    """A row for each argument and option."""
    for one in command.get_params(context):
        record = one.get_help_record(context)
        names, said = record if record else (one.make_metavar(context), "")
        extra = re.search(r"\s*\[([^\[\]]*(?:default|required)[^\[\]]*)\]$", said)
        said = said[: extra.start()] if extra else said
        default = one.get_default(context)
        shown = "required" if one.required else _shown(default)
        yield (
            f"<tr><td><code>{html.escape(names)}</code></td><td>{inline(said)}</td>"
            f"<td>{shown}</td></tr>\n"
        )


def _shown(default: object) -> str:
    plain = isinstance(default, (str, int, float, tuple)) and not isinstance(default, bool)
    if not plain or default in ("", ()):
        return ""
    return f"<code>{html.escape(str(default))}</code>"


def inline(text: str) -> str:
    """Text as HTML, with code in backticks."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text, quote=False))


def url(words: str) -> str | None:
    """Where a command such as `nescio audit` is described, from the root of the site."""
    name = words.split()[1]
    return f"{FOLDER}/{name}.html" if name in COMMANDS else None
