"""Learning curves as values: labels to an accuracy, intervals over seeds, files, comparisons."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from nescio import NescioError
from nescio.applications.active_learning import Curves, compared
from nescio.core import DamagedError, Results
from nescio.report.plots.learning_curve_plot import learning_curves

ACCURACY = np.array(
    [
        [0.50, 0.80, 0.96, 0.94],  # reaches it, and falls below again
        [0.40, 0.95, 0.97, 0.98],
        [0.60, 0.70, 0.90, 0.95],
        [0.55, 0.75, 0.85, 0.90],  # never
        [0.45, 0.85, 0.95, 0.99],
    ]
)


def curves(accuracy=ACCURACY, *, start=4, size=2, acquisition="bald"):
    seeds, steps = np.shape(accuracy)
    labels = start + size * np.arange(steps)
    scores = np.full((seeds, labels[-1]), 0.25)
    scores[:, :start] = np.nan
    return Curves(
        labels=labels,
        accuracy=np.asarray(accuracy),
        acquired=np.arange(seeds * labels[-1]).reshape(seeds, -1),
        scores=scores,
        seconds=np.ones((steps, 3)),
        seeds=tuple(range(seeds)),
        settings={"acquisition": acquisition},
    )


def test_labels_to_an_accuracy_are_those_of_the_first_step_that_has_it():
    found = curves().labels_to(0.95)
    assert found.by_seed.tolist() == [8, 6, 10, math.inf, 8]
    assert found.median == 8
    assert (found.low, found.high) == (6, math.inf)  # of five seeds: the least and the largest
    assert curves().labels_to(0.999).median == math.inf
    assert curves().labels_to(0.4).by_seed.tolist() == [4] * 5


def test_the_t_interval_of_each_step_is_that_of_scipy():
    band = curves().interval()
    for step in range(4):
        ends = stats.ttest_1samp(ACCURACY[:, step], 0).confidence_interval(0.95)
        assert band.value[step] == pytest.approx(ACCURACY[:, step].mean())
        assert band.low[step] == pytest.approx(ends.low)
        assert band.high[step] == pytest.approx(min(1, ends.high))


def test_the_bootstrap_interval_is_that_of_scipy_up_to_its_draws():
    band = curves().interval(method="bootstrap", resamples=20_000)
    truth = stats.bootstrap(
        (ACCURACY[:, 2],), np.mean, method="percentile", n_resamples=20_000, random_state=0
    ).confidence_interval
    assert band.low[2] == pytest.approx(truth.low, abs=0.003)
    assert band.high[2] == pytest.approx(truth.high, abs=0.003)


def test_one_seed_has_no_interval():
    one = curves(ACCURACY[:1])
    assert np.isnan(one.interval().low).all()
    assert one.labels_to(0.95).median == 8


def test_a_file_gives_the_same_curves(tmp_path):
    whole = curves()
    for path in (whole.save(tmp_path / "one.json"), whole.save(tmp_path / "folder")):
        again = Curves.load(path)
        for name in ("labels", "accuracy", "acquired", "scores", "seconds"):
            np.testing.assert_array_equal(getattr(again, name), getattr(whole, name))
            assert getattr(again, name).dtype == getattr(whole, name).dtype
        assert (again.seeds, again.settings) == (whole.seeds, whole.settings)
    path.write_text(path.read_text().replace("0.96", "0.97"))
    with pytest.raises(DamagedError):
        Curves.load(path)


def test_the_first_steps():
    short = curves().first(2)
    assert short.labels.tolist() == [4, 6]
    assert short.acquired.shape == (5, 6)
    assert curves().error_at(6)[1] == pytest.approx(0.05)
    with pytest.raises(NescioError, match="no step has 5 labels; there are 4, 6, 8, ..., 10"):
        curves().error_at(5)


@pytest.mark.parametrize("accuracy", [0, 1.5, -1])
def test_an_accuracy_is_a_share(accuracy):
    with pytest.raises(NescioError, match="share"):
        curves().labels_to(accuracy)


def test_an_unknown_interval_is_refused():
    with pytest.raises(NescioError, match="unknown method 'normal'"):
        curves().interval(method="normal")


def test_several_acquisitions_side_by_side(tmp_path):
    better = np.minimum(1, ACCURACY + 0.16)
    both = {"random": curves(), "bald": curves(better)}
    found = compared(both, against="random")
    assert found.value("random", metric="labels to 95 %") == 8
    assert found.value("bald", metric="labels to 95 %") == 8 - 2
    assert found.value("bald", metric="error at 10") == pytest.approx((1 - better[:, -1]).mean())
    gap = found.row("bald", "test data", "error at 10 less random")
    truth = stats.ttest_rel(1 - better[:, -1], 1 - ACCURACY[:, -1])
    ends = truth.confidence_interval(0.95)
    assert (gap.low, gap.high) == pytest.approx((ends.low, ends.high))
    none = found.row("bald", "test data", "labels to 95 % less random")
    assert none.value is None
    assert none.note == "1 of 5 seeds never"
    assert found.about["by_seed"]["random"]["labels"] == [8, 6, 10, None, 8]
    text = str(found)
    assert "8 (1 of 5 seeds never)" in text
    assert "Of 5 seeds" in text
    path = found.save(tmp_path / "compared")
    assert Results.load(path).rows == found.rows
    assert json.loads(path.read_text())["about"]["labels"] == 10


def test_labels_are_compared_seed_by_seed():
    reached = np.array([[0.5, 0.96, 0.96], [0.5, 0.5, 0.96], [0.5, 0.96, 0.96]])
    late = np.array([[0.5, 0.5, 0.96], [0.5, 0.5, 0.96], [0.5, 0.5, 0.96]])
    found = compared({"bald": curves(reached), "random": curves(late)}, against="random")
    row = found.row("bald", "test data", "labels to 95 % less random")
    truth = stats.ttest_rel([6, 8, 6], [8, 8, 8]).confidence_interval(0.95)
    assert (row.value, row.low, row.high) == pytest.approx((-4 / 3, truth.low, truth.high))


def test_curves_that_cannot_be_compared_are_refused():
    with pytest.raises(NescioError, match="no curves"):
        compared({})
    with pytest.raises(NescioError, match="unknown curve 'ramdom'; did you mean 'random'"):
        compared({"random": curves()}, against="ramdom")
    other = replace(curves(), acquired=curves().acquired + 1)
    with pytest.raises(NescioError, match="seed by seed"):
        compared({"random": curves(), "bald": other}, against="random")
    with pytest.raises(NescioError, match="seed by seed"):
        compared({"random": curves(), "bald": curves(ACCURACY[:3])}, against="random")
    tested = replace(curves(), settings={**curves().settings, "test": "others"})
    with pytest.raises(NescioError, match="pool and test data"):
        compared({"random": curves(), "bald": tested}, against="random")
    with pytest.raises(NescioError, match="in common"):
        compared({"random": curves(), "bald": curves(start=5)})


@pytest.mark.parametrize("show", ["accuracy", "error"])
def test_a_plot_has_a_line_and_a_band_for_each(show):
    both = {"random": curves(), "bald": curves(np.minimum(1, ACCURACY + 0.16))}
    axis = learning_curves(both, show=show).axes[0]
    lines = axis.get_lines()
    assert len(lines) == 3  # and the target
    mean = ACCURACY.mean(0)
    np.testing.assert_allclose(lines[0].get_ydata(), mean if show == "accuracy" else 1 - mean)
    assert len(axis.collections) == 2
    words = [text.get_text() for text in axis.get_legend().get_texts()]
    assert words == ["random (95 %: 8 labels)", "bald (95 %: 6 labels)"]
    assert np.isfinite(axis.get_ylim()).all()


def test_a_plot_says_what_was_not_reached():
    axis = learning_curves({"bald": curves()}, target=0.999).axes[0]
    assert axis.get_legend().get_texts()[0].get_text() == "bald (99.9 %: not by 10)"
    with pytest.raises(NescioError, match="no curves to draw"):
        learning_curves({})
