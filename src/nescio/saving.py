"""Predictors in folders: the model, how its members are sampled, how its logits are scaled."""

import json
from pathlib import Path
from typing import Any

from torch import nn

from nescio.calibration import Scaled
from nescio.errors import NescioError
from nescio.files import write_json
from nescio.model import Model
from nescio.predictors import Predictor, mc_dropout
from nescio.predictors.mc_dropout import MCDropout

FILE = "predictor.json"


def save_predictor(predictor: Predictor, model: Model, folder: str | Path) -> None:
    """Write a model and what turns it into `predictor`: sampling, scaling, or nothing."""
    model.save(folder)
    settings: dict[str, Any] = {"sampling": None, "scaling": None}
    if isinstance(predictor, Scaled):
        settings["scaling"] = {"slope": predictor.slope, "intercept": list(predictor.intercept)}
        predictor = predictor.predictor
    if isinstance(predictor, MCDropout):
        settings["sampling"] = {"passes": predictor.passes, "seed": predictor.seed}
    elif not isinstance(predictor, Model):
        raise NescioError(f"a {type(predictor).__name__} cannot be saved; save its model")
    write_json(Path(folder) / FILE, settings)


def load(folder: str | Path, *, net: nn.Module | None = None) -> Predictor:
    """The predictor in a folder that `nescio train` or `model.save` wrote."""
    model = Model.load(folder, net=net)
    path = Path(folder) / FILE
    if not path.exists():
        return model
    try:
        settings = json.loads(path.read_text())
        sampling, scaling = settings["sampling"], settings["scaling"]
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise NescioError(f"{path} is damaged: {error}; train again or delete it") from error
    predictor: Predictor = model if sampling is None else mc_dropout(model, **sampling)
    if scaling is not None:
        predictor = Scaled(predictor, scaling["slope"], tuple(scaling["intercept"]))
    return predictor
