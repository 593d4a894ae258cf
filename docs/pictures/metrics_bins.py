"""The measured ECE of perfectly calibrated answers depends on bins and samples."""

import numpy as np
from matplotlib.figure import Figure

from nescio import metrics

BINS = (2, 5, 10, 15, 25, 50, 100)
REPEATS = 30


def draw() -> Figure:
    """ECE of answers that are as right as they are confident: the truth is 0."""
    rng = np.random.default_rng(0)
    figure = Figure(figsize=(7, 3.2), layout="constrained")
    panel = figure.subplots()
    for samples, color in ((200, "#b5371f"), (1000, "#1f5f99"), (10000, "#c98a1b")):
        drawn = [calibrated(rng, samples) for _ in range(REPEATS)]
        found = [np.mean([metrics.ece(*one, bins=bins) for one in drawn]) for bins in BINS]
        panel.plot(BINS, found, "o-", color=color)
        panel.text(105, found[-1], f"{samples:,} samples", color=color, va="center")
    panel.plot([2, 100], [0, 0], color="black", linewidth=1)
    panel.text(104, 0, "truth", va="center")
    panel.set(xscale="log", xlabel="bins", ylabel="measured ECE", xlim=(1.9, 260))
    panel.set_ylim(-0.008, 0.168)
    panel.set_xticks(BINS, map(str, BINS))
    panel.minorticks_off()
    return figure


def calibrated(rng: np.random.Generator, samples: int) -> tuple[np.ndarray, np.ndarray]:
    """Confidences, and whether the answers are right: with just that probability."""
    confidence = rng.uniform(0.5, 1, samples)
    return confidence, rng.uniform(size=samples) < confidence
