"""Draw the pictures of the documentation: `python docs/make_images.py` (a minute or two)."""

from pathlib import Path

import torch
from matplotlib.figure import Figure

import nescio
from nescio import calibration, geometry, metrics, nets
from nescio.cli.demo import audit_digits
from nescio.core.threads import one_thread
from nescio.report.plots import audit_plots
from nescio.report.plots.reliability_plot import reliability_diagram

FOLDER = Path(__file__).parent / "images"


def main() -> None:
    """Audit the digits and save the plots that README and docs show; draw a network's pieces."""
    FOLDER.mkdir(exist_ok=True)
    pieces().savefig(FOLDER / "pieces.png", dpi=110)
    calibrated().savefig(FOLDER / "calibration.png", dpi=110)
    result = audit_digits().findings
    audit_plots.confidence_along_ray(result).savefig(FOLDER / "confidence-far-away.png", dpi=110)
    audit_plots.confidence_histograms(result).savefig(FOLDER / "confidence-histograms.png", dpi=110)
    audit_plots.far_field(result).savefig(FOLDER / "far-field.png", dpi=110)


@one_thread()
def calibrated() -> Figure:
    """A network that knows 150 noisy points by heart, before and after temperature scaling."""
    moons = nescio.data.half_moons(train=150, validation=1000, test=2000, noise=0.4)
    model = nescio.train(
        lambda: nets.mlp(2, 2, widths=(100, 100)),
        moons.train,
        epochs=200,
        learning_rate=1e-2,
        progress=False,
    )
    assert moons.validation is not None
    assert moons.test is not None
    cool = calibration.temperature(model, moons.validation)
    x, y = moons.test
    seen = {"before": model(x), f"after, temperature {cool.temperature:.1f}": cool(x)}
    return reliability_diagram(
        {
            name: metrics.reliability(answers.probs.amax(-1), answers.labels == y)
            for name, answers in seen.items()
        }
    )


@one_thread()
def pieces() -> Figure:
    """A network on half-moons, and a convolutional one on the plane through three digits."""
    moons = nescio.data.half_moons()
    net = nescio.train(
        lambda: nets.mlp(2, 2, widths=(25, 25)), moons.train, epochs=60, progress=False
    ).member(0)
    figure = Figure(figsize=(11.4, 4.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    found = geometry.regions(net, [(-4.0, 5.0), (-4.0, 4.5)])
    x, y = moons.train
    geometry.draw_regions(found, left, points=x[::6], labels=y[::6], names=("upper", "lower"))
    left.set_title(f"half-moons, 2-25-25-2: {len(found):,} pieces", loc="left")
    for axis in (left, right):
        axis.title.set_fontsize(11)

    digits = nescio.data.digits()
    images, labels = digits.train
    cnn = nescio.train(lambda: nets.digit_cnn(), digits.train, epochs=8, progress=False).member(0)
    three = torch.stack([images[labels == k][0] for k in (0, 1, 8)])
    slice_ = geometry.regions(cnn, geometry.around(three), plane=three)
    geometry.draw_regions(slice_, right, points=three, labels=[0, 1, 8])
    right.set_title(f"CNN on a plane through three digits: {len(slice_):,} pieces", loc="left")
    return figure


if __name__ == "__main__":
    main()
