"""Sequences in the .ts text format of the UEA and UCR archives, plain or .xz.

After a line `@data` each line is a sample: channels separated by colons, numbers by commas, the
class at the end, unless the head says `@classLabel false`. Sequences may differ in length: the
shorter ones end in zeros, and a last channel is 1 where there is a step.
"""

import lzma
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nescio.core import NescioError
from nescio.data.dataset import Dataset, Part, split
from nescio.data.readers.stream import Stream, array_stream

ENDINGS = (".ts", ".ts.xz")
TRAIN, TEST = "_TRAIN.ts", "_TEST.ts"
Steps = NDArray[np.float32]  # (channels, length)


@dataclass(frozen=True, kw_only=True)
class TsFile:
    """The samples of a .ts file."""

    sequences: list[Steps]  # (channels, length) each
    labels: list[str]  # none where the head says that there are no classes
    classes: tuple[str, ...]  # in the order of the file's head, else sorted
    listed: bool  # whether the head lists them

    @property
    def length(self) -> int:
        """The number of steps of the longest sequence."""
        return max(int(one.shape[1]) for one in self.sequences)

    def part(self, classes: Sequence[str], length: int) -> Part:
        """Inputs `(N, channels + 1, length)` and labels by their index in `classes`."""
        if not self.labels:
            raise NescioError("a .ts file with @classLabel false has no classes to learn or check")
        known = {name: index for index, name in enumerate(classes)}
        return padded(self.sequences, length), torch.tensor([known[name] for name in self.labels])


def is_ts(path: str | Path) -> bool:
    """Whether a path is that of a .ts file."""
    return str(path).lower().endswith(ENDINGS)


def read_ts(path: str | Path, *, length: int | None = None) -> tuple[Tensor, Tensor | None]:
    """The sequences of a .ts file as `(N, channels + 1, length)`, and their labels `(N,)`.

    The last channel is 1 where there is a step; shorter sequences end in zeros. Labels are numbered
    in the order of the line `@classLabel`; there are none with `@classLabel false`.

    path: the .ts file.
    length: number of steps to pad sequences to; None: that of the longest.
    """
    found = parse_ts(path)
    if not found.labels:
        return padded(found.sequences, _length(path, found, length)), None
    if not found.listed:
        raise NescioError(
            f"{path} does not list its classes, and without those that it happens to lack the "
            "others would have other numbers than in training; add a line @classLabel true A B ... "
            "before @data, in the order of the network's outputs"
        )
    return found.part(found.classes, _length(path, found, length))


def dataset_from_ts(path: str | Path, *, seed: int = 0, length: int | None = None) -> Dataset:
    """A data set of a .ts file: `NAME_TRAIN.ts` with its `NAME_TEST.ts`, if that is beside it.

    Other files are split 80 / 10 / 10 in an order given by `seed`, as .npz files are. Classes are
    in the order of the line `@classLabel`, or sorted.

    path: the .ts file.
    seed: seed of the split.
    length: number of steps to pad sequences to; None: that of the longest.
    """
    path = Path(path)
    train, other = parse_ts(path), _test_file(path)
    if other is None:
        parts = split(train.part(train.classes, _length(path, train, length)), seed)
        return Dataset(path.name.split(".")[0], *parts, len(train.classes))
    return joined_ts(path.name.split(TRAIN)[0], train, parse_ts(other), length=length)


def joined_ts(name: str, train: TsFile, test: TsFile, *, length: int | None = None) -> Dataset:
    """A data set of two files, which share lengths and classes."""
    classes = tuple(dict.fromkeys((*train.classes, *test.classes)))
    longest = max(train.length, test.length, length or 0)
    parts = [one.part(classes, longest) for one in (train, test)]
    return Dataset(name, parts[0], None, parts[1], len(classes))


def ts_stream(path: str | Path, *, length: int | None = None) -> Stream:
    """The inputs of a .ts file; length: to pad to, the longest sequence by default."""
    found = parse_ts(path)
    return array_stream(padded(found.sequences, _length(path, found, length)), name=str(path))


def padded(sequences: Sequence[Steps], length: int) -> Tensor:
    """Sequences of any length as `(N, channels + 1, length)`; the last channel marks steps."""
    x = torch.zeros(len(sequences), sequences[0].shape[0] + 1, length)
    for row, one in zip(x, sequences, strict=True):
        row[:-1, : one.shape[1]] = torch.from_numpy(one)
        row[-1, : one.shape[1]] = 1
    return x


def parse_ts(path: str | Path) -> TsFile:
    """The samples of a .ts file, as they are."""
    path = Path(path)
    try:
        opener: Any = lzma.open if path.suffix == ".xz" else open
        with opener(path, "rt", encoding="utf-8") as file:
            lines = [line.strip() for line in file]
    except (OSError, EOFError, lzma.LZMAError, UnicodeDecodeError) as error:
        raise NescioError(f"cannot read {path}: {error}; expected a .ts file") from None
    start = next((i for i, line in enumerate(lines) if line.lower() == "@data"), len(lines))
    rows = [(i, line) for i, line in enumerate(lines[start + 1 :], start + 2) if line]
    if not rows:
        raise NescioError(f"{path} has no samples; expected them after a line @data")
    head = {line.split()[0].lower(): line.split()[1:] for line in lines[:start] if line[:1] == "@"}
    labeled = [word.lower() for word in head.get("@classlabel", [])[:1]] != ["false"]
    samples = [_sample(path, number, line, labeled=labeled) for number, line in rows]
    if len({one.shape[0] for one, _ in samples}) > 1:
        raise NescioError(f"{path} has samples of different numbers of channels")
    labels = [label for _, label in samples] if labeled else []
    listed = _listed(path, head, labels)
    return TsFile(
        sequences=[one for one, _ in samples],
        labels=labels,
        classes=listed or tuple(sorted(set(labels))),
        listed=bool(listed),
    )


def _listed(
    path: Path, head: Mapping[str, Sequence[str]], labels: Sequence[str]
) -> tuple[str, ...]:
    """The names of the classes, in the order of the head; none where it lists none."""
    if [word.lower() for word in head.get("@targetlabel", [])[:1]] == ["true"]:
        raise NescioError(
            f"{path} has numbers to predict, not classes; write it as an .npz file of x and y"
        )
    listed = head.get("@classlabel", [])[1:]
    unlisted = sorted(set(labels) - set(listed))
    if listed and unlisted:
        raise NescioError(
            f"{path} has a sample of class {unlisted[0]!r}, which its line @classLabel does not "
            "list"
        )
    return tuple(listed)


def _sample(path: Path, number: int, line: str, *, labeled: bool) -> tuple[Steps, str]:
    *channels, label = line.split(":") if labeled else [*line.split(":"), ""]
    rows = [[word.strip() for word in one.split(",")] for one in channels]
    if any(row == [""] for row in rows):
        raise NescioError(
            f"line {number} of {path} has a sequence of length 0; a network answers from at least "
            "one step: leave it out"
        )
    if len(lengths := {len(row) for row in rows}) > 1:
        raise NescioError(
            f"line {number} of {path} has channels of different lengths, {sorted(lengths)}; the "
            "steps of all channels of a sample must be the same"
        )
    try:
        values = np.array([[float(word) for word in row] for row in rows], np.float32)
    except ValueError:
        values = np.empty(0, np.float32)
    if values.ndim != 2 or not np.isfinite(values).all():
        raise NescioError(
            f"line {number} of {path} has values that are missing or are not numbers; expected "
            f"channels separated by colons, numbers by commas{', and a class at the end' * labeled}"
        )
    return values, label.strip()


def _length(path: str | Path, found: TsFile, length: int | None) -> int:
    if length is not None and length < found.length:
        raise NescioError(
            f"{path} has sequences of up to {found.length} steps, more than length={length}"
        )
    return length or found.length


def _test_file(path: Path) -> Path | None:
    """The file to test on that belongs to a `NAME_TRAIN.ts`, if it is beside it."""
    name, found, _ = path.name.partition(TRAIN)
    beside = [path.with_name(f"{name}{TEST}{end}") for end in ("", ".xz")]
    return next((other for other in beside if found and other.exists()), None)
