"""No single row of a shifted batch is unusual, and yet a test of the batch sees the shift."""

import numpy as np
from matplotlib.figure import Figure

from nescio.monitoring import shift

BEFORE, AFTER = "#525252", "#d95f0e"
SIZES = (20, 40, 80, 160, 320)


def draw() -> Figure:
    rng = np.random.default_rng(0)
    figure = Figure(figsize=(7, 3), layout="constrained")
    left, right = figure.subplots(1, 2)
    before, after = rng.normal(130, 15, 320), rng.normal(136, 15, 320)
    bins = np.arange(85, 186, 5)
    left.hist(before, bins, color=BEFORE, alpha=0.55)
    left.hist(after, bins, histtype="step", color=AFTER, lw=2)
    left.text(88, 42, "before", color=BEFORE, weight="bold")
    left.text(160, 42, "after: +6", color=AFTER, weight="bold")
    left.set(xlabel="pressure", ylabel="rows", title="two batches of 320 rows")

    for moved, color, words in [
        (0, BEFORE, ("nothing changed", 0.85)),
        (6, AFTER, ("pressure +6", 0.03)),
    ]:
        medians = []
        for size in SIZES:
            found = [
                shift.mmd(
                    rng.normal(130, 15, (size, 1)), rng.normal(130 + moved, 15, (size, 1)), seed=i
                ).p_value
                for i in range(15)
            ]
            medians.append(np.median(found))
        right.plot(SIZES, medians, "o-", color=color)
        right.text(SIZES[0], words[1], words[0], color=color, weight="bold")
    right.axhline(0.01, color="#a50026", ls="--", lw=1)
    right.text(SIZES[0], 0.0118, "p = 0.01", color="#a50026", fontsize=9)
    right.set(xscale="log", yscale="log", xticks=SIZES, xticklabels=SIZES, ylim=(5e-4, 2))
    right.set(xlabel="rows in each batch", title="p-value of the batch (median of 15)")
    right.minorticks_off()
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.title.set_fontsize(10)
    return figure
