"""Deep ensembles (Lakshminarayanan et al., 2017): networks of one architecture, averaged."""

from collections.abc import Sequence

from torch import nn

from nescio.errors import NescioError
from nescio.heads import Head, categorical
from nescio.model import Model
from nescio.registry import predictors
from nescio.stacking import stack


@predictors.register
def ensemble(nets: Sequence[nn.Module], *, head: Head | None = None) -> Model:
    """The uniform mixture of networks that were trained apart; `train(members=M)` makes one."""
    if isinstance(nets, nn.Module) or not nets:
        raise NescioError("ensemble reads a list of networks: ensemble([net_a, net_b])")
    return Model(nets[0], stack(nets), head or categorical())
