"""Part `other-inputs`: sequences of unknown speakers, and regression beyond the data."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nescio import detectors, losses, nets
from nescio.core import Categorical, Gaussian, NescioError, derive, heads, kept, measure_all
from nescio.detectors.observe import observe
from nescio.metrics import accuracy
from nescio.models.model import Model
from nescio.training.train import train
from nescio_papers.data import japanese_vowels, uci
from nescio_papers.kit import Findings, Settings, absent, between, folder_of, slug, table
from nescio_papers.know_your_limits.ranks import Numbers, joined, ranked

PART = "other-inputs"
SPEAKERS = ((6, 7, 8), (0, 1, 2), (3, 4, 5))  # left out, one group after another
SETS = ("concrete", "energy", "wine-quality-red")
BEYOND = 0.15  # of the rows, furthest along the first principal component, are outside
MEMBERS = 5


def other_inputs(settings: Settings) -> Findings:
    """AUROC of measures and detectors on sequences and for regression."""
    folds, sets = (SPEAKERS[:1], SETS[:1]) if settings.quick else (SPEAKERS, SETS)
    try:
        spoken = [
            _kept(settings, f"speakers {fold}", partial(sequences, settings, fold))
            for fold in folds
        ]
        rows = {name: _kept(settings, name, partial(regression, settings, name)) for name in sets}
    except NescioError as error:
        if "NESCIO_DATA" not in str(error):
            raise
        return absent("A table or a set of sequences", str(error))
    numbers = {
        "sequences": {
            "accuracy": float(np.mean([one["accuracy"] for one in spoken])),
            "auroc": joined([one["auroc"] for one in spoken]),
        },
        "regression": rows,
    }
    return Findings(numbers=numbers, text=_text(numbers, len(folds)))


def _kept(settings: Settings, name: str, make: Callable[[], Numbers]) -> Numbers:
    key = {"what": name, "seed": settings.seed, "quick": settings.quick}
    result: Numbers = kept(folder_of(settings, PART) / f"{slug(name)}.json", key, make)
    return result


def sequences(settings: Settings, left_out: tuple[int, ...]) -> Numbers:
    """Networks that know six speakers, asked about three others."""
    spoken = japanese_vowels()
    assert spoken.test is not None
    known = [label for label in range(spoken.classes or 0) if label not in left_out]
    (x, y), (test, labels) = (_of(part, known) for part in (spoken.train, spoken.test))
    ood = spoken.test[0][torch.isin(spoken.test[1], torch.tensor(left_out))]
    model = train(
        lambda: _listener(x.shape[1], len(known)),
        (x, y),
        members=MEMBERS,
        epochs=20 if settings.quick else 80,
        batch_size=32,
        learning_rate=3e-3,
        schedule="cosine",
        seed=settings.seed,
        progress=False,
    )
    seen = observe(model, (x, y), progress=False)
    fitted = {
        "energy": detectors.energy(),
        "k nearest features": detectors.knn(seen, k=5),
        "Mahalanobis": detectors.mahalanobis(seen),
        "density of features": detectors.gaussian_mixture(seen),
    }
    result = [_scores(model, fitted, rows) for rows in (test, ood)]
    prediction = model(test)
    assert isinstance(prediction, Categorical)
    right = accuracy(prediction.probs, labels)
    return {"accuracy": right, "auroc": ranked(*result)}


def _of(part: tuple[Tensor, Tensor], known: list[int]) -> tuple[Tensor, Tensor]:
    """Cases of some labels, numbered anew."""
    x, y = part
    own = torch.isin(y, torch.tensor(known))
    return x[own], torch.tensor([known.index(label) for label in y[own].tolist()])


def _listener(channels: int, classes: int) -> nn.Module:
    """Two convolutions over time and a mean."""
    return nn.Sequential(
        nn.Conv1d(channels, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv1d(32, 32, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool1d(1),
        nn.Flatten(),
        nn.Linear(32, classes),
    )


def regression(settings: Settings, name: str) -> Numbers:
    """An ensemble with a Gaussian likelihood, asked about rows beyond those of the training."""
    whole = uci(name=name)
    assert whole.test is not None
    x, y = (torch.cat([one, two]) for one, two in zip(whole.train, whole.test, strict=True))
    train_rows, test_rows, ood = beyond(x, derive(settings.seed, name))
    x, y = ((rows - rows[train_rows].mean(0)) / _deviation(rows[train_rows]) for rows in (x, y))
    model = train(
        lambda: nets.mlp(x.shape[1], 2, widths=(50, 50)),
        (x[train_rows], y[train_rows]),
        loss=losses.nll(heads.gaussian()),
        members=MEMBERS,
        epochs=20 if settings.quick else 100,
        batch_size=64,
        learning_rate=3e-3,
        schedule="cosine",
        seed=settings.seed,
        progress=False,
    )
    seen = observe(_members(model), x[train_rows], inputs=True, progress=False)
    fitted = {
        "k nearest features": detectors.knn(seen, k=5),
        "Gower neighbors": detectors.gower(seen),
        "density of inputs, tree": detectors.smoothed_density(seen, structure="tree"),
    }
    result = [_scores(model, fitted, x[rows], inputs=True) for rows in (test_rows, ood)]
    errors = [_error(model, x[rows], y[rows]) for rows in (test_rows, ood)]
    return {
        "error": dict(zip(("in_dist", "ood"), errors, strict=True)),
        "auroc": ranked(*result),
    }


def _error(model: Model, x: Tensor, y: Tensor) -> float:
    """The root mean squared error of the mixture's mean."""
    prediction = model(x)
    assert isinstance(prediction, Gaussian)
    return float((prediction.mixture_mean - y).square().mean().sqrt())


def beyond(x: Tensor, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Rows to learn, to test, and those furthest along the first principal component."""
    z = ((x - x.mean(0)) / _deviation(x)).double()
    along = z @ torch.linalg.eigh(z.mT @ z).eigenvectors[:, -1]
    order = along.argsort(stable=True)
    in_dist, ood = order.split([len(x) - int(BEYOND * len(x)), int(BEYOND * len(x))])
    mixed = in_dist[torch.randperm(len(in_dist), generator=torch.Generator().manual_seed(seed))]
    return mixed[len(mixed) // 5 :], mixed[: len(mixed) // 5], ood


def _deviation(rows: Tensor) -> Tensor:
    deviation = rows.std(0, correction=0)
    return torch.where(deviation > 0, deviation, 1.0)


def _members(model: Model) -> list[nn.Module]:
    """The networks, whose features are read whatever their head."""
    return [model.member(index) for index in range(model.members)]


@torch.no_grad()
def _scores(
    model: Model, fitted: Mapping[str, detectors.Detector], x: Tensor, *, inputs: bool = False
) -> dict[str, NDArray[Any]]:
    given = observe(_members(model), x, inputs=inputs, progress=False)
    own = {name.replace("_", " "): v.numpy() for name, v in measure_all(model(x)).items()}
    return own | {name: one(given).numpy() for name, one in fitted.items()}


def _text(numbers: Numbers, folds: int) -> str:
    spoken, rows = numbers["sequences"], numbers["regression"]
    names = list(next(iter(rows.values()))["auroc"])
    return "\n\n".join(
        [
            f"Vowels of three unknown speakers for an ensemble of {MEMBERS} networks that know six "
            f"({spoken['accuracy']:.3f} of their vowels right): mean AUROC of {folds} choice(s) of "
            "the three, and from the lowest to the highest end of their 95 % intervals.",
            table(["score", "AUROC"], [[n, between(c)] for n, c in spoken["auroc"].items()]),
            f"Regression: outside are the {BEYOND:.0%} of the rows furthest along the first "
            "principal component. Gaussian likelihood; the error is in deviations of the target.",
            table(
                ["score", *rows],
                [[n, *(between(one["auroc"][n]) for one in rows.values())] for n in names]
                + [
                    [
                        f"root mean squared error {side}",
                        *(f"{one['error'][side]:.2f}" for one in rows.values()),
                    ]
                    for side in ("in_dist", "ood")
                ],
            ),
        ]
    )
