"""Many scores against the maximum probability: numbers, tables, pictures, files."""

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, precision_recall_curve
from torch import nn

from nescio import detectors, metrics, observe
from nescio.core import NescioError
from nescio.detectors.activations import Activations
from nescio.evaluation import Comparison, compare
from nescio.evaluation.compare.errors_task import BASELINE, NAMES
from nescio.report.plots.score_plots import precision_recall


def compare_failures(test, scores=None, **options):
    return compare(None, test, task="errors", scores=scores, **options)


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
    return compare_failures(seen[:600], scores, validation=seen[300:], resamples=50, name="toys")


def test_the_numbers_are_those_of_the_metrics(found, seen):
    wrong = (seen.logits[0].argmax(-1) != seen.labels).numpy()
    assert found.about.errors == wrong.sum()
    assert list(found.scores) == [BASELINE, "oracle", "noise", "energy"]
    assert found.value("oracle") == 1.0
    for name, by_set in found.scores.items():
        values = by_set["toys"]
        assert found.value(name) == pytest.approx(average_precision_score(wrong, values))
        assert found.value(name, metric="aurc") == pytest.approx(metrics.aurc(values, wrong))
        interval = metrics.bootstrap_selective(values, wrong, resamples=50)["ap_success"]
        row = found.row(name, "toys", "ap_success")
        assert (row.value, row.low, row.high) == pytest.approx(tuple(vars(interval).values()))
    both = [found.scores[name]["toys"] for name in ("oracle", BASELINE)]
    gap = metrics.selective_test(*both, wrong, resamples=50)
    for name in NAMES:
        row = found.row("oracle", "toys", f"{name}_difference")
        own = (row.value, row.low, row.high, found.value("oracle", metric=f"{name}_p_value"))
        assert own == pytest.approx(tuple(vars(gap[name]).values()))
    assert found.row(BASELINE, "toys", "ap_error_difference") is None
    assert found.ranked[0] == "oracle"


def test_temperature_changes_confidences_and_not_the_answers(found):
    assert set(found.confidence) == {"before", "after"}
    assert found.about.temperature > 1
    assert found.confidence["after"].mean() < found.confidence["before"].mean()


def test_the_tables_hold_every_score(found):
    for text in (str(found), found.markdown()):
        assert "Errors of the network on toys" in text
        for name in (*found.scores, "AP of errors", "excess AURC"):
            assert name in text
    assert max(map(len, str(found).splitlines())) <= 100


def test_saved_and_read_again(found, tmp_path):
    path = found.save(tmp_path)
    assert path.name == "comparison.md"
    assert {p.name for p in tmp_path.glob("*.png")} == {
        "risk-coverage.png", "precision-recall.png", "histograms.png"
    }  # fmt: skip
    again = Comparison.load(tmp_path)
    assert again.to_json() == found.to_json()
    assert str(again) == str(found)
    for name, by_set in found.scores.items():
        np.testing.assert_array_equal(again.scores[name]["toys"], by_set["toys"])
    np.testing.assert_array_equal(again.wrong, found.wrong)
    assert list(again.confidence) == list(found.confidence) == ["before", "after"]
    with pytest.raises(NescioError, match="no file"):
        Comparison.load(tmp_path / "none")


def test_curves_are_those_of_scikit_learn(found):
    for by_set in found.scores.values():
        values = by_set["toys"]
        recall, precision = precision_recall(values, found.wrong)
        p, r, _ = precision_recall_curve(found.wrong, values)
        np.testing.assert_allclose(recall[1:], r[:-1][::-1])
        np.testing.assert_allclose(precision[1:], p[:-1][::-1])


def test_several_networks_answer_together(seen):
    both = Activations(logits=torch.cat([seen.logits, -seen.logits]), labels=seen.labels)
    found = compare_failures(both, resamples=5)
    assert list(found.scores) == [BASELINE, "predictive entropy"]
    assert found.about.errors == int((both.mean().logits[0].argmax(-1) != seen.labels).sum())
    assert "2 networks together" in str(found)
    assert set(found.confidence) == {"before"}
    assert len(found.histograms().axes) == 1


def test_a_network_with_detectors_by_name_and_functions():
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(200, 2, generator=draw)
    y = (x[:, 0] + torch.randn(200, generator=draw) > 0).long()
    net = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    made = compare(
        net,
        (x[:100], y[:100]),
        train=(x[100:], y[100:]),
        task="errors",
        detectors=["knn,k=3", "energy"],
        scores={"norm": lambda inputs: inputs.norm(dim=1)},
        validation=(x[100:], y[100:]),
        resamples=5,
        progress=False,
    )
    assert made.subjects == [BASELINE, "knn,k=3", "energy", "norm"]
    np.testing.assert_allclose(made.scores["norm"]["test"], x[:100].norm(dim=1))
    test, train = (observe(net, part, progress=False) for part in (x[:100], (x[100:], y[100:])))
    expected = detectors.knn(train, k=3)(test).numpy()
    np.testing.assert_allclose(made.scores["knn,k=3"]["test"], expected, rtol=1e-6)
    with pytest.raises(NescioError, match="reads no OOD data"):
        compare(net, (x, y), {"far": x}, task="errors")


def test_bad_input_is_refused(found, seen):
    with pytest.raises(NescioError, match="3 scores for 600"):
        compare_failures(seen, {"few": [1, 2, 3]})
    with pytest.raises(NescioError, match="by name"):
        compare_failures(seen, [detectors.energy()])
    with pytest.raises(NescioError, match="needs labels"):
        compare_failures(Activations(logits=seen.logits))
    with pytest.raises(NescioError, match="unknown subject"):
        found.value("none")
    with pytest.raises(NescioError, match="unknown subject"):
        found.risk_coverage(["none"])
    with pytest.raises(NescioError, match="did you mean 'aurc'"):
        found.value("noise", metric="aucr")
    with pytest.raises(NescioError, match="the name 'maximum probability' is taken"):
        compare_failures(seen, {BASELINE: detectors.energy()})


def test_a_temperature_that_cannot_be_fitted_is_left_out(seen):
    perfect = seen[(seen.logits[0].argmax(-1) == seen.labels)]
    found = compare_failures(seen, validation=perfect, resamples=5)
    assert found.about.temperature is None
    assert set(found.confidence) == {"before"}
    for text in (str(found), found.markdown()):
        assert "No histogram after temperature:" in " ".join(text.split())
    assert len(found.histograms().axes) == 1


def test_activations_and_a_network_beside_them_are_refused() -> None:
    test = observe(nn.Linear(3, 2), (torch.randn(20, 3), torch.arange(20) % 2))
    with pytest.raises(NescioError, match="activations hold the answers of their own network"):
        compare(nn.Linear(3, 2), test, task="errors")


def test_a_comparison_is_shown_in_one_line_by_repr() -> None:
    test = observe(nn.Linear(3, 2), (torch.randn(20, 3), torch.arange(20) % 2))
    shown = repr(compare(None, test, task="errors", resamples=5))
    assert shown == "Comparison(errors: 2 subjects on test)"


def test_labels_that_the_network_has_no_output_for_are_refused():
    logits = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
    made = Activations(logits=logits, features=logits, labels=torch.arange(40) % 5)
    with pytest.raises(NescioError, match=r"labels must lie in 0\.\.2, got 0\.\.4"):
        compare(None, made, task="errors")
