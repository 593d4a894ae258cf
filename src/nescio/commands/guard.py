"""`nescio guard`: from a network and held-out data to a guard file."""

import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from nescio.commands.network import NET_OF_RUN, WEIGHTS, named_networks
from nescio.errors import NescioError


@click.command()
@click.argument("network")
@WEIGHTS
@NET_OF_RUN
@click.option("--data", "data_name", required=True, help="Held-out data with labels, to calibrate.")
@click.option("--train", "train_name", help="Training data: fit the detector on them.")
@click.option("--test", "test_name", help="Labelled data to try the guard on when it is made.")
@click.option(
    "--part",
    default="test",
    show_default=True,
    type=click.Choice(["train", "validation", "test"]),
    help="Of a data set named in --data.",
)
@click.option("--target", help="The column with the class, in a .csv or .parquet.")
@click.option(
    "--detector",
    help="Of `nescio list detectors`, with options as in knn,k=10.  [default: an early layer and "
    "the last]",
)
@click.option(
    "--failure",
    help="Of doubtful labels, in the same way.  [default: the recommended score, or the log-odds]",
)
@click.option(
    "--false-alarm",
    default=0.01,
    show_default=True,
    help="How often a usual input may be called outside.",
)
@click.option("--risk", default=0.02, show_default=True, help="How many answers may be wrong.")
@click.option("--confidence", default=0.95, show_default=True, help="How sure the risk is.")
@click.option("--sets", default=0.1, show_default=True, help="How often a set may miss; 0: none.")
@click.option("--by-class", is_flag=True, help="Keep the promises for each predicted class.")
@click.option("--class-names", help="Names of the classes, with commas between.")
@click.option("--layer", multiple=True, help="Read these layers: names or patterns. Repeatable.")
@click.option("--no-weights", is_flag=True, help="Leave the network's weights out of the file.")
@click.option("--out", default="guard.safetensors", show_default=True, help="Where to write it.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0))
def guard(
    network: str,
    weights: str | None,
    net_name: str | None,
    data_name: str,
    train_name: str | None,
    test_name: str | None,
    part: str,
    target: str | None,
    no_weights: bool,
    out: str,
    **options: Any,
) -> None:
    """Make a guard: a decision for every input, answer, unsure or outside, with a promise.

    NETWORK is package.module:factory, or a folder that `nescio train` wrote. --data are inputs with
    labels that it was not trained on: the more of them, the more can be promised. --train fits the
    detector of strange inputs; without it a part of --data does.

    Prints what is promised and on what it rests, and writes the guard and a .json beside it.
    `nescio score` uses it.

    \b
    nescio guard runs/mnist --data mnist --part validation --train mnist --test mnist --risk 0.005
    nescio guard mymodule:make_net --weights w.safetensors --data held_out.npz --train train.npz
    nescio guard mymodule:make_net --weights w.pt --data held_out.csv --target class \\
        --detector mahalanobis --out guard.safetensors

    Names of data are those of `nescio audit`; .csv and .parquet are possible too, with
    --target. The columns of --data are kept in the guard: --train, --test and `nescio score` take
    them by name.
    """
    from nescio.commands.inputs import detector_named, labelled_data
    from nescio.files import make_folder, write_json
    from nescio.guarding import guard as make

    path = Path(out)
    if path.suffix != ".safetensors":
        raise NescioError(f"--out must end in .safetensors, got {out!r}")
    make_folder(path.parent)  # before the work, not after it
    source = named_networks(network, weights, net_name)
    x, y, columns = labelled_data(data_name, target=target, part=part)
    train = None
    if train_name is not None:
        train = labelled_data(train_name, target=target, part="train", columns=columns)[:2]
    test = None
    if test_name is not None:
        test = labelled_data(test_name, target=target, columns=columns)[:2]
    layers, by_class = list(options.pop("layer")) or None, options.pop("by_class")
    names, sets = options.pop("class_names"), options.pop("sets")
    for name in ("detector", "failure"):
        options[name] = None if options[name] is None else detector_named(options[name])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        made = make(
            source,
            (x, y),
            train=train,
            layers=layers,
            by="class" if by_class else None,
            names=None if names is None else [name.strip() for name in names.split(",")],
            sets=sets or None,
            **options,
        )
    for one in said:
        click.echo(f"WARNING: {one.message}", err=True)
    if columns is not None:
        made = replace(made, notes={**made.notes, "columns": list(columns)})
    click.echo(str(made))
    found = {"guarantees": list(made.guarantees), "groups": _groups(made), **dict(made.notes)}
    if test is not None:
        found["test"] = made(test[0]).summary(test[1])
        click.echo(f"tried on {test_name}:")
        click.echo("\n".join(f"  {name:<14} {value:.6g}" for name, value in found["test"].items()))
    made.save(path, weights=not no_weights)
    write_json(Path(f"{path}.json"), {**found, "command": ["nescio", *sys.argv[1:]]})
    net = ""
    if no_weights or _is_own(made):
        net = f" --net {network if ':' in network or not _is_own(made) else net_name}"
    net += f" --weights {weights}" if no_weights and weights is not None else ""
    click.echo(f"saved; use it with: nescio score {path} INPUTS{net} --out decisions.csv")


def _groups(made: Any) -> list[dict[str, Any]]:
    return [
        {
            "group": rule.group,
            "samples": len(rule.scores),
            "outside_above": rule.limit,
            "answered": rule.coverage.answered,
            "errors": rule.coverage.errors,
            "risk_at_most": rule.coverage.bound,
            "doubt_at_most": rule.coverage.threshold,
        }
        for rule in made.rules
    ]


def _is_own(made: Any) -> bool:
    """Whether the network is one that no file rebuilds."""
    from nescio.nets.network import made_by
    from nescio.nets.standardise import is_scaled

    return any(made_by(net[1] if is_scaled(net) else net) is None for net in made.nets)
