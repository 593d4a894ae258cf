"""Core-set selection by greedy k-centers (Sener and Savarese, 2018, algorithm 1)."""

import math

import torch
from torch import Tensor

from nescio.applications.active_learning.candidates import Candidates, Picked, because
from nescio.core import NescioError
from nescio.core.registry import acquisitions
from nescio.detectors import neighbors


@acquisitions.register
@because("It is far from every labeled sample, at distance {score:.3g} of features")
def core_set(candidates: Candidates) -> Picked:
    """Samples whose features are furthest from those of the labeled samples and of the batch.

    candidates: unlabeled samples with their prediction.
    """
    features = candidates.features
    far = _to_nearest(features, candidates.labeled_features)
    index, score = [], []
    for _ in range(candidates.size):
        best = candidates.best(far)
        index.append(best)
        score.append(far[best].clone())
        apart = torch.linalg.vector_norm(features - features[best], dim=1)
        far = torch.minimum(far, apart)
        far[torch.stack(index)] = -math.inf
    return torch.stack(index), torch.stack(score)


def _to_nearest(features: Tensor, labeled: Tensor | None) -> Tensor:
    """The distance of each row to the nearest labeled one, `(N,)`; infinite if there is none."""
    if labeled is None or not len(labeled):
        return features.new_full((len(features),), math.inf)
    if labeled.shape[1] != features.shape[1]:
        raise NescioError(
            f"labeled samples have {labeled.shape[1]} features, those of the pool "
            f"{features.shape[1]}; give the features of one layer of one network"
        )
    labeled = labeled.to(features)
    nearest = neighbors.kth_nearest(features, neighbors.as_bank(neighbors.prepared(labeled, 1)), 1)
    parts = zip(features.split(neighbors.PIECE), nearest.split(neighbors.PIECE), strict=True)
    return torch.cat([torch.linalg.vector_norm(x - labeled[i], dim=1) for x, i in parts])
