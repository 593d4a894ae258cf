"""Drawings of the part `figures`."""

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from nescio.report.plots.look import COLORS, WIDTH, add_title, with_look
from nescio_papers.relu_overconfidence.figures import Pictures

BINS = [i / 40 for i in range(41)]


@with_look
def figure_of_noise(shown: Pictures) -> Figure:
    """A row of noise, and a row for each network and attack, with the confidence above an image."""
    rows = [(column, attack) for column in shown.sure for attack in shown.near]
    names, count = list(shown.sure), shown.shown
    size = WIDTH / (count + 1.5)
    figure = Figure(figsize=(WIDTH, (size + 0.28) * (len(rows) + 1) + 0.7), layout="constrained")
    axes = figure.subplots(len(rows) + 1, count, squeeze=False)
    for i in range(count):
        _image(axes[0, i], shown.noise[i])
        axes[0, i].set_title("  ".join(f"{shown.sure[name][i]:.2f}" for name in names), fontsize=8)
        for j, (column, attack) in enumerate(rows):
            _image(axes[j + 1, i], shown.near[attack][column][i])
            axes[j + 1, i].set_title(f"{shown.near_sure[attack][column][i]:.3f}", fontsize=10)
    labels = [f"noise\n({', '.join(names)})", *(f"{column},\n{attack}" for column, attack in rows)]
    for axis, label in zip(axes[:, 0], labels, strict=True):
        axis.set_ylabel(label, rotation=0, ha="right", va="center", fontsize=10)
    add_title(
        figure,
        f"Noise, and the noise nearby on which networks trained on {shown.name} are most confident",
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
def figure_of_histograms(sure: Mapping[str, Mapping[str, Tensor]]) -> Figure:
    """A row an attack, a panel a network, counts on a logarithmic scale."""
    columns = list(next(iter(sure.values())))
    figure = Figure(figsize=(WIDTH, 2.9 * len(sure) + 0.9), layout="constrained")
    axes = figure.subplots(len(sure), len(columns), sharex=True, sharey=True, squeeze=False)
    most = max(1, *(len(values) for row in sure.values() for values in row.values()))
    for row, (attack, by_column) in zip(axes, sure.items(), strict=True):
        for i, (axis, (name, values)) in enumerate(zip(row, by_column.items(), strict=True)):
            axis.hist(values.numpy(), bins=BINS, color=COLORS[i], edgecolor="white", linewidth=0.4)
            title = f"{name}: {len(values)} samples"
            if len(values):
                mean = values.mean().item()
                axis.axvline(mean, color="black", linestyle="--", linewidth=1.2)
                title += f", mean {mean:.3f}"
            axis.set(yscale="log", xlim=(0, 1), ylim=(0.7, 2 * most))
            axis.set_title(title, loc="left")
        row[0].set_ylabel(f"{attack}\nsamples (log scale)")
    for axis in axes[-1]:
        axis.set_xlabel("confidence")
    add_title(figure, "The confidence of networks on adversarial samples of MNIST")
    return figure
