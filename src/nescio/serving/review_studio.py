"""The review queue in Label Studio: tasks out, annotations in, each annotator a reviewer."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nescio.applications import active_learning as al
from nescio.core import NescioError, write_atomically, write_json
from nescio.serving import review_items as items
from nescio.serving.consensus import LABEL, NONE, SKIP
from nescio.serving.decision_log import Label
from nescio.serving.review_queue import NONE_WORDS, Person, ReviewItem, ReviewQueue

LIMIT = 1000  # tasks of a file


@dataclass(frozen=True, kw_only=True)
class Imported:
    """What a file of Label Studio brought.

    new: the labels that were added.
    known: number of labels that the log had already.
    reviewers: names of those who gave them.
    """

    new: tuple[Label, ...]
    known: int
    reviewers: tuple[str, ...]


def export_tasks(
    queue: ReviewQueue, who: Person, path: str | Path, *, guesses: bool = False, limit: int = LIMIT
) -> tuple[Path, Path, int]:
    """Write what waits as tasks, and the labeling interface beside it; both, and the count.

    queue: the review queue, of one guard.
    who: whose items wait.
    path: the .json file to write; the interface is an .xml file of the same name.
    guesses: whether to show what the guard predicts, which sways people.
    limit: number of tasks, at most.
    """
    out = Path(path)
    if out.suffix != ".json":
        raise NescioError(f"the tasks go to a .json file, got {str(path)!r}")
    waiting = queue.waiting(who, limit=limit)
    classes = _same_classes(waiting)
    shown = [items.shown_input(queue.kept(one.id), one.columns) for one in waiting]
    pictures = None
    if waiting and all(one.png is not None for one in shown):
        pngs = [one.png or b"" for one in shown]
        pictures = {item.id: al.data_url(png) for item, png in zip(waiting, pngs, strict=True)}
    asked = [
        al.LabelQuestion(
            id=item.id,
            row=_row(seen),
            guess=queue.guess(item.id, who).label if guesses else None,
        )
        for item, seen in zip(waiting, shown, strict=True)
    ]
    pool = waiting[0].guard if waiting else ""
    tasks = al.label_studio_tasks(asked, pool=pool, model_version=pool, pictures=pictures)
    config = al.label_studio_config([*classes, NONE_WORDS], pictures=pictures is not None)
    interface = out.with_suffix(".xml")
    write_json(out, tasks)
    write_atomically(interface, config)
    queue.record(who, "export", str(out), tasks=len(tasks), guesses=guesses)
    return out, interface, len(tasks)


def _same_classes(waiting: Sequence[ReviewItem]) -> tuple[str, ...]:
    """The classes of all items, which one interface must know."""
    if not waiting:
        raise NescioError("nothing waits for a label, so there is nothing to export")
    if len({one.guard for one in waiting}) > 1:
        names = ", ".join(sorted({one.guard for one in waiting}))
        raise NescioError(f"the queue has items of several guards ({names}); name one of them")
    classes = tuple(dict.fromkeys(name for one in waiting for name in one.classes))
    if not classes:
        raise NescioError("Label Studio is for classes; this guard has none that are known")
    if NONE_WORDS in classes:
        raise NescioError(f"a class is called {NONE_WORDS!r}, which is the choice of none")
    return classes


def _row(seen: items.ShownInput) -> dict[str, str]:
    """An input as the text of a task has it."""
    return dict(seen.row) if seen.kind == items.ROW else {"text": seen.text}


def import_annotations(queue: ReviewQueue, who: Person, path: str | Path) -> Imported:
    """Take the annotations of a file that Label Studio exported as JSON, all or none.

    Annotators are kept apart: each is a reviewer by the name of its e-mail address, or as
    label-studio-3 where Label Studio says user 3. A file may be given again: what is known is left
    out.

    queue: the review queue.
    who: who brings the file, and whose labels they are where the file does not say.
    path: the file.
    """
    found = al.read_annotations(path)
    if not found:
        raise NescioError(f"{path} has no annotations: every task is without an answer")
    labels = [_label(one, who) for one in found]
    new = queue.add(labels, who, "import", str(path))
    names = tuple(dict.fromkeys(one.reviewer for one in labels))
    return Imported(new=tuple(new), known=len(labels) - len(new), reviewers=names)


def _label(one: al.StudioAnnotation, who: Person) -> Label:
    by = f"label-studio-{one.by}" if one.by.isdigit() else one.by or who.name
    kind = SKIP if one.choice is None else NONE if one.choice == NONE_WORDS else LABEL
    choice = one.choice if kind == LABEL else None
    return Label(decision=one.id, reviewer=by, kind=kind, label=choice, time=0.0)
