"""Fold networks: every training input is answered by a network that was not trained on it.

A network that fits its data makes no errors there, so its own training answers teach nothing about
errors. Those of fold networks do.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nescio.core import NescioError, derive, generator
from nescio.data import door
from nescio.detectors.activations import Activations
from nescio.detectors.observe import observe
from nescio.models.model import Model
from nescio.training.train import train


@dataclass(frozen=True, eq=False, kw_only=True)
class CrossFit:
    """K models, each trained without its fold of the data."""

    models: tuple[Model, ...]
    fold: Tensor  # (N,) which model was trained without each sample
    x: Tensor
    y: Tensor

    @property
    def members(self) -> int:
        """M, the networks of each model."""
        return self.models[0].members

    def member(self, index: int) -> "CrossFit":
        """The fold networks of one member alone."""
        if not 0 <= index < self.members:
            raise NescioError(f"member {index} of fold networks with {self.members} members")
        alone = tuple(
            replace(model, tensors={n: t[index : index + 1] for n, t in model.tensors.items()})
            for model in self.models
        )
        return replace(self, models=alone)

    def logits(self) -> Tensor:
        """Logits `(M, N, C)` for all data, each from the model trained without that sample."""
        first = self.models[0].outputs(self.x[:1])
        logits = first.new_empty(self.members, len(self.x), first.shape[-1])
        for k, model in enumerate(self.models):
            fold = self.fold == k
            logits[:, fold] = model.outputs(self.x[fold])
        return logits

    def observed(self, most: int | None = None) -> Iterator[tuple[Activations, Activations]]:
        """For each fold what its model gives for the rest of the data, and for the fold.

        most: samples of all folds together at most.
        """
        for k, model in enumerate(self.models):
            rest, index = self.fold != k, (self.fold == k).nonzero()[:, 0]
            if most is not None:
                count = min(len(index), max(1, most // len(self.models)))
                index = index[torch.arange(count) * len(index) // count]
            yield (
                observe(model, (self.x[rest], self.y[rest]), progress=False),
                observe(model, (self.x[index], self.y[index]), progress=False),
            )


def cross_fit(
    make_net: Callable[[], nn.Module],
    data: Any,
    *,
    folds: int = 5,
    members: int = 1,
    seed: int = 0,
    run: str | Path | None = None,
    **options: Any,
) -> CrossFit:
    """Train K models like the one to be judged, each without its share of the data.

    folds: K; the folds are a random split by `seed`.
    members: as many networks as the model to be judged has; each has its own fold networks.
    run, options: as for `nescio.train`; each fold has its own folder in `run`.
    """
    x, y = door.read(data, name="training data")
    if isinstance(folds, bool) or not isinstance(folds, int) or not 2 <= folds <= len(x):
        raise NescioError(f"folds must be a whole number from 2 to {len(x)} samples, got {folds!r}")
    fold = torch.empty(len(x), dtype=torch.long)
    fold[torch.randperm(len(x), generator=generator(seed, "folds"))] = torch.arange(len(x)) % folds
    models = tuple(
        train(
            make_net,
            (x[fold != k], y[fold != k]),
            members=members,
            seed=derive(seed, "fold", k),
            run=None if run is None else Path(run) / f"fold-{k}",
            **options,
        )
        for k in range(folds)
    )
    return CrossFit(models=models, fold=fold, x=x, y=y)
