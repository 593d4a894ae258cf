"""Calibration data that the network or a detector has seen are refused, where it can be known."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from nescio.activations import Activations
from nescio.detectors import Detector
from nescio.errors import NescioError


def refuse_known(
    held: Activations, train: Activations | None, source: Any, fitted: Sequence[Detector]
) -> None:
    """Refuse calibration inputs that something was trained or fitted on, by their hashes.

    source: the model, or models and modules in a list. fitted: detectors that were given.
    """
    if held.hashes is None:
        return
    known = [("the training data given", None if train is None else train.hashes)]
    known += [("the data the model was trained on", seen) for seen in _seen(source)]
    known += [(f"the data the detector {one.name} was fitted on", one.seen) for one in fitted]
    for where, hashes in known:
        count = 0 if hashes is None else int(torch.isin(held.hashes, hashes.cpu()).sum())
        if count:
            raise NescioError(
                f"{count} of {held.cases} calibration inputs are among {where}; all is surer there "
                "than elsewhere, so no promise would hold. Calibrate on held-out data, or give "
                "repeats=True (--repeats) where equal inputs are separate cases, as in tables of "
                "few values"
            )


def copies(held: Activations) -> int:
    """How many calibration inputs are copies of another one."""
    return 0 if held.hashes is None else held.cases - len(held.hashes.unique())


def _seen(source: Any) -> Iterator[Tensor]:
    """Hashes of the inputs that each of the models was trained on, where they are known."""
    if isinstance(source, (list, tuple)):
        for part in source:
            yield from _seen(part)
    elif isinstance(found := getattr(source, "seen", None), Tensor):
        yield found
