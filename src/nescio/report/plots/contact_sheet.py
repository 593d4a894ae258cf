"""A contact sheet: small images beside each other, each with a line or two below it."""

import io
from collections.abc import Sequence

from PIL import Image

from nescio.report.plots.look import add_title, label, with_look
from nescio.report.plots.score_plots import png

ACROSS = 6  # images beside each other
MOST = 60  # images on a sheet
SIZE = 1.6  # inches of an image


@with_look
def contact_sheet(images: Sequence[bytes], texts: Sequence[str], *, title: str) -> bytes:
    """A PNG with images, themselves PNG, and what is written below each; the first 60 of them."""
    from matplotlib.figure import Figure

    shown = min(len(images), MOST)
    columns = min(ACROSS, max(shown, 4))
    rows = -(-shown // columns)
    figure = Figure(figsize=(SIZE * columns, (SIZE + 0.55) * rows + 0.6), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axis in axes:
        axis.axis("off")
    for axis, image, text in zip(axes, images, texts, strict=False):
        axis.imshow(Image.open(io.BytesIO(image)), cmap="gray", interpolation="nearest")
        lines = [label(line, 20) for line in text.split("\n")]
        axis.set_title("\n".join(lines), fontsize=8, y=-0.06, va="top")
    left = len(images) - shown
    add_title(figure, title + (f" (the first {shown} of {len(images)})" if left else ""))
    return png(figure)
