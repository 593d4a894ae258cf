"""Calibration in an audit: a row before and after temperature, and the reliability diagrams."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from nescio.metrics import Reliability
from nescio.report import findings
from nescio.report.earned import calibrated
from nescio.report.reliability import reliability_diagram
from nescio.report.tables import Result


def reliability_diagrams(result: Result) -> Figure:
    """A panel a predictor, and one for the first after temperature."""
    panels: dict[str, Reliability] = {}
    parts = calibrated(result)
    for name, found in result["predictors"].items():
        if not parts:
            panels[name] = _bins(found["reliability"])
        elif name in parts:
            panels[name] = _bins(parts[name]["before"]["reliability"])
            if name == next(iter(parts)) and "after" in parts[name]:
                panels[f"{name}, temperature"] = _bins(parts[name]["after"]["reliability"])
    figure: Figure = reliability_diagram(panels, title=findings.calibration(result))
    return figure


def _bins(found: Any) -> Reliability:
    """The bins as arrays; an empty one has no mean."""
    mean, share = (np.array(found[key], dtype=np.float64) for key in ("confidence", "accuracy"))
    return Reliability(np.array(found["edges"]), np.array(found["count"]), mean, share)
