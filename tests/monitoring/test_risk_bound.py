"""Bounds on the share of wrong answers: against brute force, at all times, however cut."""

import math

import numpy as np
import pytest

import nescio
from nescio.monitoring import merge_risks, propensities, risk_monitor
from nescio.monitoring.betting_sums import SHARES, STAKES
from nescio.monitoring.risk_bound import LATELY


def stream(n, *, risk=0.01, budget=0.05, seed=0):
    rng = np.random.default_rng(seed)
    said = np.clip(rng.beta(0.3, 0.3 / risk, n), 0, 0.9)
    q = propensities(1 - said, budget)
    return rng.random(n) < said, rng.random(n) < q, q, said


def test_bounds_are_those_of_the_formula():
    """The excess at which the mixture is 1 / level, found by bisection from plain products."""
    errors, drawn, q, said = stream(3000, risk=0.05)
    now = risk_monitor(risk=0.02).update(errors, drawn, q, said)
    g = np.minimum(said, q / (4 * now.least))
    largest = {1: now.least, -1: 1 / (1 + 1 / (4 * now.least))}

    def capital(total, sign):
        found = 0.0
        for share, stake in zip(SHARES, STAKES * largest[sign], strict=True):
            log = sign * stake * (total - g.sum())
            for e, d, chance, guess in zip(errors, drawn, q, g, strict=True):
                if d:
                    log += math.log(1 - sign * stake * (float(e) - guess) / chance)
            found += share * math.exp(log)
        return found

    assert capital(now.upper * 3000, 1) == pytest.approx(1 / 0.05, rel=1e-5)
    assert capital(now.lower * 3000, -1) == pytest.approx(1 / 0.025, rel=1e-5)
    weighted = g + np.where(drawn, (errors - g) / q, 0.0)
    assert now.estimate == pytest.approx(weighted.mean())
    assert now.lower < errors.mean() < now.upper


def test_errors_of_late_are_the_recursion():
    errors, drawn, q, said = stream(200, risk=0.1)
    now = risk_monitor(risk=0.02).update(errors, drawn, q, said)
    g = np.minimum(said, q / (4 * now.least))
    z = g + np.where(drawn, (errors - g) / q, 0.0)
    left = lambda t: 1.0 if t == 0 else 0.8 * (1 + t / 100) ** -0.3  # noqa: E731
    total = left(200)
    for fraction in LATELY:
        stake, capital = fraction / (1 + 1 / (4 * now.least)), 0.0
        for t in range(200):
            capital += (left(t) - left(t + 1)) / len(LATELY)
            capital *= 1 + stake * (z[t] - 0.02)
        total += capital
    assert now.late_capital == pytest.approx(total)


def test_the_cut_changes_no_bit():
    columns = stream(2500)
    whole = risk_monitor().update(*columns)
    now, at = risk_monitor(), 0
    for size in (1, 1, 7, 300, 64, 1000, 2000):
        now = now.update(*(one[at : at + size] for one in columns))
        at += size
    assert (now.sums.upper == whole.sums.upper).all()
    assert (now.sums.lower == whole.sums.lower).all()
    assert (now.late == whole.late).all()
    assert (now.history.rows == whole.history.rows).all()
    assert now.history.stride == whole.history.stride == 8
    assert (now.upper, now.lower, now.alarm) == (whole.upper, whole.lower, whole.alarm)


def test_a_saved_monitor_continues(tmp_path):
    columns = stream(1500, risk=0.2)
    first = risk_monitor().update(*(one[:700] for one in columns))
    read = nescio.load(first.save(tmp_path / "risk.safetensors"))
    rest = [one[700:] for one in columns]
    assert read.update(*rest).upper == first.update(*rest).upper
    assert read.update(*rest).alarm == first.update(*rest).alarm is not None
    assert read.late.tolist() == first.late.tolist()
    assert "ALARM" in repr(read.update(*rest))
    assert "at most" in read._repr_html_()
    assert read.plot().axes


@pytest.mark.parametrize("kind", ["calibrated", "too confident", "at the bound", "late"])
def test_bounds_are_rarely_wrong_at_any_time(kind):
    """Of 60 streams at most 9 may miss a 5 % bound with any chance worth naming (p < 0.002)."""
    wrong = np.zeros(2)
    alarms = 0
    for seed in range(60):
        errors, drawn, q, said = stream(800, seed=seed, budget=0.2)
        rng = np.random.default_rng([1, seed])
        if kind == "too confident":
            said = said / 10
        if kind == "at the bound":
            errors = rng.random(800) < 0.02
        if kind == "late":
            errors = (np.arange(800) >= 600) & (rng.random(800) < 0.3)
        now = risk_monitor(risk=0.02, least=0.15).update(errors, drawn, q, said)
        counts = (1 + np.arange(len(now.history.rows))) * now.history.stride
        share = np.cumsum(errors)[counts - 1] / counts
        low, _, high = now.history.rows.T
        wrong += [(low > share + 1e-12).any(), (high < share - 1e-12).any()]
        alarms += now.alarm is not None
    assert (wrong <= 9).all()
    assert alarms <= 9 or kind == "late"
    assert alarms > 30 or kind != "late"


def test_missing_labels_widen_both_sides():
    errors, drawn, q, said = stream(4000)
    known = risk_monitor().update(errors, drawn, q, said)
    holes = np.where(np.arange(4000) % 3 == 0, np.nan, errors)
    with pytest.raises(nescio.NescioError, match="missing"):
        risk_monitor().update(holes, drawn, q, said)
    wide = risk_monitor().update(holes, drawn, q, said, missing="worst")
    assert wide.upper > known.upper
    assert wide.lower <= known.lower
    assert wide.missing == int(drawn[::3].sum())


def test_streams_merge_into_their_sums():
    one, two = (risk_monitor().update(*stream(2000, seed=seed)) for seed in (0, 1))
    both = merge_risks([one, two]).whole
    alone = one.update(*stream(2000, seed=1))
    assert both.count == alone.count == 4000
    assert both.upper == pytest.approx(alone.upper)
    assert both.lower == pytest.approx(alone.lower)
    assert not merge_risks([one, two]).alarm
    bad = risk_monitor().update(*stream(2000, risk=0.3))
    assert merge_risks([bad, bad]).alarm
    assert merge_risks([bad]).alarm
    with pytest.raises(nescio.NescioError, match="settings"):
        merge_risks([one, risk_monitor(risk=0.1)])
    with pytest.raises(nescio.NescioError, match="list"):
        merge_risks([])


def test_nothing_is_known_before_the_first_answer():
    now = risk_monitor().update([], [], [])
    assert (now.lower, now.upper, now.count, now.assured) == (0.0, 1.0, 0, False)
    assert math.isnan(now.estimate)
    assert "no answers" in repr(now)
    assert now.plot().axes


def test_all_labeled_is_a_plain_bound():
    """With every answer labeled and no error, 1 % is shown after some hundred answers."""
    now = risk_monitor(risk=0.01, least=1.0).update(np.zeros(700), np.ones(700), 1.0, 0.0)
    assert now.assured
    assert now.upper > 3 / 700  # below what no method can show


@pytest.mark.parametrize(
    "call",
    [
        lambda: risk_monitor(risk=0.0),
        lambda: risk_monitor(confidence=1.0),
        lambda: risk_monitor(least=0.0),
        lambda: risk_monitor().update([0.5], [True], 0.05),
        lambda: risk_monitor().update([0], [True], 0.001),
        lambda: risk_monitor().update([0], [True], 1.5),
        lambda: risk_monitor().update([0], [True], 0.05, 1.2),
        lambda: risk_monitor().update([0, 1], [True], 0.05),
        lambda: risk_monitor().update([0], [True], 0.05, missing="none"),
    ],
)
def test_what_cannot_be_is_refused(call):
    with pytest.raises(nescio.NescioError):
        call()
