"""Tables and words of the part on generalization."""

from typing import Any

import numpy as np

from nescio.evaluation import RandomLabels
from nescio_papers.kit import Sample, sample, table
from nescio_papers.robust_deep_learning.generalization_widths import Sweep


def stated(values: Any) -> str:
    """A mean over seeds with its interval; a dash where a seed has no number."""
    return str(sample(values)) if np.isfinite(np.asarray(values, dtype=float)).all() else "–"


def percent(one: Sample) -> str:
    """A share with its interval, in per cent."""
    return f"{100 * one.mean:.1f} ± {100 * one.half:.1f} %"


def peak_words(one: Sweep) -> str:
    """Where the mean squared error peaks, as a width and relative to the threshold."""
    peak = int(np.array(one.values("squared_error")).mean(1).argmax())
    return f"width {one.widths[peak]} ({one.ratios[peak]:.2f} of the threshold)"


def sweep_table(one: Sweep) -> str:
    """Means over seeds by width."""
    names = {
        "train_error": "training error",
        "test_error": "test error",
        "squared_error": "squared error",
        "ece": "ECE",
        "confidence": "confidence",
        "confidence_far": "at 10 times the image",
        "far_field": "limit",
        "ood_auroc": "AUROC, Fashion-MNIST",
    }
    rows = [
        [
            str(width),
            f"{ratio:.2f}",
            *(f"{np.mean(np.array(one.values(name)[i], dtype=float)):.3g}" for name in names),
        ]
        for i, (width, ratio) in enumerate(zip(one.widths, one.ratios, strict=True))
    ]
    return table(["width", "of the threshold", *names.values()], rows)


def labels_table(found: RandomLabels) -> str:
    """Means over seeds by share of random labels, with intervals."""
    names = {
        "train": "training accuracy",
        "epochs_to_fit": "epochs to fit",
        "slow_down": "slow-down",
        "test": "test accuracy",
        "ece": "ECE",
        "confidence": "confidence",
        "far_field": "limit far away",
        "far_factor": "factor to 99.9 %",
    }
    columns = {name: getattr(found, name) for name in names}
    rows = [
        [f"{100 * share:g} %"]
        + [stated(v[i, :, -1] if v.ndim == 3 else v[i]) for v in columns.values()]
        for i, share in enumerate(found.shares)
    ]
    return table(["random labels", *names.values()], rows)
