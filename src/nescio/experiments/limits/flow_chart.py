"""Part `flow-chart`: the paper's chain of statements, each with what became of it."""

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from nescio.experiments.experiment import Done, Findings, Settings
from nescio.experiments.limits.models import ANCHORED, DROPOUT, ENSEMBLE, PLAIN
from nescio.experiments.limits.rays import rays
from nescio.experiments.limits.shares import percent
from nescio.experiments.limits.surfaces import ENTROPY, INFORMATION, LEAST, VARIANCE
from nescio.report.drawing import add_title, with_look

FIGURE = "figure-2.png"
HOLDS, CONDITION, FAILS = "holds", "holds with an extra condition", "does not hold as stated"
FILLS = {HOLDS: "#d7ecf7", CONDITION: "#fdf0cf", FAILS: "#f9d9c6"}  # pale Okabe and Ito
EDGES = {HOLDS: "#0072B2", CONDITION: "#B07A00", FAILS: "#D55E00"}
LETTERS = 42  # in a line of a box
HALF_WIDE, HALF_TALL = 0.42, 0.36  # of a box
INK = "#444444"


@dataclass(frozen=True)
class Box:
    """A statement: where it stands, what it says, what was found, and its verdict."""

    place: tuple[float, float]  # centre, in box widths and heights
    name: str
    says: str
    found: str
    verdict: str


ARROWS = (
    ("affine", "pup"), ("affine", "lemma1"), ("lemma1", "prop1"), ("pup", "prop1"),
    ("softmax", "prop1"), ("prop1", "prop2"), ("prop1", "lemma3"), ("prop1", "lemma4"),
    ("lemma4", "lemma5"), ("lemma4", "lemma6"), ("lemma4", "lemma7"), ("lemma6", "lemma7"),
    ("lemma5", "theorem"), ("lemma6", "theorem"), ("lemma7", "theorem"),
)  # fmt: skip


def flow_chart(settings: Settings, done: Done) -> Findings:
    """Figure 2 with a verdict in every box."""
    found = done.get("rays") or rays(settings, done).numbers
    boxes = _boxes(found)
    counts = {v: sum(box.verdict == v for box in boxes.values()) for v in FILLS}
    shown = ", ".join(f"{verdict}: {count}" for verdict, count in counts.items())
    return Findings(
        numbers={
            "verdicts": {key: box.verdict for key, box in boxes.items()},
            "counts": counts,
        },
        figures={FIGURE: _figure(boxes)},
        captions={
            FIGURE: f"The paper's statements and how they depend on each other: {shown}. "
            "Lemmas 3 to 7 inherit the gap of Proposition 1, and hold under its extra condition."
        },
    )


def _boxes(found: Mapping[str, Any]) -> dict[str, Box]:
    example, plain = found["counter-example"], found[PLAIN]
    sure = plain["limits"]["sure of one class"]["mean"]

    def gone(model: str, measure: str) -> str:
        return percent(found[model][measure]["gradient gone"]["mean"])

    def still(model: str, measure: str) -> str:
        return percent(found[model][measure]["still"]["mean"])

    stays = f"counter-example: norm stays {example['gradient']:.4f}"
    one = "one class alone must have the largest slope"
    return {
        "affine": Box(
            (0, 0),
            "Piecewise affine",
            "a ReLU network is V x + a on each polytope",
            "true; the printed product needs the index L - l on Phi, not l",
            HOLDS,
        ),
        "softmax": Box(
            (2, 0),
            "Softmax, Lemma 9",
            "softmax is component-wise monotone and saturates",
            "with the other logits fixed; not where all logits grow together, as in the proof",
            CONDITION,
        ),
        "pup": Box(
            (1, 0),
            "Lemma 2, PUP",
            "scaling one coordinate ends in one unbounded polytope",
            "true where that coordinate is not 0",
            HOLDS,
        ),
        "lemma1": Box(
            (0, 1),
            "Lemma 1",
            "logits are strictly monotone if V has no zero entry",
            "true; rays of the plain network that end at a zero entry: "
            f"{percent(plain['limits']['zero entry']['mean'])}",
            HOLDS,
        ),
        "prop1": Box(
            (1, 1),
            "Proposition 1",
            "no zero entry in V: the gradient of p goes to 0",
            f"{stays} with V = [[1, 1], [1, -1]]; {one}",
            FAILS,
        ),
        "prop2": Box(
            (2, 1),
            "Proposition 2",
            "no equal entries in column d: one class gets p = 1",
            "x_d must not be 0; below 0 the smallest slope wins; of the plain network's rays "
            f"{percent(sure)} end above 0.999",
            CONDITION,
        ),
        "lemma3": Box(
            (0, 2),
            "Lemma 3, max probability",
            "its gradient goes to 0",
            f"as Proposition 1; trained networks: {gone(PLAIN, LEAST)} of rays below 1e-6",
            CONDITION,
        ),
        "lemma4": Box(
            (1, 2),
            "Lemma 4, mean of networks",
            "the gradient of the mean p goes to 0",
            "as Proposition 1, for every member",
            CONDITION,
        ),
        "lemma5": Box(
            (0, 3),
            "Lemma 5, class variance",
            "its gradient goes to 0",
            f"as Lemma 4; ensemble: {gone(ENSEMBLE, VARIANCE)} of rays below 1e-6",
            CONDITION,
        ),
        "lemma6": Box(
            (1, 3),
            "Lemma 6, entropy",
            "its gradient goes to 0",
            "as Lemma 4; the proof takes 1 + log p as bounded, p log p mends it; MC dropout: "
            f"{gone(DROPOUT, ENTROPY)}",
            CONDITION,
        ),
        "lemma7": Box(
            (2, 3),
            "Lemma 7, mutual information",
            "its gradient goes to 0",
            f"as Lemmas 4 and 6; anchored ensemble: {gone(ANCHORED, INFORMATION)} of rays",
            CONDITION,
        ),
        "theorem": Box(
            (1, 4),
            "Theorem 1",
            "every measure converges to a fixed value",
            f"true for all V: logits end affine; at rest: {still(PLAIN, ENTROPY)} plain, "
            f"{still(ANCHORED, INFORMATION)} anchored. A vanishing gradient alone does not "
            "prove it",
            HOLDS,
        ),
    }


@with_look
def _figure(boxes: Mapping[str, Box]) -> Figure:
    figure = Figure(figsize=(13.2, 14), layout="constrained")
    axis = figure.subplots()
    axis.set(xlim=(-0.55, 2.55), ylim=(4.45, -0.45))
    axis.axis("off")
    for start, end in ARROWS:
        _arrow(axis, boxes[start].place, boxes[end].place)
    _around(axis, boxes["lemma3"].place, boxes["theorem"].place)
    for box in boxes.values():
        _draw_box(axis, box)
    add_title(
        figure,
        "Values always converge; gradients vanish only where one class alone has the largest slope",
    )
    return figure


def _draw_box(axis: Any, box: Box) -> None:
    x, y = box.place
    axis.add_patch(
        FancyBboxPatch(
            (x - HALF_WIDE, y - HALF_TALL),
            2 * HALF_WIDE,
            2 * HALF_TALL,
            boxstyle="round,pad=0,rounding_size=0.03",
            facecolor=FILLS[box.verdict],
            edgecolor=EDGES[box.verdict],
            linewidth=2,
            zorder=3,
        )
    )
    says = textwrap.fill(box.says, LETTERS)
    found = textwrap.fill(box.found.replace(" %", "\u00a0%"), LETTERS)
    place: Any = {"ha": "center", "zorder": 4}
    axis.text(x, y - 0.27, box.name, weight="bold", fontsize=12, va="center", **place)
    axis.text(x, y - 0.2, says, fontsize=10.5, va="top", style="italic", **place)
    axis.text(x, y - 0.03, found, fontsize=10.5, va="top", **place)
    verdict = box.verdict.upper()
    colour = EDGES[box.verdict]
    axis.text(x, y + 0.3, verdict, fontsize=10, weight="bold", color=colour, va="center", **place)


def _arrow(axis: Any, start: tuple[float, float], end: tuple[float, float]) -> None:
    """An arrow between two boxes, from edge to edge."""
    (x0, y0), (x1, y1) = start, end
    dx, dy = x1 - x0, y1 - y0
    reach = min(
        HALF_WIDE / abs(dx) if dx else float("inf"), HALF_TALL / abs(dy) if dy else float("inf")
    )
    axis.annotate(
        "",
        (x1 - reach * dx, y1 - reach * dy),
        (x0 + reach * dx, y0 + reach * dy),
        arrowprops={"arrowstyle": "-|>", "color": INK, "linewidth": 1.5},
        zorder=2,
    )


def _around(axis: Any, start: tuple[float, float], end: tuple[float, float]) -> None:
    """An arrow that leaves to the left, goes down beside the boxes, and enters from the left."""
    (x0, y0), (x1, y1) = start, end
    side = x0 - HALF_WIDE - 0.07
    axis.plot([x0 - HALF_WIDE, side, side], [y0, y0, y1], color=INK, linewidth=1.5, zorder=2)
    axis.annotate(
        "",
        (x1 - HALF_WIDE, y1),
        (side, y1),
        arrowprops={"arrowstyle": "-|>", "color": INK, "linewidth": 1.5, "shrinkA": 0},
        zorder=2,
    )
