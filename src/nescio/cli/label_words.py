"""What `nescio label` says: questions, what answers bought, the state of a pool."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import Any

from nescio.applications import active_learning as al
from nescio.cli.label_pool import Project
from nescio.conformal import binomial_interval
from nescio.core import NescioError, unknown

SHOWN = 10  # classes in a line
NORMAL = NormalDist().inv_cdf(0.975)


def few(names: Sequence[str]) -> str:
    """The first names, and how many there are."""
    more = f", ... ({len(names)})" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def questions(project: Project, index: Sequence[int]) -> list[al.LabelQuestion]:
    """Items as they are asked, with their answers, where there are some."""
    guesses, answers = project.guesses, project.pool.answers

    def one(at: int) -> al.LabelQuestion:
        name = project.pool.ids[at]
        said = guesses.get(name, {})
        return al.LabelQuestion(
            id=name,
            guess=said.get("guess"),
            confidence=said.get("confidence"),
            why=said.get("why", ""),
            label=answers.get(name),
            row={} if project.items.pictures else project.row(at),
        )

    return [one(at) for at in index]


def then(project: Project, index: Sequence[int], out: str) -> str:
    """How many are to be labeled, and what to do with the file."""
    tested = len(set(index) & set(project.about["test_index"]))
    count = f"{len(index)} to label" + (f", {tested} of them to test on" if tested else "")
    if out.endswith(".json"):
        interface = f"{out.removesuffix('.json')}.xml"
        return (
            f"{count}; import {out} in Label Studio, with {interface} as the labeling interface, "
            "and export as JSON; then: nescio label add EXPORT.json"
        )
    return f"{count}: fill in the column label; then: nescio label add {out}"


def check_pairs(project: Project, given: al.Answered) -> None:
    """Refuse labels of unknown classes and items before these are noted as asked."""
    known = frozenset(project.pool.ids)
    for name, label in given.pairs:
        if name not in known:
            raise NescioError(f"the pool has no item {name!r}; are these labels of another pool?")
        if label not in project.pool.classes:
            raise NescioError(
                f"the label of {name!r}: {unknown('class', label, project.pool.classes)}"
            )


def taken(given: al.Answered, new: int, guesses: Mapping[str, Mapping[str, Any]]) -> str:
    """How many answers there are, and how many the model did not expect."""
    lines = [f"{len(given.pairs)} answers, {new} of them new"]
    if given.blank:
        lines[0] += f"; {len(given.blank)} items have no answer yet"
    guessed = {name: said["guess"] for name, said in guesses.items() if said.get("guess")}
    compared = [(name, label) for name, label in given.pairs if name in guessed]
    if compared:
        differ = sum(label != guessed[name] for name, label in compared)
        lines.append(
            f"{differ} of {len(compared)} answers differ from the model's guess; it asks for what "
            "is hard, so its error rate elsewhere is lower"
        )
    return "\n".join(lines)


def progress(project: Project) -> str:
    """How many labels there are, by class, and what is open."""
    pool = project.pool
    index, labels = project.trained_on
    counts = Counter(pool.classes[at] for at in labels.tolist())
    by_class = ", ".join(f"{name} {counts[name]}" for name in pool.classes[:SHOWN])
    tested = len(pool.labeled[0]) - len(index)
    lines = [f"{len(index)} labels to train on ({by_class}) of {len(pool)} items"]
    if project.about["test_index"]:
        lines.append(f"{tested} of {len(project.about['test_index'])} labels to test on")
    if waiting := len(pool.waiting):
        lines.append(f"{waiting} items were asked and have no answer yet")
    return "\n".join(lines)


def errors(before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> str:
    """The error rate before and after, and the change, each with a 95 % interval."""
    if not now["tested"]:
        return "no test samples: the error rate is not known"
    after = f"test error {_rate(now)} with {now['labels']} labels, on {now['tested']} samples"
    if before is None or before["test"] != now["test"] or before["model"] == now["model"]:
        return after
    change, low, high = paired_change(before["wrong"], now["wrong"], now["tested"])
    return (
        f"{after}; before {_rate(before)} with {before['labels']}\n"
        f"change of the test error {change:+.4f}, 95 % interval {low:+.4f} to {high:+.4f}"
    )


def _rate(step: Mapping[str, Any]) -> str:
    found = binomial_interval(len(step["wrong"]), step["tested"])
    return f"{len(step['wrong']) / step['tested']:.4f} [{found.low:.4f}, {found.high:.4f}]"


def paired_change(
    before: Sequence[int], after: Sequence[int], tested: int
) -> tuple[float, float, float]:
    """The change of an error rate on the same samples, and its 95 % interval.

    The interval has the changes that a score test does not reject (Tango, 1998). Only samples that
    exactly one of the two gets wrong tell the two apart, and how many these are is uncertain too.
    """
    worse, better = len(set(after) - set(before)), len(set(before) - set(after))
    low, high = (_last_plausible(worse, better, tested, end) for end in (-1.0, 1.0))
    return (worse - better) / tested, low, high


def _last_plausible(worse: int, better: int, tested: int, end: float) -> float:
    """The change furthest towards `end` that the test does not reject."""
    near, far = (worse - better) / tested, end
    for _ in range(50):
        middle = (near + far) / 2
        near, far = (near, middle) if _rejected(worse, better, tested, middle) else (middle, far)
    return near


def _rejected(worse: int, better: int, tested: int, change: float) -> bool:
    """Whether the score test at 5 % rejects a change of an error rate.

    The variance is that under this change: `share` is the most likely share of samples that only
    the first model gets wrong, the root of a quadratic equation.
    """
    spread = 2 * tested * change - (worse + better) - (worse - better) * change
    root = math.sqrt(spread**2 + 8 * tested * better * change * (1 - change))
    share = (root - spread) / (4 * tested)
    variance = tested * (2 * share + change * (1 - change))
    return (worse - better - tested * change) ** 2 > NORMAL**2 * variance


def points(curve: Sequence[Mapping[str, Any]]) -> tuple[list[int], list[float]]:
    """The learning curve of the samples that are tested on now; of equal labels the last step."""
    steps = {step["labels"]: step for step in curve if step["test"] == curve[-1]["test"]}
    labels = sorted(steps)
    return labels, [len(steps[count]["wrong"]) / steps[count]["tested"] for count in labels]


def table(curve: Sequence[Mapping[str, Any]]) -> str:
    """The learning curve, a line for each step."""
    if not curve:
        return "no model yet"
    lines = [f"{one['labels']:>6}  {_rate(one) if one['tested'] else '-'}" for one in curve]
    return "\n".join(["labels  test error [95 % interval]", *lines])
