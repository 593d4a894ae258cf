"""The review queue in a terminal: items one by one, files, and how far it is."""

import getpass
import json
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from nescio.cli.half_blocks import half_blocks
from nescio.cli.options import note
from nescio.core import NescioError, is_terminal, write_atomically
from nescio.serving import consensus, decision_log, label_exports, review_items
from nescio.serving import review_queue as queues
from nescio.serving import review_studio as studio

END, BACK, GUESS, NO, SKIP = "q", "u", "g", "n", "s"
HELP = f"{NO} {queues.NONE_WORDS}   {SKIP} skip   {GUESS} guess   {BACK} back   {END} quit"


def review_named(
    log: str,
    reviewer: str | None,
    guard_name: str | None,
    reviews: int,
    skipped: bool,
    limit: int,
    settle: Sequence[str],
    **words: Any,
) -> None:
    """Do what the words of the command say: look, files, or label item by item."""
    who = queues.Reviewer(consensus.check_reviewer(reviewer or _user()), queues.ADMIN)
    with decision_log.open_log(log, create=False) as opened:
        queue = queues.ReviewQueue(opened, reviews=reviews, guard=guard_name)
        for text in settle:
            _settle(queue, who, text)
        if _files(queue, who, limit, words) or settle:
            return
        if words["status"]:
            _say(status(queue, who), words["as_json"])
        elif words["disagreements"]:
            _say_disagreements(queue, words["as_json"])
        elif words["as_json"]:
            raise NescioError("--json goes with --status or --disagreements")
        else:
            found = queue.skipped if skipped else queue.waiting
            _label(queue, who, found(who, limit=limit))


def _user() -> str:
    """Who runs this."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        raise NescioError("say who you are: --reviewer NAME") from None


def _settle(queue: queues.ReviewQueue, who: queues.Reviewer, text: str) -> None:
    """Settle what ID=CLASS says."""
    decision, equals, label = text.rpartition("=")
    if not equals or not decision:
        raise NescioError(f"--settle takes ID=CLASS, got {text!r}")
    kind = consensus.LABEL if label else consensus.NONE
    found = queue.settle(decision, who, label or None, kind=kind)
    click.echo(f"settled: {decision} is {queues.said(found.kind or '', found.label)}")


def _files(
    queue: queues.ReviewQueue, who: queues.Reviewer, limit: int, words: dict[str, Any]
) -> bool:
    """Read and write the files that are named; whether there were any."""
    if words["import_file"] is not None:
        got = studio.import_annotations(queue, who, words["import_file"])
        click.echo(
            f"{len(got.new)} new labels by {', '.join(got.reviewers)}; {got.known} known already"
        )
        _note_disagreements(queue)
    if words["export"] is not None:
        guesses = words["with_guess"]
        tasks, interface, count = studio.export_tasks(
            queue, who, words["export"], guesses=guesses, limit=limit
        )
        click.echo(f"written: {tasks}, {count} tasks")
        click.echo(f"written: {interface}, the labeling interface")
    elif words["with_guess"]:
        raise NescioError("--with-guess goes with --export")
    if words["csv_file"] is not None:
        count = label_exports.write_label_table(queue.log, words["csv_file"], reviews=queue.reviews)
        queue.record(who, "export", words["csv_file"], labels=count)
        click.echo(f"written: {words['csv_file']}, {count} labeled decisions")
    if words["labels_file"] is not None:
        _export_labels(queue, who, words["labels_file"])
    names = ("import_file", "export", "csv_file", "labels_file")
    return any(words[name] is not None for name in names)


def _export_labels(queue: queues.ReviewQueue, who: queues.Reviewer, path: str) -> None:
    written = label_exports.write_training_data(
        queue.log, path, guard=queue.guard, reviews=queue.reviews
    )
    queue.record(who, "export", path, **written)
    for name, count in written.items():
        click.echo(f"written: {name}, {count} rows")


def status(queue: queues.ReviewQueue, who: queues.Reviewer) -> dict[str, Any]:
    """How far the review is, as numbers.

    queue: the review queue.
    who: for whom items wait.
    """
    progress = queue.progress(who)
    found = list(queue.standings().values())
    several = [one for one in found if len(one.votes) > 1]
    alike = [one for one in several if len({(v.kind, v.label) for v in one.votes}) == 1]
    return {
        "reviewer": who.name,
        "waiting": progress.waiting,
        "more_may_wait": progress.waiting >= queues.COUNTED,
        "labeled_today": progress.today,
        "agreed": progress.agreed,
        "disputed": progress.disputed,
        "none_of_the_classes": sum(one.kind == consensus.NONE for one in found),
        "labeled_by_several": len(several),
        "of_these_alike": len(alike),
        "reviewers": dict(Counter(vote.reviewer for one in found for vote in one.votes)),
    }


def _say(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    for name, value in found.items():
        shown = value
        if isinstance(value, dict):
            shown = ", ".join(f"{who} {count}" for who, count in value.items()) or "nobody"
        title = "labeled today by you" if name == "labeled_today" else name.replace("_", " ")
        click.echo(f"{title:<20} {shown}")


def _say_disagreements(queue: queues.ReviewQueue, as_json: bool) -> None:
    found = {
        one.decision: {vote.reviewer: queues.said(vote.kind, vote.label) for vote in one.votes}
        for one in queue.disagreements()
    }
    if as_json:
        listed = [{"decision": name, "votes": votes} for name, votes in found.items()]
        click.echo(json.dumps(listed, indent=2))
        return
    for name, votes in found.items():
        click.echo(f"{name}: " + ", ".join(f"{who} {words}" for who, words in votes.items()))
    count = "1 disagreement" if len(found) == 1 else f"{len(found)} disagreements"
    click.echo(count + "; --settle ID=CLASS settles one" * bool(found))


def _note_disagreements(queue: queues.ReviewQueue) -> None:
    if found := queue.disagreements():
        decisions = "1 decision" if len(found) == 1 else f"{len(found)} decisions"
        note(f"reviewers disagree about {decisions}; see --disagreements")


def _label(
    queue: queues.ReviewQueue, who: queues.Reviewer, waiting: list[queues.ReviewItem]
) -> None:
    """Ask for each item, until there are none or somebody quits."""
    place = given = 0
    with _pictures() as folder:
        while place < len(waiting):
            item = waiting[place]
            click.echo(f"\n[{place + 1} of {len(waiting)}] {item.guard}  {item.id}")
            _show(queue, item, folder)
            step = _ask(queue, who, item)
            if step is None:
                break
            given += step.given
            place = max(0, place + step.move)
    left = queue.progress(who)
    click.echo(f"\n{given} labeled now, {left.today} today; {left.waiting} wait")
    _note_disagreements(queue)


@contextmanager
def _pictures() -> Iterator[Path]:
    """A folder that only this user can read, for pictures; it is gone at the end."""
    folder = Path(tempfile.mkdtemp(prefix="nescio-review-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _show(queue: queues.ReviewQueue, item: queues.ReviewItem, folder: Path) -> None:
    """The input: a table, text, or a picture as the terminal can show it."""
    shown = review_items.shown_input(queue.kept(item.id), item.columns)
    if shown.png is not None:
        console = Console(file=sys.stdout)
        if console.is_terminal and console.color_system is not None and not console.no_color:
            console.print(half_blocks(shown.png))
        else:
            path = folder / f"{len(list(folder.iterdir())):04}.png"
            write_atomically(path, shown.png)
            click.echo(f"picture: {path}")
        return
    width = max((len(name) for name, _ in shown.row), default=0)
    for name, value in shown.row:
        click.echo(f"  {_clean(name):<{width}}  {_clean(value)}")
    if shown.text:
        click.echo(_clean(shown.text))
    if shown.left_out:
        click.echo(f"  ... and {shown.left_out} more")


def _clean(text: str) -> str:
    """Text of others, without what would steer the terminal."""
    return "".join(one if one.isprintable() or one in "\n\t" else "?" for one in text)


class ReviewStep:
    """What follows an answer: how many items to go on, and how many labels were given."""

    def __init__(self, move: int, given: int = 0) -> None:
        self.move, self.given = move, given


def _ask(
    queue: queues.ReviewQueue, who: queues.Reviewer, item: queues.ReviewItem
) -> ReviewStep | None:
    """One answer about an item; None: quit."""
    choices = queues.keyed(item.classes)
    by_key = {key: name for name, key in choices}
    listed = "   ".join(f"{key} {_clean(name)}" for name, key in choices)
    what = "the number" if item.targets else "the class"
    click.echo((listed or f"type {what}, or a letter:") + f"\n{HELP}")
    seen = False
    while True:
        word = _read(single=bool(choices))
        if word is None or word == END:
            return None
        if word == GUESS:
            seen = True
            found = queue.guess(item.id, who)
            sure = "" if found.probability is None else f", probability {found.probability:.3f}"
            click.echo(f"guess: {_clean(found.label)} ({found.decision}{sure})")
        elif word == BACK:
            return ReviewStep(-1)
        elif word in (NO, SKIP):
            kind = consensus.NONE if word == NO else consensus.SKIP
            queue.give(item.id, who, None, kind=kind, guess_seen=seen)
            return ReviewStep(1, int(kind == consensus.NONE))
        else:
            label = by_key.get(word, word)
            try:
                queues.checked_label(label, item)
            except NescioError as error:
                click.echo(f"{error}")
                continue
            queue.give(item.id, who, label, guess_seen=seen)
            return ReviewStep(1, 1)


def _read(*, single: bool) -> str | None:
    """A key, or where a person does not type, a line; None at the end."""
    if single and is_terminal(sys.stdin):
        key = click.getchar()
        if key in ("\x03", "\x04"):
            return None
        click.echo(key)
        return key.strip()
    line = sys.stdin.readline()
    return line.strip() if line else None
