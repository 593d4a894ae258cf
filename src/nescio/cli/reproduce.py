"""`nescio reproduce` and `nescio search`: the papers, loaded only here."""

from pathlib import Path
from typing import Any

import click

from nescio.cli import options as opt
from nescio.cli.options import option

# fmt: off
PARAMETERS = [
    opt.argument("experiment", required=False),
    option("--part parts", "Run only this part. Repeatable.", multiple=True),
    option("--quick", "Use small budgets; without EXPERIMENT, the list says how long it takes.",
        is_flag=True),
    option("--out", "The folder for the results.  [default: nescio-EXPERIMENT]"),
    option("--bits", "Give entropies in bits instead of nats.", is_flag=True),
    opt.SEED,
]
SEARCH = [
    opt.argument("model"),
    option("--out", "The folder of the search.", required=True, type=opt.PATH),
    option("--trials", "The number of configurations.", default=200),
    option("--workers", "The number of processes.", default=2),
    option("--epochs", "The largest number of epochs; patience is 5.", default=20),
    option("--layers", "The range of the number of hidden layers.  [default: 1 5]", nargs=2,
        type=int, metavar="LOW HIGH"),
    option("--learning-rate", "The range of the learning rate.  [default: 1e-4 0.1]", nargs=2,
        type=float, metavar="LOW HIGH"),
    opt.SEED,
]
# fmt: on


@click.command(params=PARAMETERS)
def reproduce(
    experiment: str | None, parts: tuple[str, ...], out: str | None, **settings: Any
) -> None:
    """Reproduce every figure and table of a paper.

    They are corrected where the paper is wrong. Without EXPERIMENT, it lists the experiments, what
    data each needs and how long it takes. Writes PNG figures, results.json with every number, and
    summary.md. A stopped run can be resumed with the same command.

    \b
    nescio reproduce
    nescio reproduce know-your-limits --quick
    """
    from nescio_papers import Settings, listing, named, run_experiment

    if experiment is None:
        click.echo(listing())
        return
    opt.resumable()
    chosen = named(experiment)
    folder = out or f"nescio-{chosen.name}{'-quick' if settings['quick'] else ''}"
    summary = run_experiment(chosen, folder, settings=Settings(**settings), only=parts)
    click.echo(f"summary: {summary}")


@click.command(params=SEARCH)
def search(model: str, out: str, **options: Any) -> None:
    """Search hyper-parameters on half-moons at random.

    The best configuration has the smallest validation NLL.
    MODEL is plain, mc_dropout or bayes_by_backprop; the ranges are those of the paper that
    `nescio reproduce know-your-limits-search` compares with. Needs pip install nescio[search].
    Writes table.csv and table.json, the best configuration first. A stopped search can be resumed
    with the same command.

    \b
    nescio search mc_dropout --out search --trials 20
    """
    from nescio_papers.know_your_limits_search.searching import random_search, report
    from nescio_papers.know_your_limits_search.trial import Ranges

    opt.resumable()
    pairs = {name: options.pop(name) for name in ("layers", "learning_rate")}
    ranges = Ranges(**{name: tuple(pair) for name, pair in pairs.items() if pair})
    click.echo(report(random_search(model, out, ranges=ranges, **options)))
    click.echo(f"tables: {Path(out) / 'table.csv'}, {Path(out) / 'table.json'}")
