"""`nescio predict`: labels, probabilities or moments, and every measure, one row per sample."""

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from nescio.cli import options as opt
from nescio.cli.data_names import input_columns, stream_named
from nescio.cli.networks import named_predictor, output_named
from nescio.cli.options import data_option, option
from nescio.core import (
    Classification,
    MultiLabel,
    NescioError,
    Prediction,
    Regression,
    asked,
    joined,
    measure_all,
    write_atomically,
)
from nescio.models import encoding_of, mc_dropout, plain, with_head

Columns = dict[str, NDArray[Any]]
BLOCK = 1 << 14  # samples that are read at a time


# fmt: off
PARAMETERS = [
    opt.argument("network"),
    opt.WEIGHTS,
    opt.NET_OF_RUN,
    opt.HEAD,
    opt.OUTPUT,
    data_option("data", "The inputs: an .npz file with x, a table, or the name of a data set.",
        required=True),
    option("--passes", "Sample the network's dropout with this number of forward passes.  "
        "[default: no dropout]", type=int),
    option("--out", "The file to write: .csv or .npz.", required=True, type=opt.PATH),
]
# fmt: on


@click.command(params=PARAMETERS)
def predict(
    network: str,
    weights: str | None,
    net_name: str | None,
    head: str | None,
    output: str | None,
    data_name: str,
    passes: int | None,
    out: str,
) -> None:
    """Write labels, probabilities and every measure for each sample.

    NETWORK is a folder that `nescio train` wrote, or package.module:factory with --weights and
    --head: inputs alone do not say whether outputs are class logits, means or something else.
    Every measure is larger where the model is less confident.

    \b
    nescio predict runs/digits --data new.npz --out predictions.csv
    nescio predict mymodule:make_net --weights w.pt --head categorical --data new.npz \\
        --passes 50 --out new.csv
    """
    if Path(out).suffix not in (".csv", ".npz"):
        raise NescioError(f"--out must end in .csv or .npz, got {out!r}")
    predictor = named_predictor(network, weights, net_name)
    if isinstance(predictor, nn.Module) and head is None:
        raise NescioError(f"it is not known how to read the outputs of {network}; {asked()}")
    predictor = with_head(predictor, None, head=head, output=output_named(output))
    if passes is not None:
        predictor = mc_dropout(predictor, passes=passes)
    predictor = plain(predictor) if isinstance(predictor, nn.Module) else predictor
    stream = stream_named(data_name, input_columns(data_name, None, predictor))
    x = joined([block for _, block in stream.blocks(BLOCK)])
    kept = {} if stream.kept is None else stream.kept(0, len(x))
    prediction = predictor(x)
    columns = encoding_of(predictor)
    if columns is not None and columns.classes and isinstance(prediction, Classification):
        kept = {**kept, "class": np.array(columns.classes)[prediction.labels.cpu().numpy()]}
    write_predictions(Path(out), prediction, kept)
    click.echo(f"{len(prediction)} samples, {prediction.members} member(s): {out}")


def write_predictions(
    path: Path, prediction: Prediction, kept: Mapping[str, NDArray[Any]] | None = None
) -> None:
    """Write a prediction as .npz, or as .csv with vectors as name_0, name_1, ..., atomically.

    kept: columns of the inputs that are written beside it.
    """
    prediction, tensors = prediction.to(torch.float64), {}
    if isinstance(prediction, Classification):
        tensors = {"label": prediction.labels, "probs": prediction.probs}
    elif isinstance(prediction, Regression):
        tensors = {"mean": prediction.mixture_mean, "variance": prediction.mixture_variance}
    elif isinstance(prediction, MultiLabel):
        tensors = {"label": prediction.labels, "probs": prediction.probs}
        each = [measure_all(prediction.label(k)) for k in range(prediction.count)]
        tensors |= {name: torch.stack([one[name] for one in each], -1) for name in each[0]}
    tensors |= measure_all(prediction)
    arrays = {name: tensor.cpu().numpy() for name, tensor in tensors.items()}
    if twice := sorted(set(arrays) & set(kept or {})):
        raise NescioError(f"{twice[0]!r} is a column of the predictions too; do not keep= it")
    arrays = {**(kept or {}), **arrays}
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
