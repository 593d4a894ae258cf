"""A pool that people label: what to ask next, answers, training, and what labels buy."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import torch

from nescio.applications import active_learning as al
from nescio.cli import label_words as words
from nescio.cli import options as opt
from nescio.cli.label_files import address, read_file, write_ask, write_export
from nescio.cli.label_pool import Project
from nescio.cli.networks import load_guard
from nescio.cli.options import note
from nescio.core import NescioError, derive, generator, log_odds, make_folder, setting
from nescio.core.registry import acquisitions, recipes
from nescio.data import readers


def start_pool(
    folder: str,
    data_name: str,
    class_names: str | None,
    test_name: str | None,
    test_size: int,
    options: Sequence[str],
    net_name: str | None,
    **settings: Any,
) -> None:
    """Make a pool, and say what is in it."""
    if test_name is not None and test_size:
        raise NescioError("give --test or --test-size, not both")
    recipes[settings["recipe"]]
    made = Project.start(
        folder,
        data_name,
        {
            **settings,
            "classes": readers.listed(class_names) or None,
            "test": test_name,
            "test_size": test_size,
            "options": dict(setting(one) for one in options),
            "net": net_name,
        },
    )
    tested = "no samples to test on" if made.test is None else f"{len(made.test[0])} test samples"
    tested = f"{test_size} of them to test on" if test_size else tested
    click.echo(
        f"{len(made.pool)} items, {tested}, classes {words.few(made.pool.classes)}: {folder}"
    )
    if made.test is None and not test_size:
        note("without --test or --test-size nobody can say what labels buy, nor plan them")
    click.echo(f"next: nescio label next {folder} --out ask.csv")


def write_next(folder: str, out: str, again: bool, no_guess: bool, **options: Any) -> None:
    """Write what to label next."""
    if Path(out).suffix not in (".csv", ".json"):
        raise NescioError(f"--out must end in .csv or .json, got {out!r}")
    acquisitions.built(options["acquisition"])  # an unknown name, also before there is a model
    make_folder(Path(out).parent)
    project = Project.open(folder)
    pool = project.pool
    waiting = pool.waiting
    if again and not len(waiting):
        raise NescioError(f"nothing of {folder} waits for an answer; leave out --again")
    if len(waiting) and not again:
        note(
            f"{len(waiting)} items were asked before and have no answer yet; --again asks for them"
        )
    index = waiting if again else _ask(project, **options)
    questions = words.questions(project, index.tolist())
    for path in write_ask(Path(out), project, index.tolist(), questions, guesses=not no_guess):
        click.echo(f"written: {path}")
    click.echo(words.then(project, index.tolist(), out))


def _ask(
    project: Project, *, size: int, acquisition: str, candidates: int, guard_file: str | None
) -> torch.Tensor:
    """Choose items and note that they are asked."""
    pool, step = project.pool, len(project.pool.asked)
    free = pool.free
    predictor = project.predictor()
    if predictor is None:
        return _first(project, size)
    test = _ask_tests(project, free)
    if len(test) == len(free) > 0:
        return test
    free = pool.free
    if len(free) > candidates:
        note(f"chosen among {candidates} of {len(free)} items, drawn at random; see --candidates")
    guard = None if guard_file is None else load_guard(guard_file, None, None)
    with opt.warnings_as_notes():
        chosen = pool.choose(
            predictor,
            project.items.hashed,
            min(size, len(free)) or size,
            acquisition,
            guard=guard,
            candidates=candidates,
            seed=derive(project.about["seed"], "label", step) % (1 << 31),
        )
    if guard is not None:
        note(f"{chosen.left_out} items were left out: the guard calls them OOD")
    names = [pool.ids[at] for at in chosen.index.tolist()]
    guessed = [pool.classes[at] for at in chosen.predicted.tolist()]
    parts = zip(names, guessed, chosen.confidence.tolist(), chosen.why, strict=True)
    project.save_guesses(
        {name: {"guess": g, "confidence": c, "why": why} for name, g, c, why in parts}
    )
    return torch.cat([test, chosen.index.cpu()])


def _ask_tests(project: Project, free: torch.Tensor) -> torch.Tensor:
    """Ask for all items to test on that were not asked yet: an acquisition must not choose them."""
    index = free[torch.isin(free, torch.tensor(project.about["test_index"], dtype=torch.long))]
    if len(index):
        why = {"guess": None, "confidence": None, "why": "drawn at random, to test on"}
        project.save_guesses({project.pool.ids[at]: why for at in index.tolist()})
        project.pool.ask(index)
    return index


def _first(project: Project, size: int) -> torch.Tensor:
    """The items to test on, and `size` others, all drawn at random."""
    free = project.pool.free
    if not len(free):
        raise NescioError("every item was asked, and none is answered: nescio label add FILE")
    test = torch.tensor(project.about["test_index"], dtype=torch.long)
    others = free[~torch.isin(free, test)]
    seed = generator(project.about["seed"], "label start", len(project.pool.asked))
    drawn = others[torch.randperm(len(others), generator=seed)[:size]]
    index = torch.cat([free[torch.isin(free, test)], drawn])
    index = index[torch.randperm(len(index), generator=seed)]
    why = {"guess": None, "confidence": None, "why": "drawn at random: there is no model yet"}
    project.save_guesses({project.pool.ids[at]: why for at in index.tolist()})
    project.pool.ask(index)
    return index


def take_answers(files: Sequence[str], correct: bool) -> None:
    """Take answers, train, and say what they bought."""
    opt.resumable()
    given, project = _opened(files)
    before = project.curve[-1] if project.curve else None
    guesses = project.guesses
    if given.pairs:
        new = project.pool.answer(given.pairs, correct=correct)
        click.echo(words.taken(given, new, guesses))
    elif not len(project.pool.labeled[0]):
        raise NescioError(f"{files[-1]} has no answers: every label is blank; fill them in")
    else:
        note("no answers in the file: every label is blank")
    _bought(project, before)


def _opened(files: Sequence[str]) -> tuple[al.Answered, Project]:
    """The answers, and the pool that they or the command line name."""
    if len(files) > 2:
        raise NescioError("give one file with answers, or a pool and the file: add POOL ANSWERS")
    folder, key = address(read_file(Path(files[-1])).pool)
    folder = files[0] if len(files) == 2 else folder
    if not folder:
        raise NescioError(
            f"{files[-1]} does not name its pool; give it: nescio label add POOL {files[-1]}"
        )
    project = Project.open(folder)
    if key and key != project.pool.key:
        raise NescioError(
            f"{files[-1]} has answers about the items of another pool than {folder}; give the pool "
            f"that asked, or take labels with the same ids by nescio label import {folder}"
        )
    return read_file(Path(files[-1]), project.pool), project


def _bought(project: Project, before: dict[str, Any] | None) -> None:
    """Train, and say what changed."""
    now = project.step()
    click.echo(words.progress(project))
    if now is None:
        note("a model needs labels of two classes to train on: label more")
    else:
        click.echo(words.errors(before, now))
        click.echo(f"model: {project.model_folder(now['model'])}")
    click.echo(f"next: nescio label next {project.pool.folder} --out ask.csv")


def plan_labels(
    folder: str,
    error: float | None,
    guarantee: float | None,
    coverage: float,
    confidence: float,
) -> None:
    """Say how many more labels an error rate takes, or a guarantee."""
    if (error is None) == (guarantee is None):
        raise NescioError("give --error RATE or --guarantee RATE, one of the two")
    project = Project.open(folder)
    now = project.step()
    if now is None:
        raise NescioError(f"{folder} has no model yet: label some items of two classes first")
    if project.test is None:
        raise NescioError(
            f"{folder} has no test samples with labels, so no error rate is known; start a pool "
            "with --test or --test-size"
        )
    if error is not None:
        labels, rates = words.points(project.curve)
        found = al.plan(labels, rates, target=error, tested=now["tested"])
        click.echo(str(found))
        left = len(project.pool.unlabeled)
        if left < found.more < float("inf"):
            note(f"the pool has only {left} items without a label")
        return
    x, y = project.test
    prediction = project.predictor()(x)
    wrong = prediction.labels.cpu() != y
    scores = log_odds(prediction).cpu()
    assert guarantee is not None
    wish = {"risk": guarantee, "coverage": coverage, "confidence": confidence}
    click.echo(str(al.plan_guarantee(scores, wrong, **wish)))


def say_status(folder: str) -> None:
    """Say what is labeled, what waits, and how the error rate went."""
    project = Project.open(folder)
    click.echo(words.progress(project))
    click.echo(words.table(project.curve))


def write_labels(folder: str, kind: str, out: str, image_url: str | None) -> None:
    """Write all labels, or everything that was asked."""
    project = Project.open(folder)
    for path in write_export(Path(out), project, kind, image_url):
        click.echo(f"written: {path}")


def take_labels(folder: str, labels: str, correct: bool) -> None:
    """Take labels of items that were never asked, and train."""
    opt.resumable()
    project = Project.open(folder)
    pool = project.pool
    given = read_file(Path(labels), pool)
    before = project.curve[-1] if project.curve else None
    at = {name: index for index, name in enumerate(pool.ids)}
    asked = set(pool.asked)
    new = list(
        dict.fromkeys(at[name] for name, _ in given.pairs if name in at and name not in asked)
    )
    words.check_pairs(project, given)
    if new:
        pool.ask(new)
    click.echo(words.taken(given, pool.answer(given.pairs, correct=correct), {}))
    _bought(project, before)
