"""Calibration data that the network or the detector has seen are refused, where it can be known."""

from typing import Any

import torch

from nescio.activations import Activations
from nescio.detectors import Detector
from nescio.errors import NescioError


def refuse_known(
    held: Activations, train: Activations | None, source: Any, detector: Detector | None
) -> None:
    """Refuse calibration inputs that are also training inputs, by their hashes."""
    if held.hashes is None:
        return
    known = {
        "the training data given": None if train is None else train.hashes,
        "the data the model was trained on": getattr(source, "seen", None),
    }
    for where, hashes in known.items():
        count = 0 if hashes is None else int(torch.isin(held.hashes, hashes.cpu()).sum())
        if count:
            raise NescioError(
                f"{count} of {held.cases} calibration inputs are among {where}; a network is surer "
                "there than elsewhere, so no promise would hold. Calibrate on held-out data"
            )
    own = held.made.get("data")
    if detector is not None and own is not None and detector.made.get("data") == own:
        raise NescioError(
            f"the detector {detector.name} was fitted on the calibration data; fit it on training "
            "data"
        )
