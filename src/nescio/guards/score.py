"""A guard on inputs of any number: decisions into a file, in bounded memory, resumable."""

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nescio.core import Engine, NescioError, digest, in_order, owned
from nescio.core import progress as bar
from nescio.data import Columns, door
from nescio.data.readers import Stream, array_stream, is_table, is_ts, open_stream
from nescio.detectors import Activations, as_recorded
from nescio.guards.decide import NUMBERS, Guard
from nescio.guards.decisions import CODES, DECISIONS, RULE_NAMES, Decisions
from nescio.guards.file_parts import weights_digest
from nescio.guards.regression_decisions import RegressionDecisions, interval_columns
from nescio.guards.regression_file import regression_manifest, regression_tensors
from nescio.guards.regression_guard import RegressionGuard
from nescio.guards.resumable_table import ANEW, Table, begin, finished, format_of
from nescio.guards.shards import Block, decided, with_kept
from nescio.guards.steady import decided_in_pieces, decided_together
from nescio.nets import columns_of

BATCH = 1 << 24  # bytes of inputs and decisions that are read, decided and written at a time
ROW = 1 << 9  # bytes of the decisions about a sample, as numbers and as text
OWN = ("sample", "file", "decision", "label", *NUMBERS, "rule", "in_range", "set")  # columns
WORKERS = 8  # parts that are decided at a time, at most


@dataclass(frozen=True)
class Summary:
    """What a guard said about all inputs of a file."""

    out: Path
    inputs: int
    decisions: Mapping[str, int]  # answer, unsure, ood
    rules: Mapping[str, int]  # which rule decided; those that never did are left out
    out_of_range: int  # finite, with numbers that calibration data did not have
    seconds: float | None = None  # None: all was there already
    unreadable: int = 0  # files that could not be read, among those that are not finite
    without_workers: bool = False  # an engine was given, but one part was all, and decided here

    @property
    def not_finite(self) -> int:
        """Inputs that are, or lead to, NaN or infinite numbers."""
        return self.rules.get("not finite", 0)

    def __str__(self) -> str:
        shares = [f"{n:>8}  {c:>12}  {c / self.inputs:8.2%}" for n, c in self.decisions.items()]
        lines = [f"{self.inputs} inputs", *shares]
        if self.not_finite:
            lines.append(f"{self.not_finite} are, or lead to, NaN or infinite numbers: OOD")
        if self.unreadable:
            lines.append(f"WARNING: {self.unreadable} of them are files that cannot be read")
        if self.out_of_range:
            lines.append(
                f"WARNING: {self.out_of_range} hold numbers outside the range of the calibration "
                "data: are they scaled alike? The guarantees do not cover them"
            )
        if self.seconds is None:
            return "\n".join([*lines, "all of it was there already"])
        if self.without_workers:
            lines.append("one part: decided here, without the workers of the engine")
        rate = self.inputs / max(self.seconds, 1e-9)
        return "\n".join([*lines, f"{self.seconds:.1f} s, {rate:,.0f} inputs per second"])


def score(
    guard: Guard | RegressionGuard,
    source: Any,
    out: str | Path,
    *,
    batch_bytes: int = BATCH,
    resume: bool = True,
    engine: Engine | None = None,
    progress: bool | None = None,
) -> Summary:
    """Write the decisions of a guard about all inputs into a file, in their order.

    Rows have the number of the sample, the file of an image, columns that the stream keeps, and the
    columns of `Decisions`. Numbers in text have nine significant digits.

    guard: the guard that decides.
    source: an array (N, ...), a tuple or mapping of arrays, a path (see
      `nescio.data.readers.open_stream`), a stream, what a network elsewhere gave
      (`nescio.recorded`), or a DataLoader or other iterable of batches; the last cannot be
      recognized, so a stopped run begins again.
    out: a .csv, .jsonl or .parquet file; a summary, `out` with .json added, is written beside.
    batch_bytes: of inputs, and of the decisions about them, that each thread (up to 8) holds at a
      time. Beside the network and what the detector keeps, memory does not grow with the number of
      inputs, nor with how many fit into a megabyte.
    resume: continue a run with the same guard and inputs that was stopped, to the same bytes; a
      finished one is only read. Where either has changed, the run is refused. False: begin again.
    engine: who decides, such as `nescio.core.engine("ray")`, whose workers read and decide about
      rows of Parquet files, to the same bytes; None, or a local one: threads of this process. It
      must be there also where all inputs are one part, which is decided here.
    progress: whether to draw a progress bar; None: where stderr is a terminal.
    """
    columns = columns_of(guard.nets[0]) if guard.nets else None
    stream, out = _stream(source, columns), Path(out)
    _check(guard, stream, batch_bytes)
    format_of(out)
    if engine is not None:
        engine.check()
    with owned(out):
        return _written(guard, stream, out, batch_bytes, resume, progress, engine)


def _written(
    guard: Guard | RegressionGuard,
    stream: Stream,
    out: Path,
    batch_bytes: int,
    resume: bool,
    progress: bool | None,
    engine: Engine | None,
) -> Summary:
    size = batch_bytes // (stream.sample_bytes + ROW)
    if size >= guard.batch_size:
        size -= size % guard.batch_size  # parts end where batches do
    else:  # a whole batch, unless that is large
        size = max(1, size, min(guard.batch_size, BATCH // stream.sample_bytes))
    identity = {"guard": fingerprint(guard), "inputs": dict(stream.identity), "part": size}
    there = finished(out, identity) if resume else None
    if there is not None:
        return _summary(out, there["inputs"], there, None)
    table = begin(out, identity, resume=resume)
    began = time.perf_counter()
    title = f"deciding about {stream.name}"
    with bar(stream.total or 0, title, show=progress) as advance:
        advance(table.rows, str)
        for text, rows, counts in _parts(guard, stream, table, engine):
            table = table.add(text, rows, counts)
            advance(rows, lambda: f"sample {table.rows}")  # noqa: B023
    if not table.rows:
        raise NescioError(f"{stream.name} holds no inputs; expected at least one")
    if stream.total is not None and table.rows != stream.total:
        raise NescioError(
            f"{stream.name} gave {table.rows} inputs where {stream.total} were expected; was it "
            f"changed meanwhile? If so, {ANEW}"
        )
    result = replace(
        _summary(out, table.rows, table.counts, time.perf_counter() - began),
        without_workers=engine is not None
        and engine.is_remote
        and not _shared(engine, stream, size),
    )
    shares = {name: count / result.inputs for name, count in result.decisions.items()}
    about = {"shares": shares, "guarantees": list(guard.guarantees)}
    table.finish({"inputs": result.inputs, **table.counts, **about})
    return result


def fingerprint(guard: Guard | RegressionGuard) -> str:
    """What tells `guard` from any that decides differently."""
    if isinstance(guard, RegressionGuard):
        about = regression_manifest(guard, weights=False)
        about.pop("torch")
        found = sorted(regression_tensors(guard).items())
        return digest(json.dumps(about, sort_keys=True), *(t for n, t in found if "probe" not in n))
    tensors: list[torch.Tensor] = []
    said: list[object] = [guard.groups, guard.by, guard.names]
    said += [guard.head.name, dict(guard.head.options)]
    for part in (guard.map, guard.sets):
        tensors += [] if part is None else [t for _, t in sorted(part.state.items())]
        said.append(None if part is None else [part.name, dict(part.options)])
    for one in (guard.detector, guard.failure):
        if one is not None:
            tensors += [t for state in one.states for _, t in sorted(state.items())]
            read = [one.about.get(name) for name in ("pool", "output")]
            said += [one.name, dict(one.options), one.layers, read]
    for rule in guard.rules:
        limits = [rule.limit, rule.coverage.threshold]
        tensors += [rule.scores, torch.tensor(limits, dtype=torch.float64)]
    if guard.range is not None:
        tensors += [guard.range.low, guard.range.high]
    said += [weights_digest(net) for net in guard.nets]
    return digest(json.dumps(said, sort_keys=True), *tensors)


def _stream(source: Any, columns: Columns | None) -> Stream:
    if isinstance(source, Stream):
        return source
    if isinstance(source, Activations):
        return array_stream(as_recorded(source).inputs)
    if isinstance(source, (str, Path)):
        encoded = columns is not None and is_table(source)
        return open_stream(source, **({"encode": columns} if encoded else {}))
    if door.several(source) or door.is_rows(source, columns):
        return array_stream(door.as_network_inputs(source, finite=False, columns=columns))
    is_array = isinstance(source, (list, tuple)) or hasattr(source, "__array__")
    return array_stream(source) if is_array else door.loaded_stream(source)


def _check(guard: Guard | RegressionGuard, stream: Stream, batch_bytes: int) -> None:
    if batch_bytes < 1:
        raise NescioError(f"batch_bytes must be at least 1, got {batch_bytes}")
    if guard.by == "groups":
        raise NescioError(
            "this guard was made with groups, which a file of inputs does not say; decide in "
            "Python: guard(x, groups=...)"
        )
    own: tuple[str, ...] = OWN
    if isinstance(guard, RegressionGuard):
        own = (*OWN, *interval_columns(guard.names, guard.targets))
    taken = [] if stream.kept is None else [name for name in stream.kept(0, 0) if name in own]
    if taken:
        raise NescioError(
            f"decisions have a column {taken[0]!r} of their own; rename that of {stream.name}, or "
            "keep others"
        )
    if guard.range is not None and stream.shape != guard.range.shape:
        hint, name = "", stream.name
        if stream.columns is not None:
            hint = f"; choose the columns: {name}:columns=... or {name}:without=..."
        elif stream.files is not None and len(guard.range.shape) == 3:
            colors, height, width = map(int, guard.range.shape)
            size = height if height == width else (height, width)
            mode = "gray" if colors == 1 else "color"
            hint = f"; write {name}:size={size}:mode={mode}"
        elif is_ts(name) and len(guard.range.shape) == 2:
            _, length = map(int, guard.range.shape)
            _, longest = map(int, stream.shape)
            hint = "; its sequences are longer"
            hint = hint if longest > length else f"; write {name}:length={length}"
        raise NescioError(
            f"{name} has inputs of shape {stream.shape}, the guard was calibrated on "
            f"{guard.range.shape}{hint}"
        )


def _parts(
    guard: Guard | RegressionGuard, stream: Stream, table: Table, engine: Engine | None
) -> Iterator[tuple[bytes, int, dict[str, int]]]:
    """Decisions about all inputs that are left, in order: the text, the rows, the counts.

    Each part has one thread, and a part of its own has pieces with one thread each: how many
    threads there are, or where a run was stopped, does not change a bit of them.
    """
    write, _ = format_of(table.out)

    def decide(block: Block) -> tuple[bytes, int, dict[str, int]]:
        first, x, kept = block
        return written(first, decided_together(guard, x), kept)

    def written(
        first: int, found: Any, kept: Mapping[str, Any]
    ) -> tuple[bytes, int, dict[str, int]]:
        columns: dict[str, NDArray[Any]] = {"sample": np.arange(first, first + len(found))}
        if stream.files is not None:
            columns["file"] = np.array(stream.files[first : first + len(found)], dtype=str)
        text = write(columns | dict(kept) | found.columns(), first == 0)
        return text, len(found), _counts(stream, first, found)

    size, on_cpu = table.identity["part"], _on_cpu(guard)
    if engine is not None and _shared(engine, stream, size):
        if not on_cpu:
            raise NescioError("the workers of an engine decide on the CPU; leave the device out")
        return decided(decide, stream, engine, size=size, start=table.rows)
    blocks = (with_kept(stream, *block) for block in stream.blocks(size, start=table.rows))
    ahead = list(islice(blocks, 2))
    threads = min(torch.get_num_threads(), WORKERS)
    several = len(ahead) == 2 or table.rows > 0
    if threads == 1 or not on_cpu:
        return map(decide, chain(ahead, blocks))
    if several:
        return in_order(decide, chain(ahead, blocks), threads)
    return (written(first, decided_in_pieces(guard, x, threads), kept) for first, x, kept in ahead)


def _shared(engine: Engine, stream: Stream, size: int) -> bool:
    """Whether workers elsewhere decide: about more than one part of `size` rows."""
    return engine.is_remote and (stream.total is None or stream.total > size)


def _on_cpu(guard: Guard | RegressionGuard) -> bool:
    return all(t.device.type == "cpu" for net in guard.nets for t in net.parameters())


def _counts(stream: Stream, first: int, found: Decisions | RegressionDecisions) -> dict[str, int]:
    decisions = np.bincount(found.decision.cpu().numpy(), minlength=len(DECISIONS)).tolist()
    rules = np.bincount(found.rule.cpu().numpy(), minlength=len(RULE_NAMES)).tolist()
    wrong = sum(first <= sample < first + len(found) for sample in tuple(stream.unreadable))
    odd = int((~found.in_range & (found.rule != CODES["not finite"])).sum())
    return {
        **dict(zip(DECISIONS, decisions, strict=True)),
        **{f"rule: {name}": n for name, n in zip(RULE_NAMES, rules, strict=True) if n},
        "out_of_range": odd,
        **({"unreadable": wrong} if wrong else {}),
    }


def _summary(out: Path, inputs: int, counts: Mapping[str, Any], seconds: float | None) -> Summary:
    rules = {name: counts[f"rule: {name}"] for name in RULE_NAMES if f"rule: {name}" in counts}
    decisions = {name: counts[name] for name in DECISIONS}
    wrong = counts.get("unreadable", 0)
    return Summary(out, inputs, decisions, rules, counts["out_of_range"], seconds, wrong)
