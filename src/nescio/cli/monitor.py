"""`nescio monitor`: whether a stream of scores has drifted, with few false alarms."""

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from nescio.cli.score import NET_OF_GUARD, load_guard
from nescio.core import NescioError

ALARM = 3  # exit code
BLOCK = 1 << 16  # scores at a time
LINES = 1 << 12  # of JSON at a time
COLUMN = "score"


@click.command()
@click.argument("reference")
@click.argument("streams", nargs=-1, required=True)
@click.option("--state", required=True, type=click.Path(), help="File of the monitor; goes on.")
@NET_OF_GUARD
@click.option("--weights", type=click.Path(), help="Of --net, where the guard was saved without.")
@click.option(
    "--false-alarm",
    default=0.01,
    show_default=True,
    help="Probability of an alarm, ever, if nothing changes.",
)
@click.option("--plot", type=click.Path(), help="Draw the capital over the stream: a .png file.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0))
def monitor(
    reference: str,
    streams: tuple[str, ...],
    state: str,
    net_name: str | None,
    weights: str | None,
    false_alarm: float,
    plot: str | None,
    seed: int,
) -> None:
    """Raise an alarm where inputs drift away from the calibration data.

    REFERENCE is a guard, whose calibration scores say what is usual, or a file of such scores.
    STREAMS come one after the other: decisions that `nescio score` wrote (their column score is
    read, of a .csv, .parquet or .jsonl), .npy files of scores, or inputs, which the guard then
    scores.

    \b
    nescio monitor guard.safetensors monday.csv --state drift.safetensors
    nescio monitor guard.safetensors tuesday.csv --state drift.safetensors --plot drift.png

    The second command resumes where the first stopped; it is up to you to give each file once. If
    nothing changes, an alarm is ever raised with probability at most --false-alarm, however long
    the stream. Inputs that are not finite count as infinitely far out.

    \b
    exit code 0   no alarm so far
    exit code 3   an alarm, now or before; a new state file starts anew
    """
    from nescio.core import write_json
    from nescio.monitoring import monitor as start
    from nescio.monitoring.monitor import said

    is_guard = reference.endswith(".safetensors")
    usual = _calibration(reference) if is_guard else _whole(reference)
    now = start(usual, false_alarm=false_alarm, seed=seed)
    path = Path(state)
    if path.exists():
        there = _there(path)
        if (there.source, there.false_alarm, there.seed) != (now.source, false_alarm, seed):
            raise NescioError(
                f"{state} belongs to another reference, --false-alarm or --seed; choose another "
                "--state, or delete that one"
            )
        now = there
    before, without = now.count, 0
    parts = [_scores(text, reference if is_guard else None, net_name, weights) for text in streams]
    for blocks in parts:
        for scores in blocks:
            now = now.update(scores)
            without += int(np.isinf(scores).sum())  # `_far` leaves no other infinity
    now.save(path)
    found = {
        "count": now.count,
        "log_martingale": now.log_martingale,
        "threshold": now.threshold,
        "p_value": now.p_value,
        "alarm": now.alarm,
        "false_alarm": now.false_alarm,
    }
    write_json(Path(f"{path}.json"), found)
    if plot is not None:
        _draw(now, Path(plot))
    click.echo(f"{now.count} scores, {now.count - before} of them new; p-value of no drift: "
               f"{said(now.p_value)}")  # fmt: skip
    if without:
        click.echo(f"{without} of the new rows had no score (inputs that are not finite): they "
                   "count as infinitely far out")  # fmt: skip
    if now.alarm is None:
        click.echo(f"no alarm (at most {false_alarm:g} of quiet streams ever raise one)")
        return
    click.echo(f"ALARM at score {now.alarm} of the stream, counted from 0")
    click.get_current_context().exit(ALARM)


def _there(path: Path) -> Any:
    from nescio.monitoring import load

    try:
        return load(path)
    except NescioError:
        if path.suffix == ".safetensors":
            raise
        raise NescioError(f"{path} is no state of a monitor; choose another --state") from None


def _calibration(path: str) -> NDArray[np.float64]:
    """The scores of a guard on the samples of its promises, as single precision holds them."""
    from nescio.core import load_tensors
    from nescio.guards import about

    about(path)
    tensors, _ = load_tensors(Path(path), "guard")
    found = [
        t.float()
        for name, t in sorted(tensors.items())
        if name.startswith("rules/") and name.endswith("/scores")
    ]
    return np.concatenate([scores.double().numpy() for scores in found])


def _whole(path: str) -> NDArray[np.float64]:
    return np.concatenate(list(_scores(path, None, None, None)))


def _scores(
    text: str, guard: str | None, net_name: str | None, weights: str | None
) -> Iterator[NDArray[np.float64]]:
    """Scores of a file, block by block, in single precision, as files of text hold them."""
    from nescio.cli.data_names import named
    from nescio.cli.table_names import said_columns, stream_named
    from nescio.data.readers import array_stream, columns_of, is_table, open_stream

    found = named(text)
    source = found.source
    if source.endswith((".jsonl", ".ndjson")):
        return _lines(Path(source))
    if source.endswith(".npy") and Path(source).exists():
        values = _array(Path(source))
        if values.ndim == 1:
            return _rows(array_stream(np.asarray(values, np.float32)[:, None]))
    if is_table(source):
        kept = {name: value for name, value in found.options.items() if name == "header"}
        if COLUMN in (columns_of(source, **kept) or ()):
            return _rows(open_stream(source, columns=COLUMN, **kept))
    if guard is None:
        raise NescioError(
            f"{source} holds no scores: expected a column {COLUMN!r}, or an .npy (N,)"
        )
    made = load_guard(guard, net_name, weights)
    stream = stream_named(text, columns=made.notes.get("columns"))
    note = said_columns(stream, made.notes.get("columns"))
    if note is not None:
        click.echo(note, err=True)
    return _decided(made, stream)


def _rows(stream: Any) -> Iterator[NDArray[np.float64]]:
    return (_far(block[:, 0]) for _, block in stream.blocks(BLOCK))


def _decided(made: Any, stream: Any) -> Iterator[NDArray[np.float64]]:
    from nescio.guards.score import quiet

    with quiet():
        for _, x in stream.blocks(BLOCK):
            yield _far(made(x).score)


def _far(scores: Any) -> NDArray[np.float64]:
    """In single precision; what has no score is infinitely far out, what is has a large number."""
    values: NDArray[np.float64] = scores.float().double().nan_to_num(nan=np.inf).cpu().numpy()
    return values


def _array(path: Path) -> NDArray[Any]:
    try:
        values: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise NescioError(f"cannot read {path}: {error}; write it with numpy.save") from None
    if values.dtype.kind not in "biuf":
        raise NescioError(f"{path} must hold real numbers, got {values.dtype}; convert it")
    return values


def _lines(path: Path) -> Iterator[NDArray[np.float64]]:
    """Scores of decisions that were written as JSON, one a line; null is none."""
    import torch

    first = 0
    try:
        with path.open("rb") as file:
            while lines := list(islice(file, LINES)):
                rows = json.loads(b"[" + b",".join(lines) + b"]")
                scores = np.array([row[COLUMN] for row in rows], np.float64)
                yield _far(torch.from_numpy(scores))
                first += len(lines)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NescioError(
            f"{path} holds no scores from line {first} on ({error!r}); expected an object with "
            f"{COLUMN!r} on every line, as `nescio score` writes them"
        ) from None
    if not first:
        raise NescioError(f"{path} holds no scores; expected at least one line")


def _draw(now: Any, path: Path) -> None:
    from io import BytesIO

    from nescio.core import write_atomically
    from nescio.report.plots.monitor_plot import martingale

    room = BytesIO()
    martingale(now).savefig(room, format="png", dpi=120)
    write_atomically(path, room.getvalue())
