"""`nescio score`: from a guard file and inputs to decisions, streaming and resumable."""

from pathlib import Path
from typing import Any

import click

from nescio.errors import NescioError

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
    nescio score guard.safetensors photos:size=28:mode=grey --out decisions.jsonl

    After a colon stand options: columns= and without= of tables, header=no of a .csv, array= of an
    .npz, size= and mode= of images, or a change such as crop=28. Where the guard was made from a
    table, its columns are taken by name.

    One row an input: case, decision, label, probability, p_value, score, doubt, rule (which spoke),
    in_range, set. The shares are printed, and written beside as .json.
    """
    from nescio.commands.inputs import stream_named
    from nescio.guarding.scoring import score as decide

    made = load_guard(guard, net_name, weights)
    stream = stream_named(inputs, columns=made.notes.get("columns"))
    found = decide(made, stream, out, batch_bytes=int(batch_mb * (1 << 20)), resume=not restart)
    click.echo(str(found))
    click.echo(f"decisions: {out}")


def load_guard(path: str, net_name: str | None, weights: str | None) -> Any:
    """A guard with its network; weights in the file go into a network of the user's."""
    from nescio.commands.network import named_predictor
    from nescio.files import load_tensors
    from nescio.guarding import Guard, about
    from nescio.networks import load_network

    manifest = about(path)
    if net_name is None:
        if weights is not None:
            raise NescioError("--weights goes with --net package.module:factory")
        own = [one["layers"] for one in manifest["networks"] if one["net"] is None]
        if own:
            first = own[0].split("(")[0]
            raise NescioError(
                f"{path} guards a network of yours, a {first}; say what makes it: "
                "--net package.module:factory"
            )
        return Guard.load(path)
    if ":" in net_name and weights is None and manifest["weights"]:
        if len(manifest["networks"]) > 1:
            raise NescioError(f"{path} guards several networks; load it in Python")
        tensors, _ = load_tensors(Path(path), "guard")
        begin = "weights/0/"
        state = {n.removeprefix(begin): t for n, t in tensors.items() if n.startswith(begin)}
        net = load_network(net_name)
        try:
            net.load_state_dict(state)
        except RuntimeError as error:
            raise NescioError(
                f"{net_name} is not the network that {path} guards: {error}; name the same factory"
            ) from None
        return Guard.load(path, net=net)
    return Guard.load(path, net=named_predictor(net_name, weights, None))
