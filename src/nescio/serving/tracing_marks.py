"""What a span of OpenTelemetry says about a prediction, where that package is installed."""

from collections.abc import Callable
from typing import Any


def tracer() -> Callable[[Any], None] | None:
    """What puts decisions on the current span; None: OpenTelemetry is not installed."""
    try:
        from opentelemetry import trace
    except ImportError:
        return None
    current = trace.get_current_span

    def mark(answered: Any) -> None:
        span = current()
        if not span.is_recording():
            return
        decisions = answered.columns["decision"].tolist()
        span.set_attribute("nescio.guard", answered.version.name)
        span.set_attribute("nescio.version", answered.version.version)
        span.set_attribute("nescio.request", answered.id)
        span.set_attribute("nescio.rows", len(decisions))
        for decision in ("answer", "unsure", "ood"):
            span.set_attribute(f"nescio.decision.{decision}", decisions.count(decision))

    return mark
