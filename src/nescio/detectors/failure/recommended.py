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
from nescio.detectors.detector import Detector, State, scores
from nescio.detectors.failure.cross_fit import CrossFit
from nescio.detectors.msp import msp
from nescio.detectors.trust_score import trust_score

Options: TypeAlias = dict[str, Any]
HELD = 2000  # training inputs that measure the spread of both parts
CROSSED = 10_000  # training inputs whose errors teach the weights
STEPS = 50  # of Newton's method
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
    states = tuple(
        {**state, "weights": own} for state, own in zip(trust.states, weights, strict=True)
    )
    kept = {"trust": dict(trust.options), "crossed": crossed is not None}
    return Detector("recommended", kept, trust.layers, states, train.made, train.hashes)


@scores.named("recommended")
def score(
    view: View, state: State, layers: tuple[str, ...], *, trust: dict[str, float], crossed: bool
) -> Tensor:
    """The weighted sum; the last weight is added."""
    del crossed
    odds = scores["msp"](view, {}, (), temperature=1.0)
    near = scores["trust_score"](view, state, layers, **trust)
    first, second, level = state["weights"].to(near.dtype).unbind()
    found: Tensor = first * odds.to(near.dtype) + second * near + level
    return found


def _parts(fitted: Activations, held: Activations, options: Options) -> Tensor:
    """Both scores of inputs that are not in the bank, `(M, n, 2)` in float64."""
    trust = trust_score(fitted, **options)
    return torch.stack([msp().each(held), trust.each(held)], -1).double()


def _same_spread(train: Activations, options: Options) -> Tensor:
    """Weights `(M, 3)`: the log-odds as they are, the trust score scaled to their spread."""
    order = torch.randperm(train.samples, generator=generator(0, "held"))
    count = min(HELD, train.samples // 2)
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
    found, wrong = [], []
    for rest, held in crossed.observed(CROSSED):
        found.append(_parts(rest, held, options))
        wrong.append(held.logits.argmax(-1) != held.known().to(held.logits.device))
    return torch.stack(
        [
            logistic(x, y)
            for x, y in zip(torch.cat(found, 1), torch.cat(wrong, 1).double(), strict=True)
        ]
    )


def logistic(x: Tensor, y: Tensor) -> Tensor:
    """Weights `(F + 1,)`, the level last, of a logistic regression of y `(n,)` on x `(n, F)`."""
    if not 0 < float(y.mean()) < 1:
        raise NescioError(
            f"the fold networks' {len(y)} answers are all {'wrong' if y[0] else 'right'}, so the "
            "weights cannot be learnt; give more data, or leave out crossed="
        )
    mean, width = x.mean(0), x.std(0, correction=0).clamp_min(1e-30)
    rows = torch.cat([(x - mean) / width, x.new_ones(len(x), 1)], 1)
    weights = rows.new_zeros(rows.shape[1])
    weights[-1] = torch.logit(y.mean())
    ridge = RIDGE * len(x) * torch.eye(len(weights)).to(rows)
    ridge[-1, -1] = 0
    for _ in range(STEPS):
        chance = (rows @ weights).sigmoid()
        slope = rows.T @ (chance - y) + ridge @ weights
        curve = (rows.T * (chance * (1 - chance))) @ rows + ridge
        step = torch.linalg.solve(curve, slope)
        step *= min(1.0, 5.0 / float(step.abs().max().clamp_min(1e-300)))  # far steps overshoot
        weights = weights - step
        if step.abs().max() < 1e-10:
            break
    scaled = weights[:-1] / width
    return torch.cat([scaled, (weights[-1] - scaled @ mean)[None]])
