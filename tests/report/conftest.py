"""A small audit with known numbers."""

import copy
from typing import Any

import pytest

MEASURES = ("predictive_entropy", "mutual_information")


def _predictor(test: dict[str, float], far: list[float], auroc: list[float]) -> dict[str, Any]:
    areas = {"noise": 0.912, "scaled x 100": auroc[-1]}
    sure = {"noise": 0.613, "scaled x 100": far[-1]}
    return {
        "members": 1,
        "classes": 4,
        "test": test,
        "reliability": {
            "edges": [0.0, 0.25, 0.5, 0.75, 1.0],
            "count": [0, 20, 0, 80],
            "confidence": [float("nan"), 0.4, float("nan"), 0.9],
            "accuracy": [float("nan"), 0.35, float("nan"), 0.95],
        },
        "outside": {
            where: {
                "mean_max_confidence": sure[where],
                "measures": {
                    name: {"auroc": areas[where], "aupr": 0.7, "fpr_at_95_tpr": 0.234}
                    for name in MEASURES
                },
            }
            for where in areas
        },
        "scaling": {
            "alpha": [1.0, 10.0, 100.0],
            "mean_max_confidence": far,
            "auroc": dict.fromkeys(MEASURES, auroc),
        },
        "confidence_histograms": {
            "test": [0, 5, 15, 80],
            "noise": [10, 20, 20, 0],
            "scaled x 100": [0, 0, 50, 50],
        },
    }


QUALITY = {"nll": 0.123, "brier": 0.045, "ece": 0.067}


@pytest.fixture
def result() -> dict[str, Any]:
    """Two predictors: `plain` grows surer far away, `<b>net</b>` less sure."""
    plain = {"accuracy": 0.9, "mean_max_confidence": 0.981, **QUALITY}
    other = {"accuracy": 0.887, "mean_max_confidence": 0.876, **QUALITY}
    found = {
        "cases": 100,
        "features": [2],
        "seed": 7,
        "sets": {"noise": 50},
        "nescio": "9.8.7",
        "command": ["nescio", "audit", "a b"],
        "predictors": {
            "plain": _predictor(plain, [0.981, 0.99, 0.997], [0.5, 0.3, 0.104]),
            "<b>net</b>": _predictor(other, [0.876, 0.5, 0.301], [0.5, 0.8, 0.951]),
        },
    }
    return copy.deepcopy(found)


@pytest.fixture
def smallest(result: dict[str, Any]) -> dict[str, Any]:
    """One predictor, no outside set."""
    found = result["predictors"]["plain"]
    found["outside"] = {}
    found["confidence_histograms"] = {"test": [0, 5, 15, 80]}
    return {**result, "sets": {}, "predictors": {"plain": found}}


@pytest.fixture
def gaps(result: dict[str, Any]) -> dict[str, Any]:
    """Numbers that are missing, as None (from a file) and as NaN (from memory)."""
    found = result["predictors"]["plain"]
    found["test"] = dict.fromkeys(found["test"])
    found["outside"]["noise"]["mean_max_confidence"] = float("nan")
    found["outside"]["noise"]["measures"]["mutual_information"] = {"auroc": None}
    found["scaling"]["mean_max_confidence"] = [None, 0.5, float("nan")]
    found["scaling"]["auroc"]["mutual_information"] = [None, None, float("nan")]
    found["reliability"]["confidence"][0] = None
    found["reliability"]["accuracy"][0] = None
    del result["predictors"]["<b>net</b>"]["outside"]["noise"]
    return result


@pytest.fixture
def attacked(result: dict[str, Any]) -> dict[str, Any]:
    """The same with a row of adversarial noise, which one predictor could not be asked for."""
    plain = result["predictors"]["plain"]
    name = "adversarial noise (radius 0.3, 50 steps)"
    plain["outside"][name] = {
        "mean_max_confidence": 0.9997,
        "measures": {m: {"auroc": 0.021, "aupr": 0.3, "fpr_at_95_tpr": 0.987} for m in MEASURES},
    }
    plain["confidence_histograms"][name] = [0, 0, 1, 199]
    plain["attack"] = {"blind": 0.125}
    result["predictors"]["<b>net</b>"]["attack"] = {"skipped": "a Closed has no method answer(x)"}
    result["sets"][name] = 200
    return result
