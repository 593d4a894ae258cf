"""What the items of a pool are known by: a hash of each, for arrays, tokens and tables."""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nescio.core import Bundle, NescioError, hash_inputs
from nescio.data import Table, door, is_frame, read_table


def item_hashes(inputs: Any) -> Tensor:
    """A number for each item `(N,)` int64, equal for equal items, wherever they stand.

    inputs: an array `(N, ...)`, several arrays, tokens, or a table, whose columns count by name.
    """
    if is_frame(inputs):
        return hash_inputs(_columns(read_table(inputs)))
    return hash_inputs(
        door.as_network_inputs(inputs, "the inputs of the pool", dtype=None, tokens=True)
    )


def _columns(table: Table) -> Bundle:
    """Numbers as they are, texts as hashes; missing numbers are all alike."""
    columns = {name: table[name] for name in table.names}
    words = {name: values for name, values in columns.items() if values.dtype.kind != "f"}
    parts = {name: _words(values.tolist()) for name, values in words.items()}
    for name in columns.keys() - words.keys():
        bits = np.where(np.isnan(columns[name]), np.nan, columns[name] + 0.0)  # -0 is 0
        parts[name] = torch.from_numpy(bits.view(np.int64))[:, None]
    names = {name: part ^ _words([name]) for name, part in parts.items()}
    return Bundle(names)


def _words(texts: Sequence[str]) -> Tensor:
    """A hash of each text, `(N, 1)` int64."""
    known = {text: hashlib.blake2b(text.encode(), digest_size=8).digest() for text in set(texts)}
    bits = b"".join(known[text] for text in texts)
    return torch.from_numpy(np.frombuffer(bits, np.int64).copy())[:, None]


def check_not_empty(inputs: Any) -> None:
    """Refuse a pool without items."""
    first = next(iter(inputs.values()), ()) if isinstance(inputs, dict) else inputs
    first = first[0] if isinstance(first, tuple) and first else first
    if hasattr(first, "__len__") and not len(first):
        raise NescioError("the pool is empty; give at least one item that could be labeled")
