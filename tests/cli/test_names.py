"""Names that the Tab key completes are those of the registries, though it does not load them."""

import pytest

import nescio_papers  # noqa: F401
from nescio.cli.main import reference
from nescio.cli.names import NAMES
from nescio.cli.parameters import Name
from nescio.cli.work.train import AUGMENTS
from nescio.core import registry
from nescio.core.schedules import SCHEDULES
from nescio.data.sets import catalogue
from nescio.evaluation import limits
from nescio.evaluation.audit.sections import PARTS
from nescio_papers.know_your_limits_search.trial import MODELS

KINDS = {kind: one for kind, one in vars(registry).items() if isinstance(one, registry.Registry)}
HYPHENS = {"audit_sections", "experiments", "parts"}  # as one types them
OTHERS = {
    "augments": AUGMENTS,
    "downloads": catalogue.CATALOGUE,
    "kinds": [*KINDS, "limits"],
    "limits": limits,
    "models": MODELS,
    "parts": PARTS,
}


@pytest.mark.parametrize("kind", NAMES)
def test_the_names_are_those_of_the_registry(kind: str) -> None:
    known = set(OTHERS[kind] if kind in OTHERS else KINDS[kind])
    if kind in HYPHENS:
        known = {name.replace(" ", "-").replace("_", "-") for name in known}
    new, gone = known - set(NAMES[kind]), set(NAMES[kind]) - known
    assert not new | gone, f"in cli/names.py under {kind!r}: add {new or '-'}, remove {gone or '-'}"


def test_every_kind_is_completed_somewhere() -> None:
    types = [one.type for page in reference() for one in page.command.params]
    used = {kind for one in types if isinstance(one, Name) for kind in one.kinds}
    assert used == set(NAMES)


def test_the_schedules_are_those_of_the_training() -> None:
    train = next(page.command for page in reference() if page.name == "train")
    schedule = next(one for one in train.params if one.name == "schedule")
    assert set(schedule.type.choices) == set(SCHEDULES)
