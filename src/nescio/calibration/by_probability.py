"""Maps of single probabilities: class by class, or one for all classes that keeps their order."""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nescio.calibration.affine import refuse_missing
from nescio.core import Categorical, Classification, NescioError

STRICT = 1e-6  # times p: what one map for all classes adds, so that the order stays
Floats = NDArray[np.float64]
Fitted = dict[str, Tensor]


def fit_rows(
    prediction: Classification,
    labels: Tensor,
    fit: Callable[[Floats, Floats], tuple[Floats, Floats]],
    *,
    keep_argmax: bool,
) -> Fitted:
    """`x` and `y` of one map per class, or of one for all; rows are filled up with their last."""
    probs = wide_probs(prediction).flatten(0, -2).cpu().numpy()
    truth = np.zeros_like(probs)
    truth[np.arange(len(probs)), labels.flatten().cpu().numpy()] = 1
    if keep_argmax:
        found = [fit(probs.ravel(), truth.ravel())]
    else:
        refuse_missing(prediction.classes, labels)
        found = [fit(p, t) for p, t in zip(probs.T, truth.T, strict=True)]
    return {"x": _filled([x for x, _ in found]), "y": _filled([y for _, y in found])}


def apply_rows(
    prediction: Classification, read: Callable[[Tensor], Tensor], *, keep_argmax: bool
) -> Categorical:
    """What `read` makes of the probabilities `(C, N)`, or `(1, N C)`, divided by their sum."""
    probs = wide_probs(prediction)
    flat = probs.flatten(0, -2)
    if keep_argmax:
        mapped = (read(flat.reshape(1, -1)).view_as(flat)) + STRICT * flat
    else:
        mapped = read(flat.T.contiguous()).T
    logs = mapped.log() - mapped.sum(-1, keepdim=True).log()
    return Categorical(logs.reshape(probs.shape)[None])


def wide_probs(prediction: Classification) -> Tensor:
    """Probabilities of the mixture in float64; steps have no gradients to give."""
    probs = prediction.to(torch.float64).probs
    if probs.requires_grad:
        raise NescioError(
            "isotonic and histogram calibration are steps and flats: they have no gradients; "
            "attack the predictor within, or use temperature scaling"
        )
    return probs


def _filled(rows: list[Floats]) -> Tensor:
    width = max(map(len, rows))
    padded = [np.pad(row, (0, width - len(row)), mode="edge") for row in rows]
    return torch.from_numpy(np.stack(padded))
