"""Drawings of the part `figures`."""

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from nescio.report.plots.look import COLORS, WIDTH, add_title, panels, with_look
from nescio_papers.relu_overconfidence.figures import Pictures

BINS = [i / 40 for i in range(41)]


@with_look
def figure_of_noise(shown: Pictures) -> Figure:
    """A row of noise, and below it a row for each network, with the confidence above an image."""
    count, names = len(shown.noise), list(shown.near)
    size = WIDTH / (count + 1.1)
    figure = Figure(figsize=(WIDTH, (size + 0.28) * (len(names) + 1) + 0.7), layout="constrained")
    axes = figure.subplots(len(names) + 1, count, squeeze=False)
    for i in range(count):
        _image(axes[0, i], shown.noise[i])
        sure = "  ".join(f"{shown.sure[name][i]:.2f}" for name in names)
        axes[0, i].set_title(sure, fontsize=8)
        for j, name in enumerate(names):
            _image(axes[j + 1, i], shown.near[name][i])
            axes[j + 1, i].set_title(f"{shown.near_sure[name][i]:.3f}", fontsize=10)
    labels = [f"noise\n({', '.join(names)})", *(f"attack on\n{name}" for name in names)]
    for axis, label in zip(axes[:, 0], labels, strict=True):
        axis.set_ylabel(label, rotation=0, ha="right", va="center", fontsize=10)
    add_title(
        figure, f"Noise, and the noise nearby that networks trained on {shown.name} are surest of"
    )
    return figure


def _image(axis: Axes, x: Tensor) -> None:
    pixels = x.permute(1, 2, 0).numpy()
    axis.imshow(pixels, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    axis.set(xticks=[], yticks=[])
    axis.grid(visible=False)
    for side in axis.spines.values():
        side.set_visible(False)


@with_look
def figure_of_histograms(sure: Mapping[str, Tensor]) -> Figure:
    """One panel a network, counts on a logarithmic scale."""
    title = "How sure networks are of adversarial samples of MNIST"
    figure, axes = panels(len(sure), height=3.6, title=title)
    most = max(len(values) for values in sure.values())
    for i, (axis, (name, values)) in enumerate(zip(axes, sure.items(), strict=True)):
        axis.hist(values.numpy(), bins=BINS, color=COLORS[i], edgecolor="white", linewidth=0.4)
        mean = values.mean().item()
        axis.axvline(mean, color="black", linestyle="--", linewidth=1.2)
        axis.set(yscale="log", xlim=(0, 1), ylim=(0.7, 2 * most), xlabel="confidence")
        axis.set_title(f"{name}, mean {mean:.3f}", loc="left")
    axes[0].set_ylabel("adversarial samples (log scale)")
    return figure
