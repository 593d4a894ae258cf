"""The command `nescio`. A new command is a file in this folder and its line in COMMANDS.

A command is loaded when it is called: help and usage errors of `nescio` itself need no torch.
"""

import os
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any, NamedTuple

import click

from nescio.cli.options import RESUMABLE, WORDS, note
from nescio.spelling import did_you_mean
from nescio.version import VERSION

HELP = ["-h", "--help"]
LOOK, DECIDE, TRAIN = "Look at a network", "Decide: answer or abstain", "Train and label"
WATCH, REPRODUCE, SET_UP = "Watch for drift", "Reproduce papers", "Set up"


class Line(NamedTuple):
    """What is known of a command before its file is loaded."""

    group: str
    file: str
    sentence: str  # the first of its help


COMMANDS = {
    "audit": Line(LOOK, "audit", "Measure how far a network can be trusted."),
    "diff": Line(
        LOOK, "diff", "Say what got worse or better from one audit to another, with tests."
    ),
    "compare": Line(LOOK, "compare", "Compare detectors: which one recognizes OOD data best?"),
    "stability": Line(
        LOOK,
        "stability",
        "Measure how far answers follow small changes: attacks, deformations, Lipschitz constants.",
    ),
    "pieces": Line(LOOK, "pieces", "Draw and count the linear regions of a ReLU network, exactly."),
    "explain": Line(LOOK, "explain", "Say which training samples a network's answers rest on."),
    "card": Line(
        LOOK,
        "card",
        "Write a safety card: what was audited, what is guaranteed, and how to check both.",
    ),
    "verify": Line(
        LOOK,
        "verify",
        "Compute every claim of a safety card again, and compare to the last printed digit.",
    ),
    "guard": Line(DECIDE, "guard", "Make a guard, which answers or abstains with a guarantee."),
    "score": Line(DECIDE, "score", "Answer or abstain for every input of a file."),
    "predict": Line(
        DECIDE, "predict", "Write labels, probabilities and every measure for each sample."
    ),
    "train": Line(TRAIN, "train", "Train a recipe and save it in a folder."),
    "label": Line(
        TRAIN, "label", "Label a pool with people: what to ask next, and what the answers buy."
    ),
    "monitor": Line(
        WATCH, "monitor", "Raise an alarm when inputs drift from the calibration data."
    ),
    "reproduce": Line(REPRODUCE, "reproduce", "Reproduce every figure and table of a paper."),
    "search": Line(REPRODUCE, "reproduce", "Search hyper-parameters on half-moons at random."),
    "init": Line(SET_UP, "init", "Write a commented script that audits and guards a network."),
    "data": Line(SET_UP, "data", "List, download and check data sets that are not part of nescio."),
    "list": Line(SET_UP, "list", "List what has a name: measures, losses, recipes, datasets, ..."),
    "completion": Line(
        SET_UP, "completion", "Print what makes the Tab key complete nescio in a shell."
    ),
}


class Teaching(click.Group):
    """Commands whose NescioErrors are messages, and whose Ctrl-C is a clean stop."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """All commands, in the order of COMMANDS."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:  # noqa: ARG002
        """A command; its file is loaded here."""
        if name not in COMMANDS:
            return None
        module = import_module(f"nescio.cli.{COMMANDS[name].file}")
        found: click.Command = next(
            one
            for one in vars(module).values()
            if isinstance(one, click.Command) and one.name == name
        )
        return found

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words, and remember them as they were typed."""
        ctx.meta[WORDS] = list(args)
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command; an unknown one gets the nearest as a hint."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            ctx.fail(f"there is no command {args[0]!r}{did_you_mean(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands with a sentence each, by what one wants, none of them loaded."""
        for group in dict.fromkeys(one.group for one in COMMANDS.values()):
            with formatter.section(group):
                rows = [(name, one.sentence) for name, one in COMMANDS.items()]
                formatter.write_dl([row for row in rows if COMMANDS[row[0]].group == group])

    def main(self, *args: Any, **options: Any) -> Any:
        """Run; a closed standard file becomes nothing, so that no other file gets its number."""
        for number in range(3):
            try:
                os.fstat(number)
            except OSError:
                os.open(os.devnull, os.O_RDWR)
        return super().main(*args, **options)

    def make_context(self, *args: Any, **options: Any) -> click.Context:
        """The context; a wrong use is an error as any other, for audits have exit codes 2 and 3."""
        try:
            return super().make_context(*args, **options)
        except click.UsageError as error:
            error.exit_code = 1  # type: ignore[misc]
            raise

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            error.exit_code = 1  # type: ignore[misc]
            raise
        except ValueError as error:  # those of nescio are
            from nescio.core import NescioError

            if not isinstance(error, NescioError):
                raise
            raise click.ClickException(str(error)) from error
        except KeyboardInterrupt:
            hint = "; the same command goes on where it stopped" if ctx.meta.get(RESUMABLE) else ""
            note(f"stopped{hint}")
            sys.exit(130)


@click.group(cls=Teaching, context_settings={"help_option_names": HELP})
@click.version_option(VERSION, prog_name="nescio")
def main() -> None:
    """Tell when a network does not know.

    \b
    nescio audit                                   a small network on digits, in a minute
    nescio audit mymodule:make_net --weights w.safetensors --data test.npz
    nescio compare                                 which detector finds OOD inputs best?
    nescio pieces                                  the linear regions of a network, drawn
    nescio train deep_ensemble --data digits --run runs/digits
    nescio predict runs/digits --data new.npz --out predictions.csv
    nescio guard runs/digits --calibration calibration.npz    decisions with a guarantee
    nescio score guard.safetensors new.npz --out decisions.csv
    nescio monitor guard.safetensors decisions.csv --state drift.safetensors
    nescio explain runs/digits --train digits --data digits    what its errors rest on
    nescio stability runs/digits --data digits     how small a change flips an answer
    nescio label start pool photos --class-names cat,dog      which samples to label next
    nescio reproduce know-your-limits --quick      a paper's figures and tables
    nescio list                                    all measures, losses, recipes, ...
    """


class Reference(NamedTuple):
    """A command for a page of reference."""

    name: str  # whole, without nescio: "audit", "label start"
    group: str  # the heading of `nescio --help` under which it stands
    command: click.Command
    help: str  # as --help prints it


def reference(columns: int = 100) -> Iterator[Reference]:
    """Every command and sub-command in the order of `nescio --help`, a group before its own."""
    root = click.Context(
        main,
        info_name="nescio",
        terminal_width=columns,
        max_content_width=columns,
        help_option_names=HELP,
    )
    for name, line in COMMANDS.items():
        command = main.get_command(root, name)
        assert command is not None
        context = click.Context(command, info_name=name, parent=root)
        yield Reference(name, line.group, command, command.get_help(context))
        if isinstance(command, click.Group):
            for verb in command.list_commands(context):
                inner = command.get_command(context, verb)
                assert inner is not None
                said = inner.get_help(click.Context(inner, info_name=verb, parent=context))
                yield Reference(f"{name} {verb}", line.group, inner, said)
