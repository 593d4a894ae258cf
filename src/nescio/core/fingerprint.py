"""Fingerprints: of each input, so that data are recognized again; of whole contents."""

import hashlib
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from nescio.core.bundle import Bundle, Inputs
from nescio.core.checks import as_batch

WORDS = 1 << 20  # words of inputs hashed at a time
GOLDEN = -7046029254386353131  # 2^64 over the golden ratio, as int64


def hash_inputs(inputs: Inputs) -> Tensor:
    """A number for each input `(N,)` int64, equal for equal inputs, whatever the batch.

    Floats count as float32, bytes as their share of 255, -0 as 0, so an image has one number in
    all its forms; the order of a mapping's keys does not count. It recognizes data; it does not
    withstand a forger.
    """
    if isinstance(inputs, Bundle):
        parts = (part.reshape(len(part), -1) for _, part in sorted(inputs.parts.items()))
        return _hash(torch.stack(list(map(hash_inputs, parts)), 1))
    if not inputs.numel():
        return torch.zeros(len(inputs), dtype=torch.int64)
    size = max(1, WORDS // inputs[0].numel())
    return torch.cat([_hash(part) for part in inputs.split(size)])


def _hash(inputs: Tensor) -> Tensor:
    bits = inputs.detach().flatten(1).cpu()
    if bits.is_floating_point() or bits.dtype == torch.uint8:
        bits = as_batch(bits) + 0.0  # -0 is 0
        if bits.shape[1] % 2:
            bits = torch.cat([bits, bits.new_zeros(len(bits), 1)], 1)
        bits = bits.view(torch.int64)
    words = bits.to(torch.int64) * GOLDEN  # a new array, changed in place below
    words ^= words >> 32  # what the product left in the high bits reaches the low ones
    total = (words.mul_(_odd(words.shape[1]))).sum(1) + inputs[0].numel()
    total = (total ^ (total >> 29)) * GOLDEN
    return total ^ (total >> 32)


@lru_cache(maxsize=8)
def _odd(count: int) -> Tensor:
    """Odd numbers that share no pattern with data, one per word."""
    numbers = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0xBF58476D1CE4E5B9)
    numbers ^= numbers >> np.uint64(30)
    numbers *= np.uint64(0x94D049BB133111EB)
    numbers ^= numbers >> np.uint64(27)
    return torch.from_numpy((numbers | np.uint64(1)).view(np.int64))


def digest(*parts: Tensor | str) -> str:
    """A short fingerprint of the contents of tensors and texts, in their order."""
    total = hashlib.blake2b(digest_size=8)
    for part in parts:
        if isinstance(part, str):
            total.update(f"text {len(part)}:{part}".encode())
            continue
        total.update(f"{part.dtype}{tuple(part.shape)}".encode())
        if part.numel():
            flat = part.detach().cpu().contiguous().view(-1).view(torch.uint8)
            total.update(flat.numpy().data)
    return total.hexdigest()
