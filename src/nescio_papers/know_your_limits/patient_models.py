"""The first paper's models and measures on tables of patients, and detectors beside them."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nescio import detectors, losses, nets
from nescio.detectors.observe import observe
from nescio.models import weight_samples
from nescio.models.model import Model
from nescio.training.train import train
from nescio_papers.kit import Settings
from nescio_papers.know_your_limits.models import (
    ANCHORED,
    BAYES,
    DROPOUT,
    ENSEMBLE,
    P_DROPOUT,
    P_PLAIN,
    PLAIN,
    PLATT,
    PRIOR,
    WIDTHS,
    Network,
    calibrated,
    choose,
    members,
    passes,
    thinned,
)
from nescio_papers.know_your_limits.patients import Parts
from nescio_papers.know_your_limits.surfaces import OF_MANY, OF_ONE, functions

Floats = NDArray[np.float64]
Scorer = Callable[[Tensor], Mapping[str, Floats]]  # encoded rows -> scores (N,) by name
SAMPLES = 500  # measured at a time


def networks(parts: Parts, settings: Settings, seed: int, epochs: int) -> dict[str, Network]:
    """The six models, in float64; the plain network is the first member of the ensemble."""
    width, size, draws = parts.train[0].shape[1], members(settings), passes(settings)

    def fit(
        make: Callable[[], nn.Module], count: int, loss: Any = None, rate: float = 3e-3
    ) -> Model:
        model = train(
            make,
            parts.train,
            loss=loss,
            members=count,
            epochs=epochs,
            batch_size=64,
            learning_rate=rate,
            schedule="cosine",
            validation=None if loss else parts.validation,
            patience=None if loss else 10,
            seed=seed,
            progress=False,
        )
        return model.to(torch.float64)

    def plain() -> nn.Module:
        return nets.mlp(width, 2, widths=WIDTHS, dropout=P_PLAIN)

    prior = {**PRIOR, "0.*": 15 / width}  # as for two inputs: 7.5 each
    ensemble = fit(plain, size)
    anchored = fit(plain, size, losses.anchored(losses.nll(), prior_variance=prior), 1e-2)
    dropout = fit(lambda: nets.mlp(width, 2, widths=(25,) * 4, dropout=P_DROPOUT), 1)
    bayes = fit(
        lambda: nets.bayesian_mlp(width, 2, widths=WIDTHS, spread=0.02),
        1,
        losses.elbo(losses.nll()),
        1e-2,
    )
    first = Network(choose(ensemble, [0]))
    held = (parts.validation[0].double(), parts.validation[1])
    return {
        PLAIN: first,
        PLATT: calibrated(first, held),
        DROPOUT: Network(thinned(dropout, draws)),
        ENSEMBLE: Network(ensemble),
        ANCHORED: Network(anchored),
        BAYES: Network(weight_samples(bayes, passes=draws)),
    }


def measured(models: Mapping[str, Network], base: float) -> Scorer:
    """Every measure of every model."""

    @torch.no_grad()
    def score(x: Tensor) -> dict[str, Floats]:
        results: dict[str, list[Floats]] = {}
        for part in x.double().split(SAMPLES):
            for name, network in models.items():
                prediction = network(part)
                for measure in OF_MANY if prediction.members > 1 else OF_ONE:
                    value = functions(base)[measure](prediction).numpy()
                    results.setdefault(f"{name}: {measure}", []).append(value)
        return {name: np.concatenate(values) for name, values in results.items()}

    return score


def detected(network: Network, parts: Parts) -> Scorer:
    """Detectors on the plain network, and two that read the columns alone."""
    net = network.model.member(0)
    x, y = parts.train
    seen = observe(net, (x.double(), y), inputs=True, progress=False)
    columns = parts.columns
    fitted = {
        "energy": detectors.energy(),
        "k nearest features": detectors.knn(seen, k=min(10, len(x) - 1)),
        "Mahalanobis": detectors.mahalanobis(seen),
        "density of features": detectors.gaussian_mixture(seen),
        "Gower neighbors": detectors.gower(seen, columns=columns),
        "Gower neighbors, holes skipped": detectors.gower(seen, columns=columns, missing="skip"),
        "density, product": detectors.smoothed_density(seen, columns=columns),
        "density, tree": detectors.smoothed_density(seen, columns=columns, structure="tree"),
    }

    def score(rows: Tensor) -> dict[str, Floats]:
        given = observe(net, rows.double(), inputs=True, progress=False)
        return {name: one(given).double().numpy() for name, one in fitted.items()}

    return score
