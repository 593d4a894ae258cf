"""What a guard of label maps says about images: a label for each pixel, or none."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nescio.core import NescioError, as_tensor, check_ignore_index, without_ignored


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class MapDecisions:
    """Labels of the pixels of N images, and which of them are answers.

    labels: the most probable class, `(N, H, W)`; -1 where image or logits are not finite.
    answered: which labels are answers, `(N, H, W)`; of the others nothing is said.
    failure_score: failure score, `(N, H, W)`, larger = the label is more likely wrong.
    in_range: whether all numbers of the image are in the range of calibration, `(N,)`.
    ignore_index: label of pixels without a class in the calibration data; None: every pixel has
      one.
    names: names of the classes; None: they are numbers.
    """

    labels: Tensor
    answered: Tensor
    failure_score: Tensor
    in_range: Tensor
    ignore_index: int | None = None
    names: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, chosen: slice | Tensor | list[int]) -> "MapDecisions":
        """Some of the images: a slice, indices or a mask."""
        tensors = {name: one for name, one in vars(self).items() if isinstance(one, Tensor)}
        return replace(self, **{name: one[chosen] for name, one in tensors.items()})  # type: ignore[arg-type]

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.labels.shape))
        return f"MapDecisions({shape} pixels: {float(self.coverage.mean()):.1%} answered)"

    @classmethod
    def join(cls, parts: Sequence["MapDecisions"]) -> "MapDecisions":
        """The decisions of all `parts`, in their order."""
        if not parts:
            raise NescioError("nothing to join: the list of decisions is empty")
        tensors = [name for name, one in vars(parts[0]).items() if isinstance(one, Tensor)]
        joined = {name: torch.cat([getattr(part, name) for part in parts]) for name in tensors}
        return replace(parts[0], **joined)  # type: ignore[arg-type]

    @property
    def coverage(self) -> Tensor:
        """The share of each image's pixels that are answered, `(N,)`."""
        return self.answered.flatten(1).double().mean(1)

    def losses(self, truth: Any) -> Tensor:
        """The share of each image's labeled pixels that are answered and wrong, `(N,)`.

        This is what the guard bounds. NaN for an image without a labeled pixel.

        truth: true classes, `(N, H, W)`.
        """
        wrong, known = self._compared(truth)
        return wrong.flatten(1).sum(1) / known.flatten(1).sum(1)

    def summary(self, truth: Any = None) -> dict[str, Any]:
        """The number of images and the mean share of answered pixels; with true labels the risk.

        "images" is a count; "answered" is the mean share of an image's pixels; "risk" is the mean
        share of an image's labeled pixels that are answered and wrong, which is bounded;
        "selective_risk" is the share of wrong ones among all answered pixels, which is not.

        truth: true classes, `(N, H, W)`; None: unknown.
        """
        outside = int((~self.in_range).sum())
        found: dict[str, Any] = {"images": len(self), "answered": float(self.coverage.mean())}
        found["out_of_range"] = outside / max(1, len(self))
        if truth is None:
            return found
        losses = self.losses(truth)
        wrong, known = self._compared(truth)
        answers = int((self.answered & known).sum())
        labeled = ~losses.isnan()
        found["labeled"] = int(labeled.sum())
        found["risk"] = float(losses[labeled].mean()) if labeled.any() else None
        found["selective_risk"] = int(wrong.sum()) / answers if answers else None
        return found

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Arrays by name, as an .npz file holds them."""
        return {
            "label": self.labels.cpu().numpy().astype(np.int32),
            "answered": self.answered.cpu().numpy(),
            "failure_score": self.failure_score.cpu().numpy().astype(np.float32),
            "in_range": self.in_range.cpu().numpy(),
        }

    def _compared(self, truth: Any) -> tuple[Tensor, Tensor]:
        """Which pixels are answered and wrong, and which have a label."""
        y = as_tensor(truth, "labels").to(self.labels.device)
        if y.shape != self.labels.shape or y.is_floating_point():
            raise NescioError(
                f"labels must be whole numbers of shape {tuple(self.labels.shape)}, got {y.dtype} "
                f"{tuple(y.shape)}"
            )
        counts = without_ignored(y, check_ignore_index(self.ignore_index))[1]
        known = torch.ones_like(self.answered) if counts is None else counts
        return self.answered & known & (self.labels != y.long()), known
