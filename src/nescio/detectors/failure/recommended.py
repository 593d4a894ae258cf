"""The failure score to use: the log-odds of the answer and the trust score, weighted.

Both are logarithms of ratios: of probabilities, and of distances between features. They err on
different inputs. How much each counts is learned from fold networks where there are some; otherwise
both get the same spread.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from nescio.core import NescioError, derive, generator
from nescio.data import door
from nescio.detectors.activations import Activations, View
from nescio.detectors.detector import Detector, State, fitted, scores
from nescio.detectors.observe import observe
from nescio.detectors.simple import msp
from nescio.detectors.trust_score import trust_score
from nescio.models import Model
from nescio.training import train

Options: TypeAlias = dict[str, Any]
SPREAD = 2000  # training inputs that measure the spread of both parts
CROSSED = 10_000  # training inputs whose errors teach the weights
RIDGE = 1e-6  # keeps the weights finite where errors can be told apart without fail


@dataclass(frozen=True, eq=False, kw_only=True)
class CrossFit:
    """K models, each trained without its fold of the data.

    models: the models, one per fold.
    fold: number of the model that was trained without each sample, `(N,)`.
    x, y: the data, `(N, ...)` and `(N,)`.
    """

    models: tuple[Model, ...]
    fold: Tensor
    x: Tensor
    y: Tensor

    @property
    def members(self) -> int:
        """M, the networks of each model."""
        return self.models[0].members

    def member(self, index: int) -> "CrossFit":
        """The fold networks of the member `index` alone."""
        if not 0 <= index < self.members:
            raise NescioError(f"member {index} of fold networks with {self.members} members")
        parts = [{n: t[index : index + 1] for n, t in m.tensors.items()} for m in self.models]
        alone = (replace(m, tensors=p) for m, p in zip(self.models, parts, strict=True))
        return replace(self, models=tuple(alone))

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


def recommended(
    train: Activations,
    *,
    crossed: CrossFit | None = None,
    alpha: float = 0.0,
    k: int = 10,
    layer: str | None = None,
    normalize: bool = True,
) -> Detector:
    """Minus the log-odds of the answer, and the log trust score, as a weighted sum.

    train: activations of the training data, with labels.
    crossed: fold networks of the same training data. Then the weights are those of a logistic
      regression of their errors, and the score is the log-odds of an error. None: the weights give
      both parts the same spread, measured on some training inputs against the others.
    alpha, k, layer, normalize: as in `nescio.detectors.trust_score`.
    """
    options: Options = {"alpha": alpha, "k": k, "layer": layer, "normalize": normalize}
    trust = trust_score(train, **options)
    if crossed is not None and crossed.members != train.members:
        raise NescioError(
            f"the fold networks have {crossed.members} member(s), these activations are of "
            f"{train.members}; cross-fit with members={train.members}"
        )
    weights = _same_spread(train, options) if crossed is None else _learnt(crossed, options)
    states = [{**s, "weights": w} for s, w in zip(trust.states, weights, strict=True)]
    parts = {"trust": dict(trust.options), "crossed": crossed is not None}
    return fitted("recommended", train, parts, states, *trust.layers)


@scores.named("recommended")
def score(view: View, state: State, *, trust: dict[str, float], **_: bool) -> Tensor:
    odds: Tensor = scores["msp"](view, {}, temperature=1.0)
    near: Tensor = scores["trust_score"](view, state, **trust)
    first, second, level = state["weights"].to(near.dtype).unbind()
    return first * odds.to(near.dtype) + second * near + level


def _parts(bank: Activations, others: Activations, options: Options) -> Tensor:
    """Both scores of inputs that are not in the bank, `(M, n, 2)` in float64."""
    trust = trust_score(bank, **options)
    return torch.stack([msp().each(others), trust.each(others)], -1).double()


def _same_spread(train: Activations, options: Options) -> Tensor:
    """Weights `(M, 3)`: the log-odds as they are, the trust score scaled to their spread."""
    order = torch.randperm(train.samples, generator=generator(0, "held"))
    count = min(SPREAD, train.samples // 2)
    parts = _parts(train[order[count:]], train[order[:count]], options)
    spread = parts.std(1, correction=0)  # (M, 2)
    if not (spread > 0).all():
        raise NescioError(
            "the log-odds or the trust scores of the training inputs are all the same; there is "
            "nothing to combine"
        )
    ratio = spread[:, 0] / spread[:, 1]
    return torch.stack([torch.ones_like(ratio), ratio, torch.zeros_like(ratio)], 1)


def _learnt(crossed: CrossFit, options: Options) -> Tensor:
    """Weights `(M, 3)` of a logistic regression of the fold networks' errors."""
    parts, wrong = [], []
    for rest, fold in crossed.observed(CROSSED):
        parts.append(_parts(rest, fold, options))
        wrong.append(fold.logits.argmax(-1) != fold.known().to(fold.logits.device))
    pairs = zip(torch.cat(parts, 1), torch.cat(wrong, 1).double(), strict=True)
    return torch.stack([logistic(x, y) for x, y in pairs])


def logistic(x: Tensor, y: Tensor) -> Tensor:
    """Weights `(F + 1,)`, the level last, of a logistic regression of y `(n,)` on x `(n, F)`."""
    if not 0 < float(y.mean()) < 1:
        raise NescioError(
            f"the fold networks' {len(y)} answers are all {'wrong' if y[0] else 'right'}, so the "
            "weights cannot be learnt; give more data, or leave out crossed="
        )
    from sklearn.linear_model import LogisticRegression

    mean, width = x.mean(0), x.std(0, correction=0).clamp_min(1e-30)
    ridge = 1 / (RIDGE * len(x))
    model = LogisticRegression(C=ridge, solver="newton-cholesky", tol=1e-10, max_iter=1000)
    model.fit(((x - mean) / width).cpu().numpy(), y.cpu().numpy())
    scaled = torch.from_numpy(model.coef_[0]).to(x) / width
    level = float(model.intercept_[0]) - scaled @ mean
    return torch.cat([scaled, level[None]])


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

    make_net, data: a factory of networks and the training data, as for `nescio.train`.
    folds: K, the number of parts of a random split.
    members: as many networks as the model to be judged has; each has its own fold networks.
    seed: seed of the random draws.
    run: a folder for checkpoints, as for `nescio.train`; each fold has its own folder in it.
    options: other options of `nescio.train`.
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
