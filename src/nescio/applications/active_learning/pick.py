"""Pick a batch from predictions that are already computed."""

from typing import Any

import torch
from torch import Tensor

from nescio.applications.active_learning.candidates import Acquisition, Candidates
from nescio.applications.active_learning.chosen import Chosen, described
from nescio.core import Classification, MultiLabel, NescioError, NotFiniteError, as_tensor, is_whole
from nescio.core.registry import acquisitions


def pick(
    prediction: Classification,
    size: int,
    acquisition: str | Acquisition = "bald",
    *,
    features: Any = None,
    labeled_features: Any = None,
    seed: int = 0,
) -> Chosen:
    """The `size` samples of a prediction `(M, N, C)` that an acquisition wants labeled.

    >>> from nescio import Categorical
    >>> p = Categorical(torch.tensor([[[2.0, 0.0], [3.0, 0.0]], [[0.0, 2.0], [3.0, 0.0]]]))
    >>> pick(p, 1).index  # the members disagree about sample 0
    tensor([0])

    prediction: predictions of the members, `(M, N, C)`.
    size: number of samples to choose.
    acquisition: a name (`nescio list acquisitions`), with options as in "batchbald,samples=10000",
      or a function of `Candidates`.
    features, labeled_features: features of the samples, `(N, F)`, and of those that have labels,
      `(L, F)`, for acquisitions that read them, as `core_set`.
    seed: seed of the random draws, which decides among equal scores.
    """
    return picked(
        Candidates(
            prediction=_checked(prediction),
            size=size,
            seed=seed,
            read_features=lambda: _rows(features, "features", len(prediction)),
            read_labeled=lambda: _rows(labeled_features, "labeled_features"),
        ),
        acquisition,
    )


def picked(candidates: Candidates, acquisition: str | Acquisition) -> Chosen:
    """What an acquisition picks of candidates."""
    check_size(candidates.size, len(candidates))
    found, names = _checked(candidates.prediction).classes, candidates.classes
    if names is not None and len(names) != found:
        raise NescioError(f"{len(names)} classes are named, but the predictor has {found}")
    method = as_acquisition(acquisition)
    with torch.no_grad():
        wanted = method(candidates)
        if isinstance(wanted, tuple):
            index, score = _checked_batch(candidates, *wanted)
            ties = torch.zeros_like(index)
        else:
            scores = _checked_scores(candidates, wanted)
            index = candidates.ordered(scores)[: candidates.size]
            score = scores[index]
            ties = _ties(scores, score)
        return described(candidates, method, index, score, ties)


def _ties(scores: Tensor, chosen: Tensor) -> Tensor:
    """How many samples have each chosen score, `(k,)`; 0 where all of them are chosen."""
    values, place, own = chosen.unique(return_inverse=True, return_counts=True)
    at = torch.searchsorted(values, scores.contiguous()).clamp_max(len(values) - 1)
    every = torch.bincount(at[values[at] == scores], minlength=len(values))
    return torch.where(every > own, every, 0)[place]


def as_acquisition(acquisition: str | Acquisition) -> Acquisition:
    """The acquisition that is meant: a name, with options, or a function."""
    if isinstance(acquisition, str):
        return acquisitions.built(acquisition)
    if callable(acquisition):
        return acquisition
    raise NescioError(
        f"acquisition= takes one of {', '.join(acquisitions)}, or a function of Candidates, got a "
        f"{type(acquisition).__name__}"
    )


def check_size(size: object, samples: int) -> None:
    """Refuse a batch that the pool cannot give."""
    if not samples:
        raise NescioError("the pool is empty: there is no sample left to label")
    if not is_whole(size, 1):
        raise NescioError(f"size must be a whole number from 1 up, got {size!r}")
    if size > samples:
        raise NescioError(
            f"{size} samples are asked for, and there are {samples} to choose from; ask for fewer"
        )


def _checked(prediction: Any) -> Classification:
    if isinstance(prediction, Classification):
        return prediction
    kind = type(prediction).__name__
    if isinstance(prediction, MultiLabel):
        raise NescioError(
            "acquisitions read classes, of which a sample has one; this prediction has several "
            "labels. Choose one: prediction.label(0), or a model with nescio.heads.binary(label=0)"
        )
    raise NescioError(
        f"acquisitions read class probabilities (M, N, C), got a {kind}; make one of arrays by "
        "nescio.Categorical.from_probs. A regression has none; rank samples by "
        "nescio.measures.epistemic_variance(prediction)"
    )


def _checked_scores(candidates: Candidates, found: object) -> Tensor:
    count = len(candidates)
    scores = as_tensor(found, "scores").to(candidates.prediction.device)
    if scores.shape != (count,):
        raise NescioError(
            f"an acquisition returns one score per sample, ({count},), or a batch (index, score); "
            f"got shape {tuple(scores.shape)}"
        )
    if scores.isnan().any():
        raise NotFiniteError(
            f"the acquisition gave NaN for {int(scores.isnan().sum())} of {count} samples"
        )
    return scores


def _checked_batch(candidates: Candidates, index: object, score: object) -> tuple[Tensor, Tensor]:
    device, wanted = candidates.prediction.device, (candidates.size,)
    chosen = as_tensor(index, "index").to(device)
    scores = as_tensor(score, "score").to(device)
    whole = not (chosen.is_floating_point() or chosen.dtype == torch.bool)
    fits = whole and chosen.shape == wanted and scores.shape == wanted
    if not fits or len(chosen.unique()) != len(chosen) or not _within(chosen, len(candidates)):
        raise NescioError(
            f"an acquisition that picks a batch returns (index, score) of shape {wanted} each, "
            f"with different whole numbers below {len(candidates)} as index"
        )
    if scores.isnan().any():
        raise NotFiniteError("the acquisition gave NaN for samples that it picked")
    return chosen.long(), scores


def _within(index: Tensor, count: int) -> bool:
    return bool(((index >= 0) & (index < count)).all())


def _rows(value: Any, name: str, samples: int | None = None) -> Tensor | None:
    """Features as `(N, F)`: those of several networks, `(M, N, F)`, side by side."""
    if value is None:
        return None
    found = as_tensor(value, name)
    rows = found.movedim(0, 1).flatten(1) if found.ndim == 3 else found
    if rows.ndim != 2 or not rows.is_floating_point() or len(rows) != (samples or len(rows)):
        raise NescioError(
            f"{name} must be floats of shape ({samples or 'samples'}, features), got {found.dtype} "
            f"{tuple(found.shape)}"
        )
    if not rows.isfinite().all():
        raise NotFiniteError(f"{name} contain NaN or infinite values")
    return rows
