"""The threshold explorer of the page: what the guard would do at 41 thresholds."""

from collections.abc import Sequence
from dataclasses import dataclass

from nescio.guards import Thresholds, ThresholdStep
from nescio.metrics import Interval
from nescio.report.render import Grid, percent
from nescio.report.sections.threshold_words import WORDS, threshold_table

SETS = 8  # OOD sets beside the numbers; the table has them all
WIDE, TALL = 900, 96  # of a panel of the chart
KEPT = 0.5  # coverage up to which the risk decides the height of its panel


@dataclass(frozen=True, kw_only=True)
class Step:
    """One threshold in words."""

    label: str  # for who cannot see the picture
    threshold: str
    answered: str
    answered_ends: str
    risk: str
    risk_ends: str
    bound: str
    withheld: str
    withheld_ends: str
    abstained: tuple[tuple[str, str, float], ...]  # name, share in words, share
    x: float  # in the chart


@dataclass(frozen=True, kw_only=True)
class Explorer:
    """What the page shows of the thresholds."""

    steps: tuple[Step, ...]
    checked: int
    own: int | None
    samples: int
    score: str
    right: str  # what a right answer is
    confidence: str
    hidden_sets: int
    chart: str
    table: Grid


def explorer_of(found: Thresholds, *, intervals: bool = False) -> Explorer:
    """The explorer of thresholds; intervals: of a regression."""
    steps = tuple(_step(k, one, len(found.steps)) for k, one in enumerate(found.steps))
    return Explorer(
        steps=steps,
        checked=len(steps) // 4 if found.own is None else found.own,
        own=found.own,
        samples=found.samples,
        score=found.score,
        right=WORDS[intervals][1],
        confidence=f"{100 * found.confidence:g} %",
        hidden_sets=max(0, len(found.ood) - SETS),
        chart=_chart(found),
        table=threshold_table(found, range(len(steps))),
    )


def _step(k: int, one: ThresholdStep, count: int) -> Step:
    risk = "no answer" if one.risk is None else percent(one.risk.value)
    share = percent(one.coverage.value)
    return Step(
        label=f"step {k + 1} of {count}: answers {share}, errors among them {risk}",
        threshold="none" if one.threshold is None else f"{one.threshold:.4g}",
        answered=share,
        answered_ends=_ends(one.coverage),
        risk=risk,
        risk_ends=_ends(one.risk),
        bound=percent(one.bound),
        withheld="–" if one.false_alarms is None else percent(one.false_alarms.value),
        withheld_ends=_ends(one.false_alarms),
        abstained=tuple((name, percent(v), v) for name, v in list(one.abstained.items())[:SETS]),
        x=_x(k, count),
    )


def _ends(part: Interval | None) -> str:
    return "" if part is None else f"{percent(part.low)} to {percent(part.high)}"


# The chart: coverage above, risk and its bound below, a place on the x-axis for each step.


def _x(k: int, count: int) -> float:
    return round(WIDE * (k + 0.5) / count, 1)


def _chart(found: Thresholds) -> str:
    kept = [one for one in found.steps if one.coverage.value >= KEPT] or found.steps[:1]
    top = min(1.0, 1.25 * max(max(one.bound for one in kept), 1e-9))
    coverage = [(k, one.coverage.value) for k, one in enumerate(found.steps)]
    bounds = [(k, one.bound) for k, one in enumerate(found.steps)]
    risks = [(k, one.risk.value) for k, one in enumerate(found.steps) if one.risk is not None]
    said = "errors among the answers; dashed: at most this, at all steps"
    count = len(found.steps)
    return "".join(
        [
            _panel("answered", 1.0, "k1", count, [("l1", coverage)]),
            _panel(said, top, "k2", count, [("l3", bounds), ("l2", risks)]),
        ]
    )


Points = Sequence[tuple[int, float]]


def _panel(
    title: str, top: float, color: str, count: int, lines: Sequence[tuple[str, Points]]
) -> str:
    """A title with the number at the top of the panel, lines, and a mark for every step."""
    marks = "".join(
        f'<path class="now at-{k}" d="M{_x(k, count)} 0v{TALL}"/>' for k in range(count)
    )
    return (
        f'<p class="axis"><span><i class="{color}"></i>{title}</span>'
        f"<span>{100 * top:.3g}\N{NO-BREAK SPACE}%</span></p>"
        f'<svg class="chart" viewBox="0 0 {WIDE} {TALL}" preserveAspectRatio="none" '
        f'role="img" aria-label="{title}, by threshold">'
        f"{''.join(_line(points, top, kind, count) for kind, points in lines)}{marks}</svg>"
    )


def _line(points: Points, top: float, kind: str, count: int) -> str:
    """A line through the shares that fit under the top."""
    inside = [(k, share) for k, share in points if share <= top]
    at = [f"{_x(k, count)} {TALL * (1 - share / top):.1f}" for k, share in inside]
    return f'<path class="{kind}" d="M{"L".join(at)}"/>' if at else ""
