"""AUROC of the default detector on 26 sets, beside the best single detector of each set."""

import json
from pathlib import Path

from matplotlib.figure import Figure

TABLE = Path(__file__).parent.parent / "default-detector.json"


def draw() -> Figure:
    """One row per network and OOD set, sorted by how far the default is behind."""
    rows = []
    for network, found in json.loads(TABLE.read_text()).items():
        if not found["held_back"]:
            continue
        cells = found["cells"]
        for ood, cell in cells["default"].items():
            others = {k: v[ood]["auroc"] for k, v in cells.items() if k != "default" and ood in v}
            best = max(others, key=others.get)
            rows.append((cell["auroc"] - others[best], network, ood, cell["auroc"], others, best))
    rows.sort(key=lambda row: row[0], reverse=True)
    fig = Figure(figsize=(7, 6), layout="constrained")
    axes = fig.subplots()
    for at, (_, _, _, own, others, best) in enumerate(rows):
        axes.plot(list(others.values()), [at] * len(others), "|", color="0.75", ms=6)
        axes.plot(others[best], at, "o", color="darkorange", ms=5)
        axes.plot(own, at, "D", color="navy", ms=5)
        if others[best] - own > 0.03:
            axes.text(1.02, at, best, color="darkorange", fontsize=8, va="center")
    axes.set_yticks(range(len(rows)), [f"{row[1]}: {row[2]}" for row in rows], fontsize=8)
    axes.set(xlabel="AUROC", xlim=(0, 1.35), ylim=(-1, len(rows)))
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1])
    axes.set_title("diamond: default; dot: the best single detector; bars: the others", fontsize=9)
    return fig
