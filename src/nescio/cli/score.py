"""`nescio score`: from a guard file and inputs to decisions, streaming and resumable."""

from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path

import click

from nescio.cli import options as opt
from nescio.cli.data_names import guarded_stream
from nescio.cli.networks import load_network, named_networks, on_device
from nescio.cli.options import note, option
from nescio.core import NescioError, load
from nescio.guards import Guard, about
from nescio.guards.resumable_table import rows_done
from nescio.guards.score import score as write_decisions

SHOWN = 5  # files that cannot be read
# fmt: off
NET_OF_GUARD = option("--net net_name", "The guarded network, package.module:factory or a run "
    "folder; not needed for nescio's networks.", metavar="NETWORK")
WEIGHTS_OF_GUARD = option("--weights", "The weights of --net.  [default: those in the guard file]",
    type=opt.PATH, metavar="FILE")
PARAMETERS = [
    opt.argument("guard"),
    opt.argument("inputs"),
    NET_OF_GUARD,
    WEIGHTS_OF_GUARD,
    option("--out", "The file to write: .csv, .jsonl or .parquet.", required=True, type=opt.PATH),
    option("--batch-mb", "How many megabytes of inputs and decisions are in memory at a time, per "
        "thread.",
        default=16.0, type=click.FloatRange(min=0, min_open=True)),
    option("--restart", "Start again, even where a stopped run could resume.", is_flag=True),
    opt.DEVICE,
]
# fmt: on


@click.command(params=PARAMETERS)
def score(
    guard: str,
    inputs: str,
    net_name: str | None,
    weights: str | None,
    out: str,
    batch_mb: float,
    restart: bool,
) -> None:
    """Answer or abstain for every input of a file.

    GUARD is a file that `nescio guard` wrote. INPUTS are an .npy, an .npz with x, a .csv (also .gz,
    .xz), a .parquet, a folder of images, or a data set. They are read in parts, so a file of any
    size works; the same command resumes a run that was stopped, without a row lost or repeated, if
    the content of INPUTS is the same. Of files above 256 MB, parts of it and the time are compared.

    \b
    nescio score guard.safetensors new.npz --out decisions.csv
    nescio score guard.safetensors rows.csv:without=id,class --net mymodule:make_net --out d.parquet
    nescio score guard.safetensors photos:size=28:mode=gray --out decisions.jsonl

    Options follow after a colon: columns=, without= and keep= of tables, header=no of a .csv,
    array= of an .npz, size= and mode= of images, or a change such as crop=28. Where the guard was
    made from a table, its columns are taken by name; columns= of other names takes those instead.
    rows.csv:keep=patient,date copies these columns beside the decisions.

    Each input has one row: sample, decision, label, probability, p_value, score, failure_score,
    rule (which one decided), in_range, set. The shares are printed, and written to a .json file
    beside. An input with a missing value, or an image that cannot be read, is OOD.
    """
    opt.resumable()
    made = load_guard(guard, net_name, weights)
    stream = guarded_stream(inputs, made)
    if not restart and (done := rows_done(Path(out))):
        note(f"going on at row {done}; {out} is not complete yet")
    batch_bytes = int(batch_mb * (1 << 20))
    click.echo(str(write_decisions(made, stream, out, batch_bytes=batch_bytes, resume=not restart)))
    for why in islice(stream.unreadable.values(), SHOWN):
        note(why)
    click.echo(f"decisions: {out}")


def load_guard(path: str, net_name: str | None, weights: str | None) -> Guard:
    """A guard with its network; weights in the file go into a network of the user's."""
    try:
        manifest = about(path)
    except NescioError:
        if Path(path).suffix == ".safetensors" or not Path(path).exists():
            raise
        raise NescioError(  # as where arguments are swapped
            f"{path} is not a guard file; the guard comes first, a .safetensors file that `nescio "
            "guard` wrote, then the inputs"
        ) from None
    if net_name is None:
        if weights is not None:
            raise NescioError("--weights goes with --net package.module:factory")
        users = [one["layers"] for one in manifest["networks"] if one["net"] is None]
        if users:
            first = users[0].split("(")[0]
            raise NescioError(
                f"{path} guards a network of yours, a {first}; say what makes it: "
                f"--net package.module:factory{'' if manifest['weights'] else ' --weights FILE'}"
            )
        if manifest["networks"] and not manifest["weights"]:
            raise NescioError(
                f"{path} holds no weights; say where they are: --net RUN_FOLDER, or --net "
                "package.module:factory --weights FILE"
            )
        net = None
    elif ":" in net_name and weights is None and manifest["weights"]:
        net = partial(load_network, net_name)  # the weights of the file go into it
    else:
        net = named_networks(net_name, weights, None)
    loaded: Guard = load(path, net=net)
    return replace(loaded, nets=tuple(map(on_device, loaded.nets)))
