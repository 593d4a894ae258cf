"""How stable the answers of an audited network are."""

from torch import nn

from nescio.core import NescioError
from nescio.evaluation.audit.ood_section import NO_RANGE, has_range
from nescio.evaluation.audit.sections import Material, section
from nescio.evaluation.stability import Stability, stability
from nescio.models import takes_tokens

SAMPLES = 50  # correct answers that are attacked


@section("stability", title="How stable the answers are", place=70, budgets=("thorough",))
def how_stable(material: Material) -> Stability:
    """How small a change flips correct answers, and how far answers follow deformations."""
    x, net = material.inputs(), material.net
    if not has_range(x) or takes_tokens(net):
        raise NescioError(NO_RANGE)
    given = material.reading if isinstance(net, nn.Module) else {}
    return stability(net, (x, material.y), samples=SAMPLES, seed=material.seed, **given)
