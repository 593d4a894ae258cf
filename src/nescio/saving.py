"""Predictors in folders: the model, how its members are sampled, how its logits are scaled."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from nescio.calibration import Scaled
from nescio.errors import NescioError
from nescio.files import write_json
from nescio.model import Model
from nescio.predictors import Predictor
from nescio.registry import predictors

FILE = "predictor.json"


def save_settings(
    folder: str | Path,
    *,
    sampler: str | None = None,
    sampling: Mapping[str, Any] | None = None,
    scaled: Scaled | None = None,
) -> None:
    """Beside a saved model: the predictor that draws its members, and how logits are scaled."""
    scaling = None
    if scaled is not None:
        scaling = {"slope": scaled.slope, "intercept": list(scaled.intercept)}
    settings = {"sampler": sampler, "sampling": dict(sampling or {}), "scaling": scaling}
    write_json(Path(folder) / FILE, settings)


def load(folder: str | Path, *, net: nn.Module | None = None) -> Predictor:
    """The predictor in a folder that `nescio train` or `model.save` wrote."""
    model = Model.load(folder, net=net)
    path = Path(folder) / FILE
    if not path.exists():
        return model
    try:
        settings = json.loads(path.read_text())
        sampler, sampling, scaling = (settings[k] for k in ("sampler", "sampling", "scaling"))
        drawn: Predictor = model if sampler is None else predictors[sampler](model, **sampling)
        if scaling is None:
            return drawn
        return Scaled(drawn, float(scaling["slope"]), tuple(map(float, scaling["intercept"])))
    except (ValueError, KeyError, TypeError) as error:
        raise NescioError(f"{path} is damaged: {error}; train again or delete it") from error
