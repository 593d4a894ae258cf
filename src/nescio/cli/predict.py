"""`nescio predict`: labels, probabilities or moments, and every measure, one row per sample."""

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

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
    measure_all,
    writing_atomically,
)
from nescio.data.readers import Stream
from nescio.guards.table_text import harmless
from nescio.models import encoding_of, mc_dropout, plain, with_head

Columns = dict[str, NDArray[Any]]
BLOCK = 1 << 24  # bytes of inputs and predictions that are in memory at a time
ROW = 1 << 12  # bytes of the predictions about a sample
BATCH = 1024  # samples of a predictor's batches: blocks end where these do


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
    opt.DEVICE,
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
    samples, members = 0, 0

    def parts() -> Iterator[Columns]:
        nonlocal samples, members
        for first, x in stream.blocks(_block(stream)):
            kept = {} if stream.kept is None else dict(stream.kept(first, len(x)))
            prediction = _predicted(predictor, x, first)
            samples, members = first + len(prediction), prediction.members
            yield _columns(prediction, kept, encoding_of(predictor))

    write_predictions(Path(out), parts())
    click.echo(f"{samples} samples, {members} member(s): {out}")


def _block(stream: Stream) -> int:
    """How many samples are in memory at a time, with all that is written about them."""
    size = max(1, BLOCK // (stream.sample_bytes + ROW))
    return size - size % BATCH if size > BATCH else size


def _predicted(predictor: Any, x: Any, first: int) -> Prediction:
    try:
        prediction: Prediction = predictor(x)
    except NescioError as error:
        if not first:
            raise
        raise NescioError(f"in samples {first} to {first + len(x) - 1}: {error}") from error
    return prediction.to(torch.float64)


def _columns(prediction: Prediction, kept: Columns, encoding: Any) -> Columns:
    """Arrays by name, one row per sample; kept: columns of the inputs that are written beside."""
    tensors: dict[str, Tensor] = {}
    if isinstance(prediction, Classification):
        tensors = {"label": prediction.labels, "probs": prediction.probs}
        if encoding is not None and encoding.classes:
            names = np.array(encoding.classes)[prediction.labels.cpu().numpy()]
            kept = {**kept, "class": names}
    elif isinstance(prediction, Regression):
        tensors = {"mean": prediction.mixture_mean, "variance": prediction.mixture_variance}
    elif isinstance(prediction, MultiLabel):
        tensors = {"label": prediction.labels, "probs": prediction.probs}
        each = [measure_all(prediction.label(k)) for k in range(prediction.count)]
        tensors |= {name: torch.stack([one[name] for one in each], -1) for name in each[0]}
    tensors |= measure_all(prediction)
    arrays: Columns = {name: tensor.cpu().numpy() for name, tensor in tensors.items()}
    if twice := sorted(set(arrays) & set(kept)):
        raise NescioError(f"{twice[0]!r} is a column of the predictions too; do not keep= it")
    return {**kept, **arrays}


def write_predictions(path: Path, parts: Iterator[Columns]) -> None:
    """Write columns as .npz, or as .csv with vectors as name_0, name_1, ..., atomically."""
    with writing_atomically(path) as file:
        if path.suffix == ".csv":
            samples = 0
            for part in parts:
                file.write(_csv(part, samples).encode())
                samples += len(next(iter(part.values())))
            return
        every = list(parts)
        whole = {name: np.concatenate([part[name] for part in every]) for name in every[0]}
        np.savez_compressed(file, **whole)  # type: ignore[arg-type]


def _csv(arrays: Columns, first: int) -> str:
    """Rows from the sample `first` on; the header before sample 0."""
    flat: Columns = {}
    for name, values in arrays.items():
        vector = {f"{name}_{i}": column for i, column in enumerate(values.T)}
        flat |= vector if values.ndim > 1 else {name: values}
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if not first:
        writer.writerow(["sample", *map(harmless, flat)])
    columns = [
        list(map(harmless, map(str, column))) if column.dtype.kind == "U" else column.tolist()
        for column in flat.values()
    ]
    writer.writerows([first + at, *row] for at, row in enumerate(zip(*columns, strict=True)))
    return text.getvalue()
