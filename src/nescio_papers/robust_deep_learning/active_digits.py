"""Part `active-learning`: MNIST from 20 labels, and MNIST with every image three times."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from torch import Tensor

from nescio.applications.active_learning import Curves
from nescio.core import as_batch
from nescio.evaluation.compare import Absent
from nescio.report.plots.learning_curve_plot import learning_curves
from nescio_papers.kit import Claim, Findings, Settings, absent, spread
from nescio_papers.robust_deep_learning.active_pictures import asked_figure
from nescio_papers.robust_deep_learning.active_runs import (
    BALD,
    BATCH,
    BATCH_OF_5,
    COPIES,
    DELTA_BALD,
    DELTA_CONFIDENCE,
    DELTA_ENTROPY,
    DROPOUT,
    ENTROPY,
    HIDDEN,
    MNIST,
    NOISE,
    RANDOM,
    RATIO,
    REPEATED,
    START,
    STEP,
    Budget,
    budget,
    curves,
    digits,
)
from nescio_papers.robust_deep_learning.active_transfer import (
    Errors,
    transfer_claim,
    transfer_table,
    transferred,
)
from nescio_papers.robust_deep_learning.active_verdicts import (
    Named,
    comparisons,
    distinct,
    numbers,
    overview,
)
from nescio_papers.robust_deep_learning.active_verdicts import judge as judge_curves

ERRORS, POSTERIORS = "active-learning-errors.png", "active-learning-posteriors.png"
ON_COPIES = "active-learning-repeated.png"
ASKED, COPIES_ASKED = "active-learning-asked.png", "active-learning-copies.png"
UNDER_DROPOUT = (RANDOM, BALD, BATCH, BATCH_OF_5, RATIO, ENTROPY)
BATCHES = 2  # that are shown
BY_POSTERIOR = (RANDOM, BALD, DELTA_BALD, RATIO, DELTA_CONFIDENCE, ENTROPY, DELTA_ENTROPY)


def run(settings: Settings) -> Findings:
    """Learning curves of all methods, judged and drawn."""
    sizes = budget(settings)
    images = digits(sizes)
    if isinstance(images, Absent):
        return absent("MNIST", images.why)
    every = curves(settings)
    found, repeated = every[MNIST], every[REPEATED]
    other = transferred(settings, found, images)
    copied = spread(images.train, sizes.copied)[0]
    return Findings(
        numbers={
            **{pool: numbers(part) for pool, part in every.items()},
            "different_images": {
                name: distinct(own, len(copied)) for name, own in repeated.items()
            },
            "convolutions": {
                str(labels): {name: own.numbers() for name, own in row.items()}
                for labels, row in other.items()
            },
            "processor_seconds": _seconds(found, repeated),
        },
        figures=_figures(found, repeated, images.train[0], copied),
        captions=CAPTIONS,
        comparisons=comparisons(found),
        text=_text(every, other, sizes, (len(images.train[0]), len(copied))),
    )


def judge(numbers: Mapping[str, Any]) -> list[Claim]:
    """The claims by stored numbers: those of the curves, and of labels that another network has."""
    return [] if "absent" in numbers else [*judge_curves(numbers), transfer_claim(numbers)]


def _seconds(*parts: Named) -> float:
    return float(sum(own.seconds.sum() for part in parts for own in part.values()))


def _figures(found: Named, repeated: Named, pool: Tensor, copied: Tensor) -> dict[str, Figure]:
    shown = {
        name: _batches(found[name], len(pool)) for name in (RANDOM, BALD, BATCH, RATIO, ENTROPY)
    }
    copies = {name: _batches(repeated[name], len(copied)) for name in (RANDOM, BALD, BATCH)}
    curves = {
        ERRORS: ("acquisitions under MC dropout", {name: found[name] for name in UNDER_DROPOUT}),
        POSTERIORS: (
            "MC dropout or a delta posterior",
            {name: found[name] for name in BY_POSTERIOR},
        ),
        ON_COPIES: (f"each image {COPIES} times, with noise", repeated),
    }
    return {
        **{
            file: learning_curves(part, title=f"Active learning on MNIST: {what}", show="error")
            for file, (what, part) in curves.items()
        },
        ASKED: asked_figure(as_batch(pool), shown, "The first images that were asked for"),
        COPIES_ASKED: asked_figure(
            as_batch(copied), copies, "The first images that were asked for on repeated MNIST"
        ),
    }


def _batches(curves: Curves, images: int) -> list[list[int]]:
    """The first batches of the first seed, as images of MNIST."""
    size = int(curves.settings["size"])
    first = curves.acquired[0, START : START + BATCHES * size] % images
    return [batch.tolist() for batch in np.split(first, range(size, len(first), size))]


CAPTIONS = {
    ERRORS: "Test error on MNIST against the number of labels, under MC dropout: means "
    "over seeds with 95 % intervals.",
    POSTERIORS: "Test error under MC dropout and under a delta posterior, the network as it is: "
    "the curve of BALD is then that of random choice.",
    ON_COPIES: "The same where each image is in the pool three times, with small noise.",
    ASKED: "The first two batches of ten images that the first seed asked for, after the same 20 "
    "labels.",
    COPIES_ASKED: "The same on repeated MNIST: BALD asks for several copies of one image.",
}


def _text(every: Mapping[str, Named], other: Errors, sizes: Budget, images: tuple[int, int]) -> str:
    pool, copied = images
    return "\n\n".join(
        [
            f"From {START} labels, two of each digit, {STEP} more at a time. The pool is all "
            f"{pool:,} training images; in each step {sizes.candidates:,} of them without a label "
            f"are drawn and scored. Repeated MNIST has {copied:,} of the images, each {COPIES} "
            f"times with noise of {NOISE:.3f} (pixels are in [0, 1]); all {COPIES * copied:,} are "
            f"scored. {sizes.seeds} seeds; the start of a seed is the same for all methods, so "
            "differences are taken in pairs. Networks start from new weights in each step, and "
            "all seeds are trained together. Repeated MNIST, BatchBALD with 5 at a time and "
            f"BALD and entropy under a delta posterior end at {sizes.few} labels.",
            "**The networks are not those of the published runs.** They have fixed filters, which "
            "are not learned (amplitudes of 8 directions at 2 scales, and brightness, at 7x7 "
            f"positions), then a hidden layer of {HIDDEN} units with dropout {DROPOUT} and the "
            "classes. The published networks learn their convolutions, which would take several "
            "times the hour on two cores that this experiment may take; at the end of this page "
            "such a network learns from the same labels. "
            f"Each network is trained with {sizes.updates} updates of Adam (batches of "
            f"{sizes.batch}, learning rate {sizes.rate:g} falling as a cosine), without "
            "augmentation and without validation labels. Filters and training were chosen with "
            "pools of the first 50,000 training images and the accuracy on the other 10,000, never "
            f"on test images. Posterior: {sizes.passes} passes of MC dropout, or the network as it "
            "is (delta). Test errors are those of the network without dropout, for all methods, so "
            "that only the labels differ.",
            f"All curves took {_seconds(*every.values()) / 60:.0f} minutes of one processor core, "
            "on a busy machine, without the features of images and the learned convolutions.",
            *(part for name, found in every.items() for part in (f"{name}:", overview(found))),
            "Test errors of a network that learns its convolutions (32 and 64 of 5x5, then 128 "
            f"units; {sizes.convolution_updates} updates, not tuned), on labels that others chose:",
            transfer_table(other),
        ]
    )
