"""GuardedClassifier: scikit-learn's own checks, and the guarantee counted on new samples."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import check_estimator

import nescio
from nescio.core import FewSamplesWarning, NescioError
from nescio.integrations import GuardedClassifier


@pytest.fixture(scope="module")
def data():
    x, y = make_classification(
        6000, n_features=8, n_informative=6, n_classes=3, class_sep=2.0, random_state=0
    )
    return (x[:3000], y[:3000]), (x[3000:], y[3000:])


@pytest.mark.parametrize("options", [{}, {"false_alarm": 0.1, "risk": 0.3, "detector": "msp"}])
def test_scikit_learn_finds_nothing_wrong(options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few samples; array API is not set up
        check_estimator(GuardedClassifier(**options))


def test_the_answers_keep_the_risk_and_the_false_alarms_their_rate(data):
    (x, y), (x_new, y_new) = data
    guarded = GuardedClassifier(RandomForestClassifier(50, random_state=0), risk=0.05).fit(x, y)
    found = guarded.decide(x_new).summary(y_new)
    assert found["answer"] > 0.5
    assert found["risk"] <= 0.05
    assert found["ood"] <= 0.025
    assert "at most 5 %" in guarded.guarantees_[1]


def test_far_inputs_are_ood(data):
    (x, y), (x_new, _) = data
    guarded = GuardedClassifier(LogisticRegression(), risk=0.1).fit(x, y)
    assert guarded.decide(10 * x_new[:200]).summary()["ood"] > 0.9


def test_abstentions_are_marked_and_answers_are_the_predictions(data):
    (x, y), (x_new, _) = data
    names = np.array(["ash", "birch", "cedar"])
    guarded = GuardedClassifier(LogisticRegression(), risk=0.05).fit(x, names[y])
    found, plain = guarded.predict_or_abstain(x_new), guarded.predict(x_new)
    answered = guarded.decide(x_new).answered.numpy()
    assert (found[answered] == plain[answered]).all()
    assert {*found[~answered]} == {None}
    assert 0 < answered.mean() < 1
    marked = GuardedClassifier(risk=0.05).fit(x, y).predict_or_abstain(x_new, abstain=-1)
    assert marked.dtype.kind == "i"
    assert set(marked) <= {-1, 0, 1, 2}


def test_probabilities_are_those_of_the_guard_and_sum_to_one(data):
    (x, y), (x_new, _) = data
    guarded = GuardedClassifier(RidgeClassifier(), risk=0.1).fit(x, y)
    probabilities = guarded.predict_proba(x_new)
    np.testing.assert_allclose(probabilities.sum(1), 1)
    found = guarded.decide(x_new)
    np.testing.assert_allclose(probabilities.max(1), found.probability.numpy())
    assert (probabilities.argmax(1) == guarded.predict(x_new)).all()


def test_a_fitted_estimator_is_calibrated_on_all_data(data):
    (x, y), (x_new, y_new) = data
    forest = RandomForestClassifier(50, random_state=0).fit(x, y)
    guarded = GuardedClassifier(forest, prefit=True, risk=0.05).fit(x_new, y_new)
    assert guarded.estimator_ is forest
    assert guarded.guard_.notes["calibration"] == len(x_new)
    with pytest.raises(NescioError, match=r"does not know the classes \[7\]"):
        GuardedClassifier(forest, prefit=True).fit(x_new, np.where(y_new == 0, 7, y_new))


def test_with_few_samples_it_predicts_and_always_abstains(data):
    (x, y), (x_new, _) = data
    with pytest.warns(FewSamplesWarning, match="at least 329"):
        guarded = GuardedClassifier().fit(x[:200], y[:200])
    assert guarded.guard_ is None
    assert GuardedClassifier(risk=0.5).fit(x[:329], y[:329]).guard_ is not None
    assert not guarded.decide(x_new).answered.any()
    assert (
        guarded.predict(x_new) == LogisticRegression().fit(x[:200], y[:200]).predict(x_new)
    ).mean() > 0.99
    assert "abstain on every input" in guarded.guarantees_[0]


def test_missing_values_go_where_the_classifier_takes_them(data):
    (x, y), (x_new, _) = data
    holes = np.where(np.random.default_rng(0).random(x.shape) < 0.05, np.nan, x)
    guarded = GuardedClassifier(HistGradientBoostingClassifier(max_iter=20), risk=0.2).fit(holes, y)
    assert guarded.decide(x_new).answered.any()


def test_of_a_pipeline_the_detector_reads_what_enters_the_last_step(data):
    (x, y), (x_new, _) = data
    scaled = make_pipeline(StandardScaler(), LogisticRegression())
    guarded = GuardedClassifier(scaled, risk=0.05).fit(1000 * x, y)
    plain = GuardedClassifier(LogisticRegression(), risk=0.05).fit(x, y)
    both = guarded.decide(1000 * x_new).decision, plain.decide(x_new).decision
    assert (both[0] == both[1]).float().mean() > 0.95


def test_text_is_guarded_by_its_probabilities():
    rng = np.random.default_rng(0)
    words = np.array([["red", "rose", "petal"], ["blue", "sea", "wave"]])
    y = rng.integers(2, size=1200)
    x = [" ".join(rng.choice(np.where(rng.random() < 0.02, words[1 - k], words[k]), 4)) for k in y]
    guarded = GuardedClassifier(make_pipeline(CountVectorizer(), LogisticRegression()), risk=0.3)
    found = guarded.fit(x, y).decide(x)
    assert guarded.guard_.detector.name == "msp"
    assert found.answered.any()


def test_a_classifier_with_another_number_of_outputs_is_refused(data):
    (x, y), _ = data
    x, y = np.r_[x[:600], x[:200] + 9], np.r_[y[:600], np.full(200, 3)]
    with pytest.raises(NescioError, match="6 numbers for 4 classes"):
        GuardedClassifier(SVC(decision_function_shape="ovo")).fit(x, y)


def test_it_is_cloned_and_cross_validated_like_any_other(data):
    (x, y), _ = data
    guarded = nescio.GuardedClassifier(LogisticRegression(), risk=0.1)
    assert clone(guarded).get_params()["risk"] == 0.1
    assert cross_val_score(guarded, x, y, cv=3).min() > 0.7
