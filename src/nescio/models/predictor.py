"""What a predictor is: inputs `(N, ...)` to a prediction with a member axis."""

from typing import Any, Protocol

from torch import nn

from nescio.core import Head, NescioError, Prediction, categorical
from nescio.core.registry import heads, predictors
from nescio.models.model import Model
from nescio.nets import Output, returning
from nescio.nets.stack import stack


class Predictor(Protocol):
    """Anything that answers inputs with a prediction: a model, sampled passes, a scaled model.

    Calling it takes any inputs, in parts, without gradients. Those that can be attacked also have
    `answer(x)`, which keeps the gradients with respect to the inputs. Those with networks answer
    two questions more, and nobody asks which kind of predictor it is: `networks()` gives a `Member`
    for each member, `inner` what it wraps, or None.
    """

    def __call__(self, x: Any, /) -> Prediction: ...


def as_head(head: Head | str | None, net: nn.Module) -> Head:
    """The head that is meant: a value, a name, or without one that of class logits."""
    if isinstance(head, str):
        found: Head = heads[head]()
        return found
    if isinstance(head, Head):
        return head
    if head is not None:
        raise NescioError(
            "head= takes a head, such as nescio.heads.gaussian(), or its name, one of "
            f"{', '.join(heads)}; got a {type(head).__name__}"
        )
    if _has_one_output(net):
        raise NescioError(
            "the network has one output; classes need one logit for each class, and for a "
            "regression say how outputs are read: head='fixed_variance' for means, or "
            "head='gaussian' for a mean and a spread"
        )
    return categorical()


def _has_one_output(net: nn.Module) -> bool:
    """Whether it is known, without inputs, that the network ends in a single number."""
    while type(net) is nn.Sequential and len(net):
        net = net[-1]
    return isinstance(net, nn.Linear) and net.out_features == 1


def check_passes(passes: object) -> None:
    """Refuse a number of draws that is not whole, or below 1."""
    if isinstance(passes, bool) or not isinstance(passes, int) or passes < 1:
        raise NescioError(f"passes must be a whole number from 1 up, got {passes!r}")


@predictors.register
def plain(net: nn.Module, *, head: Head | str | None = None, output: Output = None) -> Model:
    """The answer of one network in evaluation mode: a model with one member.

    head: how outputs are read, a head or its name; None for class logits.
    output: where the outputs are in what the network returns, as for `nescio.observe`.
    """
    if not isinstance(net, nn.Module):
        raise NescioError(f"plain reads an nn.Module, got {type(net).__name__}")
    net = returning(net, output)
    return Model(net, stack([net]), as_head(head, net))
