"""How stable the answers of an audited network are."""

from typing import Any

from torch import nn

from nescio.core import NescioError
from nescio.data import door
from nescio.evaluation.audit.ood_section import NO_RANGE, has_range
from nescio.evaluation.stability import Stability, stability
from nescio.models import encoding_of, takes_tokens
from nescio.nets import columns_of

SAMPLES = 50  # correct answers that are attacked


def check_stability(*, regression: bool) -> None:
    """Refuse what has no such section, before the work."""
    if regression:
        raise NescioError("stability is about answers that flip; leave it out of a regression")


def how_stable(net: Any, test: Any, *, seed: int, **reading: Any) -> Stability:
    """The stability of a network on the test data, or why it is not computed.

    reading: head and output of a module.
    """
    given = reading if isinstance(net, nn.Module) else {}
    columns = columns_of(net) if isinstance(net, nn.Module) else encoding_of(net)
    x, y = door.read(test, name="test data", tokens=takes_tokens(net), columns=columns)
    if not has_range(x) or takes_tokens(net):
        return Stability(norm="linf", images=False, skipped={"stability": NO_RANGE})
    return stability(net, (x, y), samples=SAMPLES, seed=seed, **given)
