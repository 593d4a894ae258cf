"""Many scores against the maximum probability: numbers, tables, pictures, files."""

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, precision_recall_curve

from nescio import detectors, metrics
from nescio.core import NescioError
from nescio.detectors.activations import Activations
from nescio.evaluation.compare.failure_comparison import (
    BASELINE,
    NAMES,
    FailureComparison,
    compare_failures,
)
from nescio.report.plots.score_plots import precision_recall


@pytest.fixture(scope="module")
def seen():
    rng = torch.Generator().manual_seed(0)
    labels = torch.arange(600) % 3
    logits = 4 * torch.randn(1, 600, 3, generator=rng) + 6 * torch.eye(3)[labels]
    return Activations(logits=logits, labels=labels)


@pytest.fixture(scope="module")
def found(seen):
    rng = np.random.default_rng(0)
    wrong = (seen.logits[0].argmax(-1) != seen.labels).numpy()
    scores = {
        "oracle": wrong + 0.1 * rng.random(600),
        "noise": rng.random(600),
        "energy": detectors.energy(),
    }
    return compare_failures(seen[:600], scores, held=seen[300:], resamples=50, name="toys")


def test_the_numbers_are_those_of_the_metrics(found, seen):
    wrong = (seen.logits[0].argmax(-1) != seen.labels).numpy()
    assert found.result["errors"] == wrong.sum()
    assert list(found.scores) == [BASELINE, "oracle", "noise", "energy"]
    assert found.value("oracle") == 1.0
    for name, values in found.scores.items():
        assert found.value(name) == pytest.approx(average_precision_score(wrong, values))
        assert found.value(name, "aurc") == pytest.approx(metrics.aurc(values, wrong))
        interval = metrics.bootstrap_selective(values, wrong, resamples=50)["ap_success"]
        cell = found.result["scores"][name]["metrics"]["ap_success"]
        assert cell == pytest.approx(vars(interval))
    gap = metrics.selective_test(found.scores["oracle"], found.scores[BASELINE], wrong,
                                 resamples=50)  # fmt: skip
    for name in NAMES:
        cell = found.result["scores"]["oracle"]["difference"][name]
        assert cell == pytest.approx(vars(gap[name]))
    assert found.result["scores"][BASELINE]["difference"] is None
    assert found.ranked[0] == "oracle"


def test_temperature_changes_confidences_and_not_the_answers(found):
    assert set(found.confidence) == {"before", "after"}
    assert found.result["temperature"] > 1
    assert found.confidence["after"].mean() < found.confidence["before"].mean()


def test_the_tables_hold_every_score(found):
    for text in (str(found), found.markdown()):
        assert "Errors of the network on toys" in text
        for name in (*found.scores, "AP of errors", "excess AURC"):
            assert name in text
    assert max(map(len, str(found).splitlines())) <= 100


def test_saved_and_read_again(found, tmp_path):
    path = found.save(tmp_path)
    assert path.name == "failures.md"
    assert {p.name for p in tmp_path.glob("*.png")} == {
        "risk-coverage.png", "precision-recall.png", "histograms.png"
    }  # fmt: skip
    again = FailureComparison.load(tmp_path)
    assert again.result == found.result
    assert str(again) == str(found)
    for name, values in found.scores.items():
        np.testing.assert_array_equal(again.scores[name], values)
    np.testing.assert_array_equal(again.wrong, found.wrong)
    assert list(again.confidence) == list(found.confidence) == ["before", "after"]
    with pytest.raises(NescioError, match="cannot read"):
        FailureComparison.load(tmp_path / "none")


def test_curves_are_those_of_scikit_learn(found):
    for values in found.scores.values():
        recall, precision = precision_recall(values, found.wrong)
        p, r, _ = precision_recall_curve(found.wrong, values)
        np.testing.assert_allclose(recall[1:], r[:-1][::-1])
        np.testing.assert_allclose(precision[1:], p[:-1][::-1])


def test_several_networks_answer_together(seen):
    both = Activations(logits=torch.cat([seen.logits, -seen.logits]), labels=seen.labels)
    found = compare_failures(both, resamples=5)
    assert list(found.scores) == [BASELINE, "predictive entropy"]
    assert found.result["errors"] == int((both.mean().logits[0].argmax(-1) != seen.labels).sum())
    assert "2 networks together" in str(found)
    assert set(found.confidence) == {"before"}
    assert len(found.histograms().axes) == 1


def test_bad_input_is_refused(found, seen):
    with pytest.raises(NescioError, match="3 scores for 600"):
        compare_failures(seen, {"few": [1, 2, 3]})
    with pytest.raises(NescioError, match="by name"):
        compare_failures(seen, [detectors.energy()])
    with pytest.raises(NescioError, match="needs labels"):
        compare_failures(Activations(logits=seen.logits))
    with pytest.raises(NescioError, match="unknown score"):
        found.value("none")
    with pytest.raises(NescioError, match="unknown score"):
        found.risk_coverage(["none"])
    with pytest.raises(NescioError, match="did you mean 'aurc'"):
        found.value("noise", "aucr")
    with pytest.raises(NescioError, match="the name 'maximum probability' is taken"):
        compare_failures(seen, {BASELINE: detectors.energy()})


def test_a_temperature_that_cannot_be_fitted_is_left_out(seen):
    perfect = seen[(seen.logits[0].argmax(-1) == seen.labels)]
    found = compare_failures(seen, held=perfect, resamples=5)
    assert found.result["temperature"] is None
    assert set(found.confidence) == {"before"}
    for text in (str(found), found.markdown()):
        assert "No histogram after temperature:" in " ".join(text.split())
    assert len(found.histograms().axes) == 1
