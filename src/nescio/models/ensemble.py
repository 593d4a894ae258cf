"""Deep ensembles (Lakshminarayanan et al., 2017): networks of one architecture, averaged."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from nescio.core import Head, NescioError, Prediction, answer
from nescio.core.registry import predictors
from nescio.models.members import Member, networks
from nescio.models.model import Model
from nescio.models.predictor import Predictor, as_head, plain
from nescio.nets import Output, returning
from nescio.nets.stack import stack


@predictors.register
def ensemble(
    nets: Sequence[nn.Module | Predictor],
    *,
    head: Head | str | None = None,
    output: Output = None,
) -> "Model | Pooled":
    """The uniform mixture of networks that were trained separately; `train(members=M)` trains one.

    Networks of one architecture are stacked. Others, and predictors, answer one after the other.
    head: how the outputs of networks are read, a head or its name; None for class logits.
    output: where the outputs are in what the networks return, as for `nescio.observe`.
    """
    if callable(nets) or not isinstance(nets, Iterable) or not (nets := list(nets)):
        raise NescioError("ensemble reads a list of networks: ensemble([net_a, net_b])")
    for net in nets:
        if not callable(net):
            raise NescioError(f"an ensemble has networks and predictors, got {type(net).__name__}")
    nets = [returning(net, output) if isinstance(net, nn.Module) else net for net in nets]
    if all(isinstance(net, nn.Module) for net in nets) and len(set(map(str, nets))) == 1:
        same = [net for net in nets if isinstance(net, nn.Module)]
        return Model(same[0], stack(same), as_head(head, same[0]))
    return Pooled(tuple(plain(n, head=head) if isinstance(n, nn.Module) else n for n in nets))


@dataclass(frozen=True, eq=False)
class Pooled:
    """Several predictors as one: their members together."""

    predictors: tuple[Predictor, ...]
    inner = None

    def networks(self) -> list[Member]:
        """Those of all parts, in their order."""
        return [member for part in self.predictors for member in networks(part)]

    def __call__(self, x: Any) -> Prediction:
        return Prediction.pool([predictor(x) for predictor in self.predictors])

    def answer(self, x: Tensor) -> Prediction:
        """The prediction in one go, with gradients with respect to the inputs."""
        return Prediction.pool([answer(predictor, x) for predictor in self.predictors])
