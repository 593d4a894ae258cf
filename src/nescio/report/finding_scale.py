"""A finding as a small picture: its interval on a scale with the limits."""

from collections.abc import Iterator
from typing import Any

from nescio.report.render import known

WIDE, HIGH = 272, 20


def finding_scale(one: Any) -> str:
    """An SVG element that shows where the number lies, or nothing where it is not known."""
    value = known(one.value)
    limits = [v for v in (known(one.attention), known(one.fail)) if v is not None]
    if value is None or not limits or one.unit == "count":
        return ""
    ends = [v if (v := known(end)) is not None else value for end in (one.low, one.high)]
    low, high = _domain(one, [value, *ends, *limits])
    at = {v: round(4 + (WIDE - 8) * (v - low) / (high - low), 1) for v in (value, *ends, *limits)}
    parts = [
        f'<svg class="scale" viewBox="0 0 {WIDE} {HIGH}" aria-hidden="true" focusable="false">',
        *_zones(one, at),
        f'<path class="track" d="M4 10H{WIDE - 4}"/>',
        *(f'<path class="limit" d="M{at[v]} 2V18"/>' for v in limits),
        f'<path class="range" d="M{min(at[e] for e in ends)} 10H{max(at[e] for e in ends)}"/>',
        f'<circle class="dot" cx="{at[value]}" cy="10" r="4"/></svg>',
    ]
    return "".join(parts)


def _domain(one: Any, values: list[float]) -> tuple[float, float]:
    """The ends of the scale: a little room around all numbers, within what the number can be."""
    low, high = min(values), max(values)
    room = 0.15 * (high - low) or 0.1 * abs(high) or 1.0
    low, high = low - room, high + room
    if one.unit == "share":
        return max(0.0, low) if low > 0.25 * high else 0.0, min(1.0, high)
    return (0.0, high) if 0 <= min(values) < 0.5 * high else (low, high)


def _zones(one: Any, at: dict[float, float]) -> Iterator[str]:
    """Where the number keeps its limits, needs attention, and fails."""
    fail, attention = known(one.fail), known(one.attention)
    cuts = [("warn", attention), ("bad", fail)]
    edges = [(kind, at[v]) for kind, v in cuts if v is not None]
    start, end = (4.0, WIDE - 4.0) if one.better == "lower" else (WIDE - 4.0, 4.0)
    spans, kind = [], "good"
    for after, edge in edges:
        spans.append((kind, start, edge))
        kind, start = after, edge
    for name, a, b in [*spans, (kind, start, end)]:
        if abs(b - a) > 0:
            x, width = min(a, b), round(abs(b - a), 1)
            yield f'<rect class="{name}" x="{x}" y="5" width="{width}" height="10"/>'
