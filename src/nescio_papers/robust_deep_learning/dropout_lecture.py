"""The rotating digit with the lecture's own set-up: LeNet, SGD, dropout before the last layer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from nescio import losses, models
from nescio.core import Categorical, measures
from nescio.models.model import Model
from nescio.report.plots.look import COLORS, MARKERS, add_title, with_look
from nescio.training import train
from nescio_papers.kit import (
    Claim,
    Comparison,
    Findings,
    InData,
    Settings,
    folder_of,
    full_and_quick,
    judged,
    size,
    spread,
    table,
    verdict,
)
from nescio_papers.robust_deep_learning.dropout_digits import ANGLES, ONE, PASSES, turned

PART, FIGURE = "mc-dropout", "mc-dropout-lecture.png"
SOURCE = "lecture, Uncertainty in classification: example with MCDropout"
PRINTED = (1, 1, 1, 1, 1, 5, 5, 7, 7, 7, 7)  # of 12 images in the source
RATE, DECAY, DROPOUT = 0.01, 1e-6, 0.5


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The sizes of a run."""

    train: int = size(60_000, quick=100)
    epochs: int = size(4, quick=1)
    digits: int = size(100, quick=3)  # digits 1 of the test set that turn
    passes: int = size(PASSES, quick=4)


FULL, QUICK = full_and_quick(Budget)


def lenet(classes: int = 10) -> nn.Module:
    """LeNet as in Caffe, which the source trained: 20 and 50 filters, 500 units, dropout there."""
    return nn.Sequential(
        nn.Conv2d(1, 20, 5),
        nn.MaxPool2d(2),
        nn.Conv2d(20, 50, 5),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(800, 500),
        nn.ReLU(),
        nn.Dropout(DROPOUT),
        nn.Linear(500, classes),
    )


def findings(settings: Settings, in_dist: InData) -> Findings:
    """A 1 that turns: labels beside the printed ones, and those of many other digits 1."""
    sizes = QUICK if settings.quick else FULL
    model = trained(settings, sizes, in_dist)
    sampler = models.mc_dropout(model.member(0), passes=sizes.passes, seed=settings.seed)
    x, y = in_dist.test
    ones = x[y == ONE][: sizes.digits]
    logits = torch.stack(
        [_logits(sampler, turned(image, ANGLES)) for image in ones]
    )  # (D, T, A, C)
    labels = logits.softmax(-1).mean(1).argmax(-1)  # (D, A)
    shown = alike(labels)
    error = _error(model, x, y)
    found = _described(logits[shown], labels)
    return Findings(
        numbers={"error": error, **found},
        figures={FIGURE: _figure(logits[shown])},
        captions={
            FIGURE: "LeNet with the lecture's set-up: a 1 that turns, passes of MC dropout at each "
            f"angle. Labels: {_words(found['labels'])}; printed: {_words(PRINTED)}."
        },
        comparisons=_compared(found["labels"]),
        claims=judged(settings, [_claim(logits[shown], error)]),
        text=_text(sizes, error, found),
    )


def trained(settings: Settings, sizes: Budget, in_dist: InData) -> Model:
    """LeNet by SGD with momentum 0.9; a weight decay of d adds d / 2 times the squares."""
    return train(
        lambda: lenet(in_dist.classes),
        spread(in_dist.train, sizes.train),
        loss=losses.weight_decay(losses.nll(), strength=DECAY / 2),
        optimizer="sgd",
        learning_rate=RATE,
        batch_size=64,
        epochs=sizes.epochs,
        seed=settings.seed,
        run=folder_of(settings, PART) / "lecture",
        progress=False,
    )


def _logits(sampler: Any, x: Tensor) -> Tensor:
    logits: Tensor = sampler(x).logits.double()
    return logits


def _error(model: Model, x: Tensor, y: Tensor) -> float:
    prediction: Any = model(x)
    return float((prediction.labels != y).double().mean())


def alike(labels: Tensor) -> int:
    """The digit `(D, A)` whose labels are most like the printed ones."""
    printed = torch.tensor(PRINTED)
    return int((labels[:, : len(PRINTED)] == printed).sum(1).argmax())


def _described(one: Tensor, labels: Tensor) -> dict[str, Any]:
    prediction = Categorical(one)
    return {
        "angles": list(ANGLES),
        "labels": prediction.labels.tolist(),
        "probability": prediction.probs.amax(-1).tolist(),
        "variation ratio": measures.variation_ratio(prediction).tolist(),
        "mutual information": measures.mutual_information(prediction).tolist(),
        "most frequent labels": labels.mode(0).values.tolist(),
        "share with that label": (labels == labels.mode(0).values).double().mean(0).tolist(),
    }


def _compared(labels: Sequence[int]) -> list[Comparison]:
    note = "the printed list has 11 labels for 12 images"
    return [
        Comparison(f"label of image {number}", said, own, note=note if number == 11 else "")
        for number, (said, own) in enumerate(zip(PRINTED, labels, strict=False), start=1)
    ]


def _claim(one: Tensor, error: float) -> Claim:
    prediction = Categorical(one)
    ratio, top = measures.variation_ratio(prediction), prediction.probs.amax(-1)
    single = one.softmax(-1).amax(-1)  # (T, A) what a single pass says
    worst = int(ratio.argmax())
    sure = float((single[:, worst] >= 0.9).double().mean())
    return Claim(
        SOURCE,
        "With the lecture's set-up, sampling shows what one softmax output hides: between 1 and 7 "
        "the network gives other labels, with large uncertainty.",
        f"LeNet, test error {100 * error:.2f} %; labels {_words(prediction.labels.tolist())} "
        f"(printed {_words(PRINTED)}); at {ANGLES[worst]} degrees {100 * float(ratio[worst]):.0f} %"
        f" of the passes disagree with the most frequent label, while {100 * sure:.0f} % of the "
        f"passes have a probability of 0.9 or more; upright {100 * float(ratio[0]):.0f} % disagree "
        f"(mean maximum probability {float(top[0]):.3f})",
        verdict=verdict(ratio[worst] >= 0.25 and ratio[0] == 0, ratio[worst] > ratio[0]),
    )


def _words(labels: Sequence[int]) -> str:
    return " ".join(map(str, labels))


def _text(sizes: Budget, error: float, found: dict[str, Any]) -> str:
    rows = [
        ["printed", *map(str, PRINTED), "not printed"],
        ["here", *map(str, found["labels"])],
        ["passes that disagree", *(f"{100 * one:.0f} %" for one in found["variation ratio"])],
        [f"most frequent of {sizes.digits}", *map(str, found["most frequent labels"])],
        ["share of them", *(f"{100 * one:.0f} %" for one in found["share with that label"])],
    ]
    return "\n\n".join(
        [
            "The lecture's set-up as it is stated: LeNet (as in Caffe), dropout of 0.5 before the "
            f"last layer only, SGD at {RATE} with momentum 0.9, weight decay {DECAY:g}, "
            f"{sizes.passes} passes; batches of 64 and {sizes.epochs} epochs are ours. Test error "
            f"{100 * error:.2f} %. The lecture does not say which 1 it turned, nor how far; here "
            f"it is the one of {sizes.digits} whose labels are most like the printed ones, turned "
            "counterclockwise by 15 degrees a step.",
            table(["", *(f"{angle}°" for angle in ANGLES)], rows),
        ]
    )


@with_look
def _figure(one: Tensor) -> Figure:
    """Softmax input and output of three classes, `(T, A, C)`, as in the lecture."""
    probs = one.softmax(-1)
    chosen = probs.mean(0).amax(0).topk(3).indices.tolist()
    figure = Figure(figsize=(10.8, 4.4), layout="constrained")
    panels = zip(figure.subplots(1, 2), (one, probs), ("input", "output"), strict=True)
    for axis, values, name in panels:
        for index, label in enumerate(chosen):
            across = torch.linspace(-1, 1, len(values))[:, None]
            places = torch.tensor(ANGLES)[None] + 3.0 * (index - 1) + across  # (T, A)
            axis.scatter(places, values[..., label], s=7, alpha=0.5, color=COLORS[index],
                         marker=MARKERS[index], linewidths=0, label=f"class {label}")  # fmt: skip
        axis.set(title=f"softmax {name}", xlabel="angle in degrees", xticks=ANGLES[::2])
        axis.legend(fontsize=9, markerscale=2)
    add_title(figure, "LeNet as in the lecture: a digit 1 that turns, 100 passes at each angle")
    return figure
