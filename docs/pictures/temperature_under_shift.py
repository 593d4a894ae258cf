"""A temperature that is right on test digits leaves a gap as soon as the digits are rotated."""

import torch
from matplotlib.figure import Figure

import nescio
from nescio import calibration
from nescio.data import corruptions
from nescio.evaluation import under_shift


def draw() -> Figure:
    """Confidence and accuracy along a rotation, before and after temperature scaling."""
    digits = nescio.data.digits()
    model = nescio.train(
        lambda: nescio.nets.mlp((1, 8, 8), 10), digits.train, epochs=40, learning_rate=3e-3
    )
    cool = calibration.temperature(model, digits.validation)
    found = under_shift(
        {"before": model, "after": cool}, digits.test, corruptions.rotation(degrees=12)
    )
    degrees = 12 * torch.tensor(found.strengths)
    fig = Figure(figsize=(7, 3.5), layout="constrained")
    axes = fig.subplots()
    accuracy = found.curve("after", "accuracy")
    curves = {name: found.curve(name, "mean_max_confidence") for name in ("before", "after")}
    axes.plot(degrees, accuracy, color="black", lw=2)
    axes.plot(degrees, curves["before"], color="0.6", lw=2)
    axes.plot(degrees, curves["after"], color="tab:blue", lw=2)
    axes.fill_between(degrees, accuracy, curves["after"], color="tab:blue", alpha=0.15)
    axes.text(61, accuracy[-1], "accuracy", va="center")
    axes.text(61, curves["before"][-1] + 0.02, "confidence before", color="0.45", va="bottom")
    name = f"confidence after\n(temperature {cool.temperature:.1f})"
    axes.text(61, curves["after"][-1], name, color="tab:blue", va="top")
    ece = found.curve("after", "ece")
    for index, height in ((0, 0.82), (2, 0.7), (4, 0.5)):
        axes.text(degrees[index] + 1, height, f"ECE {ece[index]:.2f}")
    axes.set(xlim=(0, 80), ylim=(0, 1.02), xlabel="rotation of the test digits, degrees")
    return fig
