"""The command `nescio`. A new command is a file in this folder and its line in COMMANDS.

A command's file is loaded when it is called, and what it works with when it runs: help, wrong words
and the Tab key need no torch.
"""

import os
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any, NamedTuple

import click

from nescio.cli.options import RESUMABLE, WORDS, note
from nescio.cli.verbs import Context, Verbs, every_command
from nescio.version import VERSION

HELP = ["-h", "--help"]
LOOK, DECIDE, TRAIN = "Look at a network", "Decide whether to trust an answer", "Train and label"
WATCH, REPRODUCE, SET_UP = "Watch for drift", "Reproduce papers", "Set up"


class Listed(NamedTuple):
    """What is known of a command before its file is loaded."""

    group: str
    sentence: str  # the first of its help


COMMANDS = {
    "audit": Listed(LOOK, "Measure how far a network can be trusted."),
    "diff": Listed(LOOK, "Say what got worse or better between two audits, with tests."),
    "compare": Listed(LOOK, "Compare detectors of out-of-distribution (OOD) inputs."),
    "stability": Listed(LOOK, "Measure how small a change of an input flips an answer."),
    "explain": Listed(LOOK, "Say which training samples a network's answers rest on."),
    "pieces": Listed(LOOK, "Draw and count the linear regions of a ReLU network, exactly."),
    "card": Listed(LOOK, "Write a safety card: what was audited, and what is guaranteed."),
    "verify": Listed(LOOK, "Compute every claim of a safety card again, and compare."),
    "guard": Listed(DECIDE, "Make a guard, which answers or abstains with a guarantee."),
    "score": Listed(DECIDE, "Answer or abstain for every input of a file."),
    "serve": Listed(DECIDE, "Serve guards over HTTP: answer or abstain, with a log."),
    "predict": Listed(DECIDE, "Write labels, probabilities and every measure for each sample."),
    "train": Listed(TRAIN, "Train a network or an ensemble by a recipe, and save it."),
    "label": Listed(TRAIN, "Choose what people label next, and say what labels buy."),
    "review": Listed(WATCH, "Label what a served guard refused, and a sample of its answers."),
    "monitor": Listed(WATCH, "Raise an alarm when inputs drift from the calibration data."),
    "reproduce": Listed(REPRODUCE, "Reproduce every figure and table of a paper."),
    "search": Listed(REPRODUCE, "Search hyper-parameters on half-moons at random."),
    "init": Listed(SET_UP, "Write a commented script that audits and guards a network."),
    "data": Listed(SET_UP, "List, download and check data sets that are not part of nescio."),
    "list": Listed(SET_UP, "List what has a name: measures, losses, recipes, datasets, ..."),
    "completion": Listed(SET_UP, "Print what makes the Tab key complete nescio in a shell."),
}


class Teaching(Verbs):
    """Commands whose NescioErrors are messages, and whose Ctrl-C is a clean stop."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """All commands, in the order of COMMANDS."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:  # noqa: ARG002
        """A command; its file is loaded here."""
        if name not in COMMANDS:
            return None
        module = import_module(f"nescio.cli.{name}")
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

    def sections(self, ctx: click.Context) -> Iterator[tuple[str, list[tuple[str, str]]]]:  # noqa: ARG002
        """The commands by what one wants, none of them loaded."""
        for group in dict.fromkeys(line.group for line in COMMANDS.values()):
            own = {name: line for name, line in COMMANDS.items() if line.group == group}
            yield group, [(name, line.sentence) for name, line in own.items()]

    def main(self, *args: Any, **options: Any) -> Any:
        """Run; a closed standard file becomes nothing, so that no other file gets its number.

        MKL, which reads the variable when it is first used, is asked to add in one order wherever
        in memory the numbers stand: decisions about a row then have the same bits in any batch.
        """
        os.environ.setdefault("MKL_CBWR", "AUTO")
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


EXAMPLES = {
    "a small network on digits, audited in a minute": "nescio audit --budget quick",
    "how far can my network be trusted?": "nescio audit mymodule:make_net "
    "--weights w.safetensors --data test.npz --train train.npz",
    "a guard: of what it answers, at most 2 % are wrong": "nescio guard mymodule:make_net "
    "--weights w.safetensors --calibration calibration.npz --train train.npz",
    "its decisions, answer or abstain, about new inputs": "nescio score guard.safetensors "
    "new.npz --net mymodule:make_net --out decisions.csv",
}


@click.group(
    cls=Teaching,
    examples=EXAMPLES,
    page="guide/command-line.md",
    context_settings={"help_option_names": HELP},
)
@click.version_option(VERSION, prog_name="nescio")
def main() -> None:
    """Tell when a network does not know.

    Each command has its options and examples in `nescio COMMAND --help`, and says what it is for
    with `nescio COMMAND --explain`.
    """


class Reference(NamedTuple):
    """A command for a page of reference."""

    name: str  # whole, without nescio: "audit", "label start"
    group: str  # the heading of `nescio --help` under which it stands
    command: click.Command
    help: str  # as --help prints it


def reference(columns: int = 100) -> Iterator[Reference]:
    """Every command and sub-command in the order of `nescio --help`, a group before its own."""
    root = Context(
        main,
        info_name="nescio",
        terminal_width=columns,
        max_content_width=columns,
        help_option_names=HELP,
    )
    for name, context in every_command(root):
        said = context.command.get_help(context)
        yield Reference(name, COMMANDS[name.split()[0]].group, context.command, said)
