"""One network as it is."""

from torch import nn

from nescio.errors import NescioError
from nescio.heads import Head, categorical
from nescio.model import Model
from nescio.registry import predictors
from nescio.stacking import stack


@predictors.register
def plain(net: nn.Module, *, head: Head | None = None) -> Model:
    """The network's own answer, in evaluation mode; a model with one member."""
    if not isinstance(net, nn.Module):
        raise NescioError(f"plain reads an nn.Module, got {type(net).__name__}")
    return Model(net, stack([net]), head or categorical())
