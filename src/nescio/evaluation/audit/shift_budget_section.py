"""How far the inputs may change until the guard's guarantee is no longer shown."""

from nescio.core import NescioError
from nescio.evaluation.audit.audit_limits import Measured, limit
from nescio.evaluation.audit.findings import AuditFindings
from nescio.evaluation.audit.measured_scores import measured_scores
from nescio.evaluation.audit.sections import BUDGETS, CLASSES, NUMBERS, Material, section
from nescio.guards import ShiftBudget, shift_budget


@section(
    "shift budget",
    title="Which changes of the inputs the guarantee survives",
    place=26,
    budgets=BUDGETS,
    tasks=(CLASSES, NUMBERS),
)
def shift_budget_section(material: Material) -> ShiftBudget:
    """The distance in total variation up to which the guaranteed risk holds for any inputs."""
    guard = material.guard
    if guard is None:
        raise NescioError("there is no guard, so there is no guarantee that a change could break")
    own = measured_scores(material)
    answered = own.answered
    assert answered is not None
    if not answered.any():
        raise NescioError("the guard answers none of the test samples: there is no risk to keep")
    counts = {
        name: (int(one.answered.sum()), len(one.answered))
        for name, one in own.ood.items()
        if one.answered is not None
    }
    return shift_budget(
        int(answered.sum()),
        int((answered & own.wrong).sum()),
        len(answered),
        risk=guard.risk,
        confidence=guard.confidence,
        false_alarm=guard.false_alarm,
        ood=counts,
    )


@limit(
    "survived_shift",
    section="shift budget",
    title="change of the inputs that the guarantee survives",
    better="higher",
    unit="share",
    rank=60,
    meaning="The guaranteed error rate holds while at most this share of the inputs is replaced by "
    "anything at all (total variation).",
    advice="Ask for a smaller risk, or give more test samples: the room is what the observed error "
    "rate stays below the guaranteed one.",
)
def _survived(found: AuditFindings) -> Measured | None:
    part: ShiftBudget | None = found.sections.get("shift budget")
    return None if part is None else Measured(value=part.distance, samples=part.samples)
