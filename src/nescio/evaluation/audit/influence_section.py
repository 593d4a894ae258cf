"""Which training samples the most confident errors of an audited network rest on."""

from torch import nn

from nescio.core import NescioError
from nescio.evaluation.audit.sections import Material, section
from nescio.evaluation.explain import Explanation, explain
from nescio.models import innermost

ERRORS, EACH = 5, 3


@section(
    "influence",
    title="What the most confident errors rest on",
    place=80,
    budgets=("thorough",),
)
def errors_explained(material: Material) -> Explanation:
    """The most confident errors with their helpful and harmful training samples."""
    if material.train is None or material.train[1] is None:
        raise NescioError(
            "influence is that of training samples: give train=(x, y), on the command line --train"
        )
    net, tested = material.net, (material.inputs(), material.y)
    source = net if isinstance(net, nn.Module) else innermost(net)
    given = material.reading if isinstance(net, nn.Module) else {}
    return explain(source, material.train, tested, errors=ERRORS, count=EACH, **given)
