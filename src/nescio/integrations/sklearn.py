"""A scikit-learn classifier that answers or abstains, with the guarantees of a guard."""

import math
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, check_random_state, column_or_1d, indexable
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from nescio.calibration import NoTemperatureError
from nescio.core import FewSamplesWarning, NescioError, warn
from nescio.detectors import Activations
from nescio.guards import Decisions, Guard, check_shares, fewest_samples, guard, no_answers

SMALLEST = np.finfo(np.float64).tiny  # a probability of 0 has no logarithm
Doubles = NDArray[np.float64]


class GuardedClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier with a guard: `predict` always answers, `predict_or_abstain` where it may.

    >>> from sklearn.ensemble import RandomForestClassifier
    >>> guarded = GuardedClassifier(RandomForestClassifier()).fit(x, y)  # doctest: +SKIP
    >>> guarded.predict_or_abstain(x_new)  # labels, None where it abstains  # doctest: +SKIP

    A random part of the data is calibration data: the classifier does not see it. The detector of
    OOD inputs reads the inputs, of a pipeline what enters its last step; where these are not a
    dense table of numbers, it reads the probabilities alone.

    estimator: a classifier with `predict_proba` or `decision_function`; None: logistic regression.
    risk, confidence: largest share of answers that may be wrong, and the probability with which the
      calibration data must show it.
    false_alarm: largest share of inputs like the calibration data that may be called OOD.
    sets: largest share of prediction sets that may miss the true class; None gives no sets.
    calibration_size: share of the data that calibrates the guard.
    prefit: whether the estimator is fitted already; `fit` then gets calibration data that it never
      saw.
    detector, failure: names of the detector and of the failure score, as for `nescio.guard`.
    random_state: seed of the split into training and calibration data.
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        risk: float = 0.02,
        confidence: float = 0.95,
        false_alarm: float = 0.01,
        sets: float | None = 0.1,
        calibration_size: float = 0.3,
        prefit: bool = False,
        detector: Any = None,
        failure: Any = "msp",
        random_state: Any = 0,
    ) -> None:
        self.estimator = estimator
        self.risk = risk
        self.confidence = confidence
        self.false_alarm = false_alarm
        self.sets = sets
        self.calibration_size = calibration_size
        self.prefit = prefit
        self.detector = detector
        self.failure = failure
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> "GuardedClassifier":
        """Fit the classifier on one part of the data, and the guard on the other.

        X: inputs, `(N, F)`, or what the estimator takes.
        y: true classes, `(N,)`.
        """
        shares = {"risk": self.risk, "confidence": self.confidence}
        check_shares(**shares, false_alarm=self.false_alarm, calibration_size=self.calibration_size)
        if y is None:
            raise NescioError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        X, y = indexable(X, y)
        check_classification_targets(y)
        y = column_or_1d(y, warn=True)
        drawn = check_random_state(self.random_state)
        self._fit_guard(*(self._prefitted if self.prefit else self._fit_part)(X, y, drawn), drawn)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of every input of `X`, whether the guard would answer or not."""
        check_is_fitted(self)
        found: NDArray[Any] = self.classes_[self._logits(X).argmax(1)]
        return found

    def predict_proba(self, X: Any) -> Doubles:
        """Probabilities `(N, C)` of the inputs `X`, calibrated by a temperature with a guard."""
        check_is_fitted(self)
        logits = torch.from_numpy(self._logits(X))
        if self.guard_ is None:
            return logits.softmax(1).numpy()
        found: Doubles = self.guard_.predictions(Activations(logits=logits))[1].probs.numpy()
        return found

    def decide(self, X: Any) -> Decisions:
        """A decision for every input of `X`: answer, unsure or OOD.

        Labels are indices of `classes_`.
        """
        check_is_fitted(self)
        if self.guard_ is not None:
            return self.guard_.decide(self._read(X))
        probabilities = torch.from_numpy(self.predict_proba(X))
        return no_answers(probabilities, names=self._names, false_alarm=self.false_alarm)

    def predict_or_abstain(self, X: Any, abstain: Any = None) -> NDArray[Any]:
        """The class where the guard answers the inputs `X`, elsewhere `abstain`.

        abstain: what to return where the guard abstains.
        """
        found = self.decide(X)
        labels: NDArray[Any] = self.classes_[found.label.numpy()]
        return np.where(found.answered.numpy(), labels, abstain)

    @property
    def guarantees_(self) -> tuple[str, ...]:
        """What is guaranteed about answers to inputs that are drawn like the data."""
        check_is_fitted(self)
        return (self.withheld_,) if self.guard_ is None else self.guard_.guarantees

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import get_tags

        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = get_tags(self._unfitted()).input_tags.sparse
        return tags

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple(map(str, self.classes_))

    def _unfitted(self) -> Any:
        return LogisticRegression(max_iter=1000) if self.estimator is None else self.estimator

    def _prefitted(self, X: Any, y: Any, _: Any) -> tuple[Any, Any]:
        """The data, all of which calibrate an estimator that is fitted already."""
        check_is_fitted(self.estimator)
        self.estimator_, self.classes_ = self.estimator, self.estimator.classes_
        new = np.setdiff1d(y, self.classes_)
        if len(new):
            raise NescioError(f"the estimator does not know the classes {new[:5].tolist()}")
        return None, (X, y)

    def _fit_part(self, X: Any, y: Any, drawn: Any) -> tuple[Any, Any]:
        """Fit the estimator; training and calibration data, none of which if they are too few."""
        self.classes_ = np.unique(y)
        count = round(self.calibration_size * len(y))
        if count < fewest_samples(self.false_alarm, fitting=False):
            count = 0
        order = drawn.permutation(len(y))  # not by class: calibration data are independent draws
        first, second = np.sort(order[count:]), np.sort(order[:count])
        parts = [(_safe_indexing(X, rows), y[rows]) for rows in (first, second)]
        self.estimator_ = clone(self._unfitted()).fit(*((X, y) if not count else parts[0]))
        return parts[0], parts[1] if count else None

    def _fit_guard(self, train: Any, calibration: Any, drawn: Any) -> None:
        self.guard_: Guard | None = None
        self.withheld_, self._scale = self._too_few(calibration), None
        if self.withheld_:
            warn(self.withheld_, FewSamplesWarning, stacklevel=3)
            return
        table = self._table((train or calibration)[0])
        if table is not None:
            spread = np.nanstd(table, 0)
            self._scale = (np.nanmean(table, 0), np.where(spread > 0, spread, 1.0))
        make = partial(
            guard,
            None,
            self._read(*calibration),
            train=None if train is None else self._read(*train),
            detector=self.detector or (None if table is not None else "msp"),
            failure=self.failure,
            risk=self.risk,
            confidence=self.confidence,
            false_alarm=self.false_alarm,
            sets=self.sets,
            names=self._names,
            seed=int(drawn.randint(2**31)),
        )
        try:
            self.guard_ = make()
        except NoTemperatureError:  # the classifier learned nothing
            self.guard_ = make(calibration_map=None)

    def _too_few(self, calibration: Any) -> str:
        """Why there is no guard, in words; empty where there may be one."""
        least = fewest_samples(self.false_alarm, fitting=self.prefit)
        if calibration is None or len(calibration[1]) < least:
            whole = least if self.prefit else math.ceil((least - 0.5) / self.calibration_size)
            return (
                "the guard will abstain on every input: there are too few samples for "
                f"false_alarm={self.false_alarm:g}; give at least {whole}, or a larger "
                "false_alarm"
            )
        if len(np.unique(calibration[1])) < 2:
            return "the guard will abstain on every input: all calibration data have one class"
        return ""

    def _read(self, X: Any, y: Any = None) -> Activations:
        """What a guard reads of inputs: logits, and features in units of their spread."""
        features: Any = {}
        if self._scale is not None:
            mean, spread = self._scale
            table = (self._table(X) - mean) / spread
            features = torch.from_numpy(np.nan_to_num(table, nan=0.0))
        labels = torch.from_numpy(np.searchsorted(self.classes_, y)) if y is not None else None
        return Activations(
            logits=torch.from_numpy(self._logits(X)), features=features, labels=labels
        )

    def _table(self, X: Any) -> Doubles | None:
        """The inputs, of a pipeline those of its last step, as a dense table; None: they are not"""
        if isinstance(self.estimator_, Pipeline) and len(self.estimator_) > 1:
            X = self.estimator_[:-1].transform(X)
        try:
            found = np.asarray(X, dtype=np.float64)
        except (TypeError, ValueError):
            return None
        return found if found.ndim == 2 else None

    def _logits(self, X: Any) -> Doubles:
        """Logits `(N, C)`, one for each of `classes_`; log-probabilities are logits, too."""
        if hasattr(self.estimator_, "predict_proba"):
            found = np.log(np.maximum(self.estimator_.predict_proba(X), SMALLEST))
        elif hasattr(self.estimator_, "decision_function"):
            found = np.asarray(self.estimator_.decision_function(X), dtype=np.float64)
            found = found if found.ndim > 1 else np.stack([np.zeros_like(found), found], 1)
        else:
            raise NescioError(
                f"{type(self.estimator_).__name__} has neither predict_proba nor "
                "decision_function; a guard needs one of them"
            )
        known = self.estimator_.classes_
        if found.shape != (len(found), len(known)):
            raise NescioError(
                f"{type(self.estimator_).__name__} gives {found.shape[1]} numbers for "
                f"{len(known)} classes; give a classifier with one per class"
            )
        whole = np.full((len(found), len(self.classes_)), np.log(SMALLEST))
        whole[:, np.searchsorted(self.classes_, known)] = found
        return whole
