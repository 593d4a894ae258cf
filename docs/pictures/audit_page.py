"""The top of an audit page: the verdict, and each finding with its interval and its limits."""

import shutil
import subprocess
import tempfile
from pathlib import Path

import matplotlib.image
from matplotlib.figure import Figure

import nescio

WIDE, HIGH = 1100, 840


def draw() -> Figure:
    digits = nescio.data.digits()
    net = nescio.train(
        lambda: nescio.nets.mlp((1, 8, 8), 10, widths=(128,)),
        digits.train,
        epochs=40,
        batch_size=50,
        progress=False,
    ).member(0)
    audit = nescio.audit(
        net, digits.test, train=digits.train, validation=digits.validation, progress=False
    )
    with tempfile.TemporaryDirectory() as folder:
        audit.save(folder)
        image = screenshot(Path(folder))
    figure = Figure(figsize=(WIDE / 110, HIGH / 110))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.imshow(image, interpolation="none", aspect="auto")
    axes.axis("off")
    return figure


def screenshot(folder: Path):
    """The top of `audit.html` as an image."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    assert chromium, "this picture needs Chromium"
    options = ["--headless", "--no-sandbox", "--hide-scrollbars", f"--window-size={WIDE},{HIGH}"]
    shot = folder / "shot.png"
    words = [chromium, *options, f"--screenshot={shot}", (folder / "audit.html").as_uri()]
    subprocess.run(words, check=True, capture_output=True)
    return matplotlib.image.imread(shot)
