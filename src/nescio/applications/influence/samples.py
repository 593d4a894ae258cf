"""Samples for influence: inputs as a network reads them, targets as its loss does."""

from typing import Any

import torch
from torch import Tensor, nn

from nescio.applications.influence.objective import in_training_units
from nescio.core import Head, Inputs, as_targets
from nescio.data import door
from nescio.nets import columns_of, reads_tokens


def read(net: nn.Module, head: Head, data: Any, *, labels: bool) -> tuple[Inputs, Tensor | None]:
    """Inputs as a network reads them, and labels or targets as its loss does."""
    inputs, y = door.read(
        data,
        labels=labels,
        dtype=torch.float64,
        tokens=reads_tokens(net),
        columns=columns_of(net),
    )
    if y is None:
        return inputs, None
    y = as_targets(y, len(inputs), task=head.task, dtype=torch.float64)
    return inputs, in_training_units(head, y) if head.task == "regression" else y
