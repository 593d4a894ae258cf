"""The failure score of a guard for which none was named."""

from collections.abc import Sequence

from torch import Tensor, nn

from nescio import metrics
from nescio.core import Categorical, log_odds
from nescio.detectors import Activations, Detector
from nescio.detectors.default import is_labeled, some
from nescio.detectors.failure.recommended import recommended

BANK = 20_000  # features that the failure score searches neighbors among, at most
SEQUENTIAL = (nn.RNNBase, nn.MultiheadAttention)
CLEAR = 0.8  # level of the interval that must lie on the side of the log-odds


def default_failure(
    train: Activations,
    tuning: tuple[Activations, Tensor] | None = None,
    nets: Sequence[nn.Module] = (),
) -> Detector | None:
    """The failure score: the recommended one after a hidden linear layer; None: the log-odds.

    Where there are tuning samples with errors, the other one is taken if it is clearly better: its
    area under risk and coverage is smaller in all but few of their resamples. Without labels of the
    training data there is no choice.
    """
    if not is_labeled(train):
        return None
    hidden = all(map(has_hidden_linear, nets))
    if tuning is None and not hidden:
        return None
    made = recommended(some(train, BANK))
    usual = made if hidden else None
    if tuning is None:
        return usual
    samples, labels = tuning
    answers = Categorical(samples.logits.double())
    wrong = (answers.labels != labels.to(answers.device)).cpu()
    if not wrong.any() or wrong.all():
        return usual
    plain, better = log_odds(answers).cpu(), made(samples).cpu()
    found = metrics.selective_test(better, plain, wrong, of=["aurc"], level=CLEAR, resamples=200)
    if hidden:
        return None if found["aurc"].low > 0 else made
    return made if found["aurc"].high < 0 else None


def has_hidden_linear(net: nn.Module) -> bool:
    """Whether a linear layer gives the features of the last one, and no layer of sequences does."""
    layers = list(net.modules())
    linear = sum(isinstance(layer, nn.Linear) for layer in layers)
    return linear > 1 and not any(isinstance(layer, SEQUENTIAL) for layer in layers)
