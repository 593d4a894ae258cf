"""Image files of a folder, a block at a time."""

import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from torch import Tensor

from nescio.core import NescioError
from nescio.data.readers.stream import Stream
from nescio.data.sets.folders import ENDINGS, Size, UnreadableError, read_images


def folder_stream(folder: str | Path, *, size: Size = None, mode: str | None = None) -> Stream:
    """All image files of a folder and of the folders in it, in the order of their paths.

    size, mode: what they are resized and converted to, as for `image_folder`. A file that cannot
    be read is an input of NaN, and is told in `unreadable`. In the names of files, bytes that are
    no UTF-8 are written as \\xe9.
    """
    folder = Path(folder)
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in ENDINGS)
    if not files:
        raise NescioError(f"{folder} holds no image files; expected {', '.join(ENDINGS)}")
    model, shape = _model(files, size, mode)
    unreadable: dict[int, str] = {}

    def read(start: int, count: int) -> Iterator[Tensor]:
        for first in range(start, len(files), count):
            own = files[first : first + count]
            try:
                block = read_images([model, *own], size, mode)[1:]  # all are like the first
            except UnreadableError:
                block, wrong = _readable_ones(own, model, size, mode)
                unreadable.update({first + place: why for place, why in wrong.items()})
            yield block

    names = [_readable(path.relative_to(folder)) for path in files]
    total = hashlib.blake2b(digest_size=16)
    for name, path in zip(names, files, strict=True):
        found = path.stat()
        total.update(f"{name}\0{found.st_size}\0{found.st_mtime_ns}\n".encode())
    identity = {"files": len(files), "digest": total.hexdigest(), "size": size, "mode": mode}
    return Stream(
        str(folder),
        shape,
        len(files),
        identity,
        read,
        files=names,
        bytes_each=1,
        unreadable=unreadable,
    )


def _model(files: Sequence[Path], size: Size, mode: str | None) -> tuple[Path, tuple[int, ...]]:
    """The first file that can be read, and the shape of its image."""
    for path in files:
        try:
            return path, tuple(read_images([path], size, mode).shape[1:])
        except UnreadableError as error:
            last = error
    raise last


def _readable_ones(
    files: Sequence[Path], model: Path, size: Size, mode: str | None
) -> tuple[Tensor, dict[int, str]]:
    """Images, that of the model in place of those that cannot be read, and why they cannot."""
    readable, wrong = list(files), {}
    for place, path in enumerate(files):
        try:
            read_images([path], size, mode)
        except UnreadableError as error:
            readable[place], wrong[place] = model, str(error)
    return read_images([model, *readable], size, mode)[1:], wrong


def _readable(path: Path) -> str:
    return os.fsencode(path.as_posix()).decode("utf-8", "backslashreplace")
