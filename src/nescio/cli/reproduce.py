"""`nescio reproduce` and `nescio search`: the papers, loaded only here."""

from pathlib import Path
from typing import Any

import click

from nescio.cli.options import SEED, resumable


@click.command()
@click.argument("experiment", required=False)
@click.option("--part", "parts", multiple=True, help="Run only this part. Repeatable.")
@click.option("--quick", is_flag=True, help="Use small budgets: it takes less than a minute.")
@click.option("--out", help="The folder for the results.  [default: nescio-EXPERIMENT]")
@click.option("--bits", is_flag=True, help="Give entropies in bits instead of nats.")
@SEED
def reproduce(
    experiment: str | None,
    parts: tuple[str, ...],
    quick: bool,
    out: str | None,
    bits: bool,
    seed: int,
) -> None:
    """Reproduce every figure and table of a paper, corrected where it is wrong.

    Without EXPERIMENT, it lists the experiments, what data each needs and how long it takes. Writes
    PNG figures, results.json with every number, and summary.md. A stopped run can be resumed with
    the same command.

    \b
    nescio reproduce
    nescio reproduce know-your-limits --quick
    """
    from nescio_papers import Settings, listing, named, run_experiment

    if experiment is None:
        click.echo(listing())
        return
    resumable()
    chosen = named(experiment)
    settings = Settings(quick=quick, seed=seed, bits=bits)
    folder = out or f"nescio-{chosen.name}{'-quick' if quick else ''}"
    click.echo(f"summary: {run_experiment(chosen, folder, settings=settings, only=parts)}")


@click.command()
@click.argument("model")
@click.option("--out", required=True, type=click.Path(), help="The folder of the search.")
@click.option("--trials", default=200, show_default=True, help="The number of configurations.")
@click.option("--workers", default=2, show_default=True, help="The number of processes.")
@click.option(
    "--epochs", default=20, show_default=True, help="The largest number of epochs; patience is 5."
)
@click.option(
    "--layers",
    nargs=2,
    type=int,
    metavar="LOW HIGH",
    help="The range of the number of hidden layers.  [default: 1 5]",
)
@click.option(
    "--learning-rate",
    nargs=2,
    type=float,
    metavar="LOW HIGH",
    help="The range of the learning rate.  [default: 1e-4 0.1]",
)
@SEED
def search(model: str, out: str, **options: Any) -> None:
    """Search hyper-parameters of MODEL on half-moons at random, by validation NLL.

    MODEL is plain, mc_dropout or bayes_by_backprop; the ranges are those of the paper that
    `nescio reproduce know-your-limits-search` compares with. Needs pip install nescio[search].
    Writes table.csv and table.json, the best configuration first. A stopped search can be resumed
    with the same command.

    \b
    nescio search mc_dropout --out search --trials 20
    """
    from nescio_papers.know_your_limits_search.searching import random_search, report
    from nescio_papers.know_your_limits_search.trial import Ranges

    resumable()
    pairs = {name: options.pop(name) for name in ("layers", "learning_rate")}
    ranges = Ranges(**{name: tuple(pair) for name, pair in pairs.items() if pair})
    click.echo(report(random_search(model, out, ranges=ranges, **options)))
    click.echo(f"tables: {Path(out) / 'table.csv'}, {Path(out) / 'table.json'}")
