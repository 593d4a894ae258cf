"""Labels of a service as calibration data: drawn like the stream, and a risk that then holds."""

import runpy
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sqlalchemy")

from nescio.core import NescioError
from nescio.serving.decision_log import Entry, KeptInput, Label, open_log
from nescio.serving.log_calibration import sample_of

SIMULATION = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "from_log.py"))
KEPT = KeptInput("row", b"{}")


def entry(at, **changed):
    own = {"replica": "0", "guard": "g", "version": "v", "digest": "", "label": "cat"}
    own |= {"decision": "unsure", "probability": 0.5, "p_value": 0.5, "score": 0.0}
    own |= {"failure_score": 0.0, "rule": "r", "in_range": True, "set": None, "more": None}
    own |= {"picked": True, "propensity": 1.0, "kept": KEPT}
    return Entry(**{"id": f"d{at}", "time": float(at), **own, **changed})


def label(at, said="cat", reviewer="anna"):
    kind = said if said in ("none", "skip") else "label"
    text = said if kind == "label" else None
    return Label(decision=f"d{at}", reviewer=reviewer, kind=kind, label=text, time=0.0)


@pytest.fixture
def log(tmp_path):
    with open_log(tmp_path / "log.db") as made:
        made.register("g", "v", {"classes": ["cat", "dog"]})
        yield made


def test_every_decision_stays_with_the_same_probability(log):
    """Three in ten are refused; three kinds of answers are picked at their own rates."""
    draws = np.random.default_rng(0)
    count = 4000
    kind = draws.choice(4, count, p=[0.3, 0.3, 0.3, 0.1])
    propensity = np.array([1.0, 0.5, 0.2, 0.1])[kind]
    picked = draws.random(count) < propensity
    log.write([
        entry(at, decision="answer" if kind[at] else "ood", propensity=float(propensity[at]),
              picked=bool(picked[at]), kept=KEPT if picked[at] else None)
        for at in range(count)
    ])  # fmt: skip
    log.add_labels([label(at, f"k{kind[at]}") for at in np.flatnonzero(picked)])
    found = sample_of(log)
    assert found.least == 0.1
    assert found.labeled == picked.sum()
    last = np.flatnonzero(picked)[-1]
    assert found.decisions == last + 1
    shares = [found.labels.count(f"k{one}") / (kind == one).sum() for one in range(4)]
    for share, one in zip(shares, range(4), strict=True):  # binomial, 4 standard deviations
        assert abs(share - 0.1) < 4 * np.sqrt(0.09 / (kind == one).sum())
    assert found.thinned == picked.sum() - len(found.ids)
    assert sample_of(log) == found
    assert sample_of(log, seed=1).ids != found.ids


def test_later_labels_leave_the_earlier_sample_as_it_was(log):
    log.write([entry(at, propensity=(0.5, 1.0)[at % 2]) for at in range(200)])
    log.add_labels([label(at) for at in range(100)])
    before = sample_of(log).ids
    log.add_labels([label(at) for at in range(100, 200)])
    after = sample_of(log).ids
    assert after[: len(before)] == before
    assert len(after) > len(before)


def test_what_is_missing_is_counted_by_its_reason(log):
    log.write([entry(at, kept=None if at == 5 else KEPT) for at in range(10)])
    log.add_labels([label(0), label(1, "none"), label(2, "skip"), label(3), label(3, "dog", "ben")])
    log.add_labels([label(5), label(6)])
    found = sample_of(log)
    assert found.ids == ("d0", "d6")
    assert found.none == ("d1",)
    assert found.missing == {"open": 2, "disputed": 1, "input gone": 1}  # d2, d4; d3; d5
    assert found.decisions == 7
    summary = found.summary()
    assert (summary["calibrating"], summary["none"], summary["labeled"]) == (2, 1, 4)
    assert sample_of(log, since=6.0).ids == ("d6",)


def test_what_cannot_be_corrected_is_refused(log):
    log.write([entry(0), entry(1, decision="answer", picked=False, propensity=0.0, kept=None)])
    log.write([entry(2), entry(3, guard="other")])
    with pytest.raises(NescioError, match="no labeled decision"):
        sample_of(log)
    log.add_labels([label(0)])
    assert sample_of(log).ids == ("d0",)  # what came later does not count
    log.add_labels([label(2)])
    with pytest.raises(NescioError, match="no chance to be reviewed"):
        sample_of(log)
    assert sample_of(log, since=2.0).ids == ("d2",)
    with pytest.raises(NescioError, match="there is no guard 'h'"):
        sample_of(log, guard="h")
    log.register("other", "v", {})
    with pytest.raises(NescioError, match="which guard is it"):
        sample_of(log)


def test_the_risk_holds_on_fresh_inputs_and_without_the_correction_does_not(tmp_path):
    """At most 5 % of the answers wrong, with confidence 0.95: 20 streams, by simulation."""
    first = SIMULATION["first_guard"]()
    risks = []
    for seed in range(20):
        with open_log(tmp_path / f"{seed}.db") as log:
            SIMULATION["served"](seed, log, first, 3000)
            found = sample_of(log, seed=seed)
            risks.append(SIMULATION["recalibrated"](seed, found.ids, found.labels, log)[0])
    assert sum(risk <= SIMULATION["RISK"] for risk in risks) >= 19
    naive, _ = SIMULATION["both"](100, tmp_path, first, 3000)["all labels"]
    assert naive > 1.5 * SIMULATION["RISK"]
