"""Share of members that do not vote for the most voted class (Freeman, 1965; Gal, 2016)."""

import torch
from torch import Tensor

from nescio.measures.measure import measure
from nescio.prediction import Classification


@measure
def variation_ratio(prediction: Classification) -> Tensor:
    """Share of members whose label is not the most frequent one; 0 for a single network."""
    votes = prediction.member_log_probs.argmax(-1).movedim(0, -1)
    counts = torch.zeros_like(prediction.log_probs)
    counts.scatter_add_(-1, votes, torch.ones_like(votes, dtype=counts.dtype))
    return 1 - counts.amax(-1) / prediction.members
