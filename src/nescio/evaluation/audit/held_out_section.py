"""On held-out test data: calibration before and after temperature, and how errors are found."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nescio import metrics
from nescio.calibration import Map, fit, map_of
from nescio.core import Categorical, Classification, Inputs, NescioError, generator
from nescio.evaluation.answers import SAMPLES, Seen, as_classification, quality
from nescio.evaluation.audit.findings import (
    CalibrationFindings,
    CalibrationNumbers,
    FailureFindings,
    FailureScore,
    RiskCurve,
)
from nescio.evaluation.audit.held_out import Held
from nescio.models import Predictor

NUMBERS = 20_000_000  # log-probabilities that fit a temperature, at most
RESAMPLES = 500
FEWEST = 10  # errors, or right answers: with fewer, the numbers are chance
POINTS = 200  # of a curve at most
OF = ("ap_error", "auroc", "aurc")
BASELINE = "maximum probability"
RECOMMENDED = "recommended score"
GUARDS = "the guard's score"  # where it is another one
Array = NDArray[Any]
Answers = Callable[[Any], Classification]  # to predictions of the samples with these indices


@torch.no_grad()
def calibration(
    predictor: Predictor, held: Held, seen: Seen | None = None, *, seed: int = 0
) -> CalibrationFindings:
    """ECE with its interval, smooth ECE, NLL, Brier and the bins, before and after temperature.

    The interval starts above 0 only where the error is beyond chance. A predictor that is
    calibrated already has no second temperature; where none can be fitted, `skipped` says why.
    seen: its predictions of the test samples, which are not made again where one network did.
    """
    if map_of(predictor) is not None:
        return CalibrationFindings(skipped="it is calibrated already")
    before, after, fitted = tempered(predictor, held, seen)
    y = held.measured[1]
    first = _calibrated(before, y, seed)
    if after is None or isinstance(fitted, str):
        return CalibrationFindings(before=first, skipped=str(fitted))
    last = _calibrated(after, y, seed)
    return CalibrationFindings(before=first, after=last, temperature=fitted.temperature)


@torch.no_grad()
def tempered(
    predictor: Predictor, held: Held, seen: Seen | None = None
) -> tuple[Tensor, Tensor | None, Map | str]:
    """Log-probabilities `(n, C)` of the samples that measure, before and after a temperature.

    And the temperature, which the other samples fit; or why there is none.
    """
    fitting, measured = _answers(predictor, held, seen)
    fitted, why = _fitted(fitting, held.fitting[1])
    before, after = [], []
    for start in range(0, len(held.rows), SAMPLES):
        prediction = measured(slice(start, start + SAMPLES))
        before.append(prediction.log_probs)
        if fitted is not None:
            after.append(fitted(prediction).log_probs)
    if fitted is None:
        return torch.cat(before), None, why or ""
    return torch.cat(before), torch.cat(after), fitted


def _answers(predictor: Predictor, held: Held, seen: Seen | None) -> tuple[Answers, Answers]:
    """What is predicted of the samples that fit and of those that measure, by their indices."""

    def new(x: Inputs) -> Answers:
        return lambda rows: as_classification(predictor(x[rows]))

    one = as_classification(predictor(held.test[0][:1]))
    if seen is None or one.members > 1 or type(one) is not Categorical:
        return new(held.fitting[0]), new(held.measured[0])
    logs = seen.log_probs  # all there is to a prediction
    fitting = logs[held.others] if held.halved else None
    measured = logs[held.rows]
    return (
        new(held.fitting[0]) if fitting is None else lambda rows: Categorical(fitting[rows][None]),
        lambda rows: Categorical(measured[rows][None]),
    )


def _fitted(predict: Answers, y: Tensor) -> tuple[Map | None, str | None]:
    """The temperature, of as many samples as fit into memory with all members, or why not."""
    try:
        if not len(y):
            raise NescioError("there is no sample to fit a temperature on")
        one = predict(slice(1))
        most = max(1, NUMBERS // (one.members * one.classes))
        rows = torch.randperm(len(y), generator=generator(0, "fitting"))[:most]
        chosen = rows if most < len(y) else torch.arange(len(y))
        return fit("temperature", predict(chosen), y[chosen]), None
    except NescioError as error:
        return None, str(error)


def _calibrated(logs: Tensor, y: Tensor, seed: int) -> CalibrationNumbers:
    seen = Seen(1, logs, {})
    scores = quality(seen, y)
    confidence, right = seen.confidence, seen.labels == y.cpu()
    return CalibrationNumbers(
        nll=scores["nll"],
        brier=scores["brier"],
        ece=metrics.bootstrap_metric(
            metrics.ece, confidence, right, resamples=RESAMPLES, seed=seed
        ),
        smooth_ece=metrics.smooth_ece(confidence, right),
        reliability=metrics.reliability(confidence, right),
    )


def failure(scores: Mapping[str, Array], wrong: Array, *, seed: int = 0) -> FailureFindings:
    """AP of errors, AUROC and AURC of scores by name, and gains over the first.

    With fewer than ten errors, or right answers, `skipped` says so in place of numbers.
    """
    errors, samples = int(wrong.sum()), len(wrong)
    if min(errors, samples - errors) < FEWEST:
        rarer = min(errors, samples - errors)
        what = "error" if errors == rarer else "right answer"
        skipped = (
            f"{rarer or 'no'} {what}{'' if rarer == 1 else 's'} in {samples:,} answers: too few to "
            f"say how well errors are found (it takes {FEWEST})"
        )
        return FailureFindings(errors=errors, samples=samples, skipped=skipped)
    options: Any = {"of": OF, "resamples": RESAMPLES, "seed": seed}
    first = next(iter(scores))
    found = {}
    for name, score in scores.items():
        own = metrics.bootstrap_selective(score, wrong, **options)
        gain = None
        if name != first:
            paired = metrics.selective_test(score, scores[first], wrong, **options)
            gain = {key: metrics.Interval(n.value, n.low, n.high) for key, n in paired.items()}
        found[name] = FailureScore(**own, gain=gain)
    curves = {name: _curve(score, wrong) for name, score in scores.items()}
    return FailureFindings(errors=errors, samples=samples, scores=found, curves=curves)


def _curve(score: Array, wrong: Array) -> RiskCurve:
    """Risk against coverage at a few points."""
    found = metrics.risk_coverage(score, wrong)
    count = len(found.risk)
    shown = np.unique(np.linspace(0, count - 1, min(count, POINTS)).astype(int))
    return RiskCurve(
        coverage=tuple(found.coverage[shown].tolist()), risk=tuple(found.risk[shown].tolist())
    )
