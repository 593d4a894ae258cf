"""Slices where the network is wrong or overconfident: searched on a half, tested on the other."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nescio.core import NescioError, Regression
from nescio.evaluation.audit.audit_limits import Measured, limit
from nescio.evaluation.audit.findings import AuditFindings
from nescio.evaluation.audit.groups_section import CENTRAL, class_names, misses
from nescio.evaluation.audit.sections import CLASSES, NUMBERS, Material, section
from nescio.evaluation.slices import Slices, describe_inputs, find_slices
from nescio.models import encoding_of

NAME = "slices"
LEVEL = 0.02  # the chance of any slice where there is none
LARGE = 0.9  # errors of numbers above this quantile are large


@dataclass(frozen=True, kw_only=True)
class SliceFindings:
    """What was found: of answers that are wrong; of numbers, intervals that miss, large errors.

    searches: one search for each of these.
    """

    searches: tuple[Slices, ...]

    @property
    def count(self) -> int:
        """How many slices were confirmed."""
        return sum(map(len, self.searches))


@section(
    NAME,
    title="Where it is wrong or overconfident",
    place=30,
    tasks=(CLASSES, NUMBERS),
)
def slices_section(material: Material) -> SliceFindings:
    """Slices of the test data by input columns, image statistics, predicted class and groups."""
    columns = _columns(material)
    if isinstance(material.prediction, Regression):
        return _of_numbers(material, columns)
    seen = material.answers()
    names = np.array(class_names(material, seen.log_probs.shape[1]))
    columns = {"predicted class": names[seen.labels.cpu().numpy()]} | columns
    found = find_slices(
        (seen.labels.cpu() != material.y.cpu()).numpy(),
        columns,
        confidence=seen.confidence.clamp(max=1),
        level=LEVEL,
        seed=material.seed,
    )
    return SliceFindings(searches=(found,))


def _columns(material: Material) -> dict[str, NDArray[Any]]:
    """What describes the test samples: their groups, then what people can read of the inputs."""
    encoding = None if material.predictor is None else encoding_of(material.predictor)
    inputs = describe_inputs(material.x, material.columns or (), encoding=encoding)
    return {name: np.array(labels) for name, labels in material.groups.items()} | inputs


def _of_numbers(material: Material, columns: dict[str, NDArray[Any]]) -> SliceFindings:
    """Two searches, each with half of the level: intervals that miss, and large errors."""
    if not columns:
        raise NescioError("nothing describes the inputs; give groups=..., or a table with columns")
    missed, errors, rows = misses(material)
    some = {name: values[rows] for name, values in columns.items()}
    edge = float(np.quantile(errors, LARGE))
    events = {
        f"outside the {100 * CENTRAL:.0f} % interval": missed,
        f"off by more than {edge:.3g}": errors > edge,
    }
    options: Any = {"level": LEVEL / len(events), "seed": material.seed}
    found, why = [], ""
    for event, wrong in events.items():
        try:
            one = find_slices(wrong, some, event=event, **options)
            found.append(one.at(rows))
        except NescioError as error:
            why = str(error)
    if not found:
        raise NescioError(why)
    return SliceFindings(searches=tuple(found))


@limit(
    "slices",
    section=NAME,
    title="slices where it is worse than elsewhere",
    better="lower",
    attention=0,
    unit="count",
    rank=28,
    meaning="Groups of samples that were found by a search and confirmed on other samples.",
    advice="Look at the rows of each slice; collect training samples there, or abstain there.",
)
def slices(found: AuditFindings) -> Measured | None:
    """The number of slices; each was confirmed, so that none is there by chance (98 %)."""
    part = found.sections.get(NAME)
    if part is None:
        return None
    first = next((one.words(one.found[0]) for one in part.searches if len(one)), "")
    samples = max(one.samples for one in part.searches)
    return Measured(value=part.count, samples=samples, note=first)
