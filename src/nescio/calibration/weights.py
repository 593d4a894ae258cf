"""Weights of logits by the likelihood of the mixture: Platt, vector, matrix, Dirichlet scaling.

The search is L-BFGS in float64, with a normal prior: with N samples, `sum(d^2) / (2 s^2 N)` beside
the mean negative log-likelihood, for what is expected to be near 0 with a standard deviation of s.
So it holds back where samples are few and fades where they are many. Off-diagonal and intercept
regularization (ODIR, Kull et al., 2019) is the same with lambda = C (C - 1) / (2 s^2 N).

The search sees a matrix in coordinates where the logits and a constant are about uncorrelated: log
probabilities are far from 0 and move together, which would cost it many times as many steps.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nescio.calibration.map import (
    State,
    affine,
    calibration,
    check_finite,
    fits,
    logits_of,
    refuse_missing,
    refuse_perfect,
    transformed,
    widened,
    without_offset,
)
from nescio.core import Categorical, Classification, NescioError, counted

CHUNK = 1 << 20  # numbers of a chunk in float64
FLAT = 1e-6  # a gradient at which the search has arrived


@calibration(affine)
def platt(prediction: Classification, labels: Tensor) -> State:
    """Platt scaling: one slope and class intercepts of the logits, fitted on calibration data.

    predictor: a network or a predictor, of classes or of several labels.
    data: calibration data: a pair `(x, y)`, a loader of such pairs, or a mapping with labels.
    ignore_index: the label of what is left out, one that is not a class; None: nothing is.
    """
    start = torch.ones((), dtype=torch.float64)
    state = fit_weights(logits_of(prediction), labels, start, torch.zeros_like)
    return {**state, "intercept": state["intercept"] - state["intercept"][0]}


def fit_platt(
    prediction: Classification, labels: Tensor, *, ignore_index: int | None = None
) -> tuple[float, tuple[float, ...]]:
    """Slope and intercepts (the first is 0) that minimize the negative log-likelihood.

    prediction: a prediction of classes.
    labels: true classes, `(N,)`, or `(N, H, W)` of maps.
    ignore_index: the label of what is left out, one that is not a class; None: nothing is.
    """
    prediction, labels = counted(prediction, labels, ignore_index=ignore_index)
    state = fits["platt"](prediction, labels)
    return float(state["weight"]), tuple(state["intercept"].tolist())


@calibration(affine)
def vector(
    prediction: Classification, labels: Tensor, *, spread: float = 0.3, shift: float = 1.0
) -> State:
    """Vector scaling: a slope and an intercept for each class, fitted on calibration data.

    predictor: a network or a predictor, of classes or of several labels.
    data: calibration data: a pair `(x, y)`, a loader of such pairs, or a mapping with labels.
    ignore_index: the label of what is left out, one that is not a class; None: nothing is.
    spread, shift: standard deviations expected of the slopes about their mean, and of the
      intercepts; small ones lead back to temperature scaling.
    """
    logits, start = logits_of(prediction), torch.ones(prediction.classes, dtype=torch.float64)

    def apart(slopes: Tensor) -> Tensor:
        return slopes - slopes.mean()

    return fit_weights(logits, labels, start, apart, spread=spread, shift=shift)


@calibration(affine)
def matrix(
    prediction: Classification, labels: Tensor, *, spread: float = 0.1, shift: float = 1.0
) -> State:
    """Matrix scaling: a matrix for the logits and class intercepts, fitted on calibration data.

    predictor: a network or a predictor, of classes or of several labels.
    data: calibration data: a pair `(x, y)`, a loader of such pairs, or a mapping with labels.
    ignore_index: the label of what is left out, one that is not a class; None: nothing is.
    spread, shift: standard deviations expected of the numbers off the diagonal, and of the
      intercepts.
    """
    start = torch.eye(prediction.classes, dtype=torch.float64)
    logits = logits_of(prediction)
    return fit_weights(logits, labels, start, off_diagonal, spread=spread, shift=shift)


def _applied(prediction: Classification, state: State, **_: Any) -> Categorical:
    return Categorical(transformed(widened(prediction).log_probs[None], state))


@calibration(_applied)
def dirichlet(
    prediction: Classification, labels: Tensor, *, spread: float = 0.1, shift: float = 1.0
) -> State:
    """Dirichlet calibration: a matrix for log probabilities, fitted on calibration data.

    Kull et al. (2019). Each class has an intercept, too.

    predictor: a network or a predictor, of classes or of several labels.
    data: calibration data: a pair `(x, y)`, a loader of such pairs, or a mapping with labels.
    ignore_index: the label of what is left out, one that is not a class; None: nothing is.
    spread, shift: standard deviations expected of the numbers off the diagonal, and of the
      intercepts.
    """
    start = torch.eye(prediction.classes, dtype=torch.float64)
    logs = widened(prediction).log_probs[None]
    return fit_weights(logs, labels, start, off_diagonal, spread=spread, shift=shift)


def fit_weights(
    logits: Tensor,
    labels: Tensor,
    start: Tensor,
    apart: Callable[[Tensor], Tensor],
    *,
    spread: float | None = None,
    shift: float | None = None,
) -> dict[str, Tensor]:
    """`weight`, like `start`, and `intercept` for logits `(M, *batch, C)`.

    apart: the part of the weights that is expected to be near 0; linear, and its own adjoint.
    spread: the standard deviation expected of it; `shift` that of the intercepts. None: any.
    """
    from scipy.optimize import minimize

    for name, value in {"spread": spread, "shift": shift}.items():
        if value is not None and not 0 < value < math.inf:
            raise NescioError(f"`{name}` must be a number above 0, got {value!r}")
    weak = [0.0 if value is None else value**-2 for value in (spread, shift)]
    refuse_perfect(logits, labels)
    refuse_missing(logits.shape[-1], labels)
    check_finite(logits)
    logits, labels = logits.detach().flatten(1, -2), labels.flatten().to(logits.device)
    logits = logits if start.ndim else without_offset(logits)
    samples, none = len(labels), torch.zeros(logits.shape[-1], dtype=torch.float64)
    white = _whitening(logits, [part / samples for part in weak]) if start.ndim == 2 else None
    unit = logits.double().square().mean().sqrt().item() or 1.0  # other weights count in 1 / unit

    def state(values: "np.ndarray[Any, Any]") -> dict[str, Tensor]:
        free = torch.from_numpy(values.copy())
        if white is None:
            part = {"weight": free[: -len(none)].view_as(start) / unit}
            return {**part, "intercept": free[-len(none) :]}
        both = free.view(len(none), -1) @ white
        return {"weight": both[:, :-1].contiguous(), "intercept": both[:, -1].contiguous()}

    def turned(weight: Tensor, intercept: Tensor, by: Tensor | None, scale: float) -> Tensor:
        if by is None:
            return torch.cat([weight.flatten() * scale, intercept])
        return (torch.cat([weight, intercept[:, None]], 1) @ by).flatten()

    def objective(values: "np.ndarray[Any, Any]") -> tuple[float, "np.ndarray[Any, Any]"]:
        at = state(values)
        loss, weight, intercept = _likelihood(logits, labels, at)
        off, down = weak[0] / samples * apart(at["weight"]), weak[1] / samples * at["intercept"]
        loss += 0.5 * ((off * apart(at["weight"])).sum() + down @ at["intercept"]).item()
        back = None if white is None else white.T
        return loss, turned(weight + off, intercept + down, back, 1 / unit).numpy()

    first = turned(start, none, None if white is None else white.inverse(), unit)
    options = {"maxiter": 5000, "maxfun": 10_000, "maxcor": 30, "ftol": 0.0, "gtol": 1e-9}
    found = minimize(objective, first.numpy(), jac=True, method="L-BFGS-B", options=options)
    fitted = state(found.x)
    far = not np.isfinite(found.x).all() or float(fitted["weight"].abs().max()) > 1e4
    if far or np.abs(found.jac).max() > FLAT:
        raise NescioError(
            "the fit did not converge; use temperature scaling or more calibration data"
        )
    refuse_perfect(transformed(logits.double(), fitted), labels)
    return fitted


def _whitening(logits: Tensor, prior: list[float]) -> Tensor:
    """A matrix that makes logits and a constant about uncorrelated, `(C + 1, C + 1)`."""
    rows, classes = logits.flatten(0, 1), logits.shape[-1]
    total = torch.zeros(classes + 1, classes + 1, dtype=torch.float64)
    for z in rows.split(max(1, CHUNK // classes)):
        one = torch.cat([z.double(), z.new_ones(len(z), 1, dtype=torch.float64)], 1)
        total += (one.T @ one).cpu()
    total /= len(rows) * classes  # about the curvature, as a class is one of C
    held = torch.tensor([prior[0]] * classes + [prior[1]], dtype=torch.float64)
    least = 1e-9 * total.diagonal().mean()
    root: Tensor = torch.linalg.cholesky(total + (held + least).diag())
    return root.inverse()


def _likelihood(
    logits: Tensor, labels: Tensor, state: dict[str, Tensor]
) -> tuple[float, Tensor, Tensor]:
    """Mean NLL of the mixture, and its derivatives in weight and intercept."""
    members, samples, classes = logits.shape
    size = max(1, CHUNK // (members * classes))
    loss, by_weight = 0.0, torch.zeros_like(state["weight"])
    by_intercept = torch.zeros_like(state["intercept"])
    for z, y in zip(logits.split(size, 1), labels.split(size), strict=True):
        z = z.double()
        logs = transformed(z, state).log_softmax(-1)
        index = y.expand(members, -1)[..., None]
        own = logs.gather(-1, index)  # (M, n, 1)
        loss -= (own.logsumexp(0) - math.log(members)).sum().item()
        rest = logs.exp()
        rest.scatter_add_(-1, index, rest.new_full((1, 1, 1), -1.0).expand_as(index))
        rest *= own.softmax(0)  # (M, n, C), derivatives in the logits
        by_intercept += rest.sum((0, 1)).cpu()
        if state["weight"].ndim == 2:
            by_weight += (rest.flatten(0, 1).T @ z.flatten(0, 1)).cpu()
        else:
            by_weight += (rest * z).sum((0, 1)).cpu().sum_to_size(by_weight.shape)
    return loss / samples, by_weight / samples, by_intercept / samples


def off_diagonal(weight: Tensor) -> Tensor:
    """A matrix without its diagonal."""
    return weight - weight.diagonal().diag()
