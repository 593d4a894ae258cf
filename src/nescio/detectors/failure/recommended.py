"""The failure score to use: the log-odds of the answer and the trust score, weighted.

Both are logarithms of ratios: of probabilities, and of distances between features. They err on
different inputs. How much each counts is learned from fold networks where there are some; otherwise
both get the same spread.
"""

from typing import Any, TypeAlias

import torch
from torch import Tensor

from nescio.core import NescioError, generator
from nescio.detectors.activations import Activations, View
from nescio.detectors.detector import Detector, State, fitted, scores
from nescio.detectors.failure.cross_fit import CrossFit
from nescio.detectors.simple import msp
from nescio.detectors.trust_score import trust_score

Options: TypeAlias = dict[str, Any]
SPREAD = 2000  # training inputs that measure the spread of both parts
CROSSED = 10_000  # training inputs whose errors teach the weights
RIDGE = 1e-6  # keeps the weights finite where errors can be told apart without fail


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

    crossed: fold networks of the same training data. Then the weights are those of a logistic
    regression of their errors, and the score is the log-odds of an error. Without, the weights
    give both parts the same spread, measured on some training inputs against the others.
    alpha, k, layer, normalize: those of `detectors.trust_score`.
    """
    options: Options = {"alpha": alpha, "k": k, "layer": layer, "normalize": normalize}
    trust = trust_score(train, **options)
    if crossed is not None and crossed.members != train.members:
        raise NescioError(
            f"the fold networks have {crossed.members} member(s), these activations are of "
            f"{train.members}; cross-fit with members={train.members}"
        )
    weights = _same_spread(train, options) if crossed is None else _learnt(crossed, options)
    pairs = zip(trust.states, weights, strict=True)
    states = [{**state, "weights": weight} for state, weight in pairs]
    parts = {"trust": dict(trust.options), "crossed": crossed is not None}
    return fitted("recommended", train, parts, states, *trust.layers)


@scores.named("recommended")
def score(view: View, state: State, *, trust: dict[str, float], **_: bool) -> Tensor:
    """The weighted sum; the last weight is added."""
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
