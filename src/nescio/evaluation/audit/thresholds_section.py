"""What other thresholds of the failure score would do: the data of the threshold explorer."""

from nescio.evaluation.audit.measured_scores import measured_scores
from nescio.evaluation.audit.sections import BUDGETS, CLASSES, NUMBERS, Material, section
from nescio.guards import Thresholds, threshold_steps


@section(
    "thresholds",
    title="What another threshold would do",
    place=25,
    budgets=BUDGETS,
    tasks=(CLASSES, NUMBERS),
)
def thresholds_section(material: Material) -> Thresholds:
    """Coverage, risk, false alarms and abstentions on OOD data at 41 thresholds of the score."""
    own = measured_scores(material)
    return threshold_steps(
        own.score,
        own.wrong,
        called_ood=own.never,
        ood={name: (one.score, one.never) for name, one in own.ood.items()},
        own=own.own,
        name=own.name,
        first=0.0 if material.guard is None else material.guard.false_alarm,
    )
