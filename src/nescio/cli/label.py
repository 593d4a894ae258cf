"""`nescio label`: a pool that people label, and what their labels buy."""

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
from nescio.cli.options import data_option, note, option
from nescio.core import NescioError, derive, generator, log_odds, make_folder, setting
from nescio.core.registry import recipes
from nescio.data import readers

POOL = opt.argument("folder", metavar="POOL")
CANDIDATES = 10_000  # items that are scored at a time


class Verbs(click.Group):
    """The commands in the order in which they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """As they are written."""
        return list(self.commands)


@click.group(cls=Verbs)
def label() -> None:
    """Label a pool with people: what to ask next, and what the answers buy.

    POOL is a folder that keeps everything: what was asked, what was answered, the model. A process
    that is killed loses no answer, and the same command continues.

    \b
    nescio label start pool photos:size=32 --class-names cat,dog --test-size 100
    nescio label next pool --out ask.csv       fill in the column `label`, then
    nescio label add ask.csv                   and so on, until
    nescio label plan pool --error 0.05        says that it is enough
    """


# fmt: off
START = [
    POOL,
    opt.argument("data_name", metavar="DATA"),
    option("--class-names", "The classes that people may answer.  [default: those of --test]",
        metavar="A,B,..."),
    data_option("test", "Samples with labels to measure the error rate on; they are never trained "
        "on: an .npz file with x and y, a folder with a folder of images for each class, or, with "
        "--target, a table.  [default: see --test-size]"),
    opt.TARGET,
    option("--test-size", "The number of items of the pool, drawn at random, that are asked first "
        "and only tested on, where there is no --test.", default=0, type=opt.COUNT),
    option("--recipe", "What is trained after each answer, of `nescio list recipes`.",
        default="deep_ensemble"),
    option("--option -o options", "An option of the recipe, for example -o members=10. "
        "Repeatable.", multiple=True, metavar="NAME=VALUE"),
    option("--net net_name", "A network of `nescio list nets`, or package.module:factory.  "
        "[default: as for `nescio train`]", metavar="NAME"),
    option("--updates", "The number of training steps, of 32 samples each.", default=400,
        type=opt.POSITIVE),
    option("--learning-rate", "The step size of the optimizer.", default=1e-3),
    option("--standardize", "Scale inputs by the mean and the standard deviation of the labeled "
        "samples.", is_flag=True),
    opt.SEED,
]
# fmt: on


@label.command(params=START)
def start(
    folder: str,
    data_name: str,
    class_names: str | None,
    test_name: str | None,
    test_size: int,
    options: Sequence[str],
    net_name: str | None,
    **settings: Any,
) -> None:
    """Make a pool of items that have no labels yet.

    DATA are the items: a folder of images (photos:size=32:mode=gray), an .npz file with x or an
    .npy file, or a .csv or .parquet table (patients.csv:keep=name; the first column of keep= has
    the ids, without= leaves columns out). They stay where they are, and must stay as they are.

    To know what labels buy, samples to test on are needed: --test, or --test-size.

    \b
    nescio label start pool photos:size=32 --class-names cat,dog,other --test-size 100
    nescio label start pool unlabeled.npz --test test.npz --recipe dropout --net small_cnn
    nescio label start pool patients.csv:keep=name --class-names no,yes --test seen.csv \\
        --target died
    """
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


# fmt: off
NEXT = [
    POOL,
    option("--out", "The table to fill in, a .csv file. Images are in a folder beside it, and all "
        "together on a sheet, a .png file. A .json file is for Label Studio.",
        default="ask.csv", type=opt.PATH),
    option("--size", "The number of items to ask for.", default=10, type=opt.POSITIVE),
    option("--acquisition", "How items are chosen, of `nescio list acquisitions`, with options as "
        "in batchbald,samples=10000.", default="batchbald", metavar="NAME"),
    option("--candidates", "The number of items, drawn at random, that are looked at.",
        default=CANDIDATES, type=opt.POSITIVE),
    option("--guard guard_file", "A guard of `nescio guard`; what it calls OOD is not asked.",
        type=opt.PATH, metavar="FILE"),
    option("--no-guess", "Do not show what the model thinks: it sways people.", is_flag=True),
    option("--again", "Ask again for what was asked and not answered, and for nothing else.",
        is_flag=True),
    opt.DEVICE,
]
# fmt: on


@label.command("next", params=NEXT)
def next_(folder: str, out: str, again: bool, no_guess: bool, **options: Any) -> None:
    """Write what to label next: id, image or row, the model's guess, why it was chosen.

    Fill in the column `label` and give the file to `nescio label add`. Before there is a label,
    items are drawn at random, those to test on among them.

    \b
    nescio label next pool --out ask.csv --size 20 --acquisition bald
    nescio label next pool --out ask.csv --guard guard.safetensors
    nescio label next pool --out tasks.json         for Label Studio
    """
    if Path(out).suffix not in (".csv", ".json"):
        raise NescioError(f"--out must end in .csv or .json, got {out!r}")
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


# fmt: off
ADD = [
    opt.argument("files", nargs=-1, required=True, metavar="[POOL] ANSWERS"),
    option("--correct", "Let answers replace earlier ones that differ.", is_flag=True),
    opt.DEVICE,
]
# fmt: on


@label.command(params=ADD)
def add(files: Sequence[str], correct: bool) -> None:
    """Take answers, train, and say what they bought.

    ANSWERS is the .csv file of `nescio label next` with its column `label` filled in; blank ones
    may come later. It may also be the JSON that Label Studio exports. The file names its POOL,
    which may be given, too. All answers are taken or none: an id that was not asked, an unknown
    class, two answers that differ, and items that changed since are errors.

    \b
    nescio label add ask.csv
    nescio label add pool export.json
    """
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


# fmt: off
PLAN = [
    POOL,
    option("--error", "The error rate to reach by labels for training.", type=float),
    option("--guarantee", "The error rate among its answers that a guard is to guarantee, by "
        "labels for calibration.", type=float),
    option("--coverage", "The share of inputs that the guard is to answer; with --guarantee.",
        default=0.9, type=float),
    option("--confidence", "The probability of the guarantee; with --guarantee.", default=0.95),
]
# fmt: on


@label.command(params=PLAN)
def plan(
    folder: str,
    error: float | None,
    guarantee: float | None,
    coverage: float,
    confidence: float,
) -> None:
    """Say how many more labels an error rate takes, or a guarantee of the guard.

    --error continues the learning curve of the pool, of at least four steps, as a power of the
    number of labels. --guarantee computes how many calibration labels let the guard answer
    --coverage of the inputs with at most this error rate, by the guard's own tests. Both rest on
    the test samples, and say when these cannot tell.

    \b
    nescio label plan pool --error 0.05
    nescio label plan pool --guarantee 0.02 --coverage 0.8
    """
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


@label.command(params=[POOL])
def status(folder: str) -> None:
    """Say what is labeled, what waits for an answer, and how the error rate went."""
    project = Project.open(folder)
    click.echo(words.progress(project))
    click.echo(words.table(project.curve))


# fmt: off
EXPORT = [
    POOL,
    option("--format kind", "csv: id and label of all that is labeled. label-studio: tasks with "
        "the guesses, and annotations where there are answers; the labeling interface is written "
        "beside it.", default="csv", type=click.Choice(["csv", "label-studio"])),
    option("--out", "The file to write.", required=True, type=opt.PATH),
    option("--image-url", "Where Label Studio finds images: this with the id after it, for example "
        "/data/local-files/?d=photos/.  [default: images are within the file]", metavar="URL"),
]
# fmt: on


@label.command(params=EXPORT)
def export(folder: str, kind: str, out: str, image_url: str | None) -> None:
    """Write all labels, or everything that was asked, for other programs.

    \b
    nescio label export pool --out labels.csv
    nescio label export pool --format label-studio --out tasks.json
    """
    project = Project.open(folder)
    for path in write_export(Path(out), project, kind, image_url):
        click.echo(f"written: {path}")


@label.command(
    "import",
    params=[
        POOL,
        opt.argument("labels"),
        option("--correct", "Let labels replace earlier ones that differ.", is_flag=True),
        opt.DEVICE,
    ],
)
def import_(folder: str, labels: str, correct: bool) -> None:
    """Take labels that exist already, for items that were never asked.

    LABELS is a .csv file with columns `id` and `label`, or JSON of Label Studio. Ids are those of
    the pool: the path of an image within its folder, the number of a row from 0 on, or the column
    of keep=. Training follows, as for `add`.
    """
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
