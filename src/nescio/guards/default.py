"""The default detector: an early layer and the one before the last, by p-values.

The penultimate layer keeps what tells the classes apart and little else; an early one keeps what
inputs look like. At few false alarms the two together refuse far more than either.
"""

from dataclasses import replace

import torch
from torch import Tensor, nn

from nescio import metrics
from nescio.core import Categorical, Inputs, NescioError, generator, log_odds
from nescio.detectors import Detector, combined, knn, mahalanobis
from nescio.detectors.activations import Activations
from nescio.detectors.failure.recommended import recommended
from nescio.detectors.observe.layers import Call, Pool, last_linear, place, traced
from nescio.detectors.observe.network import Network
from nescio.nets import Output

NEIGHBORS = 50  # k, with enough training data; a twentieth of it otherwise
BANK = 20_000  # features that neighbors are searched among, at most
CLEAR = 0.8  # level of the interval that must lie on the side of the log-odds
WEIGHTED = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
BENDS = (nn.ReLU, nn.LeakyReLU, nn.GELU, nn.SiLU, nn.ELU, nn.Tanh, nn.Sigmoid, nn.Softplus)


@torch.no_grad()
def watched_layers(
    net: nn.Module, x: Inputs, *, pool: Pool = "mean", output: Output = None
) -> list[str | None]:
    """An early layer, where there is one to be pooled, and what enters the last linear layer."""
    calls = traced(net, lambda: Network(net).raw(x[:2]))
    early = _early([call for call in calls if call.leaf], last_linear(calls))
    if early is None:
        return [None]
    try:
        Network(net, output, pool, [place(early, net)])(x[:2])
    except NescioError:  # sequences, whose features are not pooled like maps
        return [None]
    return [early, None]


def default_detector(train: Activations, tuning: Activations) -> Detector:
    """Mahalanobis of the early layer with neighbors in the last one, by Fisher's rule."""
    train.layer()  # where there are no features, it says what to do
    early = next(iter(train.features))
    fitted = train
    if not is_labeled(train):  # the network's own labels will do
        fitted = replace(train, labels=train.mean().logits[0].argmax(1))
    bank = some(fitted)
    neighbors = knn(bank, k=max(1, min(NEIGHBORS, bank.samples // 20)))
    return combined([neighbors, mahalanobis(fitted, layers=early)], tuning)


def default_failure(train: Activations, tuning: Activations, labels: Tensor) -> Detector | None:
    """The failure score that is recommended; none where the log-odds are clearly better.

    Clearly: the area under risk and coverage on the tuning part is smaller, in all but few of its
    resamples. Without labels of the training data, or errors to judge by, there is no choice.
    """
    if not is_labeled(train):
        return None
    made = recommended(some(train))
    answers = Categorical(tuning.logits.double())
    wrong = (answers.labels != labels.to(answers.device)).cpu()
    if not wrong.any() or wrong.all():
        return made
    plain, better = log_odds(answers).cpu(), made(tuning).cpu()
    found = metrics.selective_test(better, plain, wrong, of=["aurc"], level=CLEAR, resamples=200)
    return None if found["aurc"].low > 0 else made


def is_labeled(train: Activations) -> bool:
    """Whether classes are known."""
    return train.labels is not None and not train.labels.is_floating_point()


def some(train: Activations) -> Activations:
    """A random subset of the inputs, among which neighbors are searched."""
    if train.samples <= BANK:
        return train
    order = torch.randperm(train.samples, generator=generator(0, "bank"))
    return train[order[:BANK].sort().values]


def _early(calls: list[Call], last: str | None) -> str | None:
    """The first layer with weights but the last, after its bend if that follows."""
    for at, call in enumerate(calls):
        if issubclass(call.kind, WEIGHTED) and call.name != last:
            rest = calls[at + 1 :]
            until = next((i for i, c in enumerate(rest) if issubclass(c.kind, WEIGHTED)), len(rest))
            bends = (after.name for after in rest[:until] if issubclass(after.kind, BENDS))
            return next(bends, call.name)
    return None
