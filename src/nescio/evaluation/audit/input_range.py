"""Whether the test inputs lie where the training inputs do: data scaled otherwise do not."""

from typing import Any

import torch
from torch import Tensor

from nescio.core import as_batch
from nescio.guards.decide import learn_range

SAMPLES = 1 << 14  # inputs at a time


@torch.no_grad()
def out_of_range(x: Tensor, known: Tensor) -> dict[str, Any]:
    """How many test inputs hold numbers outside the range of the training inputs, and where.

    The range is that of the guard: with some room, of each feature of a table, of all pixels.
    features: of a table, those that are outside in some input, the most often first.
    """
    allowed = learn_range(known)
    ood, often = 0, torch.zeros(x[0].numel(), dtype=torch.long)
    for part in x.split(SAMPLES):
        flat = as_batch(part).flatten(1).double()
        off = (flat < allowed.low.to(flat.device)) | (flat > allowed.high.to(flat.device))
        ood += int(off.any(1).sum())
        often += off.sum(0).cpu()
    order = often.argsort(descending=True, stable=True)
    places = order[: int((often > 0).sum())].tolist() if x.ndim == 2 else []
    return {"ood": ood, "samples": len(x), "features": places}
