"""One network as it is."""

from torch import nn

from nescio.errors import NescioError
from nescio.heads import Head
from nescio.model import Model
from nescio.predictors.predictor import as_head
from nescio.registry import predictors
from nescio.stacking import stack


@predictors.register
def plain(net: nn.Module, *, head: Head | str | None = None) -> Model:
    """The network's own answer, in evaluation mode; a model with one member.

    head: how outputs are read, a head or its name; None for class logits.
    """
    if not isinstance(net, nn.Module):
        raise NescioError(f"plain reads an nn.Module, got {type(net).__name__}")
    return Model(net, stack([net]), as_head(head, net))
