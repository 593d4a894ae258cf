"""The threshold explorer of the page: what the guard would do at 41 thresholds."""

from collections.abc import Sequence
from dataclasses import dataclass

from nescio.guards import Thresholds, ThresholdStep
from nescio.metrics import Interval
from nescio.report.render import Grid, percent
from nescio.report.sections.threshold_words import threshold_table

SETS = 8  # OOD sets beside the numbers; the table has them all
WIDE, ROOM = 900, 34  # of the chart; of its labels
TALL = 96  # of one panel
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
    confidence: str
    hidden_sets: int
    chart: str
    table: Grid


def explorer_of(found: Thresholds) -> Explorer:
    """The explorer of thresholds."""
    steps = tuple(_step(k, one, len(found.steps)) for k, one in enumerate(found.steps))
    return Explorer(
        steps=steps,
        checked=len(steps) // 4 if found.own is None else found.own,
        own=found.own,
        samples=found.samples,
        score=found.score,
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
    count = len(found.steps)
    kept = [one for one in found.steps if one.coverage.value >= KEPT] or found.steps[:1]
    top = min(1.0, 1.25 * max(max(one.bound for one in kept), 1e-9))
    second, base = 2 * ROOM + TALL, 2 * ROOM + 2 * TALL
    coverage = [(k, one.coverage.value) for k, one in enumerate(found.steps)]
    bounds = [(k, one.bound) for k, one in enumerate(found.steps)]
    risks = [(k, one.risk.value) for k, one in enumerate(found.steps) if one.risk is not None]
    parts = [
        f'<svg class="chart" viewBox="0 0 {WIDE} {base}" role="img" '
        'aria-label="Coverage, and below it the risk with its bound, by threshold">',
        *_panel(ROOM, "answered", 1.0, "k1"),
        _line(coverage, ROOM, 1.0, "l1", count),
        *_panel(second, "errors among the answers; dashed: at most this, at all steps", top, "k2"),
        _line(bounds, second, top, "l3", count),
        _line(risks, second, top, "l2", count),
        *(f'<path class="now at-{k}" d="{_cursor(_x(k, count))}"/>' for k in range(count)),
        "</svg>",
    ]
    return "".join(parts)


def _cursor(x: float) -> str:
    return "".join(f"M{x} {top}v{TALL}" for top in (ROOM, 2 * ROOM + TALL))


def _panel(start: int, title: str, top: float, color: str) -> list[str]:
    """Title, frame and the number at its top."""
    foot = start + TALL
    return [
        f'<text x="0" y="{start - 8}"><tspan class="{color}">&#9632;</tspan> {title}</text>',
        f'<text x="{WIDE}" y="{start - 8}" text-anchor="end">{100 * top:.3g} %</text>',
        f'<path class="frame" d="M0 {start}H{WIDE}M0 {foot}H{WIDE}"/>',
    ]


def _line(
    points: Sequence[tuple[int, float]], start: int, top: float, kind: str, count: int
) -> str:
    """A line through the shares that fit under the top."""
    inside = [(k, share) for k, share in points if share <= top]
    at = [f"{_x(k, count)} {start + TALL * (1 - share / top):.1f}" for k, share in inside]
    return f'<path class="{kind}" d="M{"L".join(at)}"/>' if at else ""
