"""Which training samples the most confident errors of an audited network rest on."""

from typing import Any

from torch import nn

from nescio.core import NescioError
from nescio.data import door
from nescio.evaluation.explain import Explanation, explain
from nescio.models import encoding_of, innermost
from nescio.nets import columns_of

ERRORS, EACH = 5, 3


def check_influence(train: Any, *, regression: bool) -> None:
    """Refuse what has no influence section, before the work."""
    if regression:
        raise NescioError("influence explains errors of classifiers; leave it out of a regression")
    if train is None:
        raise NescioError(
            "influence is that of training samples: give train=(x, y), on the command line --train"
        )


def errors_explained(net: Any, train: Any, test: Any, **reading: Any) -> Explanation:
    """The most confident errors with their helpful and harmful training samples.

    reading: head and output of a module. Where it cannot be computed, the reason.
    """
    source = net if isinstance(net, nn.Module) else innermost(net)
    given = reading if isinstance(net, nn.Module) else {}
    columns = columns_of(net) if isinstance(net, nn.Module) else encoding_of(net)
    try:
        samples = door.read(train, name="training data", columns=columns)
        tested = door.read(test, name="test data", columns=columns)
        return explain(source, samples, tested, errors=ERRORS, count=EACH, **given)
    except NescioError as error:
        return Explanation(on="loss", samples=(), skipped=f"Not computed: {error}")
