"""The lecture's simplex pictures: three Dirichlets, and the members of an ensemble."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from nescio import metrics, nets
from nescio.core import Categorical, Dirichlet, measures
from nescio.report.plots.simplex_plot import simplex
from nescio.training.train import train
from nescio_papers.kit import UNSEEN, Claim, Findings, Settings, folder_of, sample
from nescio_papers.robust_deep_learning.stored_facts import over_seeds
from nescio_papers.robust_deep_learning.three_situations import (
    CLASSES,
    RING,
    class_means,
    ring,
    situations,
)

SOURCE = "lecture, Bayesian Neural Networks & Ensembling"
DRAWN, ENSEMBLE = "dirichlet-situations.png", "dirichlet-ensemble.png"
SITUATIONS = {
    "confident\nDir(101, 1, 1)": (101.0, 1.0, 1.0),
    "data uncertainty\nDir(34, 34, 34)": (34.0, 34.0, 34.0),
    "OOD: flat\nDir(1, 1, 1)": (1.0, 1.0, 1.0),
    "OOD: at the corners\nDir(0.3, 0.3, 0.3)": (0.3, 0.3, 0.3),
}
MEMBERS = 20


def findings(settings: Settings) -> Findings:
    """Both pictures; whether members agree in and disagree out of domain is measured."""
    found = {name: _dirichlet(alpha) for name, alpha in SITUATIONS.items()}
    title = "Three situations as Dirichlets; the entropy of the last three is the same"
    repeats = 2 if settings.quick else 5
    models = [_ensemble(settings, settings.seed + repeat) for repeat in range(repeats)]
    spreads = [_disagreement(model, settings.seed + i) for i, model in enumerate(models)]
    gain = sample(metrics.auroc(*one) for one in spreads)
    share = sample(_share(*one) for one in spreads)
    return Findings(
        numbers={
            "measures": {name: _measured(one) for name, one in found.items()},
            "ensemble_auroc": gain.numbers(),
            "ensemble_share_above": share.numbers(),
        },
        figures={DRAWN: simplex(found, title=title, across=4), ENSEMBLE: _members(models[0])},
        captions={
            DRAWN: "The lecture's three situations, the third in its two forms. One color scale: "
            "equal colors are equal densities. The cross is the mean.",
            ENSEMBLE: f"The {MEMBERS} members of an ensemble, trained on three classes in the "
            f"plane, at four inputs; radius {RING[1]:g} is OOD.",
        },
    )


def _dirichlet(alpha: tuple[float, ...]) -> Dirichlet:
    return Dirichlet.from_alpha(torch.tensor([[alpha]], dtype=torch.float64))


def _measured(prediction: Dirichlet) -> dict[str, float]:
    names = ("predictive_entropy", "expected_entropy", "mutual_information", "differential_entropy")
    return {name: getattr(measures, name)(prediction).item() for name in names}


def _ensemble(settings: Settings, seed: int) -> Any:
    return train(
        lambda: nets.mlp(2, CLASSES, widths=(50, 50)),
        situations(200 if settings.quick else 1000, seed).data,
        members=MEMBERS,
        epochs=2 if settings.quick else 40,
        learning_rate=5e-3,
        schedule="cosine",
        seed=seed,
        run=folder_of(settings, "dirichlet") / f"ensemble-{seed}",
        progress=False,
    )


def _disagreement(model: Any, seed: int) -> tuple[Tensor, Tensor]:
    """The mutual information of test inputs of all situations, and of OOD inputs on the ring."""
    in_dist, ood = situations(1000, seed + UNSEEN).x, ring(1000, seed + UNSEEN)
    return measures.mutual_information(model(in_dist)), measures.mutual_information(model(ood))


def _share(in_dist: Tensor, ood: Tensor) -> float:
    """The share of OOD inputs above 95 % of the test inputs."""
    return float((ood > in_dist.quantile(0.95)).double().mean())


def _members(model: Any) -> Any:
    places = _places()
    found = {name: _wide(model(place[None])) for name, place in places.items()}
    title = f"{MEMBERS} members of an ensemble, in distribution and OOD"
    return simplex(found, title=title, across=4)


def _wide(prediction: Any) -> Categorical:
    return Categorical(prediction.logits.double())


def _places() -> dict[str, Tensor]:
    """Inputs in the middle of a class, in the overlap, beyond a class and between two."""
    beyond = RING[1] * torch.tensor(
        [[math.cos(a), math.sin(a)] for a in (-math.pi / 6, -math.pi / 2)]
    )
    return {
        "in distribution:\nthe middle of class 0": class_means()[0],
        "in distribution:\nthe classes overlap": torch.zeros(2),
        "OOD, on the right:\nbeyond a class": beyond[0],
        "OOD, below:\nbetween two classes": beyond[1],
    }


def claims(numbers: Mapping[str, Any]) -> list[Claim]:
    """Do members agree on test inputs and spread on most OOD inputs?"""
    trainings = len(numbers["ensemble_auroc"]["values"])
    return [
        Claim(
            source=SOURCE,
            sentence="Ensembling: the members agree on in-domain inputs and spread over the "
            "simplex on out-of-domain inputs (two pictures). Empirically, works well.",
            facts=[
                over_seeds(
                    "AUROC of the mutual information, a ring round three classes against test "
                    "inputs,",
                    numbers["ensemble_auroc"]["values"],
                    above=0.5,
                ),
                over_seeds(
                    "share of the ring where members spread more than on 95 % of the test inputs,",
                    numbers["ensemble_share_above"]["values"],
                    above=0.5,
                    form=".1%",
                ),
            ],
            note=f"{trainings} ensembles of {MEMBERS}: members spread between two classes, and "
            "agree beyond a class",
        )
    ]
