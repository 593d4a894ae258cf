"""`nescio guard`: from a network and held-out data to a guard file."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from nescio.cli.networks import NET_OF_RUN, OUTPUT, WEIGHTS, named_networks, output_named
from nescio.cli.warnings_shown import warnings_said
from nescio.core import NescioError

SHARES = ("answer", "unsure", "ood", "out_of_range", "risk", "set_coverage")


@click.command()
@click.argument("network")
@WEIGHTS
@NET_OF_RUN
@click.option("--data", "data_name", required=True, help="Held-out data with labels, to calibrate.")
@click.option("--train", "train_name", help="Training data: fit the detector on them.")
@click.option("--test", "test_name", help="Labeled data to try the guard on when it is made.")
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
@click.option(
    "--repeats",
    is_flag=True,
    help="Equal inputs are separate samples, as in tables of few values: none of --data is taken "
    "for a training case.",
)
@click.option(
    "--class-names",
    help="Names of the classes, in the order of the outputs, with commas between; the --target "
    "may hold them.",
)
@click.option("--layer", multiple=True, help="Read these layers: names or patterns. Repeatable.")
@OUTPUT
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
    from nescio.cli.table_names import detector_named, labeled_data
    from nescio.core import make_folder, write_json
    from nescio.data.readers.stream import listed
    from nescio.guards import guard as make

    path = Path(out)
    if path.suffix != ".safetensors":
        raise NescioError(f"--out must end in .safetensors, got {out!r}")
    make_folder(path.parent)  # before the work, not after it
    source = named_networks(network, weights, net_name)
    names = listed(options.pop("class_names")) or None
    read: dict[str, Any] = {"target": target, "names": names}
    x, y, columns = labeled_data(data_name, part=part, **read)
    train = None
    if train_name is not None:
        train = labeled_data(train_name, part="train", columns=columns, **read)[:2]
    elif getattr(source, "seen", None) is None:
        click.echo(
            "without --train it was not checked whether --data are training samples", err=True
        )
    test = None
    if test_name is not None:
        test = labeled_data(test_name, columns=columns, **read)[:2]
    layers, by_class = list(options.pop("layer")) or None, options.pop("by_class")
    sets, output = options.pop("sets"), output_named(options.pop("output"))
    for name in ("detector", "failure"):
        options[name] = None if options[name] is None else detector_named(options[name])
    with warnings_said():
        made = make(
            source,
            (x, y),
            train=train,
            layers=layers,
            by="class" if by_class else None,
            names=names,
            sets=sets or None,
            output=output,
            **options,
        )
    if columns is not None:
        made = replace(made, notes={**made.notes, "columns": list(columns)})
    click.echo(str(made))
    found = {"guarantees": list(made.guarantees), "groups": _groups(made), **dict(made.notes)}
    if test is not None:
        with warnings_said():
            found["test"] = made(test[0]).summary(test[1])
        click.echo(f"tried on {test_name}:")
        click.echo("\n".join(f"  {n:<14} {_said(n, v)}" for n, v in found["test"].items()))
    made.save(path, weights=not no_weights)
    write_json(Path(f"{path}.json"), {**found, "command": ["nescio", *sys.argv[1:]]})
    net = ""
    if no_weights or _is_own(made):
        net = f" --net {network if ':' in network or not _is_own(made) else net_name}"
    net += f" --weights {weights}" if no_weights and weights is not None else ""
    click.echo(f"saved; use it with: nescio score {path} INPUTS{net} --out decisions.csv")


def _said(name: str, value: float) -> str:
    """A number of a summary as it is read: shares in per cent."""
    return f"{value:.2%}" if name in SHARES else f"{value:.6g}"


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
    from nescio.nets.factory import made_by
    from nescio.nets.standardize import is_scaled

    return any(made_by(net[1] if is_scaled(net) else net) is None for net in made.nets)
