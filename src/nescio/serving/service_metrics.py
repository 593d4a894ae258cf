"""Counts and times of a service, as the text that Prometheus reads."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Lock

SECONDS = (0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1, 2, 4, 8)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Labels = tuple[str, ...]


class Counter:
    """Numbers that only grow, by labels.

    name: of the metric. about: what it counts. labels: their names.
    """

    kind = "counter"

    def __init__(self, name: str, about: str, labels: Sequence[str] = ()) -> None:
        self.name, self.about, self.labels = name, about, tuple(labels)
        self._lock = Lock()
        self._values: dict[Labels, float] = {} if labels else {(): 0}

    def add(self, *labels: str, by: float = 1) -> None:
        """Count one more of these `labels`.

        by: how many more.
        """
        with self._lock:
            self._values[labels] = self._values.get(labels, 0) + by

    def value(self, *labels: str) -> float:
        """The count of these `labels`."""
        return self._values.get(labels, 0)

    def lines(self) -> Iterator[str]:
        """The lines of the values."""
        with self._lock:
            values = dict(self._values)
        for labels, value in sorted(values.items()):
            yield f"{self.name}{_labels(self.labels, labels)} {_number(value)}"


class Gauge:
    """Numbers that are read when somebody asks, by labels.

    name: of the metric. about: what it says. labels: their names. read: gives the values now.
    """

    kind = "gauge"

    def __init__(
        self,
        name: str,
        about: str,
        labels: Sequence[str],
        read: Callable[[], Mapping[Labels, float]],
    ) -> None:
        self.name, self.about, self.labels, self.read = name, about, tuple(labels), read

    def lines(self) -> Iterator[str]:
        """The lines of the values."""
        for labels, value in sorted(self.read().items()):
            yield f"{self.name}{_labels(self.labels, labels)} {_number(value)}"


class Histogram:
    """How often a number was at most each of some bounds.

    name: of the metric. about: what it measures. bounds: ascending.
    """

    kind = "histogram"

    def __init__(self, name: str, about: str, bounds: Sequence[float]) -> None:
        self.name, self.about, self.bounds = name, about, tuple(bounds)
        self._lock = Lock()
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        """Count the number `value`."""
        place = bisect_left(self.bounds, value)
        with self._lock:
            self._counts[place] += 1
            self._sum += value

    def lines(self) -> Iterator[str]:
        """The lines of the bounds, the sum and the count."""
        with self._lock:
            counts, total = list(self._counts), self._sum
        so_far = 0
        for bound, count in zip([*map(_number, self.bounds), "+Inf"], counts, strict=True):
            so_far += count
            yield f'{self.name}_bucket{{le="{bound}"}} {so_far}'
        yield f"{self.name}_sum {_number(total)}"
        yield f"{self.name}_count {so_far}"


Metric = Counter | Gauge | Histogram


class ServiceMetrics:
    """What a service counts and measures."""

    def __init__(self) -> None:
        self.requests = Counter("nescio_requests_total", "Answered requests.", ["code"])
        self.decisions = Counter(
            "nescio_decisions_total", "Decisions about rows.", ["guard", "decision"]
        )
        self.refused = Counter(
            "nescio_refused_total", "Requests to predict that were refused.", ["reason"]
        )
        self.loads = Counter(
            "nescio_guard_loads_total", "Guards that were loaded, or not.", ["guard", "result"]
        )
        self.seconds = Histogram(
            "nescio_request_seconds", "From the whole request to its answer.", SECONDS
        )
        self.deciding = Histogram(
            "nescio_inference_seconds", "How long a batch was decided.", SECONDS
        )
        self.writing = Histogram(
            "nescio_log_write_seconds", "How long decisions were written to the log.", SECONDS
        )
        self.batch_rows = Histogram("nescio_batch_rows", "Rows that were decided together.", ROWS)
        self.every: list[Metric] = [
            *(self.requests, self.decisions, self.refused, self.loads),
            *(self.seconds, self.deciding, self.writing, self.batch_rows),
        ]

    def gauge(
        self,
        name: str,
        about: str,
        labels: Sequence[str],
        read: Callable[[], Mapping[Labels, float]],
    ) -> None:
        """Add numbers that are read when somebody asks.

        name: of the metric.
        about: what it says.
        labels: the names of the labels.
        read: gives the values now, by the values of the labels.
        """
        self.every.append(Gauge(name, about, labels, read))

    def text(self) -> str:
        """All of it, as Prometheus reads it."""
        found: list[str] = []
        for one in self.every:
            found += [f"# HELP {one.name} {one.about}", f"# TYPE {one.name} {one.kind}"]
            found += one.lines()
        return "\n".join(found) + "\n"


def _labels(names: Labels, values: Labels) -> str:
    if not names:
        return ""
    pairs = zip(names, values, strict=True)
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in pairs) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) else repr(float(value))
