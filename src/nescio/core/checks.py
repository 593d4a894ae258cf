"""Checks at the public boundary: data as tensors, or an error that says what is wrong."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from nescio.core.errors import NescioError

Array = Tensor | np.ndarray[Any, Any]


def as_tensor(value: Any, name: str) -> Tensor:
    """`value` as a tensor (arrays and lists are converted), or an error with its name.

    One from torch.inference_mode is copied: nothing with a gradient may be made of it.
    """
    if isinstance(value, Tensor):
        with torch.inference_mode(False):
            return value.clone() if value.is_inference() else value.detach()
    try:
        array = np.asarray(value)
        odd = not array.dtype.isnative or any(step < 0 for step in array.strides)
        if odd or not array.flags.writeable:  # torch takes none of these as they are
            array = np.array(array, dtype=array.dtype.newbyteorder("="), order="C")
        return torch.as_tensor(array)
    except (TypeError, ValueError) as error:
        raise NescioError(f"{name} must be a tensor or an array of numbers: {error}") from error


def as_inputs(
    value: Any,
    name: str = "inputs",
    *,
    dtype: torch.dtype = torch.float32,
    keep_bytes: bool = False,
    finite: bool = True,
) -> Tensor:
    """Inputs `(N, ...)` as floats: not empty, `finite`, with at least one feature axis.

    uint8 of shape `(N, C, H, W)` are images with 255 = 1. With `keep_bytes` they stay bytes, to be
    converted a batch at a time by `as_batch`.
    """
    x = as_tensor(value, name)
    if x.ndim < 2:
        raise NescioError(
            f"{name} must have shape (samples, features, ...), got {tuple(x.shape)}; "
            "a single feature needs an axis: x[:, None]"
        )
    if x.numel() == 0:
        raise NescioError(f"{name} are empty, shape {tuple(x.shape)}")
    if x.dtype == torch.uint8:
        if x.ndim != 4:
            raise NescioError(
                f"{name} are uint8 of shape {tuple(x.shape)}; only images (N, C, H, W) may be; "
                "scale others as the network expects, often x / 255, then pass floats"
            )
        return x if keep_bytes else as_batch(x, dtype)
    if x.is_complex():
        raise NescioError(f"{name} must be real numbers, got {x.dtype}")
    x = x.to(dtype)
    if finite and not x.isfinite().all():
        sample = int((~x.isfinite()).flatten(1).any(1).nonzero()[0])
        raise NescioError(
            f"{name} contain NaN or infinite values (first in sample {sample}); remove or impute "
            "them"
        )
    return x


def as_batch(x: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Checked inputs as the floats a network reads: bytes are divided by 255."""
    return x.to(dtype).div_(255) if x.dtype == torch.uint8 else x.to(dtype)


def as_targets(
    value: Any, samples: int, *, task: str, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Class labels `(N,)` as int64, or regression targets `(N, D)` as floats."""
    y = as_tensor(value, "targets")
    if y.ndim == 0 or len(y) != samples:
        raise NescioError(f"{samples} inputs but targets of shape {tuple(y.shape)}; one per sample")
    if task == "classification":
        y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
        if y.is_floating_point() or y.ndim != 1:
            raise NescioError(
                f"class labels must be integers of shape (samples,), got {y.dtype} "
                f"{tuple(y.shape)}; convert floats with .long(), one-hot rows with .argmax(1); "
                "regression needs a regression head"
            )
        return y.long()
    y = (y[:, None] if y.ndim == 1 else y).to(dtype)
    if y.ndim != 2:
        raise NescioError(f"targets must have shape (samples, targets), got {tuple(y.shape)}")
    if not y.isfinite().all():
        raise NescioError("targets contain NaN or infinite values; remove those samples")
    return y
