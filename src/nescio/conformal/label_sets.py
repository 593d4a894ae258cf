"""Prediction sets of several labels: for each the values 0 and 1 that it may have."""

from typing import Any

from nescio.conformal.sets import Sets
from nescio.core import Array, MultiLabel, as_tensor, check_label_table
from nescio.core.registry import conformal_methods


def label_sets(
    prediction: MultiLabel | Array,
    labels: Any,
    *,
    method: str = "threshold",
    miscoverage: float = 0.1,
    joint: bool = True,
    **options: Any,
) -> tuple[Sets, ...]:
    """Prediction sets for each of K labels; the k-th is called on `prediction.label(k)`.

    prediction: predictions of several labels on calibration data, or logits `(N, K)`.
    labels: true labels of the calibration data, 0 or 1, `(N, K)`.
    method: name of a kind of prediction set: `"threshold"`, `"adaptive"` or
      `"regularized_adaptive"`.
    miscoverage: share of new samples of which some label may be missed; with `joint=False` the
      share that may be missed of each label by itself.
    joint: whether the guarantee is for all labels together (Bonferroni: each gets a K-th of the
      miscoverage).
    options: options of the method, such as `randomize`.
    """
    if not isinstance(prediction, MultiLabel):
        logits = as_tensor(prediction, "logits")
        prediction = MultiLabel(logits[None] if logits.ndim == 2 else logits)
    count = prediction.count
    y = check_label_table(as_tensor(labels, "labels"), count, (len(prediction),))
    share = miscoverage / count if joint else miscoverage  # Bonferroni
    calibrate = conformal_methods[method]
    made: list[Sets] = [
        calibrate(prediction.label(k), y[:, k], miscoverage=share, **options) for k in range(count)
    ]
    return tuple(made)
