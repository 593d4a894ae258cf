"""Where rows are put while a network is observed: memory, or files that are then mapped."""

import os
import shutil
import struct
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from torch import Tensor

from nescio.core import NescioError, make_folder

HEADER = 128  # bytes before the numbers of an .npy file
SPARE = 64 << 20  # bytes that a disk must keep free


@dataclass(frozen=True)
class Column:
    """What is kept of a sample under a name: networks (0: the same for all), shape, type."""

    name: str
    members: int
    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def bytes(self) -> int:
        """Of one sample."""
        numbers = int(np.prod(self.shape, dtype=np.int64)) * max(1, self.members)
        return numbers * self.dtype.itemsize

    def check(self, rows: Tensor) -> Tensor:
        """The rows, or an error where they have another shape."""
        if tuple(rows.shape[1:]) != self.shape:
            raise NescioError(
                f"{self.name}: shape {tuple(rows.shape[1:])} in this batch, {self.shape} in the "
                "first; all samples must agree"
            )
        return rows


@dataclass(frozen=True)
class Room:
    """How much space columns take, and where it is."""

    columns: tuple[Column, ...]
    samples: int | None  # or more than there are; None: unknown
    memory: int  # bytes that may be used
    folder: Path | None

    @property
    def bytes(self) -> int | None:
        """Of all samples; None: unknown."""
        each = sum(column.bytes for column in self.columns)
        return None if self.samples is None else each * self.samples

    @property
    def on_disk(self) -> bool:
        """Whether files are written."""
        return self.bytes is None or self.bytes > self.memory

    def __str__(self) -> str:
        size = "size unknown" if self.bytes is None else readable(self.bytes)
        place = f"in {self.folder or tempfile.gettempdir()}" if self.on_disk else "in memory"
        return f"{size} {place}"

    @contextmanager
    def open(self, device: torch.device) -> Iterator[Mapping[str, "Store"]]:
        """Somewhere to write the columns to, by name; each in the order of the samples."""
        if not self.on_disk:
            yield {c.name: _InMemory(c, self.samples or 0, device) for c in self.columns}
            return
        with ExitStack() as stack:
            home = stack.enter_context(_folder(self.folder))
            members = max(column.members for column in self.columns)
            size = (self.bytes or 0) * (members + 1) // members  # they are joined at the end
            free = shutil.disk_usage(home).free
            if size + SPARE > free:
                raise NescioError(
                    f"the activations need {size} bytes ({readable(size)}), and {home} has {free} "
                    f"({readable(free)}) free; choose another folder=, fewer layers or a smaller "
                    "count="
                )
            files: dict[str, _OnDisk] = {}
            for number, column in enumerate(self.columns):
                plain = "".join(c if c.isalnum() or c in "._-" else "-" for c in column.name)
                files[column.name] = _OnDisk(column, home / f"{number}-{plain}.npy")
                stack.callback(files[column.name].close)
            yield files


class _InMemory:
    """A column of at most `samples` rows, in one array."""

    def __init__(self, column: Column, samples: int, device: torch.device) -> None:
        self.column = column
        shape = (max(1, column.members), samples, *column.shape)
        self.rows = torch.empty(shape, dtype=column.dtype, device=device)

    def write(self, start: int, rows: Tensor, member: int = 0) -> None:
        if start + len(rows) > self.rows.shape[1]:
            raise NescioError(
                f"the loader gave more than the {self.rows.shape[1]} samples that its length says; "
                "pass iter(loader)"
            )
        self.rows[member, start : start + len(rows)] = self.column.check(rows)

    def whole(self, samples: int) -> Tensor:
        return self.rows[:, :samples] if self.column.members else self.rows[0, :samples]


class _OnDisk:
    """A column of any number of rows, appended to files; then one `.npy` file that is mapped."""

    def __init__(self, column: Column, path: Path) -> None:
        self.column, self.path = column, path
        self.parts = [path.with_suffix(f".{m}.new") for m in range(max(1, column.members))]
        with _writing(path):
            self.files: list[BinaryIO] = [part.open("wb") for part in self.parts]
            self.files[0].write(bytes(HEADER))

    def write(self, start: int, rows: Tensor, member: int = 0) -> None:
        del start
        numbers = self.column.check(rows).to(self.column.dtype).cpu().contiguous().numpy()
        with _writing(self.path):
            numbers.tofile(self.files[member])

    def whole(self, samples: int) -> Tensor:
        first, members = self.files[0], [self.column.members] if self.column.members else []
        with _writing(self.path):
            for file, part in zip(self.files[1:], self.parts[1:], strict=True):
                file.close()
                with part.open("rb") as source:
                    shutil.copyfileobj(source, first, 1 << 20)
                part.unlink()
            first.seek(0)
            first.write(_header((*members, samples, *self.column.shape), self.column.dtype))
            first.close()
            os.replace(self.parts[0], self.path)
        return torch.from_numpy(np.load(self.path, mmap_mode="c"))  # never written back

    def close(self) -> None:
        """Leave no half-written file."""
        for file, part in zip(self.files, self.parts, strict=True):
            file.close()
            part.unlink(missing_ok=True)


Store = _InMemory | _OnDisk  # whole: `(M, N, ...)`, or `(N, ...)` where networks do not differ


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Say which file could not be written, and why."""
    try:
        yield
    except OSError as error:
        raise NescioError(
            f"cannot write {path}: {error.strerror or error}; choose another folder="
        ) from error


def readable(size: int) -> str:
    """A number of bytes for people."""
    amount, units = float(size), ["B", "kB", "MB", "GB", "TB"]
    while amount >= 999.5 and len(units) > 1:
        amount, units = amount / 1000, units[1:]
    return f"{amount:.3g} {units[0]}"


@contextmanager
def _folder(given: Path | None) -> Iterator[Path]:
    """A folder for files; without one, a temporary one whose files go with what maps them."""
    if given is not None:
        yield make_folder(given)
        return
    made = Path(tempfile.mkdtemp(prefix="nescio-"))
    try:
        yield made
    finally:  # a mapped file that has lost its name lives as long as its map
        shutil.rmtree(made, ignore_errors=True)


def _header(shape: tuple[int, ...], dtype: torch.dtype) -> bytes:
    kind = torch.empty(0, dtype=dtype).numpy().dtype.str
    text = f"{{'descr': {kind!r}, 'fortran_order': False, 'shape': {shape!r}, }}"
    size = HEADER - 10
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", size) + text.encode().ljust(size - 1) + b"\n"
