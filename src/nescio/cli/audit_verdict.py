"""How `nescio audit` ends: the verdict on one screen, the files, and the exit code."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nescio.cli.options import Choice, Name, option

if TYPE_CHECKING:
    from nescio.evaluation import Audit, LabelAudit

# fmt: off
REQUIRE = option("--require", "A limit in place of the default one, such as ece<0.05 or "
    "abstained[letters]>0.9, of the numbers of `nescio list limits`; or a .toml file of limits. "
    "Repeatable.", multiple=True, metavar="LIMIT", type=Name("limits", paths=True))
FULL = option("--full", "Print all tables below the verdict.", is_flag=True)
FAIL_ON = option("--fail-on", "From which status on the exit code is not 0: attention (2) or fail "
    "(3); with never, only an error (1) is.", default="attention",
    type=Choice(["attention", "fail", "never"]))
WRITE_TESTS = option("--write-tests", "Also write every finding as a test of pytest into this "
    "file, such as test_model.py.", type=click.Path(), metavar="FILE")
# fmt: on


def _print_schema(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from importlib import resources

        found = resources.files("nescio.report").joinpath("audit.schema.json")
        click.echo(found.read_text("utf-8"), nl=False)
        ctx.exit()


SCHEMA = option(
    "--schema",
    "Print the JSON Schema of audit.json and exit.",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_schema,
)


ENDING = ("full", "fail_on", "write_tests")  # options that say how the command ends


@dataclass(frozen=True, kw_only=True)
class Ending:
    """What is printed, which tests are written, and from which status on the exit code is not 0."""

    full: bool
    fail_on: str
    write_tests: str | None

    @classmethod
    def of(cls, options: dict[str, Any]) -> "Ending":
        """Taken out of the options of the command; checked before the work."""
        found = cls(**{name: options.pop(name) for name in ENDING})
        if found.write_tests is not None:
            from nescio.core import NescioError, make_folder

            path = Path(found.write_tests)
            if path.exists():
                raise NescioError(f"{path} is there already; give another name, or delete it")
            make_folder(path.absolute().parent)
        return found

    def __call__(self, found: "Audit", out: str) -> None:
        """Print the verdict, write the files, and end with its exit code."""
        from nescio.core import write_atomically
        from nescio.report import command_text, guard_usage, tests_of, verdict_text

        page = found.save(out)
        click.echo(str(found) if self.full else verdict_text(found.verdict))
        usage = guard_usage(found.findings)
        if usage is not None and not self.full:
            click.echo(command_text("guard", usage[1]))
        click.echo(f"page: {page}")
        if self.write_tests is not None:
            path, command = Path(self.write_tests), found.findings.command or ()
            write_atomically(path, tests_of(found.verdict, command, name=path.name))
            click.echo(f"tests: pytest {path}")
        self._end(found.verdict.exit_code)

    def labels(self, found: "LabelAudit", out: Path) -> None:
        """The same for several labels: the exit code is that of the worst."""
        if self.write_tests is not None:
            from nescio.core import NescioError

            raise NescioError("--write-tests is for one audit; several labels have one each")
        click.echo(str(found))
        click.echo(f"pages: {found.save(out)}")
        self._end(max(one.verdict.exit_code for one in found.audits.values()))

    def _end(self, code: int) -> None:
        least = {"attention": 2, "fail": 3, "never": 4}[self.fail_on]
        click.get_current_context().exit(code if code >= least else 0)
