"""What a span of OpenTelemetry says about a prediction, where that package is installed."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

SPAN = "nescio.predict"


def tracing() -> bool:
    """Whether spans go anywhere: a provider was set, as opentelemetry-instrument does."""
    try:
        from opentelemetry import trace
    except ImportError:
        return False
    # the package has no public way to ask whether a provider was set
    return getattr(trace, "_TRACER_PROVIDER", None) is not None


class Marks:
    """Spans of predictions; without OpenTelemetry there are none."""

    def __init__(self) -> None:
        try:
            from opentelemetry import propagate, trace
        except ImportError:
            self.trace = self.propagate = None
            return
        self.trace, self.propagate = trace, propagate

    def span(self, headers: Mapping[str, str]) -> AbstractContextManager[None]:
        """A block in which a span is current: the one that is, or one below that of the client.

        headers: of the request, which may name the span of the client.
        """
        if self.trace is None or self.trace.get_current_span().is_recording():
            return nullcontext()
        return self._new_span(headers)

    def mark(self, answered: Any) -> None:
        """Put decisions on the current span.

        answered: what a request is told.
        """
        span = None if self.trace is None else self.trace.get_current_span()
        if span is None or not span.is_recording():
            return
        decisions = answered.columns["decision"].tolist()
        span.set_attribute("nescio.guard", answered.version.name)
        span.set_attribute("nescio.version", answered.version.version)
        span.set_attribute("nescio.request", answered.id)
        span.set_attribute("nescio.rows", len(decisions))
        for decision in ("answer", "unsure", "ood"):
            span.set_attribute(f"nescio.decision.{decision}", decisions.count(decision))

    @contextmanager
    def _new_span(self, headers: Mapping[str, str]) -> Iterator[None]:
        assert self.trace is not None
        assert self.propagate is not None
        parent = self.propagate.extract(dict(headers))
        tracer = self.trace.get_tracer("nescio")
        kind = self.trace.SpanKind.SERVER
        with tracer.start_as_current_span(SPAN, context=parent, kind=kind):
            yield
