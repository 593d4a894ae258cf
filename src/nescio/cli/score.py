"""`nescio score`: from a guard file and inputs to decisions, streaming and resumable."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nescio.cli import options as opt
from nescio.cli import recorded_files as files
from nescio.cli.options import note, option
from nescio.cli.verbs import Verb

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nescio.data.readers import Stream
    from nescio.guards import MapGuard

SHOWN = 5  # files that cannot be read
# fmt: off
NET_OF_GUARD = option("--net net_name", "The guarded network, package.module:factory or a run "
    "folder; not needed for nescio's networks.", metavar="NETWORK")
WEIGHTS_OF_GUARD = option("--weights", "The weights of --net.  [default: those in the guard file]",
    type=opt.PATH, metavar="FILE")
PARAMETERS = [
    opt.argument("guard", type=opt.PATH),
    opt.argument("inputs", required=False, type=opt.DATA),
    NET_OF_GUARD,
    WEIGHTS_OF_GUARD,
    option("--out", "The file to write: .csv, .jsonl or .parquet; of label maps .npz.",
        required=True, type=opt.PATH),
    option("--batch-mb", "How many megabytes of inputs and decisions are in memory at a time, per "
        "thread.",
        default=16.0, metavar="MB", type=click.FloatRange(min=0, min_open=True)),
    *files.of_arrays(labels=False, instead="INPUTS"),
    option("--restart", "Start again, even where a stopped run could resume.", is_flag=True),
    opt.DEVICE,
    opt.ENGINE,
    opt.ADDRESS,
]
# fmt: on
EXAMPLES = {
    "arrays: x in an .npz file, a network of your own": "nescio score guard.safetensors new.npz "
    "--net mymodule:make_net --out decisions.csv",
    "a table; keep= copies columns beside the decisions": "nescio score patients.safetensors "
    "new-patients.csv:keep=name --out decisions.jsonl",
    "a network in another framework: what it gave is enough": "nescio score arrays.safetensors "
    "--logits z.npy --features f.npy --out arrays.csv",
}


@click.command(cls=Verb, params=PARAMETERS, examples=EXAMPLES, page="guide/guard.md")
def score(
    guard: str,
    inputs: str | None,
    net_name: str | None,
    weights: str | None,
    out: str,
    batch_mb: float,
    restart: bool,
    engine: str,
    address: str | None,
    **arrays: Any,
) -> None:
    """Answer or abstain for every input of a file.

    GUARD is a file that `nescio guard` wrote. INPUTS are an .npy, an .npz with x, a .csv (also .gz,
    .xz), a .parquet, a folder of .parquet files, a .ts of sequences, a folder of images, or a data
    set. They are read in parts, so a file of any size works; the same command resumes a run that
    was stopped, without a row lost or repeated, if the content of INPUTS is the same. Of files
    above 256 MB, parts of it and the time are compared. With --engine ray, the workers of a Ray
    cluster read .parquet files, each its own rows, and the file that is written is the same.

    Options follow after a colon: columns=, without= and keep= of tables, header=no of a .csv,
    array= of an .npz, length= of a .ts, size= and mode= of images, or a change such as crop=28.
    Where the guard was made from a table, its columns are taken by name; columns= of other names
    takes those instead. rows.csv:keep=patient,date copies these columns beside the decisions. The
    first row of a .csv is a header if one of its values is not a number, or if they are 0, 1, 2,
    ... in order.

    Each input has one row: sample, decision, label, probability, p_value, score, failure_score,
    rule (which one decided), in_range, set. The shares are printed, and written to a .json file
    beside. An input with a missing value, or an image that cannot be read, is OOD.

    The guard of label maps writes an .npz file: label, answered and failure_score (N, H, W), and
    in_range (N,). It is written at the end, so a run that was stopped starts again. The guard of a
    network in another framework reads what this gave: --logits and --features.
    """
    from nescio.cli.data_names import guarded_stream  # its help needs none of this
    from nescio.cli.networks import load_guard
    from nescio.guards import MapGuard, rows_done
    from nescio.guards.score import score as write_decisions

    opt.resumable()
    made = load_guard(guard, net_name, weights)
    recorded = files.only_stream(inputs, made, **arrays)
    stream = guarded_stream(str(inputs), made) if recorded is None else recorded
    if isinstance(made, MapGuard):
        _score_maps(made, stream, Path(out), int(batch_mb * (1 << 20)))
        return
    if not restart and (done := rows_done(Path(out))):
        note(f"going on at row {done}; {out} is not complete yet")
    batch_bytes = int(batch_mb * (1 << 20))
    where: dict[str, Any] = {"engine": opt.engine_named(engine, address)}
    how = {"batch_bytes": batch_bytes, "resume": not restart, **where}
    click.echo(str(write_decisions(made, stream, out, **how)))
    for why in islice(stream.unreadable.values(), SHOWN):
        note(why)
    click.echo(f"decisions: {out}")


def _score_maps(made: "MapGuard", stream: "Stream", out: Path, batch_bytes: int) -> None:
    """Write what a guard of label maps says about all images."""
    from nescio.cli.work.predict import write_arrays
    from nescio.core import NescioError

    if out.suffix != ".npz":
        raise NescioError(
            f"each image has a map of answers, which is not a row of a table; --out must end in "
            f".npz, got {str(out)!r}"
        )
    shares: list[float] = []

    def parts() -> Iterator[dict[str, "NDArray[Any]"]]:
        for _, block in stream.blocks(max(1, batch_bytes // stream.sample_bytes)):
            with opt.warnings_as_notes():
                found = made(block)
            shares.append(float(found.coverage.sum()))
            yield found.arrays()

    images = write_arrays(out, parts())
    click.echo(f"{images} images, {sum(shares) / images:.2%} of the pixels answered: {out}")
