"""Findings with known numbers, without an audit."""

import numpy as np
import pytest

from nescio.core import DataSet
from nescio.evaluation.audit.findings import (
    Findings,
    OnSet,
    PredictorFindings,
    Quality,
    Separation,
)
from nescio.metrics import reliability


@pytest.fixture
def overconfident() -> Findings:
    """One predictor, 1,000 samples, 80 % accuracy at 95 % confidence; no guard, no far field."""
    right = np.arange(1000) % 5 > 0
    confidence = np.full(1000, 0.95)
    places = {"noise": 0.6, "far": 1.0}
    ood = {
        name: OnSet(mean_max_confidence=mean, measures={"entropy": Separation(auroc=0.9)})
        for name, mean in places.items()
    }
    one = PredictorFindings(
        members=1,
        classes=10,
        test=Quality(accuracy=0.8, nll=0.9, brier=0.3, ece=0.15, mean_max_confidence=0.95),
        reliability=reliability(confidence, right),
        ood=ood,
        confidence_histograms={},
    )
    sets = (
        DataSet(name="noise", kind="noise", samples=500),
        DataSet(name="far", kind="far", samples=500),
    )
    return Findings(samples=1000, features=(2,), seed=0, sets=sets, predictors={"network": one})
