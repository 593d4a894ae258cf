"""A small audit with known numbers: drafts as nested numbers, `.typed` as the findings."""

import copy
from typing import Any

import pytest

from nescio.core.results import from_json
from nescio.evaluation.audit import Findings

SHIFT = ("shift", "description", "samples")


class Draft(dict):
    """Findings that a test may still change."""

    @property
    def typed(self) -> Findings:
        """The same as values."""
        found = dict(self)
        found["sets"] = [
            {"name": name, "samples": samples, **KINDS.get(name, {})}
            for name, samples in {**self["sets"], "scaled x 100": 100}.items()
        ]
        if "shift" in found:
            found["shift"] = _curves(found["shift"])
        return from_json(Findings, found)


KINDS = {
    "scaled x 100": {"kind": "far", "strength": 100.0},
    "adversarial noise (radius 0.3, 50 steps)": {
        "kind": "adversarial",
        "description": "radius 0.3, 50 steps",
    },
}


def _curves(found: dict[str, Any]) -> dict[str, Any]:
    """Curves as rows."""
    rows = []
    for group in ("predictors", "sets", "guards"):
        for subject, numbers in found[group].items():
            for i, strength in enumerate(found["strengths"]):
                ends = {end: numbers[end][i] for end in ("low", "high") if end in numbers}
                own = {"subject": subject, "data": f"strength {strength:g}"}
                rows += [
                    {**own, "metric": key, "value": v[i], **(ends if key == "risk" else {})}
                    for key, v in numbers.items()
                    if key not in ends
                ]
    sets = [{"name": f"strength {s:g}", "strength": s} for s in found["strengths"]]
    return {**{key: found[key] for key in SHIFT}, "rows": rows, "sets": sets}


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
        "ood": {
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
def result() -> Draft:
    """Two predictors: `plain` grows surer far away, `<b>net</b>` less sure."""
    plain = {"accuracy": 0.9, "mean_max_confidence": 0.981, **QUALITY}
    other = {"accuracy": 0.887, "mean_max_confidence": 0.876, **QUALITY}
    found = {
        "samples": 100,
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
    return Draft(copy.deepcopy(found))


@pytest.fixture
def smallest(result: Draft) -> Draft:
    """One predictor, no outside set."""
    found = result["predictors"]["plain"]
    found["ood"] = {}
    found["confidence_histograms"] = {"test": [0, 5, 15, 80]}
    return Draft({**result, "sets": {}, "predictors": {"plain": found}})


@pytest.fixture
def gaps(result: Draft) -> Draft:
    """Numbers that are missing, as None (from a file) and as NaN (from memory)."""
    found = result["predictors"]["plain"]
    found["test"] = dict.fromkeys(found["test"])
    found["ood"]["noise"]["mean_max_confidence"] = float("nan")
    found["ood"]["noise"]["measures"]["mutual_information"] = {"auroc": None}
    found["scaling"]["mean_max_confidence"] = [None, 0.5, float("nan")]
    found["scaling"]["auroc"]["mutual_information"] = [None, None, float("nan")]
    found["reliability"]["confidence"][0] = None
    found["reliability"]["accuracy"][0] = None
    del result["predictors"]["<b>net</b>"]["ood"]["noise"]
    return result


@pytest.fixture
def attacked(result: Draft) -> Draft:
    """The same with a row of adversarial noise, which one predictor could not be asked for."""
    plain = result["predictors"]["plain"]
    name = "adversarial noise (radius 0.3, 50 steps)"
    plain["ood"][name] = {
        "mean_max_confidence": 0.9997,
        "measures": {m: {"auroc": 0.021, "aupr": 0.3, "fpr_at_95_tpr": 0.987} for m in MEASURES},
    }
    plain["confidence_histograms"][name] = [0, 0, 1, 199]
    plain["attack"] = {"blind": 0.125}
    result["predictors"]["<b>net</b>"]["attack"] = {"skipped": "a Closed has no method answer(x)"}
    result["sets"][name] = 200
    return result


def _bins(accuracy: list[float]) -> dict[str, Any]:
    empty = float("nan")
    return {
        "edges": [0.0, 0.25, 0.5, 0.75, 1.0],
        "count": [0, 20, 0, 80],
        "confidence": [empty, 0.4, empty, 0.9],
        "accuracy": [empty, accuracy[0], empty, accuracy[1]],
    }


def _calibration(ece: float, accuracy: list[float]) -> dict[str, Any]:
    return {
        "nll": 0.321,
        "brier": 0.154,
        "ece": {"value": ece, "low": ece - 0.03, "high": ece + 0.01},
        "smooth_ece": ece / 2,
        "reliability": _bins(accuracy),
    }


def _around(value: float) -> dict[str, float]:
    return {"value": value, "low": value - 0.005, "high": value + 0.005}


@pytest.fixture
def trusted(result: Draft) -> Draft:
    """The same with a guard, calibration, failure prediction and a shift."""
    plain, other = result["predictors"].values()
    plain["calibration"] = {
        "before": _calibration(0.042, [0.35, 0.95]),
        "after": _calibration(0.012, [0.4, 0.9]),
        "temperature": 1.75,
    }
    other["calibration"] = {"before": _calibration(0.025, [0.3, 0.9]), "skipped": "no error"}
    scores = {
        "maximum probability": {key: _around(0.4) for key in ("ap_error", "auroc", "aurc")},
        "recommended score": {key: _around(0.5) for key in ("ap_error", "auroc", "aurc")},
    }
    scores["recommended score"]["gain"] = {"ap_error": _around(0.1)}
    coverage = [0.1, 0.5, 1.0]
    plain["failure"] = {
        "errors": 10,
        "samples": 100,
        "scores": scores,
        "curves": {
            "maximum probability": {"coverage": coverage, "risk": [0.0, 0.02, 0.1]},
            "recommended score": {"coverage": coverage, "risk": [0.0, 0.0, 0.1]},
        },
    }
    other["failure"] = {"errors": 3, "samples": 100, "skipped": "3 errors in 100 answers: too few"}
    result["held_out"] = "fitted on the 300 validation samples, measured on the 100 test samples"
    shares = {"inputs": 50, "unsure": 0.0}
    result["guard"] = {
        "predictor": "plain",
        "false_alarm": 0.01,
        "risk": 0.02,
        "confidence": 0.95,
        "samples": 300,
        "needed": 189,
        "halved": False,
        "holds": True,
        "shown": {
            "samples": 236,
            "answered": 220,
            "errors": 1,
            "bound": 0.0214,
            "calibration": 240,
        },
        "enough": None,
        "own_network": False,
        "guarantees": ["Outside: few.", "Unsure: <few>."],
        "test": {
            "samples": 100,
            "answered": {"value": 0.9, "low": 0.82, "high": 0.95},
            "ood": {"value": 0.02, "low": 0.01, "high": 0.07},
            "unsure": 0.08,
            "errors": 1,
            "risk": {"value": 0.01, "low": 0.0003, "high": 0.06},
        },
        "broken": {"false_alarm": False, "risk": False},
        "ood": {
            "letters": {**shares, "answer": 0.39, "ood": 0.61},
            "uniform noise": {**shares, "answer": 0.0, "ood": 1.0},
            "scaled x 100": {**shares, "answer": 0.0, "ood": 1.0},
        },
        "file": "out/guard.safetensors",
    }
    quality = {"accuracy": [0.9, 0.4], "ece": [0.05, 0.3], "nll": [0.1, 0.2]}
    decided = {"answered": [0.9, 0.1], "unsure": [0.08, 0.1], "ood": [0.02, 0.8]}
    risk = {"risk": [0.01, None], "low": [0.0, None], "high": [0.03, None]}
    result["shift"] = {
        "shift": "rotation",
        "description": "turned by 15 degrees a step",
        "samples": 100,
        "strengths": [0.0, 1.0],
        "predictors": {"plain": quality},
        "sets": {},
        "guards": {"guard": {**decided, **risk}},
    }
    return result
