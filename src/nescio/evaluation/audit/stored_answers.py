"""What the first predictor says about single samples, small enough for `audit.json`.

Two audits are compared by it sample by sample. Samples are known by a hash of input and label, and
where there are many, those of the smallest hashes are stored: two audits of the same data store
the same samples. Columns are texts: indented JSON would need a line for each number.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nescio.core import NescioError, hash_inputs
from nescio.evaluation.audit.sections import CLASSES, NUMBERS, Material, section

MOST, OOD_MOST = 10_000, 1_000  # samples of the test data, and of an OOD set
TEST = "test data"
DIGITS = 16  # of a key
LARGE = 1e9  # log-odds beyond which an answer is certain
LETTERS = "auo-"  # answer, unsure, OOD; not decided


@dataclass(frozen=True, kw_only=True)
class StoredSet:
    """Samples of one data set in rising order of their keys; a column is None if it is unknown.

    keys: 16 hexadecimal digits for each sample. wrong: 0 or 1. decision: of the guard, a letter:
    answer, unsure, OOD, or - for a sample that it was not measured on. missed: of a regression, 1
    if the interval of the guard misses. The others are numbers, a space between two of them.
    """

    samples: int
    total: int  # of the data set
    keys: str
    wrong: str | None = None
    log_odds: str | None = None
    nll: str | None = None
    squared_error: str | None = None
    decision: str | None = None
    missed: str | None = None

    def columns(self) -> dict[str, NDArray[Any]]:
        """All that is known, as arrays of one length."""
        words = [self.keys[i : i + DIGITS] for i in range(0, len(self.keys), DIGITS)]
        found: dict[str, NDArray[Any]] = {
            "keys": np.array([int(word, 16) for word in words], dtype=np.uint64)
        }
        for name in ("wrong", "missed"):
            if (flags := getattr(self, name)) is not None:
                found[name] = np.frombuffer(flags.encode(), dtype=np.uint8) == ord("1")
        if self.decision is not None:
            found["decision"] = np.frombuffer(self.decision.encode(), dtype=np.uint8)
        for name in ("log_odds", "nll", "squared_error"):
            if (text := getattr(self, name)) is not None:
                found[name] = np.array(text.split(), dtype=np.float64)
        if {len(one) for one in found.values()} != {self.samples}:
            raise NescioError(
                f"the stored answers do not have {self.samples} samples in each column; the file "
                "was changed: audit again"
            )
        return found


@dataclass(frozen=True, kw_only=True)
class StoredAnswers:
    """The samples of each data set: the test data, and OOD sets by name.

    test: the test samples.
    ood: samples of the OOD sets by name.
    """

    test: StoredSet
    ood: Mapping[str, StoredSet]


@section(
    "answers",
    title="Answers to single samples",
    place=900,
    budgets=("quick", "standard", "thorough"),
    tasks=(CLASSES, NUMBERS),
)
def answers_section(material: Material) -> StoredAnswers:
    """What is known of single samples, for `nescio diff`."""
    ood = {} if material.task == NUMBERS else material.ood
    return StoredAnswers(
        test=_test(material),
        ood={name: _ood(material, name, inputs) for name, (_, inputs) in ood.items()},
    )


def _test(material: Material) -> StoredSet:
    read = material.x if material.x is not None else material.answers().log_probs
    y = material.y.cpu()
    bits = y.double().reshape(len(y), -1).view(torch.int64)
    keys = hash_inputs(torch.cat([hash_inputs(read)[:, None].cpu(), bits], 1))
    rows = _drawn(keys, MOST)
    columns = _of_numbers(material) if material.task == NUMBERS else _of_classes(material)
    letters = None
    if material.decisions is not None:
        whole = torch.full((len(y),), len(LETTERS) - 1)
        whole[material.held.rows.cpu()] = material.decisions.decision.long().cpu()
        letters = _letters(whole[rows])
    return _stored(keys, rows, {name: one[rows] for name, one in columns.items()}, letters)


def _of_classes(material: Material) -> dict[str, Tensor]:
    seen, y = material.answers(), material.y.cpu()
    return {
        "wrong": seen.labels != y,
        "log_odds": _log_odds(seen),
        "nll": -seen.log_probs.gather(1, y[:, None])[:, 0],
    }


def _log_odds(seen: Any) -> Tensor:
    """They rank by confidence, also where it rounds to 1; infinite ones are only very large."""
    return torch.as_tensor(seen.scores["log_odds"]).clamp(-LARGE, LARGE)


def _of_numbers(material: Material) -> dict[str, Tensor]:
    """Squared errors, summed over targets, and -log density, where there is one."""
    assert material.prediction is not None
    said: Any = material.prediction.to("cpu", torch.float64)
    y = material.y.cpu().double().reshape(said.mixture_mean.shape)
    found = {"squared_error": (said.mixture_mean - y).square().sum(1)}
    with suppress(NescioError):  # members without a spread have no density
        found["nll"] = -said.log_prob(y)
    if material.decisions is not None:
        rows = material.held.rows.cpu()
        missed = torch.zeros(len(y), dtype=torch.bool)
        missed[rows] = material.decisions.missed(material.y.cpu()[rows]).cpu()
        found["missed"] = missed
    return found


def _ood(material: Material, name: str, inputs: Any) -> StoredSet:
    """Log-odds and decisions of OOD inputs, where the guard reads inputs."""
    seen = material.seen_ood.get(name)
    keys = hash_inputs(inputs).cpu()
    read = torch.arange(len(keys))[material.draws.spread(len(keys))]  # those that the guard read
    order = _drawn(keys[read], OOD_MOST)
    rows, columns = read[order], {}
    if seen is not None and len(seen.scores["log_odds"]) == len(keys):
        columns["log_odds"] = _log_odds(seen)[rows]
    letters = None
    if name in material.decisions_ood:
        letters = _letters(material.decisions_ood[name].decision.cpu()[order])
    return _stored(keys, rows, columns, letters)


def _drawn(keys: Tensor, most: int) -> Tensor:
    """The samples of the smallest keys, in their order, by index."""
    order = np.argsort(keys.numpy().view(np.uint64), kind="stable")
    return torch.from_numpy(order[:most].copy())


def _letters(decisions: Tensor) -> str:
    return "".join(LETTERS[code] for code in decisions.tolist())


def _stored(
    keys: Tensor, rows: Tensor, columns: Mapping[str, Tensor], letters: str | None
) -> StoredSet:
    """The chosen samples as texts."""
    texts: Any = {}
    for name, values in columns.items():
        flags = values.dtype == torch.bool
        texts[name] = (
            "".join("01"[flag] for flag in values.tolist())
            if flags
            else " ".join(f"{value:.9g}" for value in values.tolist())
        )
    chosen = keys[rows].numpy().view(np.uint64).tolist()
    return StoredSet(
        samples=len(rows),
        total=len(keys),
        keys="".join(f"{key:016x}" for key in chosen),
        decision=letters,
        **texts,
    )
