"""How well confidence is earned: rows of calibration and of failure prediction in an audit."""

from typing import Any

from nescio.report.tables import Result, decimal

CALIBRATION_COLUMNS = ("temperature", "ECE", "95 % interval", "smooth ECE", "NLL", "Brier")
FAILURE_COLUMNS = ("AP of errors", "gain in AP", "AUROC", "AURC")
CALIBRATION_NOTE = (
    "ECE: the gap of confidence and accuracy over 15 bins, in per cent. Its interval is from "
    "resampled cases and takes off some of what chance adds to the gap, so it may lie below the "
    "ECE. It starts above 0 only if calibrated answers would show so large a gap in 2.5 % of draws "
    "at most. Smooth ECE: with a kernel in place of bins."
)
FAILURE_NOTE = (
    "AP of errors, its gain over the maximum probability, and AUROC in per cent, AURC in "
    "thousandths; 95 % intervals from resampled cases. AP and AUROC: larger is better; chance is "
    "the share of errors for AP, 50 for AUROC. AURC: the mean share of errors over all coverages; "
    "smaller is better."
)


def calibrated(result: Result) -> dict[str, Any]:
    """The predictors whose calibration was measured."""
    parts = {name: found.get("calibration") for name, found in result["predictors"].items()}
    return {name: part for name, part in parts.items() if part and "before" in part}


def calibration_rows(result: Result, *, missing: str) -> list[tuple[str, list[str]]]:
    """Two rows a predictor: as it is, and after temperature where there is one."""
    rows = []
    for name, part in calibrated(result).items():
        rows.append((name, ["1", *_cells(part["before"], missing)]))
        if "after" in part:
            heat = decimal(part["temperature"], 2, missing=missing)
            rows.append((f"{name}, temperature", [heat, *_cells(part["after"], missing)]))
    return rows


def calibration_notes(result: Result) -> list[tuple[str, str]]:
    """The predictors without a temperature, and why."""
    return [
        (name, part["skipped"]) for name, part in calibrated(result).items() if part.get("skipped")
    ]


def failure_rows(result: Result, *, missing: str) -> list[tuple[str, list[str]]]:
    """A row for each predictor and score."""
    rows = []
    for name, found in result["predictors"].items():
        for score, part in found.get("failure", {}).get("scores", {}).items():
            gain = part.get("gain", {}).get("ap_error")
            cells = [
                _interval(part["ap_error"], missing),
                missing if gain is None else _interval(gain, missing, sign="+"),
                decimal(part["auroc"]["value"], 1, scale=100, missing=missing),
                decimal(part["aurc"]["value"], 2, scale=1000, missing=missing),
            ]
            rows.append((f"{name}: {score}", cells))
    return rows


def failure_notes(result: Result) -> list[tuple[str, str]]:
    """The predictors with too few errors."""
    parts = {name: found.get("failure", {}) for name, found in result["predictors"].items()}
    return [(name, part["skipped"]) for name, part in parts.items() if part.get("skipped")]


def _cells(part: Result, missing: str) -> list[str]:
    ece = part["ece"]
    ends = [decimal(max(0.0, ece[end]), 1, scale=100, missing=missing) for end in ("low", "high")]
    return [
        decimal(ece["value"], 1, scale=100, missing=missing),
        f"{ends[0]} to {ends[1]}",
        decimal(part["smooth_ece"], 1, scale=100, missing=missing),
        decimal(part["nll"], 3, missing=missing),
        decimal(part["brier"], 3, missing=missing),
    ]


def _interval(part: Result, missing: str, sign: str = "") -> str:
    """A share and its bounds, in per cent."""
    if part["value"] is None:
        return missing
    value, low, high = (f"{100 * part[key]:{sign}.1f}" for key in ("value", "low", "high"))
    return f"{value} ({low} to {high})"
