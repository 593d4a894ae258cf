"""Predictors in folders: the model, how its members are sampled, how it is calibrated."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from nescio import calibration
from nescio.calibration import Calibrated, scaled
from nescio.core import NescioError, write_json
from nescio.core.registry import predictors
from nescio.models import Predictor
from nescio.models.model import Model

FILE, MAP = "predictor.json", "calibration.safetensors"


def save_settings(
    folder: str | Path,
    *,
    sampler: str | None = None,
    sampling: Mapping[str, Any] | None = None,
    calibrated: Calibrated | None = None,
) -> None:
    """Beside a saved model: the predictor that draws its members, and its calibration."""
    if calibrated is not None:
        calibrated.map.save(Path(folder) / MAP)
    settings = {"sampler": sampler, "sampling": dict(sampling or {})}
    write_json(Path(folder) / FILE, {**settings, "calibrated": calibrated is not None})


def load(folder: str | Path, *, net: nn.Module | None = None) -> Predictor:
    """The predictor in a folder that `nescio train` or `model.save` wrote."""
    model = Model.load(folder, net=net)
    path = Path(folder) / FILE
    if not path.exists():
        return model
    try:
        settings = json.loads(path.read_text())
        sampler, sampling = settings["sampler"], settings["sampling"]
        drawn: Predictor = model if sampler is None else predictors[sampler](model, **sampling)
        if settings.get("calibrated", False):
            return Calibrated(drawn, calibration.load(Path(folder) / MAP))
        scaling = settings.get("scaling")  # of folders from before there were maps
        if scaling is None:
            return drawn
        return scaled(drawn, float(scaling["slope"]), tuple(map(float, scaling["intercept"])))
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, NescioError):
            raise
        raise NescioError(f"{path} is damaged: {error}; train again or delete it") from error
