"""Metrics, read by the parser of Prometheus."""

import math

import pytest

from nescio.serving.service_metrics import ServiceMetrics

parser = pytest.importorskip("prometheus_client.parser")


def test_prometheus_reads_what_was_counted() -> None:
    metrics = ServiceMetrics()
    metrics.requests.add("200", by=3)
    metrics.decisions.add('odd "name"\n\\', "answer", by=2)
    for seconds in (0.0005, 0.003, 100.0):
        metrics.seconds.add(seconds)
    values = {("a",): 1.5, ("b",): math.inf, ("c",): math.nan}
    metrics.gauge("nescio_drift", "Evidence.", ["guard"], lambda: values)
    found = {f.name: f for f in parser.text_string_to_metric_families(metrics.text())}
    samples = {
        f.name: {tuple(s.labels.items()): s.value for s in f.samples} for f in found.values()
    }
    assert samples["nescio_requests"] == {(("code", "200"),): 3}
    assert samples["nescio_decisions"] == {(("guard", 'odd "name"\n\\'), ("decision", "answer")): 2}
    assert samples["nescio_drift"][(("guard", "a"),)] == 1.5
    assert samples["nescio_drift"][(("guard", "b"),)] == math.inf
    assert math.isnan(samples["nescio_drift"][(("guard", "c"),)])
    times = found["nescio_request_seconds"]
    assert times.type == "histogram"
    by_bound = {s.labels["le"]: s.value for s in times.samples if s.name.endswith("_bucket")}
    assert by_bound["0.0005"] == 1  # a bound belongs to its bucket
    assert by_bound["0.002"] == 1
    assert by_bound["0.004"] == 2
    assert by_bound["8"] == 2
    assert by_bound["+Inf"] == 3
    (total,) = (s.value for s in times.samples if s.name.endswith("_sum"))
    assert total == pytest.approx(100.0035)
