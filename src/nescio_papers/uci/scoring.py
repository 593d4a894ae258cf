"""Scores of a prediction in the units of the targets, and of settings on validation rows."""

import torch
from torch import Tensor

from nescio import metrics
from nescio.core import Gaussian, Regression
from nescio.models import Model
from nescio_papers.uci.methods import MC_DROPOUT, recipe_of
from nescio_papers.uci.tables import Work

METRICS = {
    "rmse": metrics.rmse,
    "nll": metrics.mixture_nll,
    "nll_moments": metrics.moment_matched_nll,
    "crps": metrics.crps,
}
PRECISIONS = 10 ** torch.linspace(0, 4, 25, dtype=torch.float64)  # over the variance of the targets


def scores(said: Regression, targets: Tensor) -> dict[str, float]:
    """RMSE, NLL of the mixture and of the normal density with its moments, and CRPS."""
    return {name: metric(said, targets) for name, metric in METRICS.items()}


def on_test_rows(
    work: Work, method: str, split: int, model: Model, precision: float | None
) -> dict[str, float]:
    """The scores of a split's members; of MC dropout with the precision of its noise."""
    rows = work.splits.rows[split][1]
    said = _said(work, method, model, rows)
    if precision is not None:
        said = _with_noise(said, _variance(work, split) / precision)
    return scores(said, work.splits.y[rows])


def on_validation_rows(work: Work, method: str, split: int, model: Model) -> dict[str, float]:
    """The NLL of the mixture of networks trained on the sub-split, and their mean NLL.

    Of the mixture it is the larger one of the exact NLL and that of the normal density with its
    moments: settings must not be good in one and bad in the other. Of MC dropout it is the NLL with
    the best precision of the noise, which is in the answer.
    """
    rows = work.sub_split(split)[1]
    said, y = _said(work, method, model, rows), work.splits.y[rows]
    if method == MC_DROPOUT:
        found = {
            float(precision): metrics.mixture_nll(
                _with_noise(said, _variance(work, split) / float(precision)), y
            )
            for precision in PRECISIONS
        }
        precision = min(found, key=lambda one: found[one])
        return {"single": found[precision], "precision": precision}
    members = [metrics.mixture_nll(said.choose([one]), y) for one in range(said.members)]
    both = metrics.mixture_nll(said, y), metrics.moment_matched_nll(said, y)
    return {"mixture": max(both), "single": sum(members) / len(members)}


def _said(work: Work, method: str, model: Model, rows: Tensor) -> Regression:
    recipe = recipe_of(method, work.budget, work.budget.dropouts[0])
    said = recipe.predictor(model)(work.splits.x[rows]).to(torch.float64)
    assert isinstance(said, Regression)
    return said


def _with_noise(said: Regression, variance: float) -> Gaussian:
    return Gaussian(said.mean, torch.full_like(said.mean, variance))


def _variance(work: Work, split: int) -> float:
    """Of the targets of a split's training rows: the unit of the precision."""
    return float(work.splits.y[work.splits.rows[split][0]].double().var(correction=0))
