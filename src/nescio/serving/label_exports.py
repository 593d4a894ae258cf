"""What reviewers agreed on, as files that other commands read: a table, and training data."""

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from nescio.core import NescioError, unknown, write_atomically, writing_atomically
from nescio.guards import table_text
from nescio.serving.bodies import rows_of_kept
from nescio.serving.consensus import AGREED, LABEL, Standing, standings
from nescio.serving.input_form import InputForm
from nescio.serving.log_calibration import about_guard, only_guard
from nescio.serving.review_queue import columns_in, said

if TYPE_CHECKING:
    from nescio.serving.decision_log import DecisionLog, KeptInput

COLUMNS = ("decision", "guard", "time", "decided", "guess", "state", "label", "reviewers", "votes")


def write_label_table(log: "DecisionLog", path: str | Path, *, reviews: int = 1) -> int:
    """Write every decision that somebody labeled as a row of a .csv file; the number of rows.

    log: the decision log.
    path: the file.
    reviews: number of reviewers that a label needs.
    """
    rows = []
    for name, found in standings(log, reviews=reviews).items():
        one = log.decision(name)
        if one is None:
            continue
        label = said(found.kind, found.label) if found.kind is not None else ""
        votes = "; ".join(f"{vote.reviewer}: {said(vote.kind, vote.label)}" for vote in found.votes)
        rows.append([name, one.guard, f"{one.time:.3f}", one.decision, one.label, found.state,
            label, str(len(found.votes)), votes])  # fmt: skip
    _write_csv(Path(path), COLUMNS, rows)
    return len(rows)


def write_training_data(
    log: "DecisionLog", path: str | Path, *, guard: str | None = None, reviews: int = 1
) -> dict[str, int]:
    """Write the labeled inputs for training and active learning; rows of each file.

    The table has the columns `id` and `label`, as `nescio label import` reads it, and `decision`.
    Beside it, of labels.csv, labels.npz has the inputs x and the classes y, as `nescio train` reads
    them, and ids are its rows; of a table, labels-rows.csv has the rows with a column `label`.
    Inputs that are none of the classes are in labels-none.npz, or labels-none.csv.

    log: the decision log.
    path: the .csv file.
    guard: name of the guard; None: the only one.
    reviews: number of reviewers that a label needs.
    """
    out = Path(path)
    if out.suffix != ".csv":
        raise NescioError(f"the labels go to a .csv file, got {str(path)!r}")
    name = only_guard(log, guard)
    about = about_guard(log, name)
    pairs = _labeled(log, name, reviews)
    chosen = [(one, kept) for one, kept in pairs if one.kind == LABEL]
    others = [kept for one, kept in pairs if one.kind != LABEL]
    if not chosen:
        raise NescioError(f"no input of the guard {name!r} has a label yet: nescio review LOG")
    labels = [str(one.label) for one, _ in chosen]
    table = any(kept.kind == "row" for _, kept in pairs)
    beside = out.with_name(f"{out.stem}-rows.csv") if table else out.with_suffix(".npz")
    written = {str(beside): len(chosen)}
    _write_inputs(beside, [kept for _, kept in chosen], about, labels)
    if others:
        aside = out.with_name(f"{out.stem}-none{beside.suffix}")
        _write_inputs(aside, others, about, None)
        written[str(aside)] = len(others)
    ids = [[str(at), str(one.label), one.decision] for at, (one, _) in enumerate(chosen)]
    _write_csv(out, ("id", "label", "decision"), ids)
    return {str(out): len(ids), **written}


def _write_inputs(
    path: Path,
    kept: "Sequence[KeptInput]",
    about: dict[str, Any],
    labels: Sequence[str] | None,
) -> None:
    """Inputs, with their labels where there are some: a table, or arrays."""
    if path.suffix == ".csv":
        _write_rows(path, kept, labels, columns_in(about))
        return
    arrays = {"x": _arrays(kept, about)}
    if labels is not None:
        arrays["y"] = _numbered(labels, [str(one) for one in about.get("classes") or ()])
    with writing_atomically(path) as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def _labeled(log: "DecisionLog", guard: str, reviews: int) -> "list[tuple[Standing, KeptInput]]":
    """What is agreed about decisions of a guard, oldest first, with the inputs that are there."""
    found = [one for one in standings(log, reviews=reviews).values() if one.state == AGREED]
    logged = {one.decision: log.decision(one.decision) for one in found}
    own = [(one, entry) for one in found
           if (entry := logged[one.decision]) is not None and entry.guard == guard]  # fmt: skip
    own.sort(key=lambda pair: pair[1].seq)
    kept = [(one, log.kept(one.decision)) for one, _ in own]
    return [(one, body) for one, body in kept if body is not None]


def _arrays(kept: "Sequence[KeptInput]", about: dict[str, Any]) -> NDArray[Any]:
    """Inputs (N, ...) as the guard reads them."""
    if all(one.kind == "npy" for one in kept):  # kept as the guard read them
        return np.stack([np.load(io.BytesIO(one.body), allow_pickle=False) for one in kept])
    shape = (about.get("input") or {}).get("shape")
    form = InputForm(
        shape=None if shape is None else tuple(shape),
        kinds={},
        tokens=False,
        columns=None,
        names=(),
        classes=0,
        wide=False,
    )
    found = rows_of_kept(kept, form)
    assert isinstance(found, Tensor)
    return found.numpy()


def _numbered(labels: Sequence[str], classes: Sequence[str]) -> NDArray[Any]:
    """Labels as numbers: of classes their places, of a regression the numbers themselves."""
    if not classes:
        try:
            numbers = np.array([[float(word) for word in text.split()] for text in labels])
        except ValueError:
            raise NescioError(
                "the log does not know the classes of this guard, so labels have no numbers"
            ) from None
        return numbers[:, 0] if numbers.shape[1] == 1 else numbers
    for one in labels:
        if one not in classes:
            raise NescioError(unknown("class", one, classes))
    return np.array([classes.index(one) for one in labels], dtype=np.int64)


def _write_rows(
    path: Path, kept: "Sequence[KeptInput]", labels: Sequence[str] | None, columns: Sequence[str]
) -> None:
    """Rows of a table with their ids, and their labels where there are some."""
    rows = [json.loads(one.body) for one in kept if one.kind == "row"]
    if len(rows) < len(kept) or not all(isinstance(one, dict) for one in rows):
        raise NescioError("the inputs are of several kinds; they cannot be one table")
    if any(isinstance(value, list | dict) for row in rows for value in row.values()):
        raise NescioError("the inputs are several arrays each; they cannot be the rows of a table")
    names = list(dict.fromkeys([*columns, *(name for row in rows for name in row)]))
    if taken := {"id", "label"} & set(names):
        raise NescioError(
            f"the column {taken.pop()!r} of the inputs has a name that is needed here"
        )
    cells = [
        [str(at), *("" if row.get(name) is None else str(row[name]) for name in names)]
        for at, row in enumerate(rows)
    ]
    if labels is not None:
        cells = [[*own, label] for own, label in zip(cells, labels, strict=True)]
    _write_csv(path, ("id", *names, *(["label"] if labels is not None else [])), cells)


def _write_csv(path: Path, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(list(map(table_text.harmless, head)))
    writer.writerows([list(map(table_text.harmless, row)) for row in rows])
    write_atomically(path, text.getvalue())
