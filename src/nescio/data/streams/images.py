"""Image files of a folder, a block at a time."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from torch import Tensor

from nescio.data.folders import ENDINGS, Size, read_images
from nescio.data.streams.stream import Stream
from nescio.errors import NescioError


def folder_stream(folder: str | Path, *, size: Size = None, mode: str | None = None) -> Stream:
    """All image files of a folder and of the folders in it, in the order of their paths.

    size, mode: what they are resized and converted to, as for `image_folder`. In the names of
    files, bytes that are no UTF-8 are written as \\xe9.
    """
    folder = Path(folder)
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in ENDINGS)
    if not files:
        raise NescioError(f"{folder} holds no image files; expected {', '.join(ENDINGS)}")
    shape = tuple(read_images(files[:1], size, mode).shape[1:])

    def read(start: int, count: int) -> Iterator[Tensor]:
        for first in range(start, len(files), count):
            block = read_images(files[first : first + count], size, mode)
            if tuple(block.shape[1:]) != shape:
                raise NescioError(
                    f"{files[first]} is of shape {tuple(block.shape[1:])}, {files[0]} of {shape}; "
                    "say what they are to become: size=32, mode=grey or mode=colour"
                )
            yield block

    names = [_readable(path.relative_to(folder)) for path in files]
    total = hashlib.blake2b(digest_size=16)
    for name, path in zip(names, files, strict=True):
        found = path.stat()
        total.update(f"{name}\0{found.st_size}\0{found.st_mtime_ns}\n".encode())
    identity = {"files": len(files), "digest": total.hexdigest(), "size": size, "mode": mode}
    return Stream(str(folder), shape, len(files), identity, read, files=names, bytes_each=1)


def _readable(path: Path) -> str:
    return os.fsencode(path.as_posix()).decode("utf-8", "backslashreplace")
