"""Failure prediction: the metrics' numbers, and words where there are too few errors."""

import numpy as np
import pytest

from nescio import metrics
from nescio.evaluation.audit import failure
from nescio.evaluation.audit.held_out_section import BASELINE, RECOMMENDED

RNG = np.random.default_rng(0)
WRONG = np.arange(400) < 40
SCORES = {
    BASELINE: RNG.normal(size=400) + 1.0 * WRONG,
    RECOMMENDED: RNG.normal(size=400) + 3.0 * WRONG,
}


@pytest.fixture(scope="module")
def found():
    return failure(SCORES, WRONG)


@pytest.mark.parametrize("name", SCORES)
def test_numbers_are_those_of_the_metrics(found, name: str) -> None:
    part = found.scores[name]
    assert part.ap_error.value == metrics.ap_error(SCORES[name], WRONG)
    assert part.aurc.value == metrics.aurc(SCORES[name], WRONG)
    area = metrics.auroc(SCORES[name][~WRONG], SCORES[name][WRONG])
    assert part.auroc.value == pytest.approx(area)
    assert part.auroc.low < area < part.auroc.high


def test_the_gain_is_paired(found) -> None:
    gain = found.scores[RECOMMENDED].gain["ap_error"]
    values = [metrics.ap_error(SCORES[name], WRONG) for name in (RECOMMENDED, BASELINE)]
    assert gain.value == pytest.approx(values[0] - values[1])
    assert gain.low > 0
    assert found.scores[BASELINE].gain is None


def test_curves_are_points_of_the_risk_coverage_curve(found) -> None:
    curve = found.curves[BASELINE]
    whole = metrics.risk_coverage(SCORES[BASELINE], WRONG)
    places = np.rint(np.array(curve.coverage) * 400).astype(int) - 1
    np.testing.assert_allclose(curve.risk, whole.risk[places])
    assert len(places) == 200
    assert (curve.coverage[-1], curve.risk[-1]) == (1.0, 0.1)


@pytest.mark.parametrize(
    ("errors", "words"),
    [(0, "no errors in 400"), (1, "1 error in 400"), (9, "9 errors in"), (395, "5 right answers")],
)
def test_few_errors_are_said(errors: int, words: str) -> None:
    found = failure(SCORES, np.arange(400) < errors)
    assert words in found.skipped
    assert found.scores is None
    assert found.errors == errors
