"""The command `nescio`. A new command is a file in this folder and its line in COMMANDS.

A command is loaded when it is called: help and usage errors of `nescio` itself need no torch.
"""

import os
import sys
from importlib import import_module
from typing import Any

import click

from nescio.cli.options import RESUMABLE, WORDS, note
from nescio.spelling import did_you_mean
from nescio.version import VERSION

COMMANDS = {  # the file, and the first sentence of the help
    "audit": ("audit", "Measure how far a network can be trusted."),
    "diff": ("diff", "Say what got worse or better from one audit to another, with tests."),
    "card": (
        "card",
        "Write a safety card: what was audited, what is guaranteed, and how to check both.",
    ),
    "verify": (
        "verify",
        "Compute every claim of a safety card again, and compare to the last printed digit.",
    ),
    "compare": ("compare", "Compare detectors: which one recognizes OOD data best?"),
    "pieces": ("pieces", "Draw and count the linear regions of a ReLU network, exactly."),
    "explain": ("explain", "Say which training samples a network's answers rest on."),
    "stability": (
        "stability",
        "Measure how far answers follow small changes: attacks, deformations, Lipschitz constants.",
    ),
    "train": ("train", "Train a recipe and save it in a folder."),
    "predict": ("predict", "Write labels, probabilities and every measure for each sample."),
    "guard": ("guard", "Make a guard, which answers or abstains with a guarantee."),
    "score": ("score", "Answer or abstain for every input of a file."),
    "monitor": ("monitor", "Raise an alarm when inputs drift from the calibration data."),
    "label": ("label", "Label a pool with people: what to ask next, and what the answers buy."),
    "reproduce": ("reproduce", "Reproduce every figure and table of a paper."),
    "search": ("reproduce", "Search hyper-parameters on half-moons at random."),
    "data": ("data", "List, download and check data sets that are not part of nescio."),
    "list": ("list", "List what has a name: measures, losses, recipes, datasets, ..."),
    "init": ("init", "Write a commented script that audits and guards a network."),
    "completion": ("completion", "Print what makes the Tab key complete nescio in a shell."),
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
        module = import_module(f"nescio.cli.{COMMANDS[name][0]}")
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
        """The commands with a sentence each, none of them loaded."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, said) for name, (_, said) in COMMANDS.items()])

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


@click.group(cls=Teaching, context_settings={"help_option_names": ["-h", "--help"]})
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
