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
    option("--quick", "Use small budgets; without EXPERIMENT, the list says how long it takes.",
        is_flag=True),
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
}


@click.command(cls=Verb, params=PARAMETERS, examples=EXAMPLES, page="how-to/reproduce.md")
def reproduce(
    experiment: str | None,
    parts: tuple[str, ...],
    out: str | None,
    engine: str,
    address: str | None,
    **settings: Any,
) -> None:
    """Reproduce every figure and table of a paper.

    They are corrected where the paper is wrong. Without EXPERIMENT, it lists the experiments, what
    data each needs and how long it takes. Writes PNG figures, results.json with every number, and
    summary.md. A stopped run can be resumed with the same command.
    """
    from nescio_papers import Settings, listing, named, run_experiment

    if experiment is None:
        click.echo(listing())
        return
    opt.resumable()
    chosen = named(experiment)
    folder = out or f"nescio-{chosen.name}{'-quick' if settings['quick'] else ''}"
    settings["engine"] = opt.engine_named(engine, address)
    summary = run_experiment(chosen, folder, settings=Settings(**settings), only=parts)
    click.echo(f"summary: {summary}")
