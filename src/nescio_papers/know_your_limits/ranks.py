"""AUROC of many scores at once, with intervals, over one training or several."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nescio.metrics import delong_interval

Numbers = dict[str, Any]


def ranked(in_dist: Mapping[str, Any], ood: Mapping[str, Any]) -> Numbers:
    """AUROC and its 95 % interval (DeLong, in log-odds) of each score."""
    cells = {}
    for name, scores in in_dist.items():
        result = delong_interval(scores, ood[name], logit=True)
        cells[name] = {"mean": result.value, "low": result.low, "high": result.high}
    return cells


def joined(rows: Sequence[Numbers]) -> Numbers:
    """Mean over trainings; from the lowest to the highest bound of their intervals."""
    return {
        name: {
            "mean": float(np.mean([row[name]["mean"] for row in rows])),
            "low": min(row[name]["low"] for row in rows),
            "high": max(row[name]["high"] for row in rows),
        }
        for name in rows[0]
    }
