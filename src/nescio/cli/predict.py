"""`nescio predict`: labels, probabilities or moments, and every measure, one row per sample."""

import csv
import io
from pathlib import Path

import click
import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from nescio.cli import options as opt
from nescio.cli.data_names import inputs_named
from nescio.cli.networks import named_predictor
from nescio.cli.options import data_option, option
from nescio.core import (
    Classification,
    NescioError,
    Prediction,
    Regression,
    measure_all,
    write_atomically,
)
from nescio.models import mc_dropout, plain

Columns = dict[str, NDArray[np.float64]]


# fmt: off
PARAMETERS = [
    opt.argument("network"),
    opt.WEIGHTS,
    opt.NET_OF_RUN,
    data_option("data", "The inputs: an .npz file with x, a table, or the name of a data set.",
        required=True),
    option("--passes", "Sample the network's dropout with this number of forward passes.  "
        "[default: no dropout]", type=int),
    option("--out", "The file to write: .csv or .npz.", required=True, type=opt.PATH),
    opt.DEVICE,
]
# fmt: on


@click.command(params=PARAMETERS)
def predict(
    network: str,
    weights: str | None,
    net_name: str | None,
    data_name: str,
    passes: int | None,
    out: str,
) -> None:
    """Write labels, probabilities and every measure for each sample.

    NETWORK is a folder that `nescio train` wrote, or package.module:factory with --weights.
    Every measure is larger where the model is less confident.

    \b
    nescio predict runs/digits --data new.npz --out predictions.csv
    nescio predict mymodule:make_net --weights w.pt --data new.npz --passes 50 --out new.csv
    """
    if Path(out).suffix not in (".csv", ".npz"):
        raise NescioError(f"--out must end in .csv or .npz, got {out!r}")
    predictor = named_predictor(network, weights, net_name)
    if passes is not None:
        predictor = mc_dropout(predictor, passes=passes)
    predictor = plain(predictor) if isinstance(predictor, nn.Module) else predictor
    prediction = predictor(inputs_named(data_name))
    write_predictions(Path(out), prediction)
    click.echo(f"{len(prediction)} samples, {prediction.members} member(s): {out}")


def write_predictions(path: Path, prediction: Prediction) -> None:
    """Write a prediction as .npz, or as .csv with vectors as name_0, name_1, ..., atomically."""
    prediction, tensors = prediction.to(torch.float64), {}
    if isinstance(prediction, Classification):
        tensors = {"label": prediction.labels, "probs": prediction.probs}
    elif isinstance(prediction, Regression):
        tensors = {"mean": prediction.mixture_mean, "variance": prediction.mixture_variance}
    tensors |= measure_all(prediction)
    arrays = {name: tensor.cpu().numpy() for name, tensor in tensors.items()}
    if path.suffix == ".csv":
        write_atomically(path, _csv(arrays))
        return
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    write_atomically(path, buffer.getvalue())


def _csv(arrays: Columns) -> str:
    flat: Columns = {}
    for name, values in arrays.items():
        vector = {f"{name}_{i}": column for i, column in enumerate(values.T)}
        flat |= vector if values.ndim > 1 else {name: values}
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["sample", *flat])
    rows = zip(*(column.tolist() for column in flat.values()), strict=True)
    writer.writerows([sample, *row] for sample, row in enumerate(rows))
    return text.getvalue()
