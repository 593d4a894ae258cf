"""Image files of a folder, a block at a time."""

import hashlib
import os
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from nescio.core import NescioError, known_by
from nescio.data.images import as_images, height_width
from nescio.data.readers.stream import Stream

Size = int | tuple[int, int] | None
ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm")
DAMAGE = (  # what Pillow raises for files that are damaged
    OSError, ValueError, SyntaxError, EOFError, IndexError, KeyError, OverflowError, TypeError,
    AttributeError, AssertionError, MemoryError, Warning, struct.error, zlib.error,
)  # fmt: skip
MODES = {"gray": "L", "color": "RGB"}


class UnreadableError(NescioError):
    """A file that holds no image, or half of one."""


def folder_stream(folder: str | Path, *, size: Size = None, mode: str | None = None) -> Stream:
    """All image files of a folder and of the folders in it, in the order of their paths.

    size, mode: what they are resized and converted to, as for `image_folder`. A file that cannot
    be read is an input of NaN, and is told in `unreadable`. In the names of files, bytes that are
    no UTF-8 are written as \\xe9.
    """
    folder = Path(folder)
    named = (path for path in folder.rglob("*") if path.suffix.lower() in ENDINGS)
    files = sorted(path for path in named if not path.is_dir())
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

    paths = (os.fsencode(path.relative_to(folder).as_posix()) for path in files)
    names = [path.decode("utf-8", "backslashreplace") for path in paths]
    total = hashlib.blake2b(digest_size=16)
    for name, path in zip(names, files, strict=True):
        known = known_by(path) if path.is_file() else None  # else a pipe, or a link to nothing
        total.update(f"{name}\0{known}\n".encode())
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


def read_images(files: Sequence[Path], size: Size, mode: str | None) -> Tensor:
    """The images (N, C, H, W) of files, all of one size and mode."""
    if mode is not None and mode not in MODES:
        raise NescioError(f"`mode` must be gray, color or None, got {mode!r}")
    room: NDArray[np.uint8] | None = None
    for place, path in enumerate(files):
        pixels = _pixels(path, size, mode)
        if room is None:
            room = np.empty((len(files), *pixels.shape), np.uint8)
        if pixels.shape != room.shape[1:]:
            raise _unlike(files[0], room.shape[1:], path, pixels.shape)
        room[place] = pixels
    assert room is not None
    return as_images(room)


def _pixels(path: Path, size: Size, mode: str | None) -> NDArray[np.uint8]:
    """Bytes (H, W, C) of one file."""
    if not path.is_file():  # to open a pipe would wait for ever
        what = "a link to nothing" if path.is_symlink() else "not a file but a pipe or a device"
        raise UnreadableError(f"cannot read the image {path}: it is {what}; remove it")
    return image_pixels(path, str(path), size, mode)


def image_pixels(
    source: Path | IO[bytes],
    name: str,
    size: Size,
    mode: str | None,
    *,
    check_size: Callable[[int, int], None] | None = None,
    formats: tuple[str, ...] | None = None,
) -> NDArray[np.uint8]:
    """Bytes (H, W, C) of one image.

    source: its file, or one that is open.
    name: of it, for messages.
    size, mode: what it is resized and converted to; None: as it is stored.
    check_size: is called with width and height before anything is decoded, and may raise.
    formats: of Pillow, in which it may be; None: any.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(source, formats=formats) as file:
            image: Image.Image = file
            if check_size is not None:
                check_size(image.width, image.height)
            stored = image.mode
            if stored in ("L", "RGB") or (mode is not None and stored in ("1", "P", "RGBA", "LA")):
                image = image.convert(MODES[mode]) if mode is not None else image
                if size is not None:
                    height, width = height_width(size)
                    image = image.resize((width, height), Image.Resampling.BILINEAR)
                return np.atleast_3d(np.asarray(image, np.uint8))
    except (Image.DecompressionBombError, *DAMAGE) as error:
        if isinstance(error, NescioError):
            raise
        unknown = isinstance(error, UnidentifiedImageError)  # its text has the path, or an object
        why = "it is not an image, or its start is damaged" if unknown else error
        raise UnreadableError(f"cannot read the image {name}: {why}; repair or remove it") from None
    deep = stored.startswith("I") or stored == "F"  # more than 8 bits: no mode= converts them
    kind = UnreadableError if mode is not None or deep else NescioError
    raise kind(
        f"{name} is stored as {stored}, expected 8-bit gray (L) or color (RGB); "
        + ("convert it first" if mode or deep else 'mode="gray" or mode="color" converts it')
    )


def _unlike(first: Path, there: tuple[int, ...], other: Path, here: tuple[int, ...]) -> NescioError:
    if there[:2] != here[:2]:
        large, small = (" x ".join(map(str, shape[:2])) for shape in (there, here))
        return NescioError(
            f"images of mixed sizes: {first} is {large}, {other} is {small} (height x width); "
            "say what they are to become: size=32, or size=(height, width)"
        )
    kinds = {1: "gray", 3: "color"}
    return NescioError(
        f"images of mixed modes: {first} is {kinds[there[2]]}, {other} is {kinds[here[2]]}; "
        'say what they are to become: mode="gray" or mode="color"'
    )
