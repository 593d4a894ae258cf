"""Noise that is changed by at most 0.3 per pixel looks like a digit to the detector it attacks."""

import torch
from matplotlib.figure import Figure

import nescio
from nescio import attacks, detectors, metrics, nets


def draw() -> Figure:
    """Scores of two detectors, fitted on the digits 0 to 7, for four kinds of inputs."""
    digits = nescio.data.digits()
    x, y = (torch.cat([a, b]) for a, b in zip(digits.train, digits.validation, strict=True))
    known, (test, labels) = y < 8, digits.test
    net = nescio.train(
        lambda: nets.digit_cnn(outputs=8), (x[known], y[known]), epochs=15, batch_size=50
    ).member(0)
    train = nescio.observe(net, (x[known], y[known]), progress=False)
    noise = nescio.data.ood.uniform((1, 8, 8)).take(200)
    fig = Figure(figsize=(7, 3.5), layout="constrained")
    for axes, (name, detector) in zip(
        fig.subplots(1, 2),
        {"energy": detectors.energy(), "knn, k = 1": detectors.knn(train, k=1)}.items(),
        strict=True,
    ):
        score = nescio.scorer(net, detector)
        fooled = attacks.pgd(lambda z, score=score: -score(z), noise, radius=0.3, steps=20).x
        shown = {
            "test digits 0 to 7": test[labels < 8],
            "digits 8 and 9": test[labels >= 8],
            "noise": noise,
            "attacked noise": fooled,
        }
        scores = {key: score(inputs) for key, inputs in shown.items()}
        inside = scores["test digits 0 to 7"]
        colors = ("black", "tab:blue", "darkorange", "firebrick")
        for row, ((key, one), color) in enumerate(zip(scores.items(), colors, strict=True)):
            height = -row + 0.3 * torch.rand(len(one), generator=torch.Generator().manual_seed(0))
            axes.scatter(one, height, s=5, color=color, alpha=0.5)
            area = "" if row == 0 else f": AUROC {metrics.auroc(inside, one):.2f}"
            beside = {"transform": axes.get_yaxis_transform(), "color": color, "fontsize": 9}
            axes.text(0.02, -row + 0.42, key + area, **beside)
        axes.set(yticks=[], ylim=(-3.2, 0.75), xlabel="score: larger = further out")
        axes.set_title(name, fontsize=10)
    return fig
