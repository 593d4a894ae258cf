"""The findings of an experiment as Markdown: a short page, and a page for each part behind it."""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nescio_papers.kit.claims import (
    FAILS,
    HOLDS,
    IN_PART,
    NOT_REACHED,
    OPEN,
    ROUNDING,
    SAME,
    VERDICTS,
    ruled,
)
from nescio_papers.kit.durations import in_words
from nescio_papers.kit.records import is_older

if TYPE_CHECKING:
    from nescio_papers.kit.experiment import Experiment, Settings

MINUTE = 60  # seconds; what takes less is not said
MOST = 200  # lines of a summary
WORDS = 700  # characters of a part's text in it
MANY = 100  # times the repetitions; what needs more is not counted
OF_A_FULL_RUN = "Some numbers of samples, seeds and epochs in the text are those of a full run."
NOT_PRINTED = "No published number is known of what is measured here."
RULE = (
    "A claim *holds* where every number is on its side of the limit over its whole 95 % interval, "
    "*does not hold* where none is, and *holds in part* where some are; it is *open* where a limit "
    "is inside an interval, a number is missing, or the run was quick, and was *not reached here* "
    "where what it presupposes failed."
)
WORST_FIRST = (FAILS, NOT_REACHED, IN_PART)
OLDER_RULE = (
    "Claims marked *older rule* were judged by an earlier version, and their numbers lack what the "
    "rule of today reads: run their parts with `--again`."
)

Parts = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Detail:
    """How much of each part a summary shows; the rest is on the page of the part."""

    claims: int | None  # at most so many of those that do not hold, beside counts; None: all
    rows: int  # of published numbers beside ours
    pictures: int
    captions: bool = False


DETAILS = (
    Detail(claims=None, rows=8, pictures=99, captions=True),
    Detail(claims=None, rows=8, pictures=2, captions=True),
    Detail(claims=None, rows=8, pictures=2),
    Detail(claims=None, rows=4, pictures=1),
    Detail(claims=60, rows=8, pictures=2),
    Detail(claims=60, rows=4, pictures=1),
    Detail(claims=40, rows=4, pictures=1),
    Detail(claims=30, rows=3, pictures=1),
    Detail(claims=20, rows=3, pictures=1),
    Detail(claims=0, rows=2, pictures=1),
    Detail(claims=0, rows=1, pictures=1),
    Detail(claims=0, rows=0, pictures=1),
    Detail(claims=0, rows=0, pictures=0),
)


def summary(experiment: "Experiment", settings: "Settings", done: Parts) -> str:
    """Title, verdicts, and each part in short: as much as fits in 200 lines."""
    text = ""
    for detail in DETAILS:
        text = _page(experiment, settings, done, detail)
        if text.count("\n") <= MOST:
            break
    return text


def _page(experiment: "Experiment", settings: "Settings", done: Parts, detail: Detail) -> str:
    lines = [f"# {experiment.title}", *_made(experiment, settings, done), *skipped_lines(done)]
    lines += _verdicts(experiment, done, detail, quick=settings.quick)
    for part in experiment.parts:
        if part.name in done:
            lines += _part(part.name, done[part.name], detail)
    return "\n\n".join(lines) + "\n"


def _made(experiment: "Experiment", settings: "Settings", done: Parts) -> Iterator[str]:
    """What the page is, how it was made, and what is missing."""
    how = "quick run" if settings.quick else "full run"
    took = _took(*done.values())
    yield (
        f"Source: {experiment.source}. Made by `{command(experiment, settings)}` "
        f"({how}, seed {settings.seed}{took})."
    )
    if settings.quick:
        yield f"{OF_A_FULL_RUN} A quick run judges nothing: every verdict is open."
    versions: dict[str | None, list[str]] = {}
    for name, record in done.items():
        if not record["empty"]:
            versions.setdefault(record["version"], []).append(name)
    if len(versions) > 1:
        said = [
            f"{', '.join(names)} with {f'nescio {one}' if one else 'an unrecorded version'}"
            for one, names in versions.items()
        ]
        yield f"Parts were measured with different versions: {'; '.join(said)}."
    missing = [part.name for part in experiment.parts if part.name not in done]
    if missing:
        yield f"Not run: {', '.join(missing)}."


def _took(*records: Mapping[str, Any]) -> str:
    """How long it took, if it took long; the seconds of a resumed part are not all."""
    seconds = sum(record["seconds"] for record in records)
    least = "at least " * any(record["resumed"] for record in records)
    return f", {least}{in_words(seconds)}" if seconds >= MINUTE else ""


def command(experiment: "Experiment", settings: "Settings") -> str:
    """The command that makes the results."""
    return f"nescio reproduce {experiment.name}{' --quick' if settings.quick else ''}"


def skipped_lines(done: Parts) -> list[str]:
    """What could not be run and why, as a list in Markdown; nothing where all could."""
    rows = [f"- {what}: {why}." for what, why in skipped_by_reason(done, mark="`")]
    return ["Skipped, and why:", "\n".join(rows)] if rows else []


def skipped_by_reason(done: Parts, mark: str = "") -> list[tuple[str, str]]:
    """What could not be run with the parts it belongs to, one row for each reason."""
    reasons: dict[str, list[str]] = {}
    for name, record in done.items():
        for what, why in record["skipped"].items():
            reasons.setdefault(why.rstrip("."), []).append(f"{what} ({mark}{name}{mark})")
    return [(", ".join(names), why) for why, names in reasons.items()]


def counted(claims: Sequence[Mapping[str, Any]]) -> str:
    """How many claims there are of each verdict: `12 hold`."""
    counts = Counter(claim["verdict"] for claim in claims)
    return ", ".join(f"{word}: {counts[word]}" for word in VERDICTS if counts[word])


def claims_in(done: Parts) -> list[Mapping[str, Any]]:
    """The claims of all parts."""
    return [claim for record in done.values() for claim in record["claims"]]


def _verdicts(experiment: "Experiment", done: Parts, detail: Detail, *, quick: bool) -> list[str]:
    """The verdicts: all of them, or counts and those that need a look."""
    claims = claims_in(done)
    if not claims:
        return []
    said = f"{len(claims)} claims. {counted(claims)}. {RULE}"
    if any(map(is_older, claims)):
        said += f" {OLDER_RULE}"
    lines = ["## What the source says, and what we found", said]
    if detail.claims is None:
        return [*lines, claims_table(claims, quick=quick)]
    lines.append(_counts(experiment, done))
    others = [c for word in WORST_FIRST for c in claims if c["verdict"] == word]
    shown = others[: detail.claims]
    if shown:
        rest = f" ({len(shown)} of {len(others)})" if len(shown) < len(others) else ""
        lines += [
            f"Those that do not hold, or not in full{rest}:",
            claims_table(shown, quick=quick),
        ]
    return lines


def _counts(experiment: "Experiment", done: Parts) -> str:
    """The verdicts by part, each with a link to its claims."""
    rows = []
    for part in experiment.parts:
        claims = done[part.name]["claims"] if part.name in done else []
        if claims:
            counts = Counter(claim["verdict"] for claim in claims)
            link = f"[{part.name}]({part.name}.md)"
            rows.append([link, *(str(counts[word] or "–") for word in VERDICTS)])
    return table(["part", *VERDICTS], rows)


def _part(name: str, record: Mapping[str, Any], detail: Detail) -> list[str]:
    """A part in short: text, pictures, published numbers beside ours, and a link to the rest."""
    figures = list(record["figures"].items())
    shown = figures[: detail.pictures]
    rows = record["comparisons"]
    link = f"[{_behind(len(figures) - len(shown), len(rows) - detail.rows)}]({name}.md)"
    lines = [f"## {record['title']}", " ".join(filter(None, [short(record["text"]), link]))]
    for file, caption in shown:
        below = f"\n*{caption}*" if caption and detail.captions else ""
        lines.append(f"![{caption}]({file}){below}")
    if rows[: detail.rows]:
        lines.append(comparisons(_spread(rows, detail.rows)))
    return lines


def _behind(pictures: int, published: int) -> str:
    """What the page of a part has beside the summary."""
    counts = {"picture": pictures, "published number": published}
    more = [
        f"{count} more {what}{'s' * (count > 1)}" for what, count in counts.items() if count > 0
    ]
    return f"{', '.join([*more, 'all'])} numbers and words".capitalize()


def _spread(rows: Sequence[Any], most: int) -> Sequence[Any]:
    """At most so many rows, at even distances, the first and the last among them."""
    count = min(most, len(rows))
    return [rows[place * (len(rows) - 1) // max(1, count - 1)] for place in range(count)]


def short(text: str, most: int = WORDS) -> str:
    """The first paragraph of a text in one line; whole sentences of it where it is long."""
    first = " ".join(text.strip().split("\n\n", 1)[0].split())
    if first.startswith(("|", "#", "- ")):
        return ""
    if len(first) <= most:
        return first
    kept = ""
    for sentence in re.split(r"(?<=[.!?])(?<!Adv\.) (?=[A-Z*`])", first):
        if len(kept) + len(sentence) > most:
            break
        kept = f"{kept} {sentence}".strip()
    return kept or first[:most].rsplit(" ", 1)[0] + " ..."


def part_page(
    experiment: "Experiment", settings: "Settings", name: str, record: Mapping[str, Any]
) -> str:
    """All that a part found: words, pictures, published numbers and claims with their rules."""
    made = f"`{command(experiment, settings)} --part {name}`{_took(record)}"
    lines = [f"# {record['title']}", f"[{experiment.title}](summary.md). Made by {made}."]
    lines += skipped_lines({name: record})
    if record["text"]:
        lines += [OF_A_FULL_RUN] * settings.quick + [record["text"].strip()]
    for file, caption in record["figures"].items():
        lines.append(f"![{caption}]({file})")
        if caption:
            lines.append(f"*{caption}*")
    if record["comparisons"]:
        lines += ["## Published, and here", comparisons(record["comparisons"])]
    elif name in experiment.unpublished:
        lines += ["## Published, and here", NOT_PRINTED]
    if record["claims"]:
        shown = claims_table(record["claims"], quick=settings.quick)
        lines += ["## What the source says, and what we found", shown]
    return "\n\n".join(lines) + "\n"


def comparisons(rows: Sequence[Mapping[str, Any]]) -> str:
    """Published numbers beside ours."""
    cells = [[r["what"], _number(r["published"]), _number(r["ours"]), r["note"]] for r in rows]
    return table(["number", "published", "here", "note"], cells)


def claims_table(claims: Sequence[Mapping[str, Any]], *, quick: bool = False) -> str:
    """Claims with their verdicts, and the numbers and limits that these follow from.

    quick: whether they come from a quick run, of which nothing can be foretold.
    """
    cells = [
        [c["source"], c["sentence"], _word(c), _measured(c) + ("" if quick else _to_decide(c))]
        for c in claims
    ]
    return table(["where", "the source says", "verdict", "measured, and the limit"], cells)


def _measured(claim: Mapping[str, Any]) -> str:
    """What was measured, and why numbers without an interval have none."""
    asked = [need for need in claim.get("needs", ()) if need["verdict"] != HOLDS]
    shown = [*asked, *claim.get("facts", ())]
    reasons: dict[str, list[str]] = {}
    for one in shown:
        if one.get("exact", SAME) != SAME and one["value"] is not None:
            reasons.setdefault(one["exact"], []).append(one["what"].rstrip(":"))
    if not reasons:
        return str(claim["measured"])
    if len(reasons) == 1 and len(*reasons.values()) == len(shown):
        why = f": {next(iter(reasons))}"
    else:
        each = (f"of {' and '.join(what)}: {reason}" for reason, what in reasons.items())
        why = f" {'; '.join(each)}"
    return f"{claim['measured']} (no interval{why})"


def _to_decide(claim: Mapping[str, Any]) -> str:
    """At most how many times the repetitions would decide an open claim, if its numbers stay."""
    if claim["verdict"] != OPEN:
        return ""
    facts, needs = ([_decided(one) for one in claim.get(name, ())] for name in ("facts", "needs"))
    for times in sorted({times for times, _ in (*facts, *needs) if times < math.inf}):
        then = ([word if own <= times else OPEN for own, word in each] for each in (facts, needs))
        if facts and ruled(*then) != OPEN:
            enough = (
                f"at most {times} times" if times <= MANY else f"perhaps more than {MANY} times"
            )
            return f"; if the estimates stay the same, {enough} as many repetitions decide it"
    return ""


def _decided(one: Mapping[str, Any]) -> tuple[float, str]:
    """How many times the repetitions decide a fact, at most, and how; infinity: never.

    Intervals shrink like 1/√n, those over few trainings faster; one of two ends may be cut off.
    """
    if one["verdict"] != OPEN:
        return 1, one["verdict"]
    value, low, high = (
        math.nan if one[end] is None else one[end] for end in ("value", "low", "high")
    )
    sides = [(one.get("below"), 1), (one.get("above"), -1)]
    gap = next((sign * (value - limit) for limit, sign in sides if limit is not None), math.nan)
    if math.isnan(low + gap + high) or not gap:  # no limit: expected finite
        return math.inf, OPEN
    reach = max(value - low, high - value)
    return math.ceil((reach / gap) ** 2 - ROUNDING), FAILS if gap > 0 else HOLDS


def _word(claim: Mapping[str, Any]) -> str:
    """The verdict; one of an earlier version is marked."""
    return f"{claim['verdict']} (older rule)" if is_older(claim) else str(claim["verdict"])


def table(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    clean = [[str(cell).replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in clean])


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"
