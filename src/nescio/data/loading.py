"""A data set by name or by file: what the command line and the recipes call."""

import inspect
from functools import partial
from pathlib import Path
from typing import Any

from nescio.core import NescioError, did_you_mean
from nescio.core.registry import Part, datasets
from nescio.data.dataset import Dataset
from nescio.data.readers import is_table, is_ts
from nescio.data.readers.arrays import dataset_from_npz
from nescio.data.readers.ts import dataset_from_ts
from nescio.data.sets.folders import image_folder
from nescio.data.table_dataset import dataset_from_table


def load(name_or_path: str, **options: Any) -> Dataset:
    """Load a data set by its registered name, or by a path: .npz, .ts, a table, images.

    name_or_path: "mnist", or "cells.npz", and so on.
    options: options of the data set or of the reader, such as `seed`.
    """
    reader = _reader(name_or_path)
    known = list(inspect.signature(reader).parameters)
    wrong = sorted(set(options) - set(known))
    if wrong:
        hint = did_you_mean(wrong[0], known).rstrip(".") or ";"
        raise NescioError(
            f"{name_or_path!r} has no option {', '.join(wrong)}{hint} its options: "
            f"{', '.join(known)}"
        )
    dataset: Dataset = reader(**options)
    return dataset


def _reader(name_or_path: str) -> Part:
    if name_or_path not in datasets and name_or_path.endswith(".npz"):
        return partial(dataset_from_npz, name_or_path)
    if name_or_path not in datasets and is_ts(name_or_path):
        return partial(dataset_from_ts, name_or_path)
    if name_or_path not in datasets and is_table(name_or_path):
        return partial(dataset_from_table, name_or_path)
    if name_or_path not in datasets and Path(name_or_path).is_dir():
        return partial(image_folder, folder=name_or_path)
    if name_or_path not in datasets:
        import nescio_papers.data  # noqa: F401  (registers the data sets that only papers read)
    try:
        return datasets[name_or_path]
    except NescioError as error:
        raise NescioError(
            f"{error}; the path of an .npz or .ts file, a table or images is possible too"
        ) from None
