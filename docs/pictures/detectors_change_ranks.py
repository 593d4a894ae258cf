"""No detector is best on every OOD set: AUROC of eight detectors on one small digit network."""

import torch
from matplotlib.figure import Figure

import nescio
from nescio import nets
from nescio.data import corruptions
from nescio.data.ood import patches, uniform

NAMES = ["msp", "energy", "entropy", "react", "dice", "knn,k=1", "mahalanobis", "vim"]


def draw() -> Figure:
    """A table of AUROC, detectors by OOD sets; one network of the digits 0 to 7."""
    digits = nescio.data.digits()
    (x, y), (test, labels) = digits.train, digits.test
    known = y < 8
    net = nescio.train(
        lambda: nets.digit_cnn(outputs=8), (x[known], y[known]), epochs=15, batch_size=50
    ).member(0)
    inside = test[labels < 8]
    ood = {
        "digits\n8 and 9": test[labels >= 8],
        "quarters\nof digits": (patches(inside, grid=2), 300),
        "negatives": 1 - inside,
        "faded": corruptions.contrast()(inside, 5),
        "noise": (uniform((1, 8, 8)), 300),
    }
    table = nescio.compare(
        net,
        (inside, labels[labels < 8]),
        ood,
        train=(x[known], y[known]),
        detectors=NAMES,
        resamples=0,
    )
    values = torch.tensor([[table.value(name, key) for key in ood] for name in NAMES])
    fig = Figure(figsize=(7, 3.5), layout="constrained")
    axes = fig.subplots()
    shown = axes.imshow(values, cmap="RdYlBu", vmin=0, vmax=1, aspect="auto")
    fig.colorbar(shown, ax=axes, label="AUROC")
    best = values.argmax(0)
    for row in range(len(NAMES)):
        for column in range(len(ood)):
            value = values[row, column].item()
            color = "white" if value < 0.15 or value > 0.85 else "black"
            weight = "bold" if best[column] == row else "normal"
            how = {"color": color, "weight": weight, "ha": "center", "va": "center", "fontsize": 9}
            axes.text(column, row, f"{value:.2f}", **how)
    axes.set_xticks(range(len(ood)), list(ood))
    axes.set_yticks(range(len(NAMES)), NAMES)
    return fig
