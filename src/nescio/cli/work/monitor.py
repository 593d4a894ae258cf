"""Scores of guards and files, one after the other, and the monitor that reads them."""

import json
from collections.abc import Iterator
from dataclasses import replace
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from nescio.cli.data_names import guarded_stream, named
from nescio.cli.networks import load_guard
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
from nescio.guards import Guard, MapGuard, RegressionGuard
from nescio.monitoring import Monitor
from nescio.monitoring import monitor as start
from nescio.monitoring.monitor import LEAST, digest, said

ALARM = 3  # exit code
BLOCK = 1 << 16  # scores at a time
LINES = 1 << 12  # of JSON at a time
COLUMN = "score"
FILES = 1024  # digests that a state remembers


def monitor_named(
    reference: str,
    streams: tuple[str, ...],
    state: str | None,
    log: str | None,
    net_name: str | None,
    weights: str | None,
    false_alarm: float,
    plot: str | None,
    seed: int,
) -> None:
    """Read the scores of `streams`, save the state, and end with the status of the alarm."""
    if log is not None:
        from nescio.cli.work.monitor_log import monitor_log

        if streams or state is not None or plot is not None:
            raise NescioError("--log goes without STREAMS, --state and --plot: all is in the log")
        monitor_log(log, reference, net_name, weights)
        return
    if not streams or state is None:
        raise NescioError(
            "give the files of the stream and --state FILE, or --log LOG for that of a service"
        )
    is_guard = reference.endswith(".safetensors")
    whole = _calibration if is_guard else _scores
    known = np.concatenate([_far(scores) for scores in whole(reference)])
    now = _resumed(Path(state), start(known, false_alarm=false_alarm, seed=seed))
    before, missing = now.count, 0
    if twice := [text for text in dict.fromkeys(streams) if streams.count(text) > 1]:
        raise NescioError(f"{', '.join(twice)} is given twice; give each file once")
    parts = [_scores(text, reference if is_guard else None, net_name, weights) for text in streams]
    for text, blocks in zip(streams, parts, strict=True):
        now, lost = _after(now, text, blocks)
        missing += lost
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
    if missing:
        click.echo(f"{missing} of the new rows had no score (inputs that are not finite): they "
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


def _after(now: Monitor, text: str, blocks: Iterator[NDArray[np.float64]]) -> tuple[Monitor, int]:
    """The monitor after the scores of a file, and the rows without one; a repeated file is refused.

    Files of few different scores may be alike by chance and are not compared.
    """
    kinds, missing = 0, 0

    def read() -> Iterator[NDArray[np.float64]]:
        nonlocal now, kinds, missing
        for block in blocks:
            missing += int(np.isnan(block).sum())
            scores = _far(block)
            kinds = max(kinds, len(np.unique(scores)))
            now = now.update(scores)
            yield scores

    content = digest(read())
    if kinds >= LEAST and content in (now.source, *now.files):
        whose = "the calibration data" if content == now.source else "a file that was read before"
        raise NescioError(
            f"{text} holds the same scores as {whose}, which would count twice; give each file "
            "once. The state is as it was"
        )
    return replace(now, files=(*now.files, content)[-FILES:]), missing


def _calibration(path: str) -> Iterator[NDArray[np.float64]]:
    """The scores of a guard on its calibration samples, rule by rule."""
    tensors, manifest = load_tensors(Path(path), "guard")
    if "rules" not in manifest:
        raise NescioError(
            f"{path} guards label maps and has no score of an image; write a number of each image, "
            "such as its mean uncertainty, to a file and monitor that"
        )
    for index in range(len(manifest["rules"])):
        yield tensors[f"rules/{index}/scores"].double().numpy()


def _scores(
    text: str, guard: str | None = None, net_name: str | None = None, weights: str | None = None
) -> Iterator[NDArray[np.float64]]:
    """Scores of a file, block by block; NaN where there is none."""
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
    assert not isinstance(made, MapGuard)  # its calibration scores were refused
    return _decided(made, guarded_stream(text, made))


def _rows(stream: Stream) -> Iterator[NDArray[np.float64]]:
    return (block[:, 0].double().cpu().numpy() for _, block in stream.blocks(BLOCK))


def _decided(made: Guard | RegressionGuard, stream: Stream) -> Iterator[NDArray[np.float64]]:
    with quiet():
        for _, x in stream.blocks(BLOCK):
            yield made(x).score.double().cpu().numpy()


def _far(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """What has no score is infinitely far out."""
    return np.where(np.isnan(scores), np.inf, scores)


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
                yield np.array([row[COLUMN] for row in rows], np.float64)
                first += len(lines)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NescioError(
            f"{path} holds no scores from line {first} on ({error!r}); expected an object with "
            f"{COLUMN!r} on every line, as `nescio score` writes them"
        ) from None
    if not first:
        raise NescioError(f"{path} holds no scores; expected at least one line")
