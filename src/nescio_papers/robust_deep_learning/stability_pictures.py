"""Pictures of part `stability`: deformed digits, and translations beside their bounds."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from torch import Tensor

from nescio.data import corruptions
from nescio.report.plots.look import add_title, line, panels, with_look

Named = Sequence[tuple[str, corruptions.Shifted]]


@with_look
def examples(image: Tensor, kinds: Mapping[str, Named]) -> Figure:
    """An image in rows by kind of deformation, from as it is to the largest size."""
    count = 1 + max(map(len, kinds.values()))
    figure = Figure(figsize=(1.9 * count, 2.0 * len(kinds) + 0.5), layout="constrained")
    for axes, shifts in zip(
        figure.subplots(len(kinds), count, squeeze=False), kinds.values(), strict=True
    ):
        shown = [("as it is", image)] + [(name, shift(image, 1)) for name, shift in shifts]
        for axis, (name, x) in zip(axes, shown, strict=True):
            axis.imshow(x[0, 0], cmap="gray_r")
            axis.set_title(name, fontsize=9)
            axis.set(xticks=[], yticks=[])
    add_title(figure, "Deformations")
    return figure


@with_look
def moved_figure(found: Mapping[int, Mapping[str, list[float]]], pixels: Sequence[int]) -> Figure:
    """A panel per number of scales: mean change and its two bounds, by the distance."""
    title = "Scattering coefficients of digits that move, relative to the norm of the digit"
    figure, axes = panels(len(found), height=3.3, title=title)
    names = {
        "change": "measured",
        "shift_bound": "bound for translations, ~ c / 4^J",
        "expansion": "bound by the change of the image",
    }
    for axis, (scales, numbers) in zip(axes, found.items(), strict=True):
        for index, (name, said) in enumerate(names.items()):
            axis.plot(pixels, numbers[name], label=said, **line(index))
        axis.set_title(f"J = {scales}: averages over {2**scales} pixels", loc="left", fontsize=10)
        axis.set(xlabel="moved by c pixels", xticks=list(pixels))
        axis.set_ylim(bottom=0)
    axes[0].legend(fontsize=8)
    axes[0].set_ylabel("change")
    return figure
