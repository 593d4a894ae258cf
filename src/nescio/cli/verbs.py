"""What every command has: examples below its help, --explain, and a hint for a wrong word."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import click

from nescio.cli.parameters import OPTIONS, option
from nescio.spelling import did_you_mean

WIDTH = 80  # columns of --explain
COLUMN = 24  # of the names of options
HYPHEN = "\N{NON-BREAKING HYPHEN}"


def _explain(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if not wanted or ctx.resilient_parsing:
        return
    import json
    import textwrap
    from importlib import resources

    page = _page(ctx)
    text = json.loads(resources.files("nescio.cli").joinpath("pages.json").read_text("utf-8"))[page]
    click.echo(textwrap.fill(text, WIDTH, break_on_hyphens=False, break_long_words=False))
    click.echo(f"\nthe whole page, in the documentation: {page}")
    click.echo(f"options and examples: {ctx.command_path} --help")
    ctx.exit()


def _page(ctx: click.Context) -> str:
    """The page about a command, or about the group that it belongs to."""
    page: str | None = getattr(ctx.command, "page", None)
    if page is None:
        assert ctx.parent is not None, "nescio itself has one"
        return _page(ctx.parent)
    return page


EXPLAIN = option(
    "--explain",
    "Show what this is for, from its page, and exit.",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_explain,
)


class Formatter(click.HelpFormatter):
    """Help whose lines do not end within words such as far-field or --batch-size."""

    def write_text(self, text: str) -> None:
        """Paragraphs."""
        super().write_text(text.replace("-", HYPHEN))

    def write_dl(self, rows: Iterable[tuple[str, str]], *sizes: int, **named: int) -> None:
        """Names, and what is said of each."""
        super().write_dl(
            [(name, said.replace("-", HYPHEN)) for name, said in rows], *sizes, **named
        )

    def getvalue(self) -> str:
        """All that was written."""
        return super().getvalue().replace(HYPHEN, "-")


class Context(click.Context):
    """Where the help is written in this way."""

    formatter_class = Formatter


class Verb(click.Command):
    """A command whose help ends with examples; an unknown option gets a hint.

    examples: commands by what they are about. page: of the documentation; that of the group
    without one.
    """

    context_class = Context

    def __init__(
        self,
        *args: Any,
        examples: Mapping[str, str] | None = None,
        page: str | None = None,
        **settings: Any,
    ) -> None:
        settings["params"] = [*(settings.get("params") or ()), EXPLAIN]
        super().__init__(*args, **settings)
        self.examples, self.page = dict(examples or {}), page

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise click.UsageError(_no_option(error.option_name, ctx), ctx) from None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options below their headings, those that many commands have last."""
        rows: dict[str, list[tuple[str, str]]] = {}
        options = [one for one in self.get_params(ctx) if isinstance(one, click.Option)]
        for one in sorted(options, key=lambda one: _heading(one) == OPTIONS):
            if (row := one.get_help_record(ctx)) is not None:
                rows.setdefault(_heading(one), []).append(row)
        for heading, records in rows.items():
            with formatter.section(heading):
                formatter.write_dl(records, col_max=COLUMN)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The examples, in lines that a shell takes as they are."""
        super().format_epilog(ctx, formatter)
        if not self.examples:
            return
        with formatter.section("Examples"):
            indent = " " * formatter.current_indent
            for place, (about, command) in enumerate(self.examples.items()):
                lines = continued(command, formatter.width - len(indent))
                lines = [*[""] * bool(place), f"# {about}", *lines]
                formatter.write("".join(f"{indent}{one}".rstrip() + "\n" for one in lines))


class Verbs(Verb, click.Group):
    """Commands in the order in which they are written, their sentences whole."""

    command_class = Verb

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands first, then the options."""
        self.format_commands(ctx, formatter)
        super().format_options(ctx, formatter)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """As they are written."""
        return list(self.commands)

    def sections(self, ctx: click.Context) -> Iterator[tuple[str, list[tuple[str, str]]]]:
        """The headings of the help, with the commands and their sentences below each."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(name, one.get_short_help_str(limit=1000)) for name, one in commands if one]
        yield "Commands", rows

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands below their headings, with one margin for all."""
        found = list(self.sections(ctx))
        width = max(len(name) for _, rows in found for name, _ in rows)
        for heading, rows in found:
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), said) for name, said in rows])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command; an unknown one gets the nearest as a hint."""
        known = self.list_commands(ctx)
        unknown = args and args[0] not in known and not args[0].startswith("-")
        if unknown and not ctx.resilient_parsing:  # the Tab key gets no message
            path = f"{ctx.command_path} {args[0]}"
            ctx.fail(f"there is no command `{path}`{_command_meant(args[0], known, ctx)}")
        return super().resolve_command(ctx, args)


def every_command(ctx: click.Context) -> Iterator[tuple[str, click.Context]]:
    """The commands below a group by their whole names: "label", "label start", ..."""
    group = ctx.command
    assert isinstance(group, click.Group)
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        assert command is not None
        inner = Context(command, info_name=name, parent=ctx)
        yield name, inner
        if isinstance(command, click.Group):
            for below, one in every_command(inner):
                yield f"{name} {below}", one


def continued(command: str, width: int) -> list[str]:
    """The lines of a command that is cut before its options, each but the last with a backslash."""
    first, *rest = re.split(r" (?=--?[a-z])", command)
    lines = [first]
    for part in rest:
        if len(lines[-1]) + len(part) + 3 <= width:  # a space before it, and " \" after it
            lines[-1] += f" {part}"
        else:
            lines.append(f"    {part}")
    return [*(f"{line} \\" for line in lines[:-1]), lines[-1]]


def _heading(one: click.Option) -> str:
    return getattr(one, "heading", OPTIONS)


def _options(command: click.Command) -> list[str]:
    return [name for one in command.params if isinstance(one, click.Option) for name in one.opts]


def _no_option(name: str, ctx: click.Context) -> str:
    """Words for an option that a command does not have: of which it is one, or what was meant."""
    said = f"{ctx.command_path} has no option {name}"
    others = [
        f"`nescio {path}`"
        for path, inner in every_command(ctx.find_root())
        if name in _options(inner.command)
    ]
    if others and len(name) > 2:
        return f"{said}; it is an option of {_listed(others)}"
    hint = did_you_mean(name, [*_options(ctx.command), "--help"])
    return said + (f"; its options: {ctx.command_path} --help" if hint == "." else hint)


def _command_meant(name: str, known: list[str], ctx: click.Context) -> str:
    """The end of a sentence about a command: the nearest one, or the group that has it."""
    root = ctx.find_root()
    whole = [path for path, _ in every_command(root) if path.split()[-1] == name]
    if whole:
        return f"; did you mean `nescio {whole[0]}`?"
    hint = did_you_mean(name, known)
    return f"; all commands: {ctx.command_path} --help" if hint == "." else hint


def _listed(names: list[str], most: int = 3) -> str:
    """Some of them, in words."""
    if len(names) > most:
        names = [*names[:most], f"{len(names) - most} others"]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
