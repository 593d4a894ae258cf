"""What people are asked, as a table that they fill in, and their answers read back."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nescio.core import NescioError, write_atomically
from nescio.data import readers
from nescio.guards import table_text

OWN = ("id", "label", "guess", "confidence", "why")  # columns before those of the item
SHOWN = 5  # ids in a message


@dataclass(frozen=True, kw_only=True)
class LabelQuestion:
    """An item that people are asked to label, and what the model thinks of it.

    id: name of the item.
    guess: class that the model predicts.
    confidence: confidence of the model.
    why: why it was chosen.
    label: the answer; None: there is none yet.
    picture: its file, as the table names it.
    row: its row of a table, by column.
    """

    id: str
    guess: str | None = None
    confidence: float | None = None
    why: str = ""
    label: str | None = None
    picture: str | None = None
    row: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Answered:
    """Answers as a file has them.

    pairs: id and label, in the order of the file.
    blank: ids without an answer so far.
    pool: the pool that the file names.
    """

    pairs: tuple[tuple[str, str], ...]
    blank: tuple[str, ...]
    pool: str | None


def write_questions(
    path: str | Path, questions: Sequence[LabelQuestion], *, pool: str, guesses: bool = True
) -> None:
    """Write a CSV file with an empty column `label` to fill in.

    path: file to write.
    questions: the items to label.
    pool: name of the pool that the answers belong to.
    guesses: whether the file shows what the model thinks, which sways people.
    """
    own = OWN if guesses else ("id", "label")
    pictures = any(question.picture is not None for question in questions)
    rows = list(dict.fromkeys(name for question in questions for name in question.row))
    taken = (*own, "image", "pool")
    named = [f"{name} (row)" if name in taken else name for name in rows]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        [*own, *(["image"] if pictures else []), *map(table_text.harmless, named), "pool"]
    )
    for question in questions:
        confidence = "" if question.confidence is None else f"{question.confidence:.3f}"
        known = {"id": question.id, "label": question.label or "", "guess": question.guess or ""}
        known |= {"confidence": confidence, "why": question.why}
        cells = [known[name] for name in own]
        cells += [question.picture or ""] if pictures else []
        cells += [question.row.get(name, "") for name in rows]
        writer.writerow([*map(table_text.harmless, cells), pool])
    write_atomically(Path(path), text.getvalue())


def read_answers(
    path: str | Path, ids: Iterable[str] | None = None, classes: Iterable[str] | None = None
) -> Answered:
    """The answers of a CSV file with columns `id` and `label`; a blank label is not an answer yet.

    path: file to read.
    ids, classes: ids and classes of the pool, to undo what keeps a spreadsheet from running one of
      them; None: the words are taken as they are.
    """
    words = readers.csv_words(path, header=True)
    for name in ("id", "label"):
        if name not in words:
            raise NescioError(
                f"{path} has no column {name!r}; expected `id` and `label`, as in the file that "
                f"`nescio label next` writes; its columns: {', '.join(words)}"
            )
    names = _as_known(words["id"], ids)
    labels = _as_known(words["label"], classes)
    if lost := [label for name, label in zip(names, labels, strict=True) if label and not name]:
        raise NescioError(f"{len(lost)} row(s) of {path} have a label and no id; fill in the id")
    pairs = [(name, label) for name, label in zip(names, labels, strict=True) if name]
    return Answered(
        pairs=tuple((name, label) for name, label in pairs if label),
        blank=tuple(name for name, label in pairs if not label),
        pool=one_pool(path, words.get("pool", ())),
    )


def one_pool(path: str | Path, named: Iterable[str]) -> str | None:
    """The pool that a file names; None where it names none."""
    pools = sorted({text.strip() for text in named} - {""})
    if len(pools) > 1:
        raise NescioError(
            f"{path} has rows of {len(pools)} pools ({', '.join(pools[:SHOWN])}); give a file for "
            "each"
        )
    return pools[0] if pools else None


def _as_known(texts: Iterable[str], names: Iterable[str] | None) -> list[str]:
    """Texts without the apostrophe that `harmless` puts before what a spreadsheet would run."""
    known = frozenset(names or ())
    stripped = [text.strip() for text in texts]
    return [
        text[1:] if text[:1] == "'" and text not in known and text[1:] in known else text
        for text in stripped
    ]
