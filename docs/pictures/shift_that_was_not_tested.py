"""Training with rotations helps under rotation, and not under the shifts that nobody tried."""

from matplotlib.figure import Figure

import nescio
from nescio.data import corruptions
from nescio.data.augmentation import affine
from nescio.evaluation import under_shift


def draw() -> Figure:
    """The accuracy of two networks along four shifts."""
    digits = nescio.data.digits()
    trained = {
        name: nescio.train(
            lambda: nescio.nets.mlp((1, 8, 8), 10),
            digits.train,
            epochs=30,
            learning_rate=3e-3,
            augment=augment,
        )
        for name, augment in {
            "plain": None,
            "trained with rotations": affine(45.0, shift=0.0, scale=0.0, shear=0.0),
        }.items()
    }
    shifts = {
        "rotation, tested": corruptions.rotation(degrees=9),
        "translation": corruptions.translation(pixels=0.5),
        "noise": corruptions.gaussian_noise(deviation=0.08),
        "contrast": corruptions.contrast(),
    }
    fig = Figure(figsize=(7, 3), layout="constrained")
    panels = fig.subplots(1, 4, sharey=True)
    for axes, (title, shift) in zip(panels, shifts.items(), strict=True):
        found = under_shift(trained, digits.test, shift)
        for name, color in zip(trained, ("0.6", "tab:blue"), strict=True):
            axes.plot(found.strengths, found.curve(name, "accuracy"), color=color, lw=2)
        axes.set_title(title, fontsize=10)
        axes.set(ylim=(0, 1.02), xlabel="strength")
    panels[0].text(0.1, 0.2, "gray: plain\nblue: trained\nwith rotations", fontsize=9)
    panels[0].set_ylabel("accuracy")
    return fig
