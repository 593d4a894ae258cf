"""Sequences in the .ts text format of the UEA and UCR archives."""

import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nescio.core import NescioError
from nescio.core.registry import datasets
from nescio.data import Dataset
from nescio.data.sets.catalogue import data_folder, lacking, locate

Sequence = NDArray[np.float32]  # (channels, length)


@datasets.register
def japanese_vowels(*, folder: str | None = None) -> Dataset:
    """640 spoken vowels of nine speakers, 12 channels of 7 to 29 steps; needs NESCIO_DATA.

    folder: where the folder `sequences` is, in place of the setting. Inputs are `(N, 13, 29)`:
    shorter ones end in zeros, and the last channel is 1 where there is a value.
    """
    where = data_folder("japanese_vowels", folder)
    parts = []
    for part in ("TRAIN", "TEST"):
        names = [f"JapaneseVowels_{part}.ts{end}" for end in (".xz", "")]
        path = next((p for p in (locate(where, name) for name in names) if p is not None), None)
        if path is None:
            raise lacking("japanese_vowels", where, names[0])
        parts.append(read_ts(path))
    longest = max(one.shape[1] for sequences, _ in parts for one in sequences)
    known = sorted({label for _, labels in parts for label in labels})
    train, test = (
        (padded(sequences, longest), torch.tensor([known.index(label) for label in labels]))
        for sequences, labels in parts
    )
    return Dataset(
        name="japanese_vowels", train=train, validation=None, test=test, classes=len(known)
    )


def padded(sequences: list[Sequence], length: int) -> Tensor:
    """Sequences of any length as `(N, channels + 1, length)`; the last channel marks values."""
    x = torch.zeros(len(sequences), sequences[0].shape[0] + 1, length)
    for row, one in zip(x, sequences, strict=True):
        row[:-1, : one.shape[1]] = torch.from_numpy(one)
        row[-1, : one.shape[1]] = 1
    return x


def read_ts(path: str | Path) -> tuple[list[Sequence], list[str]]:
    """The samples of a .ts file, plain or .xz: `(channels, length)` each, and their labels."""
    path = Path(path)
    try:
        opener: Any = lzma.open if path.suffix == ".xz" else open
        with opener(path, "rt", encoding="utf-8") as file:
            samples = [_sample(path, number, line) for number, line in _data(file)]
    except (OSError, EOFError, lzma.LZMAError, UnicodeDecodeError) as error:
        raise NescioError(f"cannot read {path}: {error}; expected a .ts file") from None
    if not samples:
        raise NescioError(f"{path} has no samples; expected them after a line @data")
    if len({one.shape[0] for one, _ in samples}) > 1:
        raise NescioError(f"{path} has samples of different numbers of channels")
    return [one for one, _ in samples], [label for _, label in samples]


def _data(lines: Any) -> Iterator[tuple[int, str]]:
    """Numbered lines after @data that are not empty."""
    begun = False
    for number, line in enumerate(lines, 1):
        if begun and line.strip():
            yield number, line.strip()
        begun = begun or line.strip().lower() == "@data"


def _sample(path: Path, number: int, line: str) -> tuple[Sequence, str]:
    *channels, label = line.split(":")
    try:
        values = np.array([[float(v) for v in one.split(",")] for one in channels], np.float32)
    except ValueError as error:
        raise NescioError(
            f"line {number} of {path}: {error}; expected channels of one length, numbers with "
            "commas, separated by colons, and a class at the end"
        ) from None
    if values.ndim != 2 or not np.isfinite(values).all():
        raise NescioError(f"line {number} of {path} has no channels, or values that are missing")
    return values, label.strip()
