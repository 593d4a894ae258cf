"""Influence where the loss has no second derivative: the hinge, and smooth ones in its place.

A linear support vector machine tells 1 from 7. Influence is taken from the smooth hinge at its own
minimum, for two temperatures, and from the hinge itself, whose curvature is that of the weight
decay alone; what happens is the support vector machine, trained again (Koh and Liang, 2017, 4.2).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nescio import losses
from nescio.applications.influence import at_minimum, fit
from nescio.core import NescioError, as_batch, kept
from nescio.evaluation.compare import Absent
from nescio_papers.kit import (
    Claim,
    Comparison,
    Findings,
    Settings,
    absent,
    all_images,
    folder_of,
    full_and_quick,
    size,
    table,
)
from nescio_papers.robust_deep_learning.influence_pictures import scatters
from nescio_papers.robust_deep_learning.influence_retraining import (
    PART,
    Pair,
    Task,
    checked,
    chosen,
    correlation,
    correlation_words,
)
from nescio_papers.robust_deep_learning.stored_facts import between

SOURCE = "Koh and Liang (2017), section 4.2"
FIGURE = "influence-hinge.png"
STRENGTH = 0.005  # of the weight decay: 0.01 / 2 times the sum of squares
HINGE = "hinge"
TEMPERATURES = {"smooth hinge 0.001": 0.001, "smooth hinge 0.1": 0.1}
ITSELF = "smooth hinge 0.1, trained again itself"
PUBLISHED = {HINGE: 0.632, "smooth hinge 0.001": 0.950, "smooth hinge 0.1": 0.914}
WANTED = 0.95
ONE, SEVEN = 1, 7


@dataclass(frozen=True)
class Budget:
    """The sizes of a run."""

    images: int = size(10_000, quick=500)  # of all digits, of which about a fifth is 1 or 7
    test: int = size(10_000, quick=500)
    removed: int = size(50, quick=4)
    iterations: int = size(5000, quick=200)
    limit: float = size(1e-6, quick=1.0)


FULL, QUICK = full_and_quick(Budget)


def findings(settings: Settings) -> Findings:
    """Correlations with the support vector machine trained again, and with the smooth one."""
    sizes = QUICK if settings.quick else FULL
    images = all_images("mnist", train=sizes.images, test=sizes.test)
    if isinstance(images, Absent):
        return absent("MNIST", images.why)
    train, test = _two(images.train), _two(images.test)
    whole = machine(train)
    margins = signed(test) * (_wide(test[0]) @ whole)
    index = int(margins.argmin())
    point = test[0][index : index + 1], test[1][index : index + 1]
    predicted = {HINGE: of_hinge(whole, train, point), **_smooth(whole, train, point, sizes)}
    removed = chosen(predicted["smooth hinge 0.001"], sizes.removed, settings.seed)
    actual = _actual(settings, whole, train, point, removed)
    found = {name: (one[removed], actual) for name, one in predicted.items()}
    own = checked(settings, smooth_task(train, test, sizes), sizes.removed)
    found[ITSELF] = own.predicted, own.actual
    return _found(settings, found, {
        "training_images": len(train[0]), "test_index": index, "removed": removed.tolist(),
        "test_accuracy": float((margins > 0).double().mean()), "itself": own.numbers(settings.seed),
    })  # fmt: skip


def _two(data: Pair) -> Pair:
    """The 1s and 7s, with labels 0 and 1."""
    x, y = data
    both = (y == ONE) | (y == SEVEN)
    return x[both], (y[both] == SEVEN).long()


def _wide(x: Tensor) -> Tensor:
    """Pixels as one row, with a constant for the bias, in float64."""
    return F.pad(as_batch(x, torch.float64).flatten(1), (0, 1), value=1.0)


def signed(data: Pair) -> Tensor:
    """Labels 0 and 1 as 1 and -1."""
    return 1.0 - 2.0 * data[1].double()


def machine(data: Pair) -> Tensor:
    """Weights `(F + 1,)` with the least mean hinge + STRENGTH / 2 times the sum of squares.

    Two logits with the weights w and -w have the margin 2 w x, and their squares sum up to half of
    those of 2 w: it is the limit of `losses.weight_decay` on the smooth hinge of two logits.
    """
    from sklearn.svm import LinearSVC

    wide, signs = _wide(data[0]), signed(data)
    made = LinearSVC(
        loss="hinge", C=1 / (STRENGTH * len(wide)), tol=1e-9, max_iter=100_000, random_state=0,
        fit_intercept=False,
    )  # fmt: skip
    made.fit(wide.numpy(), signs.numpy())
    if made.n_iter_ >= made.max_iter:
        raise NescioError("the support vector machine did not converge")
    return torch.from_numpy(np.array(made.coef_[0]))


def of_hinge(weights: Tensor, train: Pair, point: Pair) -> Tensor:
    """The influence of each sample with the derivatives of the hinge itself, `(N,)`."""

    def slopes(data: Pair) -> Tensor:
        wide, signs = _wide(data[0]), signed(data)
        return -(signs * (signs * (wide @ weights) < 1))[:, None] * wide

    lever = slopes(point)[0] / STRENGTH  # the Hessian is that of the weight decay
    return (slopes(train) + STRENGTH * weights) @ lever / len(train[0])


def _smooth(weights: Tensor, train: Pair, point: Pair, sizes: Budget) -> dict[str, Tensor]:
    """Influence at the minimum of smooth hinges, found by Newton steps from the hinge's."""
    found = {}
    for name, temperature in TEMPERATURES.items():
        net = _logits()
        with torch.no_grad():
            both = torch.stack([weights, -weights]) / 2
            net[1].weight.copy_(both[:, :-1])  # type: ignore[operator]
            net[1].bias.copy_(both[:, -1])  # type: ignore[operator]
        loss = losses.smooth_hinge(temperature=temperature)
        minimum = fit(net, train, loss=loss, weight_decay=STRENGTH, limit=sizes.limit)
        found[name] = at_minimum(minimum, point).values[0]
    return found


def _logits() -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(28 * 28, 2)).double()


def _actual(
    settings: Settings, weights: Tensor, train: Pair, point: Pair, removed: Tensor
) -> Tensor:
    """Changes of the hinge of one sample when the machine is trained without others."""
    every = torch.arange(len(train[0]))

    def loss(own: Tensor) -> float:
        return float((1 - signed(point) * (_wide(point[0]) @ own)).clamp_min(0)[0])

    def changes() -> list[float]:
        rest = [every != index for index in removed]
        return [loss(machine((train[0][own], train[1][own]))) - loss(weights) for own in rest]

    key = {"removed": removed.tolist(), "images": len(every)}
    path = folder_of(settings, PART) / "machines.json"
    return torch.tensor(kept(path, key, changes), dtype=torch.float64)


def smooth_task(train: Pair, test: Pair, sizes: Budget) -> Task:
    """The smooth hinge of temperature 0.1, trained again in one stack."""
    return Task(
        name="smooth-hinge",
        make=_logits,
        train=train,
        test=test,
        loss=losses.weight_decay(losses.smooth_hinge(temperature=0.1), strength=STRENGTH),
        iterations=sizes.iterations,
        solve={"refit": False, "limit": sizes.limit},
    )


def _found(
    settings: Settings, found: Mapping[str, tuple[Tensor, Tensor]], numbers: Mapping[str, Any]
) -> Findings:
    rows = {name: correlation(*pair, settings.seed) for name, pair in found.items()}
    panels = {name: (*found[name], f"R {correlation_words(row)}") for name, row in rows.items()}
    return Findings(
        numbers={
            **numbers,
            "correlation": rows,
            "points": {name: [one.tolist() for one in pair] for name, pair in found.items()},
        },
        figures={FIGURE: scatters(panels)},
        captions={
            FIGURE: "Actual: the hinge of a support vector machine trained again (last panel: the "
            "smooth hinge itself). Predicted: by the derivatives of the loss above the panel."
        },
        comparisons=[
            Comparison(f"{name}: correlation with retraining", published, rows[name]["value"])
            for name, published in PUBLISHED.items()
        ],
        text=_page(numbers, rows),
    )


def judge(numbers: Mapping[str, Any]) -> list[Claim]:
    """The claim by stored numbers."""
    rows = numbers["correlation"]
    steep = next(iter(TEMPERATURES))
    return [
        Claim(
            source=SOURCE,
            sentence="A smooth hinge predicts leave-one-out retraining where the hinge has no "
            "second derivative.",
            facts=[
                between(f"R with retraining, {steep}", rows[steep], above=WANTED),
                between("R with retraining, the hinge itself", rows[HINGE], below=WANTED),
            ],
            note="; ".join(f"{name} {correlation_words(row)}" for name, row in rows.items()),
        )
    ]


def _page(numbers: Mapping[str, Any], rows: Mapping[str, Mapping[str, float]]) -> str:
    cells = [[name, correlation_words(row)] for name, row in rows.items()]
    return "\n\n".join(
        [
            "The hinge: a linear support vector machine tells 1 from 7 "
            f"({numbers['training_images']:,} images of MNIST) and is trained again without each "
            f"of {len(numbers['removed'])} images, half of them with the largest predictions of "
            "the smooth hinge 0.001, half drawn. The test image is the one with the lowest "
            "margin. Predictions of the smooth hinges are made at their own minima.",
            table(["derivatives of", "R"], cells),
        ]
    )
