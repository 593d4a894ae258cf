"""A kept input as a person sees it: a picture, a table of its values, or text."""

import io
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from nescio.applications import active_learning as al
from nescio.core import NescioError

if TYPE_CHECKING:
    from nescio.serving.decision_log import KeptInput

PIXELS = 1 << 24  # of an image that is decoded
LEAST = 4  # height and width of an array that is shown as a picture
VALUES = 200  # of an array or a row, at most, that are listed
LETTERS = 20_000  # of a text that are shown
PICTURE, ROW, TEXT, GONE = "picture", "row", "text", "gone"


@dataclass(frozen=True, kw_only=True)
class ShownInput:
    """An input for people.

    kind: picture, row, text, or gone where it is no longer kept.
    png: the picture.
    row: names and values.
    text: the text, or why nothing is shown.
    left_out: number of values that are not listed.
    """

    kind: str
    png: bytes | None = None
    row: tuple[tuple[str, str], ...] = ()
    text: str = ""
    left_out: int = 0


def shown_input(kept: "KeptInput | None", columns: tuple[str, ...] = ()) -> ShownInput:
    """What a person sees of a kept input; one that cannot be read is said to be so.

    kept: the input as the log has it; None: it is no longer there.
    columns: names of the values of an array, where there are names.
    """
    if kept is None:
        return ShownInput(kind=GONE, text="This input is no longer kept.")
    try:
        if kept.kind == "image":
            return ShownInput(kind=PICTURE, png=_decoded(kept.body))
        if kept.kind == "npy":
            return _array(np.load(io.BytesIO(kept.body), allow_pickle=False), columns)
        return _row(json.loads(kept.body))
    except (ValueError, OSError, NescioError) as error:
        return ShownInput(kind=GONE, text=f"This input cannot be shown: {str(error)[:200]}")


def _decoded(body: bytes) -> bytes:
    """An image file as a new, small PNG without anything else that the file may hold."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(body)) as image:
            if image.width * image.height > PIXELS:
                raise NescioError(f"the image has {image.width} x {image.height} pixels")
            deep = image.mode in ("I", "I;16", "I;16B", "F")
            mode = "F" if deep else "L" if image.mode in ("1", "L", "LA") else "RGB"
            pixels = np.asarray(image.convert(mode))
    except Exception as error:  # decoders raise all kinds
        raise NescioError(f"the image cannot be read: {error}") from None
    planes = pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
    return al.thumbnail(torch.from_numpy(planes.copy()))


def _array(array: NDArray[Any], columns: tuple[str, ...]) -> ShownInput:
    """A picture where the array is shaped like one; otherwise its values."""
    if array.dtype.kind not in "biuf":
        raise NescioError(f"it holds {array.dtype}, not numbers")
    image = array.ndim == 3 and min(array.shape[1:]) >= LEAST and array.shape[0] <= 64
    if image or (array.ndim == 2 and min(array.shape) >= 2 * LEAST):
        numbers = array if array.dtype == np.uint8 else array.astype(np.float32)
        planes = numbers if array.ndim == 3 else numbers[None]
        return ShownInput(kind=PICTURE, png=al.thumbnail(torch.from_numpy(planes.copy())))
    values = array.reshape(-1)
    named = len(columns) == len(values)
    places = range(min(len(values), VALUES))
    names = columns if named else tuple(_place(at, array.shape) for at in places)
    row = tuple((names[at], f"{values[at].item():.6g}") for at in places)
    return ShownInput(kind=ROW, row=row, left_out=len(values) - len(row))


def _place(at: int, shape: tuple[int, ...]) -> str:
    """The place of a value in its array, as in 3 or 0, 2."""
    return ", ".join(map(str, np.unravel_index(at, shape))) if len(shape) > 1 else str(at)


def _row(found: Any) -> ShownInput:
    """A table's row, or text."""
    if isinstance(found, dict) and set(found) == {"text"}:
        found = found["text"]
    if isinstance(found, str):
        return ShownInput(kind=TEXT, text=found[:LETTERS], left_out=max(len(found) - LETTERS, 0))
    if not isinstance(found, dict):
        found = dict(enumerate(found)) if isinstance(found, list) else {"value": found}
    listed = list(found.items())[:VALUES]
    row = tuple((str(name), _cell(value)) for name, value in listed)
    return ShownInput(kind=ROW, row=row, left_out=len(found) - len(row))


def _cell(value: Any) -> str:
    """A value of a row as a person reads it; nothing where it is missing."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text[:LETTERS]
