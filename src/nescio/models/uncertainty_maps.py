"""Maps of aleatoric and epistemic uncertainty in bounded memory (Kendall and Gal, 2017).

The members come in parts, and only the statistics of those so far are in memory: their mean
probabilities p, the mean entropy of a member, and the mutual information. Two parts of shares a and
b, with means p and q and m = a p + b q, are joined without cancellation: the information of both
together is a I(p) + b I(q) + a KL(p || m) + b KL(q || m).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from nescio.core import Categorical, Classification, NescioError, Prediction, measures
from nescio.data import door
from nescio.models.model import encoding_of, takes_tokens
from nescio.models.predictor import Predictor, plain

BLOCK = 1 << 19  # logits of all members whose statistics are computed at a time
OUTPUTS = 32 << 20  # bytes of the predictions of one part, of predictors that have no parts


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class UncertaintyMaps:
    """The labels of N images and how uncertain they are, pixel by pixel; entropies in nats.

    labels: the most probable class, `(N, H, W)`.
    least_confidence: one minus the largest probability, `(N, H, W)`.
    predictive_entropy: total uncertainty, `(N, H, W)`.
    expected_entropy: aleatoric uncertainty, the mean entropy of the members, `(N, H, W)`.
    mutual_information: epistemic uncertainty, how much the members disagree, `(N, H, W)`.
    probs: probabilities of the mixture, `(N, H, W, C)`, where they were asked for.
    members: number of members.
    """

    labels: Tensor
    least_confidence: Tensor
    predictive_entropy: Tensor
    expected_entropy: Tensor
    mutual_information: Tensor
    probs: Tensor | None = None
    members: int

    @property
    def confidence(self) -> Tensor:
        """The largest probability, `(N, H, W)`."""
        return 1 - self.least_confidence

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, chosen: slice | Tensor | list[int]) -> "UncertaintyMaps":
        """The maps of some of the images: a slice, indices or a mask."""
        named = {name: one for name, one in vars(self).items() if isinstance(one, Tensor)}
        return replace(self, **{name: one[chosen] for name, one in named.items()})  # type: ignore[arg-type]

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.labels.shape))
        return f"UncertaintyMaps({self.members} member(s), {shape})"


def uncertainty_maps(
    predictor: Predictor | nn.Module, x: Any, *, probs: bool = False
) -> UncertaintyMaps:
    """Labels, confidence, total, aleatoric and epistemic uncertainty of each pixel or step.

    The numbers are those of `nescio.measures`, but the prediction of all members `(M, N, H, W, C)`
    is never in memory: members and images are gone through in parts.

    >>> from nescio import models, nets
    >>> net = nets.dilated_cnn((3, 9, 12), 4, width=4, dropout=0.5)
    >>> maps = uncertainty_maps(models.mc_dropout(net, passes=5), torch.rand(2, 3, 9, 12))
    >>> maps.labels.shape, bool((maps.mutual_information >= 0).all())
    (torch.Size([2, 9, 12]), True)

    predictor: a network, a model, MC dropout or any other predictor of classes.
    x: the inputs `(N, ...)`.
    probs: whether to give the mean probabilities `(N, H, W, C)`, too.
    """
    predictor = plain(predictor) if isinstance(predictor, nn.Module) else predictor
    x = door.as_network_inputs(
        x, dtype=None, tokens=takes_tokens(predictor), columns=encoding_of(predictor)
    )
    whole: dict[str, Tensor] = {}
    start = members = 0
    for mixture in _mixtures(predictor, x):
        part, members = mixture.maps(probs), mixture.members
        if not whole:  # made once: small pieces for each part would leave holes in memory
            whole = {n: one.new_empty((len(x), *one.shape[1:])) for n, one in part.items()}
        rows = slice(start, start + len(mixture.probs))
        for name, one in part.items():
            whole[name][rows] = one
        start = rows.stop
    return UncertaintyMaps(**whole, members=members)


@dataclass(frozen=True, eq=False, kw_only=True)
class Mixture:
    """Statistics of some members for some samples."""

    members: int
    probs: Tensor  # (n, *axes, C) float64, their mean
    entropy: Tensor  # (n, *axes) mean entropy of a member
    information: Tensor  # (n, *axes)

    @classmethod
    def of(cls, prediction: Prediction) -> "Mixture":
        """The statistics of a prediction of classes."""
        if not isinstance(prediction, Classification):
            raise NescioError(
                f"uncertainty maps are of predictions of classes, got a {type(prediction).__name__}"
            )
        if type(prediction) is Categorical:
            return cls.of_logits(prediction.logits)
        return cls(
            members=prediction.members,
            probs=prediction.probs.double(),
            entropy=measures.expected_entropy(prediction),
            information=measures.mutual_information(prediction),
        )

    @classmethod
    def of_logits(cls, logits: Tensor) -> "Mixture":
        """The same from logits `(M, n, *axes, C)`, in blocks of pixels that stay in the cache.

        A network gives `(M, n, C, *axes)`, and sums over the classes are quickest in this order.
        """
        members, count, classes = *logits.shape[:2], logits.shape[-1]
        table = logits.movedim(-1, 2).reshape(members, count, classes, -1)
        pixels = table.shape[-1]
        mean = table.new_empty(count, classes, pixels)
        entropy, information = table.new_empty(2, count, pixels)
        most = max(1, BLOCK // (members * classes))
        rows, columns = max(1, most // pixels), min(most, pixels)
        for i, j in product(range(0, count, rows), range(0, pixels, columns)):
            at, to = slice(i, i + rows), slice(j, j + columns)
            found = _block(table[:, at, :, to])
            mean[at, :, to], entropy[at, to], information[at, to] = found
        shape = logits.shape[1:-1]
        return cls(
            members=members,
            probs=mean.movedim(1, -1).reshape(*shape, classes).double(),
            entropy=entropy.reshape(shape),
            information=information.reshape(shape),
        )

    def joined(self, other: "Mixture") -> "Mixture":
        """Those of both groups of members together."""
        members = self.members + other.members
        a, b = self.members / members, other.members / members
        probs = a * self.probs + b * other.probs
        between = a * _divergence(self.probs, probs) + b * _divergence(other.probs, probs)
        within = a * self.information + b * other.information
        return Mixture(
            members=members,
            probs=probs,
            entropy=a * self.entropy + b * other.entropy,
            information=within + between.clamp_min(0),
        )

    def maps(self, probs: bool) -> dict[str, Tensor]:
        """What `UncertaintyMaps` holds of these samples."""
        labels = self.probs.argmax(-1)
        others = self.probs.scatter(-1, labels[..., None], 0.0).sum(-1)
        small = self.entropy.dtype
        return {
            "labels": labels,
            "least_confidence": others.to(small),
            "predictive_entropy": measures.entropy(self.probs.log()).to(small),
            "expected_entropy": self.entropy,
            "mutual_information": self.information.to(small),
            **({"probs": self.probs.to(small)} if probs else {}),
        }


def _block(logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Mean probabilities, mean entropy and information of logits `(M, n, C, P)`."""
    least = torch.finfo(logits.dtype).min  # -inf times 0 would be NaN
    logs = logits.log_softmax(2).clamp_min_(least)
    probs = logs.exp()
    mean = probs.mean(0)
    entropy = (probs * logs).sum(2).mean(0).neg_()
    if len(logits) == 1:
        return mean, entropy, 0 * entropy  # NaN stays NaN
    gaps = logs.sub_(mean.log().clamp_min_(least)).mul_(probs).sum(2).mean(0)
    return mean, entropy, gaps.clamp_min_(0)


def _divergence(probs: Tensor, mean: Tensor) -> Tensor:
    """KL(probs || mean) over the last axis; the mean is 0 only where `probs` are."""
    return torch.where(probs == 0, 0.0, probs * (probs / mean).log()).sum(-1)


def _mixtures(predictor: Predictor, x: Any) -> Iterator[Mixture]:
    """The statistics of all members, some samples after others."""
    before, found = 0, None
    for start, prediction in _streamed(predictor, x):
        part = Mixture.of(prediction)
        if found is not None and start == before:
            found = found.joined(part)
            continue
        if found is not None:
            yield found
        before, found = start, part
    if found is None:
        raise NescioError("there are no inputs; give at least one image")
    yield found


def _streamed(predictor: Predictor, x: Any) -> Iterator[tuple[int, Prediction]]:
    """Parts of a prediction, as `MCDropout.streamed`; all members at once of other predictors."""
    own = getattr(predictor, "streamed", None)
    if callable(own):
        yield from own(x)
        return
    first = predictor(x[:1])
    yield 0, first
    size = first.members * first.batch_shape.numel() * getattr(first, "classes", 1)
    count = max(1, OUTPUTS // (size * 4))
    for start in range(1, len(x), count):
        yield start, predictor(x[start : start + count])
