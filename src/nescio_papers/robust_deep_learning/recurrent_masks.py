"""The dropout masks of a real pass through a recurrent network, as the paper draws them."""

from dataclasses import dataclass
from typing import Any

import torch
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from nescio.core import generator
from nescio.nets.modes import ELEMENTS, MaskPerPass
from nescio.report.plots.look import GRAY, WIDTH, add_title, with_look
from nescio_papers.robust_deep_learning.recurrent_runs import DEPTH, NAIVE, VARIATIONAL

STEPS, UNITS = 6, 12  # shown
MANY = colormaps["tab20"]  # a color for every mask of the naive kind
WORDS = {NAIVE: "naive dropout", VARIATIONAL: "variational dropout"}


class _Recorded(TorchFunctionMode):
    """Remembers what calls of dropout return: of ones, the mask."""

    def __init__(self) -> None:
        super().__init__()
        self.masks: list[Tensor] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        if func in ELEMENTS:
            self.masks.append(found.detach().clone())
        return found


@dataclass(frozen=True, kw_only=True)
class PassMasks:
    """The masks of one pass at every step, `(L, units)`; None where there is no dropout."""

    inputs: tuple[Tensor | None, ...]  # of each layer
    states: tuple[Tensor | None, ...]

    def same_share(self) -> float:
        """The share of steps whose masks are all those of the first step."""
        given = [mask for mask in (*self.inputs, *self.states) if mask is not None]
        alike = [(mask == mask[:1]).all(1) for mask in given]
        return float(torch.stack(alike).all(0).double().mean())

    def numbers(self) -> dict[str, float]:
        """As plain numbers, for JSON."""
        dropped = [mask is not None for mask in self.states]
        return {"same_share": self.same_share(), "layers_with_dropped_states": sum(dropped)}


def masks_of(net: nn.Module, kind: str, x: Tensor, *, seed: int, inputs: bool) -> PassMasks:
    """The masks that the first pass of MC dropout draws for a sequence `(1, channels + 1, L)`.

    inputs: whether the inputs of the first layer are dropped.
    """
    recorded, length = _Recorded(), x.shape[-1]
    with MaskPerPass([generator(seed, "pass", 0)], 1), recorded:
        net.eval()(x)
    drawn = iter(mask[0] for mask in recorded.masks)
    entering: list[Tensor | None] = []
    states: list[Tensor | None] = []
    for layer in range(DEPTH):
        mask = next(drawn) if inputs or layer else None
        entering.append(None if mask is None else mask.expand(length, mask.shape[-1]))
        states.append(next(drawn).expand(length, -1) if kind == VARIATIONAL else None)
    return PassMasks(inputs=tuple(entering), states=tuple(states))


@with_look
def masks_figure(found: dict[str, PassMasks], name: str) -> Figure:
    """Connections in the colors of their masks, and below which units each mask drops."""
    figure = Figure(figsize=(WIDTH, 7.2), layout="constrained")
    axes = figure.subplots(2, 2, height_ratios=[3, 2])
    for column, kind in enumerate((NAIVE, VARIATIONAL)):
        _unrolled(axes[0, column], found[kind])
        axes[0, column].set_title(f"{WORDS[kind]}: one color is one mask", loc="left")
        _units(axes[1, column], found[kind])
    add_title(figure, f"Masks of one pass of MC dropout through a GRU trained on {name}")
    return figure


def _unrolled(axis: Axes, masks: PassMasks) -> None:
    """The network over the first steps; an arrow has the color of the mask on it."""
    colors: dict[bytes, str] = {}
    for step in range(STEPS):
        for layer in range(DEPTH):
            axis.add_patch(
                Rectangle((step - 0.2, layer - 0.14), 0.4, 0.28, fill=False, linewidth=1.2)
            )
            _arrow(axis, (step, layer - 0.86), (step, layer - 0.16),
                   _color(colors, masks.inputs[layer], step, f"in {layer}"))  # fmt: skip
            if step:
                _arrow(axis, (step - 0.78, layer), (step - 0.22, layer),
                       _color(colors, masks.states[layer], step, f"state {layer}"))  # fmt: skip
    axis.set_xlim(-0.6, STEPS - 0.4)
    axis.set_ylim(-1.05, DEPTH - 0.6)
    axis.set_xticks(range(STEPS), [f"step {step + 1}" for step in range(STEPS)])
    axis.set_yticks([-0.9, *range(DEPTH)], ["inputs", *(f"layer {n + 1}" for n in range(DEPTH))])
    axis.grid(visible=False)
    axis.spines[["left", "bottom"]].set_visible(False)
    axis.tick_params(length=0)


def _color(colors: dict[bytes, str], mask: Tensor | None, step: int, where: str) -> str | None:
    """A color for every mask that is another one; None: no dropout."""
    if mask is None:
        return None
    key = where.encode() + mask[step].numpy().tobytes()
    return colors.setdefault(key, to_hex(MANY(len(colors))))


def _arrow(
    axis: Axes, start: tuple[float, float], end: tuple[float, float], color: str | None
) -> None:
    dashes = {"color": GRAY, "linestyle": (0, (2, 2)), "linewidth": 1.1}
    look: Any = dashes if color is None else {"color": color, "linewidth": 2.6}
    style = "-|>,head_length=5,head_width=3"
    axis.add_patch(FancyArrowPatch(start, end, arrowstyle=style, shrinkA=0, shrinkB=0, **look))


def _units(axis: Axes, masks: PassMasks) -> None:
    """Which units are dropped at which step: between the layers, and of the second state."""
    parts = {"inputs of layer 2": masks.inputs[1], "states of layer 2": masks.states[1]}
    rows = []
    for mask in parts.values():
        shown = torch.full((UNITS, STEPS), 0.5) if mask is None else mask[:STEPS, :UNITS].T
        rows.append(shown.clamp(0, 1) if mask is not None else shown)
    gap = torch.full((1, STEPS), torch.nan)
    axis.imshow(torch.cat([rows[0], gap, rows[1]]), cmap="gray", vmin=0, vmax=1.15,
                aspect="auto", interpolation="nearest")  # fmt: skip
    places = [UNITS / 2 - 0.5, 1.5 * UNITS + 0.5]
    axis.set_yticks(places, [name.replace(" of ", "\nof ") for name in parts])
    axis.set_xticks(range(STEPS), [f"step {step + 1}" for step in range(STEPS)])
    axis.set_title(f"{UNITS} units; black: dropped, gray: no dropout", loc="left")
    axis.grid(visible=False)
    axis.tick_params(length=0)
