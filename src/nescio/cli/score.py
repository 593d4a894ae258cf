"""`nescio score`: from a guard file and inputs to decisions, streaming and resumable."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import click

from nescio.core import NescioError

SHOWN = 5  # files that cannot be read
NET_OF_GUARD = click.option(
    "--net",
    "net_name",
    help="package.module:factory, or a run folder; not needed for nescio's own networks.",
)


@click.command()
@click.argument("guard")
@click.argument("inputs")
@NET_OF_GUARD
@click.option("--weights", type=click.Path(), help="Of --net, where the guard was saved without.")
@click.option(
    "--out", required=True, type=click.Path(), help="Where to write: .csv, .jsonl or .parquet."
)
@click.option(
    "--batch-mb",
    default=16.0,
    show_default=True,
    type=click.FloatRange(min=0, min_open=True),
    help="Megabytes of inputs that are held at a time.",
)
@click.option("--restart", is_flag=True, help="Begin anew, also where a stopped run could go on.")
def score(
    guard: str,
    inputs: str,
    net_name: str | None,
    weights: str | None,
    out: str,
    batch_mb: float,
    restart: bool,
) -> None:
    """Decide about every input of a file: answer, unsure or outside.

    GUARD is a file that `nescio guard` wrote. INPUTS are an .npy, an .npz with x, a .csv (also .gz,
    .xz), a .parquet, a folder of images, or a data set. They are read in parts, so files of any
    size do; the same command goes on where it was stopped, without a row lost or repeated.

    \b
    nescio score guard.safetensors new.npz --out decisions.csv
    nescio score guard.safetensors rows.csv:without=id,class --net mymodule:make_net --out d.parquet
    nescio score guard.safetensors photos:size=28:mode=gray --out decisions.jsonl

    After a colon stand options: columns=, without= and keep= of tables, header=no of a .csv, array=
    of an .npz, size= and mode= of images, or a change such as crop=28. Where the guard was made
    from a table, its columns are taken by name; columns= of other names takes those instead.
    rows.csv:keep=patient,date copies these columns beside the decisions.

    One row an input: case, decision, label, probability, p_value, score, doubt, rule (which spoke),
    in_range, set. The shares are printed, and written beside as .json. A missing value, or an image
    that cannot be read, is outside.
    """
    from nescio.cli.table_names import said_columns, stream_named
    from nescio.guards.resumable_table import rows_done
    from nescio.guards.score import score as decide

    made = load_guard(guard, net_name, weights)
    stream = stream_named(inputs, columns=made.notes.get("columns"))
    done = 0 if restart else rows_done(Path(out))
    going_on = f"going on at row {done}; {out} is not complete yet" if done else None
    for note in (said_columns(stream, made.notes.get("columns")), going_on):
        if note is not None:
            click.echo(note, err=True)
    found = decide(made, stream, out, batch_bytes=int(batch_mb * (1 << 20)), resume=not restart)
    click.echo(str(found))
    for why in islice(stream.unreadable.values(), SHOWN):
        click.echo(why, err=True)
    click.echo(f"decisions: {out}")


def load_guard(path: str, net_name: str | None, weights: str | None) -> Any:
    """A guard with its network; weights in the file go into a network of the user's."""
    from nescio.cli.networks import named_networks
    from nescio.core import load

    manifest = _about(path)
    if net_name is None:
        if weights is not None:
            raise NescioError("--weights goes with --net package.module:factory")
        own = [one["layers"] for one in manifest["networks"] if one["net"] is None]
        if own:
            first = own[0].split("(")[0]
            raise NescioError(
                f"{path} guards a network of yours, a {first}; say what makes it: "
                f"--net package.module:factory{'' if manifest['weights'] else ' --weights FILE'}"
            )
        if manifest["networks"] and not manifest["weights"]:
            raise NescioError(
                f"{path} holds no weights; say where they are: --net RUN_FOLDER, or --net "
                "package.module:factory --weights FILE"
            )
        return load(path, kind="guard")
    if ":" in net_name and weights is None and manifest["weights"]:
        net = _filled(path, manifest["networks"], net_name)
        return load(path, kind="guard", net=net)
    return load(path, kind="guard", net=named_networks(net_name, weights, None))


def _about(path: str) -> dict[str, Any]:
    """What a guard file says; another file, as where arguments are swapped, is named as such."""
    from nescio.guards import about

    try:
        return about(path)
    except NescioError:
        if Path(path).suffix == ".safetensors" or not Path(path).exists():
            raise
        raise NescioError(
            f"{path} is no guard file; the guard comes first, a .safetensors that `nescio guard` "
            "wrote, then the inputs"
        ) from None


def _filled(path: str, about: Sequence[dict[str, Any]], net_name: str) -> list[Any]:
    """Networks of a factory with the weights and the scaling of a guard file."""
    from nescio.cli.network_files import load_network
    from nescio.core import load_tensors
    from nescio.models.model import rebuilt

    tensors, _ = load_tensors(Path(path), "guard")
    nets = []
    for member, one in enumerate(about):
        begin = f"weights/{member}/"
        net = rebuilt(one, load_network(net_name))
        try:
            net.load_state_dict(
                {n.removeprefix(begin): t for n, t in tensors.items() if n.startswith(begin)}
            )
        except RuntimeError as error:
            raise NescioError(
                f"{net_name} is not the network that {path} guards: {error}; name the same factory"
            ) from None
        nets.append(net)
    return nets
