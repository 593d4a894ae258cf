"""Predictions as tables: labels, probabilities or moments, and every measure, a row per sample."""

import csv
import io
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from nescio.core import (
    Classification,
    NescioError,
    Prediction,
    Regression,
    measure_all,
    write_atomically,
)

Columns = dict[str, NDArray[np.float64]]


def columns(prediction: Prediction) -> Columns:
    """Arrays by name, each with a row per sample."""
    prediction = prediction.to(torch.float64)
    found = {}
    if isinstance(prediction, Classification):
        found = {"label": prediction.labels, "probs": prediction.probs}
    elif isinstance(prediction, Regression):
        found = {"mean": prediction.mixture_mean, "variance": prediction.mixture_variance}
    found |= measure_all(prediction)
    return {name: tensor.cpu().numpy() for name, tensor in found.items()}


def write_predictions(path: Path, prediction: Prediction) -> None:
    """Write a prediction as .csv (vectors as name_0, name_1, ...) or .npz, atomically."""
    found = columns(prediction)
    if path.suffix == ".npz":
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **found)  # type: ignore[arg-type]
        write_atomically(path, buffer.getvalue())
    elif path.suffix == ".csv":
        write_atomically(path, _csv(found))
    else:
        raise NescioError(f"predictions are written as .csv or .npz, got {path.name!r}")


def _csv(found: Columns) -> str:
    flat: Columns = {}
    for name, values in found.items():
        if values.ndim == 1:
            flat[name] = values
        else:
            flat |= {f"{name}_{i}": values[:, i] for i in range(values.shape[1])}
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["sample", *flat])
    rows = zip(*(column.tolist() for column in flat.values()), strict=True)
    writer.writerows([sample, *row] for sample, row in enumerate(rows))
    return text.getvalue()
