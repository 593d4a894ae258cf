"""Options and arguments: how they are declared, completed by the Tab key, and shown in the help."""

from copy import copy
from glob import escape, glob
from os.path import isdir
from typing import TYPE_CHECKING, Any

import click

from nescio.cli.names import NAMES
from nescio.spelling import did_you_mean

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

OPTIONS = "Options"  # the heading of those without another


class AtLeast(click.IntRange):
    """A whole number from `min` on, which the help calls an integer."""

    name = "integer"

    def _describe_range(self) -> str:
        return ""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number; one that is too small says from where on."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            if "range" not in error.message:
                raise
            said = f"{value} is too small; {self.min} or more"
            raise click.BadParameter(said, ctx, param) from None


COUNT, POSITIVE, PATH = AtLeast(min=0), AtLeast(min=1), click.Path()


class Choice(click.Choice):  # type: ignore[type-arg]  # generic from click 8.2 on
    """One of a few words; another word gets the nearest as a hint."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The word itself."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            said = error.message.rstrip(".") + did_you_mean(value, map(str, self.choices))
            raise click.BadParameter(said, ctx, param) from None


class Name(click.ParamType):  # type: ignore[type-arg]
    """A name of some kinds, and perhaps a path: the Tab key knows both, what reads it checks it."""

    name = "name"

    def __init__(self, *kinds: str, paths: bool = False) -> None:
        self.kinds, self.paths = kinds, paths

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> "list[CompletionItem]":
        """The names with this beginning; where none has it, the shell completes a path."""
        from click.shell_completion import CompletionItem

        known = dict.fromkeys(name for kind in self.kinds for name in NAMES[kind])
        found = [name for name in known if name.startswith(incomplete)]
        if not found and self.paths:
            return [CompletionItem(incomplete, type="file")]
        there = glob(f"{escape(incomplete)}*") if self.paths else []
        found += sorted(f"{path}/" if isdir(path) else path for path in there)
        return [CompletionItem(one) for one in found]


DATA = Name("datasets", paths=True)
OOD_DATA = Name("datasets", "ood_sources", paths=True)


def argument(name: str, **settings: Any) -> click.Argument:
    """A positional argument of a command."""
    return click.Argument([name], **settings)


class Option(click.Option):
    """An option below a heading of the help."""

    heading = OPTIONS


def option(names: str, text: str, **settings: Any) -> Option:
    """An option: its names, apart by spaces, and its help; the default is shown."""
    return Option(names.split(), help=text, show_default=True, **settings)


def titled(heading: str, *options: Option) -> list[Option]:
    """The options below another heading."""
    copies = [copy(one) for one in options]
    for one in copies:
        one.heading = heading
    return copies


def data_option(name: str, text: str, **settings: Any) -> Option:
    """An option that names data: `--train` becomes `train_name`."""
    return option(f"--{name} {name}_name", text, metavar="DATA", type=DATA, **settings)
