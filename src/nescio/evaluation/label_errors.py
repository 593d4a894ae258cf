"""Likely wrong labels: samples whose label a network, and their neighbors, speak against."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from nescio.conformal import binomial_interval
from nescio.core import NescioError, check_labels, generator
from nescio.detectors import Activations, Detector, trust_score
from nescio.metrics import Interval

LAYER = "features"  # the name of the layer, whichever it is
LISTED = 20  # suspects that are described
ROWS = 2000  # row numbers that are named
PLANTED = 0.02  # share of the labels that the check changes
TRAINING = 20_000  # training samples that have a say, at most
ODD = 0.05  # share of each class of the training features that is left out as odd, or mislabeled


@dataclass(frozen=True, kw_only=True)
class SuspectLabel:
    """A sample whose label may be wrong.

    sample: index of the sample.
    label: its label.
    predicted: the predicted class.
    confidence: probability of the predicted class.
    probability: probability of the label.
    score: how suspect the label is; larger is more suspect.
    """

    sample: int
    label: int
    predicted: int
    confidence: float
    probability: float
    score: float


@dataclass(frozen=True, kw_only=True)
class PlantedErrors:
    """A check on the same samples: labels that were changed at random, and how many are found."""

    changed: int
    found: Interval  # share of these that are in the list
    listed: int  # length of the list, found ones among it
    precision: Interval | None  # share of that list that was changed; None: it is empty


@dataclass(frozen=True, kw_only=True)
class LabelErrors:
    """Samples whose labels are likely wrong, the most suspect first.

    samples: number of all samples.
    count: number of suspect samples.
    suspects: the first 20 of them.
    rows: their indices, the most suspect first; at most 2,000.
    neighbors: whether training features have a say.
    planted: how many of some labels that were changed on purpose are found.
    """

    samples: int
    count: int
    suspects: tuple[SuspectLabel, ...]
    rows: tuple[int, ...]
    neighbors: bool
    planted: PlantedErrors


def find_label_errors(
    log_probs: Tensor,
    labels: Tensor,
    *,
    features: Tensor | Callable[[Tensor], Tensor] | None = None,
    train_features: Tensor | None = None,
    train_labels: Tensor | None = None,
    seed: int = 0,
) -> LabelErrors:
    """Samples whose labels are likely wrong, by a network that was not trained on them.

    A sample is in the list if a class other than its label has a probability at least as large as
    the samples with that label have on average (confident learning, Northcutt, Jiang and Chuang,
    2021) and, where features are given, if its nearest training sample of some other class is
    nearer than that of its label. The order is that of the recommended failure score, of the label:
    its log-odds, with the trust score added. A confident error of the network looks the same as a
    wrong label: a person has to look. The check changes 2 % of the labels.

    log_probs: log probabilities, `(N, C)`.
    labels: labels to check, `(N,)`.
    features: features of the samples, `(N, F)`, or a function of row numbers, as only some samples
      need them.
    train_features, train_labels: features of the same layer, and labels, of the training data.
    seed: seed of the random draws.
    """
    labels = check_labels(labels.cpu(), log_probs.shape[1], log_probs.shape[:1])
    if len(labels) < 2:
        raise NescioError(
            f"wrong labels stand out among others, there is only {len(labels)} sample"
        )
    bank = None
    if features is not None and train_features is not None and train_labels is not None:
        bank = _bank(train_features, train_labels, log_probs.shape[1], seed)
    changed, wrong = _changed(labels, seed)
    listed, relisted = (confident_disagreement(log_probs, y) for y in (labels, wrong))
    rows, trust = (listed | relisted).nonzero()[:, 0], None
    if bank is not None and len(rows):
        assert features is not None
        read = features(rows) if callable(features) else features[rows]
        trust, other = (_trust(bank, y[rows], read) for y in (labels, wrong))
        listed[rows] &= trust > 0
        relisted[rows] &= other > 0
    score = torch.zeros(len(labels), dtype=log_probs.dtype)
    score[rows] = label_scores(log_probs[rows], labels[rows], trust)
    order = _ranked(score, listed)
    return LabelErrors(
        samples=len(labels),
        count=len(order),
        suspects=tuple(_suspect(row, log_probs, labels, score) for row in order[:LISTED].tolist()),
        rows=tuple(order[:ROWS].tolist()),
        neighbors=bank is not None,
        planted=_planted(relisted, changed),
    )


def _suspect(row: int, log_probs: Tensor, labels: Tensor, score: Tensor) -> SuspectLabel:
    probs = log_probs[row].exp()
    return SuspectLabel(
        sample=row,
        label=int(labels[row]),
        predicted=int(probs.argmax()),
        confidence=float(probs.max()),
        probability=float(probs[labels[row]]),
        score=float(score[row]),
    )


def label_scores(log_probs: Tensor, labels: Tensor, trust: Tensor | None = None) -> Tensor:
    """How suspect each label is, `(N,)`: the log-odds of all other classes against it.

    log_probs: log probabilities, `(N, C)`.
    labels: labels to check, `(N,)`.
    trust: trust score of the labels, `(N,)`, added in units of its standard deviation over that of
      the log-odds: the recommended failure score, of the label instead of the answer. None: the
      log-odds alone.
    """
    own = labels[:, None]
    odds = log_probs.scatter(1, own, -torch.inf).logsumexp(1) - log_probs.gather(1, own)[:, 0]
    if trust is None or len(odds) < 2:
        return odds
    return odds + trust * odds.std() / trust.std().clamp_min(1e-300)


def _bank(features: Tensor, labels: Tensor, classes: int, seed: int) -> Detector | None:
    """The trust score of training samples; None where they hold one class only."""
    if len(labels.unique()) < 2:
        return None
    some = torch.randperm(len(labels), generator=generator(seed, "training"))[:TRAINING]
    said = torch.zeros(len(some), classes)
    known = Activations(logits=said, features={LAYER: features[some]}, labels=labels.cpu()[some])
    return trust_score(known, alpha=ODD, normalize=True)


def _trust(bank: Detector, labels: Tensor, features: Tensor) -> Tensor:
    """The trust score of labels `(n,)`, as if they were the answers."""
    said = F.one_hot(labels, bank.about["classes"]).double()
    return bank(Activations(logits=said, features={LAYER: features})).double().flatten()


def confident_disagreement(log_probs: Tensor, labels: Tensor) -> Tensor:
    """Samples that confident learning counts as another class than their label, `(N,)`.

    The most probable of the classes that reach their threshold, the mean probability of a class
    over the samples that are labeled so, is not the label.
    """
    probs, classes = log_probs.exp(), log_probs.shape[1]
    count = labels.bincount(minlength=classes)
    own = torch.zeros(classes, dtype=probs.dtype)
    own.index_add_(0, labels, probs.gather(1, labels[:, None])[:, 0])
    threshold = torch.where(count > 0, own / count.clamp_min(1), torch.inf)
    reached = torch.where(probs >= threshold, log_probs, -torch.inf)
    return (reached.amax(1) > -torch.inf) & (reached.argmax(1) != labels)


def _ranked(score: Tensor, listed: Tensor) -> Tensor:
    """The rows of the list, the most suspect first."""
    rows = listed.nonzero()[:, 0]
    return rows[score[rows].argsort(descending=True, stable=True)]


def _changed(labels: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """Which labels are changed to another class that occurs, at random, and all labels then."""
    draws = generator(seed, "planted label errors")
    changed = torch.randperm(len(labels), generator=draws)[: max(1, round(PLANTED * len(labels)))]
    classes = labels.unique()
    if len(classes) < 2:
        raise NescioError("all labels are the same: there is no other class to confuse it with")
    place = torch.searchsorted(classes, labels[changed])
    step = torch.randint(1, len(classes), (len(changed),), generator=draws)
    wrong = labels.clone()
    wrong[changed] = classes[(place + step) % len(classes)]
    return changed, wrong


def _planted(listed: Tensor, changed: Tensor) -> PlantedErrors:
    """How many of the changed labels are in the list, and which share of it they are."""
    found, count = int(listed[changed].sum()), int(listed.sum())
    return PlantedErrors(
        changed=len(changed),
        found=binomial_interval(found, len(changed)),
        listed=count,
        precision=binomial_interval(found, count) if count else None,
    )
