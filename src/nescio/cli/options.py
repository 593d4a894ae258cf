"""Options that several commands share, and how commands speak: notes, warnings, a stop."""

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

RESUMABLE = "nescio.resumable"  # in the context: whether a stopped command can be repeated

WEIGHTS = click.option(
    "--weights",
    type=click.Path(),
    metavar="FILE",
    help="The weights of NETWORK, a state dict in a .safetensors, .pt or .pth file.  "
    "[default: as its factory makes them]",
)
NET_OF_RUN = click.option(
    "--net",
    "net_name",
    metavar="MODULE:FACTORY",
    help="The factory of the network, where NETWORK is the folder of a run that was trained on a "
    "network of your own.",
)
OUTPUT = click.option(
    "--output",
    metavar="KEY",
    help="Where the logits are in what NETWORK returns: an index such as 0, or a key such as "
    "logits.  [default: NETWORK returns the logits alone]",
)
TARGET = click.option(
    "--target",
    metavar="COLUMN",
    help="The column with the class; needed for data in a .csv or .parquet file.",
)
CLASS_NAMES = click.option(
    "--class-names",
    metavar="A,B,...",
    help="The names of the classes, in the order of the network's outputs; the column of --target "
    "may hold them instead of 0, 1, ...",
)
LAYER = click.option(
    "--layer",
    multiple=True,
    metavar="NAME",
    help="Read the features of this layer, a name or a pattern.  [default: those that enter the "
    "last linear layer] Repeatable.",
)
OOD = click.option(
    "--ood",
    multiple=True,
    metavar="DATA",
    help="Out-of-distribution data: the name of a data set, or NAME=FILE with an .npz file that "
    "holds x. Repeatable.",
)
SEED = click.option(
    "--seed",
    default=0,
    show_default=True,
    type=click.IntRange(min=0),
    help="The seed of all random draws.",
)


def out_folder(default: str) -> Callable[[Any], Any]:
    """The option --out of commands that write several files."""
    return click.option(
        "--out", default=default, show_default=True, help="The folder for the results."
    )


def note(text: str) -> None:
    """Say something that is not a result."""
    click.echo(text, err=True)


def command_line() -> list[str]:
    """The command as it was typed."""
    return ["nescio", *sys.argv[1:]]


def resumable(yes: bool = True) -> None:
    """Say that this command, if it is stopped, goes on where it was when it is repeated."""
    click.get_current_context().meta[RESUMABLE] = yes


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Say each warning of a block once, at its end, without the line of the source."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            yield
        finally:
            for text in dict.fromkeys(str(one.message) for one in caught):
                note(f"WARNING: {text}")
