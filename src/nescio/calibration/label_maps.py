"""Calibration of several labels: a map for each, or one that all share."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import Tensor

from nescio.calibration.map import KIND, Map, fit
from nescio.core import (
    Array,
    Categorical,
    MultiLabel,
    NescioError,
    as_tensor,
    check_ignore_index,
    check_label_table,
    save_tensors,
    without_ignored,
)


@dataclass(frozen=True, eq=False)
class LabelMaps:
    """A calibration of each label; fitted by `nescio.calibration.fit_labels`.

    maps: the fitted calibration of each label, in their order.
    """

    maps: tuple[Map, ...]

    def __call__(self, prediction: MultiLabel) -> MultiLabel:
        """The calibrated `prediction` of several labels."""
        if not isinstance(prediction, MultiLabel) or prediction.count != len(self.maps):
            raise NescioError(
                f"this calibration is of {len(self.maps)} labels; give the prediction of the "
                "network it was fitted for, with the head 'multilabel'"
            )
        parts = [one(prediction.label(k)).member_log_probs for k, one in enumerate(self.maps)]
        odds = [logs[..., 1] - logs[..., 0] for logs in parts]
        return MultiLabel(torch.stack(odds, -1).clamp(-LARGEST, LARGEST))

    @property
    def temperatures(self) -> tuple[float, ...]:
        """What the logits of each label are divided by."""
        return tuple(one.temperature for one in self.maps)

    @property
    def slope(self) -> NoReturn:
        """Raises `NescioError`, since each label has its own map: see `maps`."""
        raise NescioError(
            "each label has its own calibration; choose one: head=nescio.heads.binary(label=0)"
        )

    intercept = temperature = classes = slope

    def manifest(self) -> dict[str, Any]:
        """All but the tensors, as JSON."""
        return {"labels": [one.manifest() for one in self.maps]}

    @property
    def state(self) -> dict[str, Tensor]:
        """The numbers of all labels, by name."""
        each = enumerate(self.maps)
        return {f"{k}/{name}": t for k, one in each for name, t in one.state.items()}

    @classmethod
    def from_manifest(cls, manifest: Mapping[str, Any], state: Mapping[str, Tensor]) -> "LabelMaps":
        """The maps that `manifest()` and `state` are of."""
        maps = []
        for k, one in enumerate(manifest["labels"]):
            start = f"{k}/"
            own = {n.removeprefix(start): t for n, t in state.items() if n.startswith(start)}
            maps.append(Map.from_manifest(one, own))
        return cls(tuple(maps))

    def save(self, path: str | Path) -> Path:
        """Write one safetensors file at `path`, with the manifest inside, and return the path."""
        save_tensors(Path(path), self.state, {"kind": KIND, **self.manifest()})
        return Path(path)


LARGEST = 1e6  # log-odds; a step map gives infinite ones


def fit_labels(
    name: str,
    prediction: MultiLabel | Array,
    labels: Array,
    *,
    shared: bool = False,
    ignore_index: int | None = None,
    **options: Any,
) -> LabelMaps:
    """The calibration of a name for each label, fitted on calibration samples.

    name: name of the calibration, such as `"temperature"`; `nescio list calibrators` shows all.
    prediction: a prediction of several labels, or logits `(N, K)`.
    labels: true labels, 0 or 1, `(N, K)`.
    shared: whether to fit one map on all labels together: for few samples or rare labels.
    ignore_index: what `labels` holds where a label is not known and is left out; None: all count.
    options: options of the calibration, such as `bins=20` of `histogram`.
    """
    if not isinstance(prediction, MultiLabel):
        logits = as_tensor(prediction, "logits")
        prediction = MultiLabel(logits[None] if logits.ndim == 2 else logits)
    y, index = as_tensor(labels, "labels"), check_ignore_index(ignore_index, 2)
    check_label_table(without_ignored(y, index)[0], prediction.count, (len(prediction),))
    y, options = y.long(), {**options, "ignore_index": index}
    parts = [prediction.label(k) for k in range(prediction.count)]
    if shared:
        one = fit(name, Categorical.join(parts), y.T.flatten(), **options)
        return LabelMaps((one,) * prediction.count)
    return LabelMaps(tuple(_fit(name, k, part, y[:, k], options) for k, part in enumerate(parts)))


def _fit(
    name: str, number: int, part: Categorical, labels: Tensor, options: Mapping[str, Any]
) -> Map:
    try:
        return fit(name, part, labels, **options)
    except NescioError as error:
        raise NescioError(
            f"label {number}: {error}; shared=True fits one calibration for all labels"
        ) from error
