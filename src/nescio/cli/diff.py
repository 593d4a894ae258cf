"""`nescio diff`: what changed between two audits."""

import sys
from pathlib import Path

import click

from nescio.cli import options as opt
from nescio.cli.options import option
from nescio.cli.verbs import Verb

# fmt: off
PARAMETERS = [
    opt.argument("before", type=opt.PATH),
    opt.argument("after", type=opt.PATH),
    option("--only", "Compare this number alone, such as accuracy or abstained[letters]. "
        "Repeatable.  [default: all numbers]", multiple=True, metavar="NAME"),
    option("--html", "Also write one self-contained page.", type=opt.PATH, metavar="FILE"),
    option("--markdown", "Also write the result in Markdown.", type=opt.PATH, metavar="FILE"),
    option("--level", "The level of the intervals; one minus it bounds the chance of a false "
        "alarm.", default=0.95, metavar="SHARE",
        type=click.FloatRange(0, 1, min_open=True, max_open=True)),
]
# fmt: on


EXAMPLES = {
    "the audits of two versions of a network": "nescio diff old/audit.json new/audit.json",
    "two folders, one number, and a page": "nescio diff old new --only accuracy --html diff.html",
}


@click.command(cls=Verb, params=PARAMETERS, examples=EXAMPLES, page="guide/diff.md")
def diff(
    before: str,
    after: str,
    only: tuple[str, ...],
    html: str | None,
    markdown: str | None,
    level: float,
) -> None:
    """Say what got worse or better between two audits, with tests.

    BEFORE and AFTER are two audit.json, or their folders. On samples that are in both, which the
    files hold by a hash of input and label, intervals and tests are paired: they tell much smaller
    changes apart than the intervals of the two audits do. Where the test data differ, samples are
    taken as separate, and it is said.

    Ends with 3 if a number got worse by more than chance, otherwise with 0.
    """
    from nescio.core import load, write_atomically  # its help needs none of this
    from nescio.evaluation import diff as compare_audits

    audits = [load(path, kind="audit") for path in (before, after)]
    first, second = (audit.findings for audit in audits)
    found = compare_audits(first, second, only=only, level=level, names=(before, after))
    click.echo(str(found))
    for path, text in ((html, found.html), (markdown, found.markdown)):
        if path is not None:
            write_atomically(Path(path), text())
            click.echo(f"written: {path}")
    sys.exit(found.exit_code)
