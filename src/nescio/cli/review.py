"""`nescio review`: people label what a served guard refused, and a sample of its answers."""

from typing import Any

import click

from nescio.cli import options as opt
from nescio.cli.options import option, titled
from nescio.cli.verbs import Verb

# fmt: off
PARAMETERS = [
    opt.argument("log", type=opt.PATH),
    option("--reviewer", "Your name, under which labels are kept.  [default: your user name]",
        metavar="NAME"),
    option("--guard guard_name", "Only decisions of the guard of this name.  [default: all]",
        metavar="NAME"),
    option("--reviews", "The number of reviewers that each decision needs.", default=1,
        type=opt.POSITIVE),
    option("--skipped", "Ask again for what you skipped.", is_flag=True),
    option("--limit", "Ask for, or export, this number of items, at most.", default=1000,
        type=opt.POSITIVE),
    *titled("Look",
        option("--status", "Print how far the review is, and do nothing else.", is_flag=True),
        option("--disagreements", "Print what reviewers disagree about.", is_flag=True),
        option("--settle", "Settle a disagreement; ID= with no class says that it is none of them. "
            "Repeatable.", multiple=True, metavar="ID=CLASS"),
        option("--json as_json", "Print --status or --disagreements as JSON.", is_flag=True),
    ),
    *titled("Files",
        option("--export", "Write what waits as tasks for Label Studio: a .json file; the labeling "
            "interface, an .xml file, is beside it.", type=opt.PATH, metavar="FILE"),
        option("--with-guess", "Let the tasks show what the guard predicts: it sways people.",
            is_flag=True),
        option("--import import_file", "Take the annotations that Label Studio exported as JSON; "
            "each annotator is a reviewer.", type=opt.PATH, metavar="FILE"),
        option("--csv csv_file", "Write all labels with their reviewers: a .csv file.",
            type=opt.PATH, metavar="FILE"),
        option("--export-labels labels_file", "Write what reviewers agree on: a .csv file for "
            "`nescio label import`, and the inputs for `nescio train` beside it.", type=opt.PATH,
            metavar="FILE"),
    ),
]
# fmt: on
EXAMPLES = {
    "how far is the review?": "nescio review decisions.db --status",
    "what waits, as tasks for Label Studio": "nescio review decisions.db --reviewer anna "
    "--export tasks.json",
    "all labels with their reviewers, as a table": "nescio review decisions.db --csv labels.csv",
}


@click.command(cls=Verb, params=PARAMETERS, examples=EXAMPLES, page="guide/review.md")
def review(**words: Any) -> None:
    """Label what a served guard refused, and a sample of its answers.

    LOG is the decision log of `nescio serve`: a file, or a URL of PostgreSQL. Items come oldest
    first, and nothing tells whether the guard answered. Keys: that of a class labels, n says that
    it is none of them, s skips, g shows the guard's guess (which is recorded), u goes back, q ends.

    Labels are only added: a new label of the same reviewer replaces the earlier one. They feed the
    monitor of the risk, `nescio guard --from-log`, and training.
    """
    from nescio.cli.work.review import review_named

    review_named(**words)
