"""Several labels at once: each is there or not, whatever the others are."""

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional as F

from nescio.core.errors import NescioError
from nescio.core.prediction import Categorical, Prediction


@dataclass(frozen=True, eq=False, repr=False)
class MultiLabel(Prediction):
    """K labels, each 0 or 1, by logits `(M, *batch, K)`; independent within a member.

    `label(k)` is the prediction of one label, of two classes: whatever reads classes reads it.

    >>> p = MultiLabel(torch.tensor([[[2.0, -1.0, 0.5]]]))
    >>> p.labels
    tensor([[1, 0, 1]])

    logits: logits of each member, `(M, *batch, K)`.
    """

    logits: Tensor
    _last = "K"

    def _check(self) -> None:
        if self.logits.isinf().any():
            raise NescioError("MultiLabel: logits must be finite; check the network's inputs")

    @property
    def count(self) -> int:
        """K, the number of labels."""
        return self.logits.shape[-1]

    @cached_property
    def probs(self) -> Tensor:
        """The probability of each label under the mixture, `(*batch, K)`."""
        return self.logits.sigmoid().mean(0)

    @cached_property
    def labels(self) -> Tensor:
        """1 where a label is more likely than not, `(*batch, K)`; as `label(k).labels`."""
        chosen = [self.label(k).labels for k in range(self.count)]
        return torch.stack(chosen, -1)

    def label(self, number: int) -> Categorical:
        """The prediction of the label `number`: class 1 where it is there, class 0 where not."""
        return Categorical(two_logits(self.logits, label=number))

    def log_prob(self, target: Tensor) -> Tensor:
        """Log probability of all labels `target` `(*batch, K)` together, `(*batch,)`."""
        y = check_label_table(target, self.count, self.batch_shape).to(self.logits)
        own = (y * F.logsigmoid(self.logits) + (1 - y) * F.logsigmoid(-self.logits)).sum(-1)
        return own.logsumexp(0) - math.log(self.members)


def two_logits(outputs: Tensor, *, label: int | None = None) -> Tensor:
    """Logits `(..., 2)` of two classes, 0 and z, from one logit z."""
    count = outputs.shape[-1]
    if label is None and count != 1:
        raise NescioError(
            f"the binary head reads one logit, the network has {count} outputs; for one of several "
            "labels give its number, heads.binary(label=0); classes have the head categorical"
        )
    if label is not None and not 0 <= label < count:
        raise NescioError(f"label {label} of {count} outputs; they are numbered from 0")
    z = outputs if label is None else outputs[..., label : label + 1]
    return torch.cat([torch.zeros_like(z), z], -1)


def check_label_table(labels: Tensor, count: int, shape: tuple[int, ...] | torch.Size) -> Tensor:
    """Labels 0 or 1 of shape `(*shape, count)` as int64, or an error that says what is wrong."""
    if tuple(labels.shape) != (*shape, count):
        raise NescioError(
            f"labels have shape {tuple(labels.shape)}, expected {(*shape, count)}: a column of 0 "
            "and 1 for each label"
        )
    return zero_one(labels)


def zero_one(labels: Tensor) -> Tensor:
    """Labels 0 and 1 of any number type as int64; others are refused."""
    wrong = ~((labels == 0) | (labels == 1))
    if bool(wrong.any()):
        first = labels[wrong].flatten()[0].item()
        raise NescioError(f"labels must be 0 or 1, got {first:g}; renumber them")
    return labels.long()
