"""`nescio monitor`: whether a stream of scores has drifted, with few false alarms."""

import json
from collections.abc import Iterator
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from numpy.typing import NDArray

from nescio.cli import options as opt
from nescio.cli.data_names import guarded_stream, named
from nescio.cli.options import option
from nescio.cli.score import NET_OF_GUARD, WEIGHTS_OF_GUARD, load_guard
from nescio.core import (
    NescioError,
    check_same_run,
    load,
    load_tensors,
    quiet,
    write_atomically,
    write_json,
)
from nescio.data.readers import Stream, array_stream, columns_of, open_stream
from nescio.guards import Guard
from nescio.monitoring import Monitor
from nescio.monitoring import monitor as start
from nescio.monitoring.monitor import said

ALARM = 3  # exit code
BLOCK = 1 << 16  # scores at a time
LINES = 1 << 12  # of JSON at a time
COLUMN = "score"


# fmt: off
PARAMETERS = [
    opt.argument("reference"),
    opt.argument("streams", nargs=-1, required=True),
    option("--state", "The file of the monitor; the next call goes on from there.", required=True,
        type=opt.PATH, metavar="FILE"),
    NET_OF_GUARD,
    WEIGHTS_OF_GUARD,
    option("--false-alarm", "The probability of an alarm, ever, if nothing changes.",
        default=0.01),
    option("--plot", "Draw the evidence over time: a .png file.", type=opt.PATH, metavar="FILE"),
    opt.DEVICE,
    opt.SEED,
]
# fmt: on


@click.command(params=PARAMETERS)
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
    """Raise an alarm when inputs drift from the calibration data.

    REFERENCE is a guard, of which the calibration scores are taken, or a file of such scores.
    STREAMS come one after the other: decisions that `nescio score` wrote (a .csv, .parquet or
    .jsonl with a column score), .npy files of scores, or inputs, which the guard then scores.

    \b
    nescio monitor guard.safetensors monday.csv --state drift.safetensors
    nescio monitor guard.safetensors tuesday.csv --state drift.safetensors --plot drift.png

    The second command continues where the first stopped; it is up to you to give each file once. If
    nothing changes, an alarm is ever raised with probability at most --false-alarm, however long
    the stream. Inputs that are not finite count as infinitely far out.

    \b
    exit code 0   no alarm so far
    exit code 3   an alarm, now or before; use a new state file to start again
    """
    is_guard = reference.endswith(".safetensors")
    whole = _calibration if is_guard else _scores
    known = np.concatenate(list(whole(reference)))
    now = _resumed(Path(state), start(known, false_alarm=false_alarm, seed=seed))
    before, infinite = now.count, 0
    parts = [_scores(text, reference if is_guard else None, net_name, weights) for text in streams]
    for blocks in parts:
        for scores in blocks:
            now = now.update(scores)
            infinite += int(np.isinf(scores).sum())  # `_far` leaves no other infinity
    now.save(Path(state))
    names = ("count", "log_martingale", "threshold", "p_value", "alarm", "false_alarm")
    write_json(Path(f"{state}.json"), {name: getattr(now, name) for name in names})
    if plot is not None:
        from nescio.report.plots.monitor_plot import martingale

        image = BytesIO()
        martingale(now).savefig(image, format="png", dpi=120)
        write_atomically(Path(plot), image.getvalue())
    click.echo(f"{now.count} scores, {now.count - before} of them new; p-value of no drift: "
               f"{said(now.p_value)}")  # fmt: skip
    if infinite:
        click.echo(f"{infinite} of the new rows had no score (inputs that are not finite): they "
                   "count as infinitely far out")  # fmt: skip
    if now.alarm is None:
        click.echo(f"no alarm (at most {false_alarm:g} of streams without drift ever raise one)")
        return
    click.echo(f"ALARM at score {now.alarm} of the stream, counted from 0")
    click.get_current_context().exit(ALARM)


def _resumed(path: Path, new: Monitor) -> Monitor:
    """The monitor of the state file, if there is one of the same settings."""
    if not path.exists():
        return new
    try:
        there: Monitor = load(path, kind="monitor")
    except NescioError:
        if path.suffix == ".safetensors":
            raise
        raise NescioError(f"{path} is not a monitor's state; choose another --state") from None
    runs = [
        {"reference": one.source, "--false-alarm": one.false_alarm, "--seed": one.seed}
        for one in (there, new)
    ]
    check_same_run(path, runs[0], runs[1])
    return there


def _calibration(path: str) -> Iterator[NDArray[np.float64]]:
    """The scores of a guard on its calibration samples, in single precision."""
    tensors, _ = load_tensors(Path(path), "guard")
    for name, scores in sorted(tensors.items()):
        if name.startswith("rules/") and name.endswith("/scores"):
            yield scores.float().double().numpy()


def _scores(
    text: str, guard: str | None = None, net_name: str | None = None, weights: str | None = None
) -> Iterator[NDArray[np.float64]]:
    """Scores of a file, block by block, in single precision, as files of text hold them."""
    given = named(text)
    source = given.source
    if source.endswith((".jsonl", ".ndjson")):
        return _lines(Path(source))
    if source.endswith(".npy") and Path(source).exists():
        values = _array(Path(source))
        if values.ndim == 1:
            return _rows(array_stream(np.asarray(values, np.float32)[:, None]))
    if given.table and COLUMN in (columns_of(source, **given.header) or ()):
        return _rows(open_stream(source, columns=COLUMN, **given.header))
    if guard is None:
        raise NescioError(
            f"{source} holds no scores: expected a column {COLUMN!r}, or an .npy (N,)"
        )
    made = load_guard(guard, net_name, weights)
    return _decided(made, guarded_stream(text, made))


def _rows(stream: Stream) -> Iterator[NDArray[np.float64]]:
    return (_far(block[:, 0]) for _, block in stream.blocks(BLOCK))


def _decided(made: Guard, stream: Stream) -> Iterator[NDArray[np.float64]]:
    with quiet():
        for _, x in stream.blocks(BLOCK):
            yield _far(made(x).score)


def _far(scores: Any) -> NDArray[np.float64]:
    """In single precision; NaN becomes infinite, and infinite scores the largest number."""
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
    """Scores of decisions that were written as JSON, one per line; null has no score."""
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
