"""The command `nescio`. A new command is a file in this folder and its name in COMMANDS."""

import sys
from typing import Any

import click

from nescio.cli.audit import audit
from nescio.cli.compare import compare
from nescio.cli.data import data
from nescio.cli.guard import guard
from nescio.cli.list import list_parts
from nescio.cli.monitor import monitor
from nescio.cli.options import RESUMABLE, note
from nescio.cli.pieces import pieces
from nescio.cli.predict import predict
from nescio.cli.reproduce import reproduce, search
from nescio.cli.score import score
from nescio.cli.train import train
from nescio.core import NescioError
from nescio.version import VERSION

COMMANDS = (
    audit, compare, pieces, train, predict, guard, score, monitor, reproduce, search, data,
    list_parts,
)  # fmt: skip


class Teaching(click.Group):
    """Commands whose NescioErrors are messages, and whose Ctrl-C is a clean stop."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except NescioError as error:
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
    nescio reproduce know-your-limits --quick      a paper's figures and tables
    nescio list                                    all measures, losses, recipes, ...
    """


for command in COMMANDS:
    main.add_command(command)
