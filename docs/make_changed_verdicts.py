"""Write the table of verdicts that changed: `python docs/make_changed_verdicts.py COMMIT`.

It compares the results of all papers with those of a commit, and replaces the rows of the first
such table of the CHANGELOG. The reason is the first fact that decides: one that fails where the
verdict is not that the claim holds, and one that is open where it is open.
"""

import difflib
import json
import math
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from nescio_papers.kit.claims import FAILS, HOLDS, IN_PART, NOT_REACHED, OPEN, Fact
from nescio_papers.kit.records import OLD_WORDS

DOCS = Path(__file__).parent
PAPERS = {
    "know-your-limits": "first paper",
    "know-your-limits-search": "first paper",
    "relu-overconfidence": "second paper",
    "deep-ensembles": "practical",
    "robust-deep-learning": "lecture",
    "uci": "tables",
}
DECIDES = {HOLDS: HOLDS, IN_PART: FAILS, FAILS: FAILS, NOT_REACHED: FAILS, OPEN: OPEN}
HEAD = "| where | claim | before | now | why |\n|---|---|---|---|---|\n"
MOST = 91  # characters of a sentence
ALIKE, NEARLY = 0.6, 0.75  # sentences of one part that are the same claim, and of two parts
Key = tuple[str, str, str]
SAID = {  # beginnings of sentences that were quoted anew, and of what stood there before
    "Improved training performances with activating dropout": "Dropout only propagates the mean",
    "MC dropout vs dropout, test error with LeNet": "Dropout only propagates the mean",
    "(b) convergence slowdown": "(b) Convergence slows down",
}


def claims(results: Mapping[str, Any]) -> dict[Key, Mapping[str, Any]]:
    """The claims of a paper by part, source and sentence."""
    return {
        (part, claim["source"], claim["sentence"]): claim
        for part, record in results["parts"].items()
        for claim in record["claims"]
    }


def rows(paper: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """A row for each claim that both have, with different verdicts."""
    old, whole = claims(before), claims(now)
    left = [key for key in old if key not in whole]
    for key, claim in whole.items():
        there = key if key in old else reworded(key, left)
        if there is None:
            continue
        was = OLD_WORDS.get(old[there]["verdict"], old[there]["verdict"])
        if was != claim["verdict"]:
            where, sentence, *told = cells(paper, key, claim)
            yield "| " + " | ".join((where, sentence, was, *told)) + " |\n"


def cells(paper: str, key: Key, claim: Mapping[str, Any]) -> tuple[str, ...]:
    """Where a claim stands, its sentence, its verdict and why, as the table has them."""
    where = f"{paper}, {key[0]} {in_brackets(key[1])}".strip()
    told = where, short(key[2]), claim["verdict"], why(claim)
    return tuple(cell.replace("|", "\\|") for cell in told)


def reworded(key: Key, old: Iterable[Key]) -> Key | None:
    """The claim whose sentence is nearest, of the same part if there is one, and the same data.

    old: claims that are no longer there as they were.
    """
    moved = [other for other in old if about(other) in ("", about(key))]
    same = [other for other in moved if other[0] == key[0]]
    anew = next((was for now, was in SAID.items() if key[2].startswith(now)), None)
    if anew is not None:
        return next((other for other in moved if other[2].startswith(anew)), None)
    bare = key[2].removesuffix(about(key)).strip()
    longer = next((other for other in same if other[2].startswith(bare)), None)
    if longer is not None:  # one claim that became two
        return longer
    for others, alike in ((same, ALIKE), (moved, NEARLY)):
        sentences = {other[2]: other for other in others}
        near = difflib.get_close_matches(key[2], sentences, n=1, cutoff=alike)
        if near:
            return sentences[near[0]]
    return None


def about(key: Key) -> str:
    """The data that a source or a sentence names in brackets at its end."""
    return in_brackets(key[1]) or in_brackets(key[2])


def in_brackets(text: str) -> str:
    """What stands in brackets at the end of a text, unless it is the year of a paper."""
    end = text[text.rindex("(") :] if text.endswith(")") else ""
    return "" if re.search(r"\b\d{4}\)$", end) else end


def why(claim: Mapping[str, Any]) -> str:
    """The first number that decides, with its limit."""
    every = [*(claim["needs"] if claim["verdict"] == NOT_REACHED else ()), *claim["facts"]]
    wanted = DECIDES[claim["verdict"]]
    found = next((one for one in every if one["verdict"] == wanted), every[0])
    given = {name: value for name, value in found.items() if name != "verdict"}
    missing = {n: math.nan for n in ("value", "low", "high") if given[n] is None}
    endless = {n: math.inf for n in ("above", "below") if n in given and given[n] is None}
    return str(Fact(**given | missing | endless))  # JSON has no NaN and no infinity


def short(sentence: str) -> str:
    """The beginning of a sentence."""
    if len(sentence) <= MOST:
        return sentence
    return sentence[: MOST - 4].rsplit(" ", 1)[0] + " ..."


def table(commit: str) -> str:
    """The rows of all papers."""
    found = []
    for folder, paper in PAPERS.items():
        name = f"docs/{folder}/results.json"
        then = subprocess.run(
            ["git", "show", f"{commit}:{name}"], cwd=DOCS, check=True, capture_output=True
        ).stdout
        now = json.loads((DOCS / folder / "results.json").read_text())
        found += rows(paper, json.loads(then), now)
    return "".join(found)


if __name__ == "__main__":
    path = DOCS.parent / "CHANGELOG.md"
    start, rest = path.read_text().split(HEAD, 1)
    kept = rest.splitlines(keepends=True)
    kept = kept[next(i for i, line in enumerate(kept) if not line.startswith("|")) :]
    path.write_text(start + HEAD + table(sys.argv[1]) + "".join(kept))
