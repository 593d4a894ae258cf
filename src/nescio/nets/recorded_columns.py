"""A network that runs elsewhere: what it gave was recorded, and is the input of this one."""

import torch
from torch import Tensor, nn

from nescio.core import NescioError
from nescio.nets.factory import network

LEAST = 2.0**-52  # probabilities are at least this, so that they have a logarithm


def as_logits(probabilities: Tensor) -> Tensor:
    """Logits whose softmax gives `probabilities`; those below 2 ** -52 are read as that."""
    return probabilities.clamp(min=LEAST).log()


class RecordedColumns(nn.Module):
    """Logits and features, each some columns of the inputs `(N, columns)`; nothing is computed.

    logits: indices of the columns of the logits, `(C,)`.
    features: indices of the columns of the features, `(F,)`.
    """

    latent_layer = "features"
    logit_columns: Tensor  # (C,)
    feature_columns: Tensor  # (F,)

    def __init__(self, logits: Tensor, features: Tensor) -> None:
        super().__init__()
        self.register_buffer("logit_columns", logits)
        self.register_buffer("feature_columns", features)
        self.features = nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """The logits of inputs `x`, `(N, C)`."""
        self.features(x[:, self.feature_columns])
        return x[:, self.logit_columns]


@network
def recorded_columns(
    inputs: int, outputs: int, *, members: int = 1, member: int = 0
) -> RecordedColumns:
    """Nothing to train: logits and features of a network elsewhere, given as columns of inputs.

    inputs: number of columns: the logits of each of the `members`, then their features; where there
      are no features, the logits are the features.
    outputs: number of classes.
    members: number of networks.
    member: index of this one.
    """
    wide, rest = divmod(inputs - members * outputs, members)
    if min(outputs, members) < 1 or wide < 0 or rest or not 0 <= member < members:
        raise NescioError(
            f"{inputs} columns are not the logits of {outputs} classes and the features of "
            f"{members} network(s), one of them number {member}"
        )
    logits = torch.arange(outputs) + member * outputs
    features = torch.arange(wide) + members * outputs + member * wide
    return RecordedColumns(logits, features if wide else logits.clone())
