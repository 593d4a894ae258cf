"""The true class probability (Corbière et al., 2019): what an oracle would rank answers by.

Above 1/2 the answer is right, below 1/C it is wrong. It needs the label: it cannot score new
inputs: it is the best that a network's own probabilities can do, and what ConfidNet learns.
"""

import math

from torch import Tensor

from nescio.core import Classification, check_labels


def true_class_probability(
    prediction: Classification, labels: Tensor, *, normalized: bool = False
) -> Tensor:
    """The probability of the true class, `(*batch,)`; its negative ranks errors first.

    normalized: divide by the largest probability; then it is 1 exactly where the answer is right.
    """
    logs = prediction.log_probs
    own = prediction.log_prob(labels)
    return (own - logs.amax(-1)).exp() if normalized else own.exp()


def log_odds_against(prediction: Classification, answers: Tensor) -> Tensor:
    """Log of (1 - p) / p for given answers, `(*batch,)`: the confidence of others in one's answers.

    With an ensemble's or MC dropout's prediction and the answers of one network, it scores the
    errors of that network.
    """
    logs = prediction.log_probs
    answers = check_labels(answers, prediction.classes, prediction.batch_shape)
    index = answers.to(logs.device)[..., None]
    others = logs.scatter(-1, index, -math.inf).logsumexp(-1)
    return others - logs.gather(-1, index)[..., 0]
