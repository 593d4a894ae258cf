"""The worst answers in an audit: confident errors, confident OOD inputs, withheld right ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nescio.core import NescioError, Regression, quiet
from nescio.evaluation.audit.sections import CLASSES, NUMBERS, Material, section
from nescio.evaluation.explain import confident_errors
from nescio.evaluation.worst_cases import TrainingBank, Viewer, WorstCase, value_of
from nescio.guards import DECISIONS

SHOWN = 5  # of each kind
SETS, EACH = 4, 3  # OOD sets that are shown, and inputs of each that was given
ROWS = 1000  # row numbers that are named


@dataclass(frozen=True, kw_only=True)
class Cases:
    """Single samples to look at, the worst of each kind first; row numbers count from 0.

    samples: number of test samples that were looked at.
    errors: some wrong answers, the most confident first; of a regression the most surprising.
    error_rows: row numbers of more wrong answers, in the same order.
    error_count: number of all wrong answers.
    ood: OOD samples with the most confident answers.
    abstained: some samples that the guard abstains on though the answer is correct.
    abstained_rows: row numbers of more of them, in the same order.
    abstained_count: number of all of them; None: there is no guard.
    space: the space in which neighbors are near, in words; None: there are no neighbors.
    no_neighbors: why there are no neighbors.
    """

    samples: int
    errors: tuple[WorstCase, ...]
    error_rows: tuple[int, ...]
    error_count: int
    ood: tuple[WorstCase, ...] = ()
    abstained: tuple[WorstCase, ...] = ()
    abstained_rows: tuple[int, ...] = ()
    abstained_count: int | None = None
    space: str | None = None
    no_neighbors: str | None = None


@dataclass(frozen=True, eq=False)
class _Album:
    """Describes samples of the test data and of OOD sets."""

    material: Material
    view: Viewer
    bank: TrainingBank | None
    decided: dict[int, str]  # of test samples, by the guard

    def test_samples(
        self, rows: Sequence[int], facts: Sequence[dict[str, Any]]
    ) -> tuple[WorstCase, ...]:
        """Test samples with what was answered."""
        if not len(rows):
            return ()
        features = None if self.bank is None else self.material.observed.of(torch.tensor(rows))
        return self._all("test", self.material.x, rows, facts, features)

    def ood_samples(
        self, name: str, rows: Sequence[int], facts: Sequence[dict[str, Any]]
    ) -> tuple[WorstCase, ...]:
        """Inputs of an OOD set."""
        x = self.material.ood[name][1]
        features = None
        if self.bank is not None and self.material.observed.read is not None:
            features = self.material.observed.read(x[list(rows)])
        return self._all(name, x, rows, facts, features)

    def _all(
        self, data: str, x: Any, rows: Sequence[int], facts: Sequence[dict[str, Any]],
        features: Tensor | None,
    ) -> tuple[WorstCase, ...]:  # fmt: skip
        near: Any = [()] * len(rows)
        if features is not None and self.bank is not None:
            near = self.bank.near(features)
        return tuple(
            WorstCase(data=data, sample=row, view=self.view(x, row), neighbors=own, **fact)
            for row, fact, own in zip(rows, facts, near, strict=True)
        )


@section(
    "cases",
    title="The worst cases",
    place=35,
    budgets=("quick", "standard", "thorough"),
    tasks=(CLASSES, NUMBERS),
)
def worst_cases(material: Material) -> Cases:
    """The most confident errors, OOD inputs and withheld right answers, with their neighbors."""
    album, space, why = _album(material)
    found = (
        _of_classes(material, album) if material.task == CLASSES else _of_numbers(material, album)
    )
    return Cases(samples=len(material.y), space=space, no_neighbors=why, **found)


def _album(material: Material) -> tuple[_Album, str | None, str | None]:
    """What describes samples; the space of the neighbors, or why there are none."""
    decided = {}
    if material.decisions is not None:
        words = [DECISIONS[code] for code in material.decisions.decision.tolist()]
        decided = dict(zip(material.held.rows.tolist(), words, strict=True))
    inputs = material.x if material.train is None else material.train[0]
    view = Viewer.of(inputs, material.columns)
    try:
        if material.train is None and material.train_features is None:
            raise NescioError(
                "there are no training data: give train=, on the command line --train"
            )
        observed = material.observed
        assert observed.train is not None
        given = material.train or (None, None)
        x = None if material.x is None else given[0]
        bank = TrainingBank(
            features=observed.train, rows=observed.rows, x=x, labels=given[1], view=view
        )
        return _Album(material, view, bank, decided), observed.space, None
    except NescioError as error:
        return _Album(material, view, None, decided), None, str(error)


def _of_classes(material: Material, album: _Album) -> dict[str, Any]:
    seen, y = material.answers(), material.y
    wrong = confident_errors(seen, y, len(y))

    def facts(rows: Sequence[int]) -> list[dict[str, Any]]:
        return [
            {
                "answer": int(seen.labels[row]),
                "label": int(y[row]),
                "confidence": float(seen.confidence[row]),
                "decision": album.decided.get(row),
            }
            for row in rows
        ]

    first = wrong[:SHOWN].tolist()
    found: dict[str, Any] = {
        "errors": album.test_samples(first, facts(first)),
        "error_rows": tuple(wrong[:ROWS].tolist()),
        "error_count": len(wrong),
        "ood": _confident_ood(material, album),
    }
    if material.decisions is not None:
        kept = material.held.rows[~material.decisions.answered.cpu()]
        right = kept[seen.labels[kept] == y[kept]]
        order = right[seen.confidence[right].argsort(descending=True, stable=True)]
        few = order[:SHOWN].tolist()
        found |= _withheld(order, album.test_samples(few, facts(few)))
    return found


def _withheld(order: Tensor, shown: tuple[WorstCase, ...]) -> dict[str, Any]:
    return {
        "abstained": shown,
        "abstained_rows": tuple(order[:ROWS].tolist()),
        "abstained_count": len(order),
    }


def _confident_ood(material: Material, album: _Album) -> tuple[WorstCase, ...]:
    """The most confident inputs of OOD sets: those that were given first, then noise."""
    order = ("ood", "near", "noise", "adversarial")
    sets = {n: one for n, (one, _) in material.ood.items() if n in material.seen_ood}
    names = sorted(
        (n for n in sets if sets[n].kind in order), key=lambda n: order.index(sets[n].kind)
    )
    found: list[WorstCase] = []
    for name in names[:SETS]:
        seen = material.seen_ood[name]
        count = SHOWN if len(names) == 1 else EACH if sets[name].kind in order[:2] else 1
        count = min(count, len(seen.labels))
        rows = seen.confidence.topk(count).indices.tolist()
        decided = _decided(material, material.ood[name][1], rows)
        facts = [
            {"answer": int(seen.labels[r]), "confidence": float(seen.confidence[r]), "decision": d}
            for r, d in zip(rows, decided, strict=True)
        ]
        found += album.ood_samples(name, rows, facts)
    return tuple(found)


def _decided(material: Material, x: Any, rows: Sequence[int]) -> list[str | None]:
    """What the guard decides for some inputs."""
    if material.guard is None:
        return [None] * len(rows)
    with quiet():
        found = material.guard(x[list(rows)])
    return [DECISIONS[code] for code in found.decision.tolist()]


def _of_numbers(material: Material, album: _Album) -> dict[str, Any]:
    """The values that surprise most: errors over the predicted deviation, over all targets."""
    said = material.prediction
    assert isinstance(said, Regression)
    mean, deviation = said.mixture_mean.cpu(), said.mixture_variance.sqrt().cpu()
    y = material.y.reshape(mean.shape)
    surprise = ((y - mean).abs() / deviation.clamp_min(1e-300)).nan_to_num().amax(1)
    worst = surprise.argsort(descending=True, stable=True)

    def facts(rows: Sequence[int]) -> list[dict[str, Any]]:
        return [
            {
                "answer": value_of(mean[row]),
                "label": value_of(y[row].double()),
                "deviation": float(deviation[row, 0]),
                "decision": album.decided.get(row),
            }
            for row in rows
        ]

    first = worst[:SHOWN].tolist()
    found: dict[str, Any] = {
        "errors": album.test_samples(first, facts(first)),
        "error_rows": tuple(worst[: min(ROWS, len(worst))].tolist()),
        "error_count": len(worst),
    }
    if material.decisions is not None:
        inside = ~material.decisions.missed(material.y[material.held.rows]).cpu()
        kept = material.held.rows[~material.decisions.answered.cpu() & inside]
        order = kept[surprise[kept].argsort(stable=True)]
        few = order[:SHOWN].tolist()
        found |= _withheld(order, album.test_samples(few, facts(few)))
    return found
