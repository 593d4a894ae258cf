"""Predictions of named networks: labels or moments, and every measure, as columns."""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from nescio.cli.data_names import input_columns, stream_named
from nescio.cli.networks import named_predictor, output_named
from nescio.cli.options import note
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
from nescio.data import readers
from nescio.guards.table_text import harmless
from nescio.models import encoding_of, mc_dropout, plain, with_head

Columns = dict[str, NDArray[Any]]
BLOCK = 1 << 24  # bytes of inputs and predictions that are in memory at a time
ROW = 1 << 12  # bytes of the predictions about a sample
BATCH = 1024  # samples of a predictor's batches: blocks end where these do
SHOWN = 5  # files that cannot be read


def predict_named(
    network: str,
    weights: str | None,
    net_name: str | None,
    head: str | None,
    output: str | None,
    data_name: str,
    passes: int | None,
    out: str,
) -> None:
    """Write what the network that the words of the command name predicts."""
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
    members: set[int] = set()
    classes = () if columns is None else columns.classes
    table = Path(out).suffix == ".csv"
    samples = write_arrays(Path(out), predicted(predictor, stream, members, classes, table=table))
    for why in islice(stream.unreadable.values(), SHOWN):
        note(why)
    click.echo(f"{samples} samples, {max(members)} member(s): {out}")


def predicted(
    predictor: Any,
    stream: readers.Stream,
    members: set[int],
    classes: Sequence[str] = (),
    *,
    table: bool = True,
) -> Iterator[Columns]:
    """What is written, by name, a block of inputs at a time.

    members: the number of members goes there. classes: names that are written beside the labels.
    table: whether each sample must be one row.
    """
    found: list[tuple[int, NDArray[np.bool_], Columns]] = []
    for start, block in stream.blocks(_size(stream)):
        good = np.array([start + i not in stream.unreadable for i in range(len(block))])
        arrays: Columns = {}
        if good.any():
            some = block if good.all() else block[torch.from_numpy(good)]
            prediction = _answer(predictor, some, start)
            if table and len(prediction.batch_shape) > 1:
                raise NescioError(
                    f"each sample has a map of answers, {tuple(prediction.batch_shape[1:])}, which "
                    "is not a row of a table; write them to an .npz file"
                )
            arrays = columns_of(prediction)
            members.add(prediction.members)
            if classes and isinstance(prediction, Classification):
                arrays = {"class": np.array(classes)[arrays["label"]], **arrays}
        if stream.files is None:
            yield _rows(stream, start, good, arrays, arrays)
        else:  # whether there is a column for what could not be read is known at the end
            found.append((start, good, arrays))
    like = next((arrays for _, _, arrays in found if arrays), None)
    if stream.files is not None and like is None:
        raise NescioError(next(iter(stream.unreadable.values())))
    for start, good, arrays in found:
        yield _rows(stream, start, good, arrays, like or {})


def _size(stream: readers.Stream) -> int:
    """How many samples are in memory at a time, with all that is written about them."""
    size = max(1, BLOCK // (stream.sample_bytes + ROW))
    return size - size % BATCH if size > BATCH else size


def _answer(predictor: Any, x: Any, start: int) -> Prediction:
    try:
        prediction: Prediction = predictor(x)
    except NescioError as error:
        if not start:
            raise
        raise NescioError(f"in samples {start} to {start + len(x) - 1}: {error}") from error
    return prediction


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
    write_arrays(path, [columns_of(prediction)])


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
    arrays = {name: tensor.cpu().numpy() for name, tensor in tensors.items()}
    if len(prediction.batch_shape) == 1:
        return arrays
    small = {"f": np.float32, "i": np.int32}  # maps have many numbers
    return {name: array.astype(small[array.dtype.kind]) for name, array in arrays.items()}


def write_arrays(path: Path, parts: Iterable[Columns]) -> int:
    """Write the parts one after the other; returns the number of samples."""
    samples, every = 0, []
    with writing_atomically(path) as file:
        for part in parts:
            if path.suffix == ".csv":
                file.write(_csv(part, samples).encode())
            else:
                every.append(part)
            samples += len(next(iter(part.values())))
        if every:
            whole = {name: np.concatenate([part[name] for part in every]) for name in every[0]}
            np.savez_compressed(file, **whole)  # type: ignore[arg-type]
    return samples


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
