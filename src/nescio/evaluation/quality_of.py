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

    net: a network.
    data: test inputs and labels: a pair `(x, y)`, a loader, or a mapping with labels.
    head: how the outputs of modules are read, as for `nescio.observe`.
    output: where the outputs are in what the network returns, as for `nescio.observe`.
    """
    predictor = plain(with_head(net, data, head=head, output=output))
    tokens, columns = takes_tokens(predictor), encoding_of(predictor)
    x, labels = read_data(data, "data", tokens=tokens, columns=columns)
    return quality(see(predictor, x), labels)
