"""`nescio search`: hyper-parameters of a paper's networks, at random."""

from pathlib import Path
from typing import Any

import click

from nescio.cli import options as opt
from nescio.cli.options import option
from nescio.cli.verbs import Verb

# fmt: off
PARAMETERS = [
    opt.argument("model", type=opt.Name("models")),
    option("--out", "The folder of the search.", required=True, type=opt.PATH),
    option("--trials", "The number of configurations.", default=200),
    option("--workers", "The number of processes of the local engine.", default=2),
    option("--epochs", "The largest number of epochs; patience is 5.", default=20),
    option("--layers", "The range of the number of hidden layers.  [default: 1 5]", nargs=2,
        type=int, metavar="LOW HIGH"),
    option("--learning-rate", "The range of the learning rate.  [default: 1e-4 0.1]", nargs=2,
        type=float, metavar="LOW HIGH"),
    opt.ENGINE,
    opt.ADDRESS,
    opt.SEED,
]
# fmt: on
EXAMPLES = {
    "a few configurations of MC dropout": "nescio search mc_dropout --out search --trials 2 "
    "--epochs 2 --workers 1",
    "the same command continues; more trials add to them": "nescio search mc_dropout "
    "--out search --trials 3 --epochs 2 --workers 1",
}


@click.command(cls=Verb, params=PARAMETERS, examples=EXAMPLES, page="how-to/reproduce.md")
def search(model: str, out: str, **options: Any) -> None:
    """Search hyper-parameters on half-moons at random.

    The best configuration has the smallest validation NLL.
    MODEL is plain, mc_dropout, bayes_by_backprop, bayes_mixture (the prior of the paper's code) or
    bayes_released (its weight of the divergence as well); the ranges are those of the paper that
    `nescio reproduce know-your-limits-search` compares with. Needs pip install nescio[search].
    Writes table.csv and table.json, the best configuration first, and every finished trial at once
    to trials.jsonl. Trial k is the same for any number of workers. A stopped search can be resumed
    with the same command.
    """
    from nescio_papers.know_your_limits_search.searching import random_search, report
    from nescio_papers.know_your_limits_search.trial import Ranges

    opt.resumable()
    pairs = {name: options.pop(name) for name in ("layers", "learning_rate")}
    ranges = Ranges(**{name: tuple(pair) for name, pair in pairs.items() if pair})
    where = opt.engine_named(options.pop("engine"), options.pop("address"))
    click.echo(report(random_search(model, out, ranges=ranges, engine=where, **options)))
    click.echo(f"tables: {Path(out) / 'table.csv'}, {Path(out) / 'table.json'}")
