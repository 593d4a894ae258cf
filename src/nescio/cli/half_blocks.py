"""A picture in a terminal: two pixels in each letter, above and below."""

import io

from rich.text import Text

COLUMNS = 48  # letters of a line, at most


def half_blocks(png: bytes, columns: int = COLUMNS) -> Text:
    """A picture as colored text.

    png: the picture.
    columns: letters of a line, at most.
    """
    from PIL import Image

    with Image.open(io.BytesIO(png)) as picture:
        shown = picture.convert("RGB")
    scale = min(columns / shown.width, columns / shown.height, 1.0)
    width = max(1, round(shown.width * scale))
    height = max(2, round(shown.height * scale / 2) * 2)
    small = shown.resize((width, height), Image.Resampling.BOX)
    text = Text(no_wrap=True)
    for top in range(0, height, 2):
        for left in range(width):
            above, below = (small.getpixel((left, row)) for row in (top, top + 1))
            text.append("\N{UPPER HALF BLOCK}", f"{_color(above)} on {_color(below)}")
        text.append("\n")
    return text


def _color(pixel: object) -> str:
    assert isinstance(pixel, tuple)
    return "#" + "".join(f"{value:02x}" for value in pixel)
