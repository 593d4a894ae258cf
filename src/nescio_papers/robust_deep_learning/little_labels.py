"""Part `little-labels`: what inputs without labels teach where labels are few."""

from nescio.evaluation.compare import Absent
from nescio_papers.kit import Findings, Settings, absent, all_images, joined
from nescio_papers.robust_deep_learning import little_digits, little_moons, little_pictures
from nescio_papers.robust_deep_learning.little_verdicts import (
    MOST,
    PUBLISHED,
    compared,
    errors_table,
)

MAPS, ERRORS, RAMPS = (f"little-labels-{name}.png" for name in ("moons", "mnist", "ramps"))
DRAW = 6  # shown as maps: the hardest for the labels alone
INTRODUCTION = (
    "A network that should answer alike under other dropout masks, under noise, under small "
    "changes of an image, or in the worst direction nearby learns from inputs without labels too."
    " All methods train on the same draws of labels, with the same network and learning rates, "
    "each draw as a member of one stack; `supervised` is the same without the unlabeled inputs. "
    "Options were chosen with draws and samples that are not among these; how many labels that "
    "took is said below. Intervals are those of the mean over draws (95 %, Student's t), and "
    "differences are paired."
)
MOONS = (
    "Half-moons (1,000 training samples, noise 0.1), six labels: one drawn in each third of each "
    "arm, 10 draws. Networks 64-64; noise of 0.12 on all inputs, except for virtual adversarial "
    "training. The options were chosen by 2,000 labeled samples of another data set."
)
DIGITS = (
    "MNIST with 100 labels, ten of each digit, 5 draws; all 60,000 training images come without "
    "labels. Small rotations (20 degrees), shifts (2 pixels), scalings (10 %) and shears (0.15) "
    "of all images, labeled and unlabeled, for every method and for `supervised`. A network of "
    "three strided convolutions with BatchNorm and dropout 0.5, averaged weights (0.99; mean "
    "teacher 0.97); 128 unlabeled images in an update, 64 for the two methods that take more "
    "passes. The exclusivity of classes counts with the consistency under transformations, the "
    "entropy with virtual adversarial training. Methods had different numbers of updates for want "
    "of time, as the table says; those of `pi_model` were raised when 1,600 of them had given 2.90 "
    "± 0.60 % on the test images. The options were chosen by about 20 short runs with one other "
    "draw of 100 labels and 5,000 labeled training images for validation, and nothing else was "
    "chosen on the test images. Nobody with only 100 labels could choose like that, so expect "
    "somewhat larger errors there."
)


def run(settings: Settings) -> Findings:
    """Half-moons with six labels, then MNIST with a hundred."""
    return joined({"half_moons": _moons(settings), "mnist": _digits(settings)}, INTRODUCTION)


def _moons(settings: Settings) -> Findings:
    task, found = little_moons.task(settings), little_moons.outcomes(settings)
    return Findings(
        numbers={name: one.numbers() for name, one in found.items()},
        figures={MAPS: little_pictures.moons(task, found, DRAW)},
        captions={
            MAPS: "Half-moons: six labels (large marks), inputs without labels (dots), and where "
            "each method decides between the arms (black line)."
        },
        text="\n\n".join([MOONS, errors_table(found)]),
    )


def _digits(settings: Settings) -> Findings:
    digits = all_images("mnist")
    if isinstance(digits, Absent):
        return absent("MNIST", digits.why)
    found = little_digits.outcomes(settings, digits)
    return Findings(
        numbers={name: one.numbers() for name, one in found.items()},
        figures={
            ERRORS: little_pictures.errors(found, MOST, PUBLISHED),
            RAMPS: little_pictures.published_ramps(),
        },
        captions={
            ERRORS: "MNIST with 100 labels: every method on the same draws of labels, beside "
            "published errors.",
            RAMPS: "How the weight of inputs without labels grows and how the learning rate ends, "
            "as published (300 epochs); here, the weight has the same shape and the learning rate "
            "falls along half a cosine.",
        },
        comparisons=compared(found),
        text="\n\n".join([DIGITS, errors_table(found)]),
    )
