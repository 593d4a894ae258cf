"""Influence against leave-one-out retraining on MNIST: logistic regression, a small network."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nescio import losses
from nescio.applications.influence import at_minimum, fit
from nescio.evaluation.compare import Absent
from nescio_papers.kit import (
    Claim,
    Comparison,
    Findings,
    InData,
    Settings,
    absent,
    all_images,
    exactly,
    full_and_quick,
    size,
    spread,
    table,
)
from nescio_papers.robust_deep_learning.influence_pictures import behind_figure, scatters
from nescio_papers.robust_deep_learning.influence_retraining import (
    Check,
    Pair,
    Task,
    checked,
    correlation_words,
    trained,
)
from nescio_papers.robust_deep_learning.stored_facts import between

SOURCE = "lecture, Influence Functions, adapted to deep networks by Koh and Liang (2017)"
SCATTER, BEHIND = "influence-retraining.png", "influence-images.png"
LOGISTIC, CONVOLUTIONAL = "logistic regression", "convolutional network"
WANTED = {LOGISTIC: 0.99, CONVOLUTIONAL: 0.9}
AT_MINIMUM = 1e-5  # the largest gradient norm that is one
PUBLISHED = {CONVOLUTIONAL: 0.875}  # the authors' notebook; the paper says 0.86
DAMPING = 0.0
DECAY = {LOGISTIC: 0.01, CONVOLUTIONAL: 0.01}  # published: 0.01 and 0.001; half of it times squares
SHOWN = 6  # helpful and harmful images


@dataclass(frozen=True)
class Budget:
    """The sizes of a run."""

    train: int = size(2000, quick=100)  # images of logistic regression
    small: int = size(1500, quick=60)  # images of the convolutional network
    test: int = size(10_000, quick=200)
    removed: int = size(50, quick=4)  # images left out of logistic regression
    fewer: int = size(50, quick=3)  # and of the convolutional network
    iterations: int = size(5000, quick=200)  # of L-BFGS, at most
    limit: float = size(1e-6, quick=1.0)  # the largest gradient norm


FULL, QUICK = full_and_quick(Budget)


def budget(settings: Settings) -> Budget:
    """The sizes of this run."""
    return QUICK if settings.quick else FULL


def findings(settings: Settings) -> Findings:
    """Predicted and actual changes of the loss of a misclassified test image."""
    sizes = budget(settings)
    images = all_images("mnist", train=sizes.train, test=sizes.test)
    if isinstance(images, Absent):
        return absent("MNIST", images.why)
    tasks = {LOGISTIC: logistic(images, sizes), CONVOLUTIONAL: convolutional(images, sizes)}
    counts = {LOGISTIC: sizes.removed, CONVOLUTIONAL: sizes.fewer}
    found = {name: checked(settings, task, counts[name]) for name, task in tasks.items()}
    numbers = {name: one.numbers(settings.seed) for name, one in found.items()}
    figure, told = _behind(settings, tasks[LOGISTIC])
    return Findings(
        numbers={**numbers, "confident_error": told},
        figures={
            SCATTER: scatters({name: panel(one, numbers[name]) for name, one in found.items()}),
            BEHIND: figure,
        },
        captions={
            SCATTER: "The loss of the first misclassified test image: its change when one training "
            "image is left out. Dotted: equal.",
            BEHIND: "The test image that logistic regression gets wrong with the largest "
            "confidence. Without a helpful training image the loss of the true label rises, "
            "without a harmful one it falls; changes are in thousandths.",
        },
        comparisons=[
            Comparison(f"{name}: correlation with retraining", PUBLISHED.get(name),
                       one["correlation"]["all"]["value"])
            for name, one in numbers.items()
        ],
        text=_page(numbers, sizes, tasks),
    )  # fmt: skip


def logistic(images: InData, sizes: Budget) -> Task:
    """Ten classes from pixels."""
    return Task(
        name="logistic",
        make=lambda: nn.Sequential(nn.Flatten(), nn.Linear(28 * 28, 10)).double(),
        train=images.train,
        test=images.test,
        loss=losses.weight_decay(losses.nll(), strength=DECAY[LOGISTIC] / 2),
        iterations=sizes.iterations,
        solve={"parameters": "last", "solver": "cg", "refit": False, "limit": sizes.limit},
    )


def convolutional(images: InData, sizes: Budget) -> Task:
    """Two strided convolutions with tanh, which has the second derivatives that H needs."""
    return Task(
        name="convolutional",
        make=_network,
        train=spread(images.train, sizes.small),
        test=images.test,
        loss=losses.weight_decay(losses.nll(), strength=DECAY[CONVOLUTIONAL] / 2),
        iterations=sizes.iterations,
        optimizer="lbfgs,memory=100,tolerance=1e-6",
        solve={"parameters": "all", "solver": "cg", "damping": DAMPING, "limit": sizes.limit},
    )


def _network() -> nn.Module:
    return nn.Sequential(
        nn.AvgPool2d(2),
        nn.Conv2d(1, 4, 5, stride=2, padding=2),
        nn.Tanh(),
        nn.Conv2d(4, 8, 3, stride=2, padding=1),
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(8 * 4 * 4, 10),
    ).double()


def panel(one: Check, numbers: Mapping[str, Any]) -> tuple[Tensor, Tensor, str]:
    """For the scatter plot: points and the correlation with its interval."""
    return one.predicted, one.actual, f"R {correlation_words(numbers['correlation']['all'])}"


def judge(numbers: Mapping[str, Any]) -> list[Claim]:
    """The claims by stored numbers."""
    return [_claim(name, numbers[name]) for name in (LOGISTIC, CONVOLUTIONAL)]


def _claim(name: str, one: Mapping[str, Any]) -> Claim:
    found, half = one["correlation"], len(one["removed"]) // 2
    return Claim(
        source=SOURCE,
        sentence=f"Influence predicts leave-one-out retraining ({name} on MNIST).",
        facts=[
            between(
                "R of predicted and actual changes of a test loss",
                found["all"],
                above=WANTED[name],
            )
        ],
        needs=[
            exactly(
                f"gradient norm {where}",
                one[key],
                why="computed on all training images",
                below=AT_MINIMUM,
                form=".1e",
            )
            for key, where in (
                ("gradient_norm", "of the network"),
                ("gradient_norm_retrained", "of the networks trained again, at most"),
            )
        ],
        note=f"of the {half} largest predictions {correlation_words(found['largest'])}, of {half} "
        f"drawn at random {correlation_words(found['random'])}",
    )


def _behind(settings: Settings, task: Task) -> tuple[Any, dict[str, Any]]:
    """The most confident error of the test images, with the training images behind it."""
    model = trained(settings, task)
    probs = model.outputs(task.test[0])[0].softmax(-1)
    sure, said = probs.max(-1)
    sure = torch.where(said == task.test[1], 0.0, sure)
    index = int(sure.argmax())
    point: Pair = task.test[0][index : index + 1], task.test[1][index : index + 1]
    found = at_minimum(fit(model, task.train, **task.solve), point)
    rows = {"helpful": found.helpful(SHOWN)[0], "harmful": found.harmful(SHOWN)[0]}
    x, y = task.train
    pictures = {
        name: [(x[i], f"label {y[i]}\n{1000 * found.values[0, i]:+.2f}") for i in own.tolist()]
        for name, own in rows.items()
    }
    title = f"a {int(point[1])}, said {int(said[index])}\nconfidence {float(sure[index]):.2f}"
    told = {
        "test_index": index,
        "label": int(point[1]),
        "said": int(said[index]),
        "confidence": float(sure[index]),
        "loss": float(found.value[0]),
        **{name: own.tolist() for name, own in rows.items()},
        "labels_helpful": y[rows["helpful"]].tolist(),
        "labels_harmful": y[rows["harmful"]].tolist(),
    }
    return behind_figure(point[0][0], title, pictures), told


def _page(numbers: Mapping[str, Any], sizes: Budget, tasks: Mapping[str, Task]) -> str:
    rows = [
        [name, f"{len(tasks[name].train[0]):,}", f"{one['parameters']:,}",
         *(correlation_words(one["correlation"][part]) for part in ("all", "largest", "random")),
         f"{one['actual_over_predicted']:.3f}", f"{one['gradient_norm']:.1e}",
         f"{one['gradient_norm_retrained']:.1e}"]
        for name, one in numbers.items()
    ]  # fmt: skip
    header = ["network", "training images", "parameters", "R, all", "R, largest", "R, random",
              "actual / predicted", "gradient norm", "retrained, at most"]  # fmt: skip
    return "\n\n".join(
        [
            f"Leave-one-out retraining: {sizes.removed} networks in one stack, of the "
            f"convolutional one {sizes.fewer}, each without one training image (`rows=`), by "
            "L-BFGS in float64 from the minimum of all images. The "
            "quantity is the loss of the first test image that the network gets wrong. Half of the "
            "images left out have the largest absolute predictions, as in the paper, which raises "
            "a correlation; the other half is drawn from the rest. Intervals of R resample the "
            "images left out. MNIST is cut to images at even distances. The convolutional network "
            "sees them at half the resolution and has two strided convolutions with tanh; all its "
            f"parameters count, by conjugate gradients with damping {DAMPING:g}. The weight decay "
            f"is {DECAY[LOGISTIC]:g} / 2 times the sum of squares, and {DECAY[CONVOLUTIONAL]:g} / 2"
            " of the convolutional network, whose published one is 0.001 / 2. With 300 images, and "
            "retrained to 1e-5, its R was 0.727: leaving one of few out is not a small step.",
            table(header, rows),
        ]
    )
