"""Questions and answers in the JSON of Label Studio: tasks with predictions, and annotations.

A task has `data` with the id of the item and what is shown, `predictions` with the model's guess,
and, once people answered, `annotations`. Choices are in `value.choices`; an annotation that was
skipped has `was_cancelled`. See labelstud.io/guide/task_format.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

from nescio.applications.active_learning.questions import Answered, LabelQuestion, one_pool
from nescio.core import NescioError

FROM, TO = "label", "item"  # names of the choices and of what is shown
SHOWN = 5  # tasks in a message


@dataclass(frozen=True, kw_only=True)
class StudioAnnotation:
    """What one annotator said about one task.

    id: id of the item.
    by: who said it: an e-mail address, or the number of a user; empty: the file does not say.
    choice: the class that was chosen; None: it was skipped.
    """

    id: str
    by: str
    choice: str | None


def label_studio_tasks(
    questions: Iterable[LabelQuestion],
    *,
    pool: str,
    model_version: str,
    pictures: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    """Questions as tasks to import in Label Studio; those with a label have it as an annotation.

    questions: the items to label.
    pool: name of the pool that the answers go to.
    model_version: a name of the model that guessed.
    pictures: what Label Studio shows, by id: a URL or the image itself as a data: URL; None: the
      row as text.
    """
    return [_task(question, pool, model_version, pictures) for question in questions]


def _task(
    question: LabelQuestion, pool: str, model_version: str, pictures: Mapping[str, str] | None
) -> dict[str, Any]:
    shown = {"text": _text(question)} if pictures is None else {"image": pictures[question.id]}
    data = {"id": question.id, **shown, "why": question.why, "pool": pool}
    guesses = [] if question.guess is None else [question.guess]
    answers = [] if question.label is None else [question.label]
    return {
        "data": data,
        "predictions": [
            {"model_version": model_version, "score": question.confidence, "result": [_choice(one)]}
            for one in guesses
        ],
        "annotations": [{"was_cancelled": False, "result": [_choice(one)]} for one in answers],
    }


def _choice(name: str) -> dict[str, Any]:
    return {"from_name": FROM, "to_name": TO, "type": "choices", "value": {"choices": [name]}}


def _text(question: LabelQuestion) -> str:
    lines = [f"{name}: {value}" for name, value in question.row.items()]
    return "\n".join(lines) or question.id


def label_studio_config(classes: Sequence[str], *, pictures: bool) -> str:
    """The labeling interface of Label Studio for these tasks, in its XML.

    classes: names of the classes.
    pictures: whether the tasks show pictures; otherwise text.
    """
    shown = "Image" if pictures else "Text"
    value = "$image" if pictures else "$text"
    choices = [f"    <Choice value={quoteattr(name)}/>" for name in classes]
    lines = [
        "<View>",
        f'  <{shown} name="{TO}" value="{value}"/>',
        f'  <Choices name="{FROM}" toName="{TO}" choice="single" showInline="true">',
        *choices,
        "  </Choices>",
        "</View>",
    ]
    return "\n".join(lines) + "\n"


def read_label_studio(path: str | Path) -> Answered:
    """The answers in the file `path` that Label Studio exported as JSON.

    A task without an annotation, and one whose annotators all skipped it, has no answer. Of several
    annotations, those marked as ground truth count alone; what still differs is refused.
    """
    tasks = _tasks(Path(path))
    found = [_answers(path, number, task) for number, task in enumerate(tasks)]
    differing = [(name, labels) for name, labels in found if len(set(labels)) > 1]
    if differing:
        listed = "; ".join(f"{name!r}: {', '.join(labels)}" for name, labels in differing[:SHOWN])
        more = f" and {len(differing) - SHOWN} more" if len(differing) > SHOWN else ""
        raise NescioError(
            f"the annotations of {len(differing)} task(s) in {path} differ: {listed}{more}; mark "
            "the right one as ground truth, or delete the others"
        )
    return Answered(
        pairs=tuple((name, labels[0]) for name, labels in found if labels),
        blank=tuple(name for name, labels in found if not labels),
        pool=one_pool(path, [str(task["data"].get("pool") or "") for task in tasks]),
    )


def read_annotations(path: str | Path) -> list[StudioAnnotation]:
    """All annotations in the file `path` that Label Studio exported as JSON, of each annotator.

    Tasks without an annotation are left out.
    """
    found = []
    for number, task in enumerate(_tasks(Path(path))):
        name = _name(path, number, task)
        for one in _annotations(path, name, task):
            skipped = bool(one.get("was_cancelled"))
            choice = None if skipped else _chosen(path, name, one)
            found.append(StudioAnnotation(id=name, by=_annotator(one), choice=choice))
    return found


def _annotator(annotation: Mapping[str, Any]) -> str:
    """Who made an annotation; Label Studio says it as a number, or with an address."""
    by = annotation.get("completed_by")
    if isinstance(by, Mapping):
        by = by.get("email") or by.get("id")
    return "" if by is None else str(by).strip()


def _tasks(path: Path) -> list[dict[str, Any]]:
    try:
        tasks = json.loads(path.read_text("utf-8-sig"))
    except FileNotFoundError:
        raise NescioError(f"no file {path}; check the name") from None
    except (OSError, ValueError) as error:
        raise NescioError(f"cannot read {path}: {error}; expected JSON of Label Studio") from None
    tasks = [tasks] if isinstance(tasks, dict) else tasks
    good = isinstance(tasks, list) and tasks
    if not good or not all(isinstance(t, dict) and isinstance(t.get("data"), dict) for t in tasks):
        raise NescioError(
            f"{path} must hold a list of tasks, each with `data` and `annotations`; export from "
            "Label Studio as JSON, not as JSON-MIN or CSV"
        )
    return tasks


def _answers(path: str | Path, number: int, task: Mapping[str, Any]) -> tuple[str, list[str]]:
    """The id of a task, and what its annotators chose."""
    name = _name(path, number, task)
    given = _annotations(path, name, task)
    counted = [one for one in given if not one.get("was_cancelled")]
    true = [one for one in counted if one.get("ground_truth")]
    labels = [_chosen(path, name, one) for one in true or counted]
    return name, [label for label in labels if label is not None]


def _name(path: str | Path, number: int, task: Mapping[str, Any]) -> str:
    """The id of a task."""
    name = task["data"].get("id")
    if name is None or not str(name).strip():
        raise NescioError(
            f"task {task.get('id', number)} of {path} has no `id` in its data; import the tasks "
            "that `nescio label export` writes, or add the id of the item"
        )
    return str(name)


def _annotations(path: str | Path, name: str, task: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The annotations of a task."""
    given = task.get("annotations") or []
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        raise NescioError(f"{name!r} in {path}: `annotations` must be a list of objects")
    return given


def _chosen(path: str | Path, name: str, annotation: Mapping[str, Any]) -> str | None:
    """The one choice of an annotation; None where nothing was chosen."""
    results = annotation.get("result") or []
    if not isinstance(results, list) or not all(isinstance(one, dict) for one in results):
        raise NescioError(f"{name!r} in {path}: the result of an annotation must be a list")
    choices = [
        str(choice)
        for one in results
        if one.get("type") == "choices"
        for choice in (one.get("value") or {}).get("choices") or []
    ]
    if results and not choices:
        kinds = ", ".join(sorted({str(one.get("type")) for one in results}))
        raise NescioError(f"{name!r} in {path} has {kinds} and no choices; a label is one choice")
    if len(choices) > 1:
        raise NescioError(
            f"{name!r} in {path} has {len(choices)} choices, {', '.join(choices)}; expected one "
            'class for each item: choice="single" in the labeling interface'
        )
    return choices[0] if choices else None
