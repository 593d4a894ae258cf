"""`nescio reproduce`: the figures and tables of papers, loaded only here."""

from typing import Any

import click

from nescio.cli import options as opt
from nescio.cli.options import option
from nescio.cli.verbs import Verb

# fmt: off
PARAMETERS = [
    opt.argument("experiment", required=False, type=opt.Name("experiments")),
    option("--part parts", "Run only this part. Repeatable.  [default: all]", multiple=True,
        metavar="NAME"),
    option("--quick", "Use small budgets, to see that everything works; all verdicts stay open.",
        is_flag=True),
    option("--again", "Run parts that are done, too; a new result replaces the old one when it is "
        "finished.", is_flag=True),
    option("--judge-only", "Run nothing: judge the stored numbers by the rules of this version, "
        "and write results.json and the pages again.", is_flag=True),
    option("--out", "The folder for the results.  [default: nescio-EXPERIMENT, with "
        "--quick nescio-EXPERIMENT-quick]",
        type=opt.PATH),
    option("--bits", "Give entropies in bits instead of nats.", is_flag=True),
    opt.ENGINE,
    opt.ADDRESS,
    opt.SEED,
]
# fmt: on


EXAMPLES = {
    "what can be reproduced, what data it needs, how long it takes": "nescio reproduce",
    "one part of a paper, with small budgets": "nescio reproduce know-your-limits --quick "
    "--part softmax",
    "the same part once more, though it is done": "nescio reproduce know-your-limits --quick "
    "--part softmax --again",
}


@click.command(cls=Verb, params=PARAMETERS, examples=EXAMPLES, page="how-to/reproduce.md")
def reproduce(
    experiment: str | None,
    parts: tuple[str, ...],
    again: bool,
    judge_only: bool,
    out: str | None,
    engine: str,
    address: str | None,
    **settings: Any,
) -> None:
    """Reproduce every figure and table of a paper.

    They are corrected where the paper is wrong. Without EXPERIMENT, it lists the experiments, what
    data each needs and how long each part takes. Start to read in summary.md: what the paper
    claims, a verdict on each claim (holds, holds in part, does not hold, not reached here, open)
    with the numbers and limits behind it, and published numbers beside those found. PART.md has
    the long tables, results.json every number. What lacks its data is skipped, and it says how to
    get them; it fails if nothing could be run. A stopped run resumes with the same command.
    """
    from nescio.core import NescioError
    from nescio_papers import Settings, listing, named
    from nescio_papers.kit import judge_experiment, reproduced

    if experiment is None:
        opt.refuse_others("name the paper, too; without options, this lists all", extra=("out",))
        click.echo(listing())
        return
    chosen = named(experiment)
    folder = out or f"nescio-{chosen.name}{'-quick' if settings['quick'] else ''}"
    if judge_only:
        opt.refuse_others("not for --judge-only, which runs nothing", "judge_only", "quick")
        found = judge_experiment(chosen, folder)
        click.echo(found.told())
        if found.nothing:
            why = "no part that was run has a rule" if found.done else "no part is finished yet"
            raise NescioError(f"nothing could be judged: {why}")
        return
    opt.resumable()
    settings["engine"] = opt.engine_named(engine, address)
    found = reproduced(
        chosen,
        folder,
        settings=Settings(**settings),
        only=parts,
        again=again,
        tell=lambda plan: click.echo(plan, err=True),
    )
    click.echo(found.told())
    if found.nothing:
        raise NescioError(
            "nothing could be run: every part that was asked for lacks what it needs; the lines "
            "above say what that is, and how to get it"
        )
