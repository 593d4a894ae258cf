"""Part `flow-chart`: the paper's chain of statements, each with what became of it."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from nescio.report.plots.look import add_title, with_look
from nescio_papers.kit import Findings, Settings, numbers_of, percent
from nescio_papers.know_your_limits.models import ANCHORED, DROPOUT, ENSEMBLE, PLAIN
from nescio_papers.know_your_limits.proofs import statements
from nescio_papers.know_your_limits.rays import rays
from nescio_papers.know_your_limits.statement import CORRECTED, FALSE, PRINTED
from nescio_papers.know_your_limits.surfaces import ENTROPY, INFORMATION, LEAST, VARIANCE

FIGURE = "figure-2.png"
FILLS = {PRINTED: "#d7ecf7", CORRECTED: "#fdf0cf", FALSE: "#f9d9c6"}  # pale Okabe and Ito
EDGES = {PRINTED: "#0072B2", CORRECTED: "#B07A00", FALSE: "#D55E00"}
LETTERS = 40  # in a line of a box
HALF_WIDE, HALF_TALL = 0.42, 0.36  # of a box
INK = "#444444"
Place = tuple[float, float]  # center, in box widths and heights, downwards


@dataclass(frozen=True)
class Box:
    """A statement: where it stands, what it says, what was found, and its verdict."""

    place: Place
    name: str
    says: str
    found: str
    verdict: str


# What a proof uses, and the corners of an arrow that goes around other boxes.
ARROWS: Mapping[tuple[str, str], tuple[Place, ...]] = {
    ("affine", "lemma1"): (),
    ("affine", "pup"): (),
    ("lemma1", "prop1"): (),
    ("lemma1", "prop2"): (),
    ("lemma1", "lemma10"): ((0.2, 1.36), (0.2, 1.43), (1.95, 1.43), (1.95, 1.64)),
    ("pup", "prop1"): (),
    ("pup", "prop2"): (),
    ("pup", "lemma10"): (),
    ("softmax", "prop1"): (),
    ("softmax", "lemma10"): ((2.2, 1.36), (2.2, 1.64)),
    ("lemma10", "prop1"): (),
    ("prop1", "lemma3"): (),
    ("prop1", "lemma4"): (),
    ("prop1", "lemma5"): (),
    ("prop1", "lemma7"): ((1.2, 2.36), (1.2, 2.57), (1.5, 2.57), (1.5, 3.5), (2, 3.5), (2, 3.64)),
    ("lemma4", "lemma6"): (),
    ("lemma6", "lemma7"): (),
    ("lemma3", "theorem"): ((0, 3.36), (0, 5), (0.58, 5)),
    ("lemma5", "theorem"): ((2.42, 3), (2.49, 3), (2.49, 5), (1.42, 5)),
    ("lemma6", "theorem"): (),
    ("lemma7", "theorem"): (),
}


def flow_chart(settings: Settings) -> Findings:
    """Figure 2 with a verdict in every box, from the exact checks and the trained networks."""
    result = numbers_of(settings, "rays") or rays(settings).numbers
    checked = numbers_of(settings, "statements") or statements(settings).numbers
    boxes = _boxes(result, checked["statements"])
    counts = {v: sum(box.verdict == v for box in boxes.values()) for v in FILLS}
    shown = ", ".join(f"{verdict}: {count}" for verdict, count in counts.items())
    return Findings(
        numbers={
            "verdicts": {key: box.verdict for key, box in boxes.items()},
            "counts": counts,
            "arrows": [list(pair) for pair in ARROWS],
        },
        figures={FIGURE: _figure(boxes)},
        captions={
            FIGURE: f"The paper's statements: {shown}. An arrow ends at a statement whose proof "
            "uses the one it comes from. In parentheses: the section; there is no Lemma 8. "
            "Lemmas 3 to 7 inherit the gap of Proposition 1; all six hold where one class alone "
            "grows fastest. Verdicts are those of the exact checks in the table of statements."
        },
    )


def _boxes(result: Mapping[str, Any], checked: Mapping[str, Any]) -> dict[str, Box]:
    """What is said and found, by statement; the verdicts come from the checks."""
    plain = result[PLAIN]
    sure = plain["limits"]["sure of one class"]["mean"]

    def gone(model: str, measure: str) -> str:
        return f"{percent(result[model][measure]['gradient gone']['mean'])} of rays ({model})"

    def still(model: str, measure: str) -> str:
        return percent(result[model][measure]["still"]["mean"])

    def off(key: str) -> str:
        return f"{checked[key]['worst']:.0e}"

    def stays(key: str) -> str:
        return f"a counter-example keeps {checked[key]['miss']:.4f}"

    texts = {
        "affine": ((0.5, 0), "Piecewise affine (4)",
                   "a ReLU network is V x + a on each polytope",
                   f"true to {off('affine')}; the printed product needs the index L - l on Phi"),
        "lemma1": ((0, 1), "Lemma 1 (4)",
                   "logits are strictly monotone if V has no zero entry",
                   f"true to {off('lemma1')}; rays of the plain network that end at a zero entry: "
                   f"{percent(plain['limits']['zero entry']['mean'])}"),
        "pup": ((1, 1), "Lemma 2, PUP (4)",
                "scaling one coordinate ends in one unbounded polytope",
                f"true to {off('pup')} beyond the last breakpoint; x_d must not be 0"),
        "softmax": ((2, 1), "Lemma 9, softmax (A.2)",
                    "its derivatives go to 0 as a logit goes to infinity",
                    "with the other logits fixed; where two grow together, as in the proof, it "
                    f"stays {checked['softmax']['miss']:.2f}"),
        "prop2": ((0, 2), "Proposition 2 (4, A.3)",
                  "no equal entries in column d: one class gets p = 1",
                  "x_d must not be 0; below 0 the smallest entry wins; of the plain network's rays "
                  f"{percent(sure)} end above 0.999"),
        "prop1": ((1, 2), "Proposition 1 (4, A.2)",
                  "no zero entry in V: the gradient of p goes to 0",
                  f"{stays('prop1')}; one class alone must grow fastest"),
        "lemma10": ((2, 2), "Lemma 10 (A.2)",
                    "1 / (derivative of the softmax) outgrows the slopes of the logits",
                    f"two classes that grow alike keep {checked['lemma10']['miss']:.3g}; with one "
                    "fastest class it goes to minus infinity where c is not c'"),
        "lemma3": ((0, 3), "Lemma 3, max probability (5)", "its gradient goes to 0",
                   f"{stays('lemma3')}; gone on {gone(PLAIN, LEAST)}"),
        "lemma4": ((1, 3), "Lemma 4, mean of networks (A.4)",
                   "the gradient of the mean p goes to 0",
                   f"{stays('lemma4')}; true where Proposition 1 is, for every member"),
        "lemma5": ((2, 3), "Lemma 5, class variance (A.5)", "its gradient goes to 0",
                   f"{stays('lemma5')}; gone on {gone(ENSEMBLE, VARIANCE)}"),
        "lemma6": ((1, 4), "Lemma 6, entropy (A.6)", "its gradient goes to 0",
                   f"{stays('lemma6')}; p log p mends the proof; gone on {gone(DROPOUT, ENTROPY)}"),
        "lemma7": ((2, 4), "Lemma 7, mutual information (A.7)", "its gradient goes to 0",
                   f"{stays('lemma7')}; gone on {gone(ANCHORED, INFORMATION)}"),
        "theorem": ((1, 5), "Theorem 1 (5)", "every measure converges to a fixed value",
                    f"true for all V, to {off('theorem')}: logits end affine; at rest: "
                    f"{still(PLAIN, ENTROPY)} plain, {still(ANCHORED, INFORMATION)} anchored. A "
                    "vanishing gradient alone does not prove it"),
    }  # fmt: skip
    return {key: Box(*text, checked[key]["verdict"]) for key, text in texts.items()}


@with_look
def _figure(boxes: Mapping[str, Box]) -> Figure:
    figure = Figure(figsize=(12, 15.6), layout="constrained")
    axis = figure.subplots()
    axis.set(xlim=(-0.45, 2.52), ylim=(5.42, -0.42))
    axis.axis("off")
    for (start, end), corners in ARROWS.items():
        _arrow(axis, corners or straight(boxes[start].place, boxes[end].place))
    for box in boxes.values():
        _draw_box(axis, box)
    add_title(
        figure,
        "Values always converge; gradients vanish only where one class alone grows fastest",
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
    result = textwrap.fill(box.found.replace(" %", "\u00a0%"), LETTERS)
    index: Any = {"ha": "center", "zorder": 4}
    axis.text(x, y - 0.27, box.name, weight="bold", fontsize=11.5, va="center", **index)
    axis.text(x, y - 0.2, says, fontsize=10.5, va="top", style="italic", **index)
    axis.text(x, y - 0.03, result, fontsize=10.5, va="top", **index)
    verdict = box.verdict.upper()
    color = EDGES[box.verdict]
    axis.text(x, y + 0.3, verdict, fontsize=10, weight="bold", color=color, va="center", **index)


def straight(start: Place, end: Place) -> tuple[Place, Place]:
    """An arrow between two boxes, from edge to edge."""
    (x0, y0), (x1, y1) = start, end
    dx, dy = x1 - x0, y1 - y0
    reach = min(
        HALF_WIDE / abs(dx) if dx else float("inf"), HALF_TALL / abs(dy) if dy else float("inf")
    )
    return (x0 + reach * dx, y0 + reach * dy), (x1 - reach * dx, y1 - reach * dy)


def _arrow(axis: Any, corners: Sequence[Place]) -> None:
    """A line through the corners, with a head at its end."""
    x, y = zip(*corners, strict=True)
    axis.plot(x[:-1], y[:-1], color=INK, linewidth=1.5, zorder=2, solid_capstyle="butt")
    axis.annotate(
        "",
        corners[-1],
        corners[-2],
        arrowprops={
            "arrowstyle": "-|>",
            "color": INK,
            "linewidth": 1.5,
            "shrinkA": 0,
            "shrinkB": 0,
        },
        zorder=2,
    )
