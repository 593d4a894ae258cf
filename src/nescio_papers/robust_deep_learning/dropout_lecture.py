"""Part `lenet`: the lecture's own set-up, LeNet with dropout before the last layer.

A digit that turns; and the errors of MC dropout and of dropout as usual, image by image, also of
the residual networks of the part `failure`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from nescio import losses, models
from nescio.core import Categorical, kept, measures
from nescio.evaluation.compare import Absent
from nescio.models.model import Model
from nescio.report.plots.look import COLORS, MARKERS, add_title, with_look
from nescio.training import train
from nescio_papers.kit import (
    Claim,
    Comparison,
    Findings,
    InData,
    Settings,
    absent,
    all_images,
    folder_of,
    full_and_quick,
    joined,
    size,
    spread,
    table,
)
from nescio_papers.robust_deep_learning import failure
from nescio_papers.robust_deep_learning.dropout_digits import ANGLES, ONE, PASSES, turned
from nescio_papers.robust_deep_learning.dropout_masks import (
    at_dropout,
    features_of,
    mask_fact,
    mask_note,
    mask_numbers,
    mask_text,
    paired_errors,
)
from nescio_papers.robust_deep_learning.dropout_turning import turning_facts, turning_numbers
from nescio_papers.robust_deep_learning.networks import weights_digest
from nescio_papers.robust_deep_learning.stored_facts import RECALLED, learned, of_count

PART, FIGURE = "lenet", "lenet-turning.png"
SOURCE = "lecture, Uncertainty in classification: example with MCDropout"
PRINTED = (1, 1, 1, 1, 1, 5, 5, 7, 7, 7, 7)  # of 12 images in the source
RATE, DECAY, DROPOUT = 0.01, 1e-6, 0.5
LEARNED = 0.02  # a test error that shows that LeNet has learned
LENET, RESIDUAL = "LeNet on MNIST", "ResNet-20 on CIFAR-10"
PUBLISHED_FALLS = {"NIN": -0.16, "DSN": -0.05, "augmented DSN": -0.24}  # of errors 10.43 to 7.95


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The sizes of a run."""

    train: int = size(60_000, quick=100)
    epochs: int = size(4, quick=1)
    digits: int = size(100, quick=3)  # digits 1 of the test set that turn
    passes: int = size(PASSES, quick=4)
    test: int = size(10_000, quick=100)
    masks: int = size(5, quick=2)  # draws of the masks
    error_passes: int = size(50, quick=3)  # the lecture's T


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


def run(settings: Settings) -> Findings:
    """The digit that turns and the errors, for each data set at hand."""
    sizes = QUICK if settings.quick else FULL
    digits = all_images("mnist", train=sizes.train, test=sizes.test)
    block = failure.BLOCKS["CIFAR-10"]
    photographs = failure.images(block, failure.budget(settings))
    parts: dict[str, Findings] = {}
    errors: dict[str, Any] = {}
    if isinstance(digits, Absent):
        parts["turning"] = absent("MNIST", digits.why)
    else:
        model = trained(settings, sizes, digits)
        parts["turning"] = turning(settings, sizes, model, digits)
        errors[LENET] = _errors(settings, sizes, model, digits, "lenet")
    if isinstance(photographs, Absent):
        parts["photographs"] = absent("CIFAR-10", photographs.why)
    else:
        model = failure.judged_networks(settings, block, photographs)
        errors[RESIDUAL] = _errors(settings, sizes, model, photographs, "resnet-20")
    if errors:
        parts["errors"] = Findings(
            numbers=errors,
            comparisons=_published_errors(errors),
            text=f"Errors with {sizes.error_passes} passes, image by image, for draws of the "
            "masks:\n\n" + mask_text(errors),
        )
    return joined(parts)


def judge(numbers: Mapping[str, Any]) -> list[Claim]:
    """The digit that turns, and the errors, where they were measured."""
    claims = []
    if "digits" in numbers.get("turning", {}):
        found = numbers["turning"]
        claims.append(
            Claim(
                source=SOURCE,
                sentence="A qualitative experiment illustrates the importance of sampling the "
                "predictive distribution: a 1 that turns, softmax inputs and outputs scattered.",
                facts=turning_facts(found),
                needs=[
                    of_count(
                        "LeNet's test error",
                        round(found["error"] * found["images"]),
                        found["images"],
                        below=LEARNED,
                    )
                ],
                note=f"{found['digits']} digits; where the mean output is least sure, "
                f"{100 * found['passes that are sure']['least sure']:.0f} % of the passes still "
                f"have a probability of 0.9 or more; labels {_words(found['labels'])} (printed "
                f"{_words(PRINTED)}, 11 for 12 images)",
            )
        )
    if numbers.get("errors"):
        claims += [_sampling_claim(name, one) for name, one in numbers["errors"].items()]
    return claims


def _sampling_claim(name: str, found: Mapping[str, Any]) -> Claim:
    """Is the error of MC dropout lower, for networks that have learned their data?"""
    return Claim(
        source="lecture, MCDropout: side note",
        sentence="MC dropout vs dropout, test error with LeNet, T = 50 forward passes ... dropout "
        f"only propagates the mean; MC dropout propagates whole distribution. ({name})",
        facts=[mask_fact(name, found)],
        needs=learned("CIFAR-10", "test error", found["usual"]) if name != LENET else (),
        note="the error should be lower; interval over test images and masks, for these networks; "
        f"{mask_note({name: found})}",
    )


def _errors(
    settings: Settings, sizes: Budget, model: Model, in_dist: InData, name: str
) -> dict[str, Any]:
    """Errors as usual and with several draws of the masks, kept."""
    masks = [settings.seed + number for number in range(sizes.masks)]
    key = {"weights": weights_digest(model), "masks": masks, "passes": sizes.error_passes,
           "test": len(in_dist.test[1])}  # fmt: skip

    def measure() -> dict[str, Any]:
        pairs = [
            paired_errors(model.member(index), *in_dist.test, passes=sizes.error_passes,
                          masks=masks)
            for index in range(model.members)
        ]  # fmt: skip
        return mask_numbers([one for one, _ in pairs], [own for _, own in pairs])

    found: dict[str, Any] = kept(folder_of(settings, PART) / f"{name}.json", key, measure)
    return found


def _published_errors(errors: Mapping[str, Any]) -> list[Comparison]:
    """By how much MC dropout lowered the error of published networks for CIFAR-10, in points."""
    if RESIDUAL not in errors:
        return []
    own = 100 * errors[RESIDUAL]["difference"]["value"]
    return [
        Comparison(
            f"CIFAR-10: error of MC dropout less dropout's, points ({name})",
            said,
            own,
            note=f"{RECALLED}; Gal and Ghahramani (2015), 50 passes; here ResNet-20 on 20,000 "
            "images",
        )
        for name, said in PUBLISHED_FALLS.items()
    ]


def turning(settings: Settings, sizes: Budget, model: Model, in_dist: InData) -> Findings:
    """A 1 that turns: labels beside the printed ones, and those of many other digits 1."""
    encoder, rest = at_dropout(model.member(0))
    sampler = models.mc_dropout(rest, passes=sizes.passes, seed=settings.seed)
    x, y = in_dist.test
    ones = x[y == ONE][: sizes.digits]
    logits = torch.stack(
        [_logits(sampler, features_of(encoder, turned(image, ANGLES))) for image in ones]
    )  # (D, T, A, C)
    labels = logits.softmax(-1).mean(1).argmax(-1)  # (D, A)
    shown = alike(labels)
    error = _error(model, x, y)
    found = {
        "error": error,
        "images": len(y),
        **_described(logits[shown], labels),
        **turning_numbers(logits),
    }
    return Findings(
        numbers=found,
        figures={FIGURE: _figure(logits[shown])},
        captions={
            FIGURE: "LeNet with the lecture's set-up: a 1 that turns, passes of MC dropout at each "
            f"angle. Labels: {_words(found['labels'])}; printed: {_words(PRINTED)}."
        },
        comparisons=_compared(found["labels"]),
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
        run=folder_of(settings, PART) / "network",
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
    overlap, spreads = found["overlap"], found["spread"]
    where = {
        kind: f"{overlap[kind]} of {found['digits']} overlap, the output spreads by "
        f"{fmean(spreads[kind]):.2f}"
        for kind in ("least sure", "upright")
    }
    return "\n\n".join(
        [
            "The lecture's set-up as it is stated: LeNet (as in Caffe), dropout of 0.5 before the "
            f"last layer only, SGD at {RATE} with momentum 0.9, weight decay {DECAY:g}, "
            f"{sizes.passes} passes; batches of 64 and {sizes.epochs} epochs are ours. Test error "
            f"{100 * error:.2f} %. The lecture does not say which 1 it turned, nor how far; here "
            f"it is the one of {sizes.digits} whose labels are most like the printed ones, turned "
            "counterclockwise by 15 degrees a step.",
            table(["", *(f"{angle}°" for angle in ANGLES)], rows),
            f"The ranges of the top two logits over the passes: upright {where['upright']}; at the "
            f"angle where the mean output of a digit is least sure {where['least sure']} (from the "
            "5 % to the 95 % quantile, mean over digits).",
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
