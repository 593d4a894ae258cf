"""`nescio predict`: labels, probabilities or moments, and every measure, one row per sample."""

import csv
import io
from collections.abc import Sequence
from itertools import islice
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
from nescio.cli.options import data_option, note, option
from nescio.core import (
    Classification,
    MultiLabel,
    NescioError,
    Prediction,
    Regression,
    asked,
    measure_all,
    write_atomically,
)
from nescio.data import readers
from nescio.models import encoding_of, mc_dropout, plain, with_head

Columns = dict[str, NDArray[Any]]
BLOCK = 1 << 25  # bytes of inputs that are predicted at a time
SHOWN = 5  # files that cannot be read


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
    Every measure is larger where the model is less confident. Columns of a table that keep= names,
    and the ids of a model that was trained on a table, are copied; an image that cannot be read
    has a row without numbers and says why.

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
    columns = encoding_of(predictor)
    arrays, members = predicted(predictor, stream, () if columns is None else columns.classes)
    _write(Path(out), arrays)
    for why in islice(stream.unreadable.values(), SHOWN):
        note(why)
    click.echo(f"{len(next(iter(arrays.values())))} samples, {members} member(s): {out}")


def predicted(
    predictor: Any, stream: readers.Stream, classes: Sequence[str] = ()
) -> tuple[Columns, int]:
    """What is written, by name, and the number of members; a block of inputs at a time.

    classes: names that are written beside the labels.
    """
    size = max(1, BLOCK // stream.sample_bytes)
    found: list[tuple[int, NDArray[np.bool_], Columns]] = []
    members = 0
    for start, block in stream.blocks(size):
        good = np.array([start + i not in stream.unreadable for i in range(len(block))])
        arrays: Columns = {}
        if good.any():
            prediction = predictor(block if good.all() else block[torch.from_numpy(good)])
            arrays, members = columns_of(prediction), prediction.members
            if classes and isinstance(prediction, Classification):
                arrays = {"class": np.array(classes)[arrays["label"]], **arrays}
        found.append((start, good, arrays))
    like = next((arrays for _, _, arrays in found if arrays), None)
    if like is None:
        raise NescioError(next(iter(stream.unreadable.values())))
    parts = [_rows(stream, start, good, arrays, like) for start, good, arrays in found]
    whole = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return whole, members


def _rows(
    stream: readers.Stream, start: int, good: NDArray[np.bool_], arrays: Columns, like: Columns
) -> Columns:
    """The columns of one block, with those that are copied and why inputs could not be read."""
    kept = {} if stream.kept is None else dict(stream.kept(start, len(good)))
    if twice := sorted(set(like) & set(kept)):
        raise NescioError(f"{twice[0]!r} is a column of the predictions too; do not keep= it")
    whole = {name: _with_gaps(arrays.get(name, one[:0]), good) for name, one in like.items()}
    why = [stream.unreadable.get(start + i, "") for i in range(len(good))]
    return {**kept, **whole, **({"unreadable": np.array(why)} if stream.unreadable else {})}


def _with_gaps(values: NDArray[Any], good: NDArray[np.bool_]) -> NDArray[Any]:
    """Values of the samples that could be read; the others have NaN, no text, or the label -1."""
    if good.all():
        return values
    nothing = {"f": np.nan, "U": "", "i": -1, "b": False}[values.dtype.kind]
    whole = np.full((len(good), *values.shape[1:]), nothing, values.dtype)
    whole[good] = values
    return whole


def write_predictions(path: Path, prediction: Prediction) -> None:
    """Write a prediction as .npz, or as .csv with vectors as name_0, name_1, ..., atomically."""
    _write(path, columns_of(prediction))


def columns_of(prediction: Prediction) -> Columns:
    """Labels, probabilities or moments, and every measure, by name."""
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
    return {name: tensor.cpu().numpy() for name, tensor in tensors.items()}


def _write(path: Path, arrays: Columns) -> None:
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
