"""How `nescio audit` ends: the verdict on one screen, the files, and the exit code."""

from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nescio.cli.options import option

if TYPE_CHECKING:
    from nescio.evaluation import Audit, LabelAudit

# fmt: off
REQUIRE = option("--require", "A limit in place of the default one, such as ece<0.05 or "
    "abstained[letters]>0.9, of the numbers of `nescio list limits`; or a .toml file of limits. "
    "Repeatable.", multiple=True, metavar="LIMIT")
FULL = option("--full", "Print all tables below the verdict.", is_flag=True)
# fmt: on


def _print_schema(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        found = resources.files("nescio.report").joinpath("audit.schema.json")
        click.echo(found.read_text("utf-8"), nl=False)
        ctx.exit()


SCHEMA = option(
    "--schema",
    "Print the JSON Schema of audit.json and end.",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_schema,
)


def finish(found: "Audit", out: str, *, full: bool) -> None:
    """Print the verdict, write the files, and end with its exit code."""
    from nescio.report import guard_usage, verdict_text

    page = found.save(out)
    click.echo(str(found) if full else verdict_text(found.verdict))
    usage = guard_usage(found.findings)
    if usage is not None and not full:
        click.echo(f"guard: {usage[1]}")
    click.echo(f"page: {page}")
    click.get_current_context().exit(found.verdict.exit_code)


def finish_labels(found: "LabelAudit", out: Path) -> None:
    """The same for several labels: the exit code is that of the worst."""
    click.echo(str(found))
    click.echo(f"pages: {found.save(out)}")
    codes = [one.verdict.exit_code for one in found.audits.values()]
    click.get_current_context().exit(max(codes))
