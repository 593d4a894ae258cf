"""What a layer gives for a sample, as one row of numbers."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from nescio.core import NescioError, unknown

Pool = str | Callable[[Tensor], Tensor]
Pooling = Callable[[Tensor], Tensor]

POOLS: dict[str, Pooling] = {
    "mean": lambda f: f.flatten(2).mean(2),  # maps (N, C, ...), over all places
    "max": lambda f: f.flatten(2).amax(2),
    "flatten": lambda f: f.flatten(1),
    "tokens": lambda f: f.flatten(1, -2).mean(1),  # sequences (N, ..., F), over all places
    "first": lambda f: f.flatten(1, -2)[:, 0],  # the first token
}
MAPS = ("mean", "max")
FEATURES_LAST = (
    nn.Linear, nn.LayerNorm, nn.Embedding, nn.MultiheadAttention, nn.RNNBase, nn.TransformerEncoder,
    nn.TransformerDecoder, nn.TransformerEncoderLayer, nn.TransformerDecoderLayer,
)  # fmt: skip


def check_pool(pool: Pool) -> None:
    """Refuse a pooling that does not exist."""
    if not callable(pool) and pool not in POOLS:
        raise NescioError(unknown("pooling", pool, POOLS) + "; or give a function")


def named(option: object) -> object:
    """An option as a manifest holds it: of a function its name only."""
    if not callable(option):
        return option
    return {"function": getattr(option, "__qualname__", type(option).__name__)}


def pooled(value: Tensor, pool: Pool, layer: nn.Module, name: str, samples: int) -> Tensor:
    """Rows `(N, F)` of a layer's output, never the same memory: what follows may write on it."""
    whole = value if value.dtype in (torch.float32, torch.float64) else value.float()
    if callable(pool):
        rows = _by(pool, whole, name)
    elif whole.ndim < 3:
        rows = whole
    elif pool in MAPS and isinstance(layer, FEATURES_LAST):
        raise NescioError(
            f"{name!r} gives sequences {tuple(value.shape)}, whose features are last, not maps; "
            "use pool='tokens' (their mean), 'first' (the first one), 'flatten' or a function"
        )
    else:
        rows = POOLS[pool](whole)
    if not isinstance(rows, Tensor) or rows.ndim != 2 or len(rows) != samples:
        got = tuple(rows.shape) if isinstance(rows, Tensor) else type(rows).__name__
        raise NescioError(
            f"{name!r} gives {tuple(value.shape)}, pooled to {got}; expected one row for each of "
            f"the {samples} inputs: name another layer, or pool by a function to (samples, "
            "features)"
        )
    same = rows.untyped_storage().data_ptr() == value.untyped_storage().data_ptr()
    return rows.clone() if same else rows


def _by(pool: Pooling, value: Tensor, name: str) -> Tensor:
    """A user's own pooling; its errors name the layer."""
    try:
        return pool(value)
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        raise NescioError(
            f"pool= does not take what {name!r} gives, {tuple(value.shape)}: {error}"
        ) from error
