"""`nescio label`: a pool that people label, and what their labels buy."""

from typing import Any

import click

from nescio.cli import options as opt
from nescio.cli.options import data_option, option
from nescio.cli.verbs import Verbs

POOL = opt.argument("folder", metavar="POOL", type=opt.PATH)
EXAMPLES = {
    "a pool of arrays, and samples with labels to test on": "nescio label start pool "
    "unlabeled.npz --test test.npz",
    "what to label next: fill in the column `label` of the table": "nescio label next pool "
    "--out ask.csv",
    "take the answers, train, and say what they bought": "nescio label add ask.csv",
    "how many labels let a guard answer 80 % with at most 10 % errors?": "nescio label plan pool "
    "--guarantee 0.1 --coverage 0.8",
}


@click.group(cls=Verbs, examples=EXAMPLES, page="methods/active-learning.md")
def label() -> None:
    """Choose what people label next, and say what labels buy.

    POOL is a folder that keeps everything: what was asked, what was answered, the model. A process
    that is killed loses no answer, and the same command continues. `start` makes a pool; `next`
    and `add` follow each other until `plan` says that it is enough.
    """


# fmt: off
START = [
    POOL,
    opt.argument("data_name", metavar="DATA", type=opt.DATA),
    option("--class-names", "The classes that people may answer.  [default: those of --test]",
        metavar="A,B,..."),
    data_option("test", "Samples with labels to measure the error rate on; they are never trained "
        "on: an .npz file with x and y, a folder with a folder of images for each class, or, with "
        "--target, a table.  [default: see --test-size]"),
    opt.TARGET,
    option("--test-size", "The number of items of the pool, drawn at random, that are asked first "
        "and only tested on, where there is no --test.", default=0, type=opt.COUNT),
    option("--recipe", "What is trained after each answer, of `nescio list recipes`.",
        default="deep_ensemble", metavar="NAME", type=opt.Name("recipes")),
    option("--option -o options", "An option of the recipe, for example -o members=10. "
        "Repeatable.", multiple=True, metavar="NAME=VALUE"),
    option("--net net_name", "A network of `nescio list nets`, or package.module:factory.  "
        "[default: as for `nescio train`]", metavar="NAME", type=opt.Name("nets")),
    option("--updates", "The number of training steps, of 32 samples each.", default=400,
        type=opt.POSITIVE),
    option("--learning-rate", "The step size of the optimizer.", default=1e-3),
    option("--standardize", "Scale inputs by the mean and the standard deviation of the labeled "
        "samples.", is_flag=True),
    opt.SEED,
]
# fmt: on
OF_START = {
    "photos, of which 20, drawn at random, are labeled first to test on": "nescio label start "
    "photo-pool photos:size=8 --class-names cat,dog --test-size 20",
    "a table, tested on patients whose outcome is known": "nescio label start ward "
    "new-patients.csv:keep=name:without=died --class-names no,yes --test patients.csv:keep=name "
    "--target died",
    "another recipe, with less training": "nescio label start small-pool unlabeled.npz "
    "--test test.npz --recipe dropout --updates 100",
}


@label.command(params=START, examples=OF_START)
def start(**words: Any) -> None:
    """Make a pool of items that have no labels yet.

    DATA are the items: a folder of images (photos:size=32:mode=gray), an .npz file with x or an
    .npy file, or a .csv or .parquet table (patients.csv:keep=name; the first column of keep= has
    the ids, without= leaves columns out). They stay where they are, and must stay as they are.

    To know what labels buy, samples to test on are needed: --test, or --test-size.
    """
    from nescio.cli.work.label import start_pool

    start_pool(**words)


# fmt: off
NEXT = [
    POOL,
    option("--out", "The table to fill in, a .csv file. Images are in a folder beside it, and all "
        "together on a sheet, a .png file. A .json file is for Label Studio.",
        default="ask.csv", type=opt.PATH),
    option("--size", "The number of items to ask for.", default=10, type=opt.POSITIVE),
    option("--acquisition", "How items are chosen, of `nescio list acquisitions`, with options as "
        "in batchbald,samples=10000.", default="batchbald", metavar="NAME",
        type=opt.Name("acquisitions")),
    option("--candidates", "The number of items, drawn at random, that are looked at.",
        default=10_000, type=opt.POSITIVE),
    option("--guard guard_file", "A guard of `nescio guard`; what it calls OOD is not asked.  "
        "[default: all items may be asked]", type=opt.PATH, metavar="FILE"),
    option("--no-guess", "Do not show what the model thinks: it sways people.", is_flag=True),
    option("--again", "Ask again for what was asked and not answered, and for nothing else.",
        is_flag=True),
    opt.DEVICE,
]
# fmt: on
OF_NEXT = {
    "20 items on which the members of the model disagree most": "nescio label next pool "
    "--out ask.csv --size 20 --acquisition bald",
    "the same questions again, without the model's guess": "nescio label next pool --out ask.csv "
    "--again --no-guess",
    "tasks for Label Studio": "nescio label next pool --out tasks.json",
}


@label.command("next", params=NEXT, examples=OF_NEXT)
def next_(**words: Any) -> None:
    """Write what to label next: id, image or row, the model's guess, why it was chosen.

    Fill in the column `label` and give the file to `nescio label add`. Before there is a label,
    items are drawn at random, those to test on among them.
    """
    from nescio.cli.work.label import write_next

    write_next(**words)


# fmt: off
ADD = [
    opt.argument("files", nargs=-1, required=True, metavar="[POOL] ANSWERS", type=opt.PATH),
    option("--correct", "Let answers replace earlier ones that differ.", is_flag=True),
    opt.DEVICE,
]
# fmt: on
OF_ADD = {
    "the table of `nescio label next`, filled in": "nescio label add ask.csv",
    "what Label Studio exported": "nescio label add pool export.json",
    "answers that correct earlier ones": "nescio label add ask.csv --correct",
}


@label.command(params=ADD, examples=OF_ADD)
def add(**words: Any) -> None:
    """Take answers, train, and say what they bought.

    ANSWERS is the .csv file of `nescio label next` with its column `label` filled in; blank ones
    may come later. It may also be the JSON that Label Studio exports. The file names its POOL,
    which may be given, too. All answers are taken or none: an id that was not asked, an unknown
    class, two answers that differ, and items that changed since are errors.
    """
    from nescio.cli.work.label import take_answers

    take_answers(**words)


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
OF_PLAN = {
    "how many labels until 5 % of the test samples are wrong?": "nescio label plan pool "
    "--error 0.05",
    "how many calibration labels for a guard with at most 10 % errors?": "nescio label plan pool "
    "--guarantee 0.1 --coverage 0.8",
}


@label.command(params=PLAN, examples=OF_PLAN)
def plan(**words: Any) -> None:
    """Say how many more labels an error rate takes, or a guarantee of the guard.

    --error continues the learning curve of the pool, of at least four steps, as a power of the
    number of labels. --guarantee computes how many calibration labels let the guard answer
    --coverage of the inputs with at most this error rate, by the guard's own tests. Both rest on
    the test samples, and say when these cannot tell.
    """
    from nescio.cli.work.label import plan_labels

    plan_labels(**words)


OF_STATUS = {
    "one pool": "nescio label status pool",
    "another, of which nothing is labeled yet": "nescio label status photo-pool",
}


@label.command(params=[POOL], examples=OF_STATUS)
def status(folder: str) -> None:
    """Say what is labeled, what waits for an answer, and how the error rate went."""
    from nescio.cli.work.label import say_status

    say_status(folder)


# fmt: off
EXPORT = [
    POOL,
    option("--format kind", "csv: id and label of all that is labeled. label-studio: tasks with "
        "the guesses, and annotations where there are answers; the labeling interface is written "
        "beside it.", default="csv", type=opt.Choice(["csv", "label-studio"])),
    option("--out", "The file to write.", required=True, type=opt.PATH),
    option("--image-url", "Where Label Studio finds images: this with the id after it, for example "
        "/data/local-files/?d=photos/.  [default: images are within the file]", metavar="URL"),
]
# fmt: on
OF_EXPORT = {
    "id and label of all that is labeled": "nescio label export pool --out labels.csv",
    "tasks and answers for Label Studio": "nescio label export pool --format label-studio "
    "--out all-tasks.json",
}


@label.command(params=EXPORT, examples=OF_EXPORT)
def export(**words: Any) -> None:
    """Write all labels, or everything that was asked, for other programs."""
    from nescio.cli.work.label import write_labels

    write_labels(**words)


IMPORT = [
    POOL,
    opt.argument("labels", type=opt.PATH),
    option("--correct", "Let labels replace earlier ones that differ.", is_flag=True),
    opt.DEVICE,
]
OF_IMPORT = {
    "a table with columns id and label": "nescio label import pool known.csv",
    "the same, in place of labels that differ": "nescio label import pool known.csv --correct",
}


@label.command("import", params=IMPORT, examples=OF_IMPORT)
def import_(**words: Any) -> None:
    """Take labels that exist already, for items that were never asked.

    LABELS is a .csv file with columns `id` and `label`, or JSON of Label Studio. Ids are those of
    the pool: the path of an image within its folder, the number of a row from 0 on, or the column
    of keep=. Training follows, as for `add`.
    """
    from nescio.cli.work.label import take_labels

    take_labels(**words)
