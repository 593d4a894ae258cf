"""The files of `nescio label`: questions with their images, exports, and answers."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from nescio.applications import active_learning as al
from nescio.cli.label_pool import Project
from nescio.cli.label_words import questions as questions_of
from nescio.core import make_folder, write_atomically, write_json

LETTERS = 40  # of an id in the name of a file


def read_file(path: Path, pool: al.Pool | None = None) -> al.Answered:
    """Answers of a table, or of Label Studio; `pool` is whom they are for."""
    if path.suffix == ".json":
        return al.read_label_studio(path)
    known = {} if pool is None else {"ids": pool.ids, "classes": pool.classes}
    return al.read_answers(path, **known)


def address(named: str | None) -> tuple[str, str]:
    """The folder of the pool that a file names, and its key; both may be empty."""
    folder, key = named or "", ""
    if re.search(r"#[0-9a-f]{8}$", folder):
        folder, _, key = folder.rpartition("#")
    return folder, key


def write_ask(
    out: Path,
    project: Project,
    index: Sequence[int],
    questions: Sequence[al.LabelQuestion],
    *,
    guesses: bool,
) -> list[Path]:
    """The table, or tasks of Label Studio, with the images beside it; what was written."""
    if out.suffix == ".json":
        shown = questions if guesses else [replace(one, guess=None, why="") for one in questions]
        return _write_tasks(out, project, index, shown, None)
    written = []
    if project.items.pictures:
        folder, images = make_folder(out.with_name(f"{out.stem}-images")), []
        asked = []
        for place, (at, one) in enumerate(zip(index, questions, strict=True)):
            images.append(al.thumbnail(project.items.x[at]))
            name = re.sub(r"[^\w.-]", "_", one.id)[-LETTERS:].removesuffix(".png")
            write_atomically(folder / f"{place:03}-{name}.png", images[-1])
            asked.append(replace(one, picture=f"{folder.name}/{place:03}-{name}.png"))
        questions = asked
        sheet = out.with_suffix(".png")
        write_atomically(sheet, _sheet(images, questions, guesses))
        written = [folder, sheet]
    al.write_questions(out, questions, pool=project.address, guesses=guesses)
    return [*written, out]


def _sheet(images: Sequence[bytes], questions: Sequence[al.LabelQuestion], guesses: bool) -> bytes:
    from nescio.report import plots

    texts = [
        f"{one.id}\nguess {one.guess}, {one.confidence:.2f}" if guesses and one.guess else one.id
        for one in questions
    ]
    shown = any(one.guess for one in questions) and guesses
    title = "To label: id, the model's guess and its confidence" if shown else "To label"
    sheet: bytes = plots.contact_sheet(images, texts, title=title)
    return sheet


def write_export(out: Path, project: Project, kind: str, image_url: str | None) -> list[Path]:
    """All labels as a table, or everything that was asked as tasks; what was written."""
    pool = project.pool
    at = {name: index for index, name in enumerate(pool.ids)}
    names = list(pool.answers) if kind == "csv" else pool.asked
    index = [at[name] for name in names]
    questions = questions_of(project, index)
    if kind == "csv":
        al.write_questions(out, questions, pool=project.address)
        return [out]
    return _write_tasks(out, project, index, questions, image_url)


def _write_tasks(
    out: Path,
    project: Project,
    index: Sequence[int],
    questions: Sequence[al.LabelQuestion],
    image_url: str | None,
) -> list[Path]:
    pictures = None
    if project.items.pictures:
        pictures = {
            one.id: f"{image_url}{one.id}"
            if image_url is not None
            else al.data_url(al.thumbnail(project.items.x[at]))
            for at, one in zip(index, questions, strict=True)
        }
    curve = project.curve
    tasks = al.label_studio_tasks(
        questions,
        pool=project.address,
        model_version=f"nescio, {curve[-1]['labels'] if curve else 0} labels",
        pictures=pictures,
    )
    write_json(out, tasks)
    interface = out.with_suffix(".xml")
    config = al.label_studio_config(project.pool.classes, pictures=pictures is not None)
    write_atomically(interface, config)
    return [out, interface]
