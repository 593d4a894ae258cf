"""Sets that hold 90 % of all labels lose coverage under rotation, and miss one class more often."""

import torch
from matplotlib.figure import Figure

import nescio
from nescio import conformal
from nescio.data import corruptions
from nescio.evaluation import under_shift


def draw() -> Figure:
    """The coverage along a rotation, and by class at rotation 0."""
    digits = nescio.data.digits()
    x, y = (torch.cat(parts) for parts in zip(digits.validation, digits.test, strict=True))
    half = len(x) // 2
    model = nescio.train(lambda: nescio.nets.mlp((1, 8, 8), 10), digits.train, epochs=15)
    known = model(x[:half])
    sets = {
        "threshold": conformal.threshold(known, y[:half], miscoverage=0.1),
        "adaptive": conformal.adaptive(known, y[:half], miscoverage=0.1),
    }
    new = x[half:], y[half:]
    shift = corruptions.rotation(degrees=12)
    found = under_shift({"network": model}, new, shift, sets={"network": sets})
    degrees = 12 * torch.tensor(found.strengths)
    fig = Figure(figsize=(7, 3.5), layout="constrained")
    left, right = fig.subplots(1, 2, sharey=True)
    for (name, color), at in zip(
        {"threshold": "darkorange", "adaptive": "tab:blue"}.items(),
        ((3, 0.45), (28, 0.62)),
        strict=True,
    ):
        covered = found.curve(f"network: {name}", "covered")
        left.plot(degrees, covered, color=color, lw=2)
        left.text(*at, name, color=color)
    by_class = conformal.coverage(sets["threshold"](model(new[0])), new[1]).by_class
    shares = [one.value for one in by_class.values()]
    right.bar(range(10), shares, color="darkorange")
    for axes in (left, right):
        axes.axhline(0.9, color="black", ls=":")
    left.text(30, 0.92, "guaranteed: 0.9", fontsize=9)
    left.set(ylim=(0, 1.02), xlabel="rotation, degrees", ylabel="share of labels in the set")
    right.set(xlabel="digit", xticks=range(10))
    right.set_title("`threshold`, no rotation, by class", fontsize=10)
    return fig
