"""Images as bodies: one file, or several as the parts of a multipart body.

An image is read as `nescio score FOLDER:size=..:mode=..` reads it. How many pixels it has is known
from its first bytes: what is too large is never decoded.
"""

import io
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from nescio.data import UnreadableError, as_images, image_pixels
from nescio.serving.body_limits import (
    TOO_LARGE,
    UNREADABLE,
    WRONG_TYPE,
    BodyError,
    BodyLimits,
    wrong_inputs,
)
from nescio.serving.input_form import InputForm

FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "PPM")
BOUNDARY = re.compile(r"boundary=(?:\"([^\"\r\n]{1,70})\"|([^\s\";,]{1,70}))", re.IGNORECASE)
HEADER = 1 << 13  # bytes of the header of a part, at most
PLAIN = ("", "binary", "8bit", "7bit")  # encodings of parts


def read_images(files: Sequence[bytes], form: InputForm, limits: BodyLimits) -> Tensor:
    """The images of `files`, as the guard reads them.

    files: the bytes of each.
    form: what the guard reads.
    limits: how many there may be, and how many pixels they may have together.
    """
    limits.check_rows(len(files))
    if form.image is None:
        raise BodyError(WRONG_TYPE, f"the guard reads no images, but {form.said}")
    size, mode = form.image
    left = limits.pixels

    def check_size(width: int, height: int) -> None:
        nonlocal left
        left -= width * height
        if left < 0:
            raise BodyError(
                TOO_LARGE,
                f"the images have more than {limits.pixels:,} pixels together; send fewer, or "
                f"smaller ones: the guard reads {size[0]} x {size[1]}",
            )

    def pixels(place: int, content: bytes) -> NDArray[np.uint8]:
        options: Any = {"check_size": check_size, "formats": FORMATS}
        try:
            return image_pixels(io.BytesIO(content), f"number {place}", size, mode, **options)
        except UnreadableError as error:
            raise wrong_inputs(str(error)) from None

    found = np.stack([pixels(place, content) for place, content in enumerate(files)])
    return form.numbers(as_images(found).numpy())


def parts_of(content_type: str, body: bytes, limits: BodyLimits) -> list[bytes]:
    """The files of a multipart body, in their order.

    content_type: the header, which says what stands between parts.
    body: the bytes.
    limits: how many parts there may be.
    """
    named = BOUNDARY.search(content_type)
    if named is None:
        raise BodyError(UNREADABLE, "a multipart body needs a boundary in its Content-Type")
    mark = b"--" + (named[1] or named[2]).encode("latin-1", "replace")
    if not body.startswith(mark):
        raise BodyError(UNREADABLE, "the multipart body does not begin with its boundary")
    count = body.count(b"\r\n" + mark)
    if count > limits.rows:
        limits.check_rows(count)
    *parts, end = (b"\r\n" + body).split(b"\r\n" + mark)[1:]
    if end.strip() != b"--":
        raise BodyError(UNREADABLE, "the multipart body does not end with its boundary: cut off?")
    return [_file(part, place) for place, part in enumerate(parts)]


def _file(part: bytes, place: int) -> bytes:
    """The content of one part, which must be an image's file."""
    head, blank, content = part.partition(b"\r\n\r\n")
    if not head.startswith(b"\r\n") or not blank or len(head) > HEADER:
        raise BodyError(UNREADABLE, f"part {place} of the multipart body has no header")
    lines = (line.partition(b":") for line in head[2:].split(b"\r\n"))
    about = {name.strip().lower(): value.strip().lower() for name, _, value in lines}
    kind = about.get(b"content-type", b"application/octet-stream").partition(b";")[0]
    if not kind.startswith(b"image/") and kind != b"application/octet-stream":
        shown = kind.decode("latin-1")
        raise BodyError(WRONG_TYPE, f"part {place} is {shown}; the parts of a body are images")
    if about.get(b"content-transfer-encoding", b"").decode("latin-1") not in PLAIN:
        raise BodyError(WRONG_TYPE, f"part {place} is encoded; send the bytes of the image")
    return content
