"""The quality of one network on labeled data, in a few numbers: for a training loop to log."""

from typing import Any

from torch import nn

from nescio.core import Head
from nescio.evaluation.answers import quality, see
from nescio.evaluation.audit.audit_inputs import read_data
from nescio.models import encoding_of, plain, takes_tokens, with_head
from nescio.nets import Output


def quality_of(
    net: nn.Module, data: Any, *, head: Head | str | None = None, output: Output = None
) -> dict[str, float]:
    """Accuracy, NLL (nats), Brier, ECE (15 bins) and mean maximum confidence of a classifier.

    data: inputs and labels, as for `nescio.audit`. head, output: as for `nescio.observe`.
    """
    predictor = plain(with_head(net, data, head=head, output=output))
    tokens, columns = takes_tokens(predictor), encoding_of(predictor)
    x, labels = read_data(data, "data", tokens=tokens, columns=columns)
    return quality(see(predictor, x), labels)
