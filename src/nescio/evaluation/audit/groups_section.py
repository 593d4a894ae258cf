"""Accuracy by class and by group, with a test of the worst; of a regression, its intervals."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nescio.core import NescioError, Regression
from nescio.evaluation.audit.audit_limits import Measured, limit
from nescio.evaluation.audit.findings import AuditFindings
from nescio.evaluation.audit.sections import CLASSES, NUMBERS, Material, section
from nescio.evaluation.slices import GroupRow, GroupTable, by_group
from nescio.evaluation.slices.by_group import most_groups

CENTRAL = 0.9  # the probability of the predicted interval of a regression
NAME = "groups"


@dataclass(frozen=True, kw_only=True)
class GroupFindings:
    """A table for the classes and for each column of groups.

    tables: tables by the name of the column.
    samples: number of test samples.
    central: of a regression, the probability of the predicted intervals.
    """

    tables: Mapping[str, GroupTable]
    samples: int
    central: float | None = None

    @property
    def of_intervals(self) -> str:
        """What stands for the accuracy of a regression, to add to a name."""
        return "" if self.central is None else f" (inside the {100 * self.central:.0f} % interval)"

    @property
    def largest_gap(self) -> tuple[str, GroupRow] | None:
        """The group that is further below the others than any, of those beyond chance."""
        worse = [(by, row) for by, table in self.tables.items() for row in table.rows if row.worse]
        return max(worse, key=lambda one: one[1].gap, default=None)


@section(
    NAME,
    title="By class and by group",
    place=25,
    budgets=("quick", "standard", "thorough"),
    tasks=(CLASSES, NUMBERS),
)
def groups_section(material: Material) -> GroupFindings:
    """Accuracy, overconfidence and ECE of each class and group, with exact intervals."""
    groups = dict(material.groups)
    if isinstance(material.prediction, Regression):
        if not groups:
            raise NescioError(
                "a regression has no classes; name the group of each test sample: groups=..., on "
                "the command line --group"
            )
        missed, errors, rows = misses(material)
        some = {name: np.array(labels)[rows] for name, labels in groups.items()}
        tables = by_group(missed, some, errors=errors)
        return GroupFindings(tables=tables, samples=len(missed), central=CENTRAL)
    seen = material.answers()
    labels = material.y.cpu().numpy()
    names = class_names(material, seen.log_probs.shape[1])
    own: dict[str, Any] = {}
    if "class" not in groups and len(np.unique(labels)) <= most_groups(len(labels)):
        own = {"class": np.array(names)[labels]}
    if not own | groups:
        raise NescioError(
            f"{len(labels):,} samples of {len(np.unique(labels)):,} classes: too few of each class "
            "to compare; give coarser groups: groups=..., on the command line --group"
        )
    wrong = (seen.labels.cpu() != material.y.cpu()).numpy()
    sure = seen.confidence.clamp(max=1)
    tables = by_group(wrong, own | groups, confidence=sure, names=names if own else ())
    return GroupFindings(tables=tables, samples=len(wrong))


def class_names(material: Material, classes: int) -> list[str]:
    """A different name for each class."""
    names = [material.class_name(k) for k in range(classes)]
    often = Counter(names)
    return [f"{name} ({k})" if often[name] > 1 else name for k, name in enumerate(names)]


def misses(
    material: Material,
) -> tuple[NDArray[np.bool_], NDArray[np.float64], NDArray[np.int64]]:
    """Of a regression: targets outside their central interval, absolute errors, and the rows.

    The rows are those that fitted nothing: the spread of a network without one is fitted. Of
    several targets the error is the mean, and one outside is enough.
    """
    found = material.prediction
    assert isinstance(found, Regression)
    rows = material.held.rows.cpu()
    some, y = found[rows], material.y.cpu()[rows]
    low, high = (some.quantile((1 - sign * CENTRAL) / 2) for sign in (1, -1))
    outside = ((y < low) | (y > high)).any(-1).numpy()
    error = (y - some.mixture_mean).abs().mean(-1).numpy()
    return outside, error.astype(np.float64), rows.numpy()


@limit(
    "group_gap",
    section=NAME,
    title="accuracy gap of the worst group",
    better="lower",
    attention=0.05,
    unit="points",
    rank=25,
    meaning="How far the share of right answers (in a regression: of values inside their "
    "intervals) of a class or group is below that of all other samples; 0 where chance may "
    "explain it.",
    advice="Collect more training samples of this group, or let the guard abstain there.",
)
def group_gap(found: AuditFindings) -> Measured | None:
    """The largest gap that a test corrected for all groups confirms; 0 if none is."""
    part = found.sections.get(NAME)
    if part is None:
        return None
    worst = part.largest_gap
    if worst is None:
        return Measured(value=0.0, samples=part.samples, note="no group is worse beyond chance")
    by, row = worst
    return Measured(value=row.gap, samples=row.samples, note=f"{by} {row.name}{part.of_intervals}")


@limit(
    "worst_group_accuracy",
    section=NAME,
    title="accuracy of the worst group",
    better="higher",
    unit="share",
    rank=60,
    meaning="The lowest accuracy of a class, or of a group of a column.",
    advice="Collect more samples of this group: with few of them, its interval is wide.",
)
def worst_group_accuracy(found: AuditFindings) -> Mapping[str, Measured] | None:
    """By column of groups, with an interval that holds for all its groups at once."""
    part = found.sections.get(NAME)
    if part is None:
        return None
    worst = {by: table.worst for by, table in part.tables.items()}
    return {
        by: Measured(
            value=row.accuracy.value,
            low=row.at_once.low,
            high=row.at_once.high,
            samples=row.samples,
            note=f"{row.name}{part.of_intervals}",
        )
        for by, row in worst.items()
    }
