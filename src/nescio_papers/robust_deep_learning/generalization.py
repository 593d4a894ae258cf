"""Part `generalization`: random labels, Rademacher complexity, double descent."""

from torch import Tensor

from nescio.core import Floats
from nescio.evaluation import RandomLabels
from nescio.evaluation.compare import Absent
from nescio.report.plots.random_labels_plot import random_labels_plot
from nescio_papers.kit import (
    WHOLE,
    Findings,
    InData,
    OODSet,
    Settings,
    absent,
    all_images,
    joined,
    ood_images,
)
from nescio_papers.robust_deep_learning import (
    generalization_labels,
    generalization_pictures,
    generalization_signs,
    generalization_tables,
    generalization_widths,
)

LEARNING, SHARES, SIGNS, WIDTHS = (
    f"generalization-{name}.png" for name in ("learning", "random-labels", "signs", "widths")
)
INTRODUCTION = (
    "Can networks fit anything, and what does that cost? Networks on subsets of MNIST, whose "
    "labels are made random (Zhang et al., 2017), and networks of growing width (Belkin et al., "
    "2019). Beside the errors stand the calibration on test data and the confidence far from all "
    "data, which is exact for ReLU networks (`nescio.geometry`). Intervals are those of the mean "
    "over seeds (95 %, Student's t); differences are paired by seed."
)


def run(settings: Settings) -> Findings:
    """Random labels, random signs, then the width."""
    digits = all_images("mnist")
    if isinstance(digits, Absent):
        return absent("MNIST", digits.why)
    parts = {
        "random_labels": _labels(settings, digits),
        "rademacher": _signs(settings, digits),
        "double_descent": _widths(settings, digits),
    }
    return joined(parts, INTRODUCTION)


def _labels(settings: Settings, digits: InData) -> Findings:
    sizes = generalization_labels.budget(settings)
    found = generalization_labels.by_share(settings, digits)
    others = generalization_labels.by_inputs(settings, digits)
    text = (
        f"{found.samples} digits, {sizes.test} for tests; networks 784-{sizes.width}-10, Adam at "
        f"0.001, batches of 100, {sizes.seeds} seeds, until all labels of all networks are fitted "
        "or the epochs are over. Shuffled pixels: one order for all images; random pixels: an "
        "order for each image; Gaussian: noise with the mean and spread of the pixels."
    )
    return Findings(
        numbers={name: values.tolist() for name, values in _arrays(found).items()}
        | {kind: one.epochs_to_fit.tolist() for kind, one in others.items()}
        | {"shares": list(found.shares), "samples": found.samples},
        figures={
            LEARNING: generalization_pictures.learning(found, others),
            SHARES: random_labels_plot(
                found, title=f"{found.samples} MNIST labels, of which a share is random"
            ),
        },
        captions={
            LEARNING: "Learning curves as in the lecture's figure (a): noise in place of digits is "
            "fitted soonest, random labels of true digits last.",
            SHARES: "Slow-down (b) and generalization error (c) by the share of random labels, "
            "with calibration and the distance at which the confidence is 99.9 %.",
        },
        text="\n\n".join([text, generalization_tables.labels_table(found)]),
    )


def _arrays(found: RandomLabels) -> dict[str, Floats]:
    ends = {name: getattr(found, name)[..., -1] for name in ("train", "test", "ece", "confidence")}
    ends |= {name: getattr(found, name)[..., -1] for name in ("far_field", "far_factor")}
    return {**ends, "epochs_to_fit": found.epochs_to_fit, "slow_down": found.slow_down}


def _signs(settings: Settings, digits: InData) -> Findings:
    found = generalization_signs.complexities(settings, digits)
    return Findings(
        numbers={
            name: {str(one.samples): one.values.tolist() for one in each}
            for name, each in found.items()
        },
        figures={SIGNS: generalization_pictures.complexities(found)},
        captions={
            SIGNS: "Networks fit every sign. So does a linear classifier, since digits have some "
            "600 dimensions and the signs of up to about twice as many can be separated (Cover, "
            "1965); Adam does not find that. Linear functions of a bounded norm do not fit them, "
            "and their complexity falls like 1 / sqrt(n)."
        },
        text="Rademacher complexity: the mean over draws of random signs of the best correlation "
        "that a class reaches. By training with Adam it is a lower bound; for linear classifiers "
        "Newton's method on the squared hinge loss finds more, and a value of 1 is exact; linear "
        "functions of a bounded norm, whose values lie between -1 and 1, have a closed form.",
    )


def _widths(settings: Settings, digits: InData) -> Findings:
    other = ood_images(OODSet(data="fashion_mnist", options=WHOLE))
    ood: Tensor | None = None if isinstance(other, Absent) else other
    found = generalization_widths.sweeps(settings, digits, ood)
    sizes = generalization_widths.budget(settings)
    text = (
        f"Squared error on one-hot labels. Random features: {sizes.samples} digits, true labels, "
        "the last layer by least squares with the smallest norm (float64). Both layers trained: "
        f"{sizes.trained_samples} digits of 14x14 pixels, {100 * sizes.noise:g} % of the labels "
        f"random, {sizes.updates} full-batch updates of Adam. {sizes.seeds} seeds, each with its "
        "own digits. Confidence is the largest of the nearest probabilities to the outputs; the "
        "limit is exact, and only ReLU networks have one. The score against Fashion-MNIST is the "
        "largest output."
    )
    tables = [f"{one.kind}:\n\n{generalization_tables.sweep_table(one)}" for one in found]
    return Findings(
        numbers={
            one.kind: {
                "samples": one.samples,
                "widths": one.widths,
                "ratios": one.ratios,
                "numbers": one.numbers,
            }
            for one in found
        },
        figures={WIDTHS: generalization_pictures.descent(found)},
        captions={
            WIDTHS: "The peaks: "
            + "; ".join(f"{one.kind}: {generalization_tables.peak_words(one)}" for one in found)
            + "."
        },
        text="\n\n".join([text, *tables]),
        skipped={"Fashion-MNIST": other.why} if isinstance(other, Absent) else {},
    )
