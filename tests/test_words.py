"""One word per idea: words that the documentation, the help and the source do not use.

The table says what to write instead. Documentation and the audit page have none of them. Help,
docstrings and messages have at most `CEILING`, numbers that only fall: `python tests/test_words.py`
lists the offences with their lines.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from nescio.cli.main import main

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"
WRITTEN = {path.parent for path in (ROOT / "docs").glob("*/results.json")}  # by `nescio reproduce`
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(path for path in (ROOT / "docs").rglob("*.md") if path.parent not in WRITTEN),
        *(SOURCE / "nescio").rglob("*.html"),
    ]
)
CEILING = {"help": 0, "nescio": 53, "nescio_papers": 44}

COUNTED = "(?:row|number|score|byte|value|bit|bin|draw|mask|product|line|list|vector|map|curve)"
UNITS = "(?:sample|case|class|member|input|network|row|batch|target|column|pixel|layer|step|score)"
MORE = "(?:longer|more|less|worse|better|larger|smaller)"
INSTEAD = {
    # the field's words
    r"outsiders?|strangers?": "OOD inputs",
    r"strange (?:inputs?|data|images?)": "OOD inputs",
    r"(?:out|in)-(?:data|sets?|inputs?)": "OOD data, in-distribution data",
    r"(?:the|your|called|is|are|or|from|an) outside(?! (?:the|of|it|its|0|\[))": "OOD",
    r"outside (?:data|inputs?|scores?|sets?|samples?)": "OOD data",
    r"usual inputs?": "in-distribution inputs",
    r"surer|surest|sureness|how sure|sure enough (?!\|)": "more confident, confidence",
    r"(?:a|one|each|every|single|new|other|test|training|calibration|right|three) cases?": "sample",
    r"cases (?:of|in|that|are)": "samples",
    r"held[- ]out": "calibration, validation or test data",
    r"doubts?|doubtful": "failure score",
    r"promis(?:e|es|ed|ing)": "guarantee",
    r"(?:linear|affine) pieces?": "linear region",
    r"made[- ]up": "pseudo",
    # sentences that stop a reader
    r"so many": "the number of ...",
    rf"(?<!there )(?:is|are) no (?!{MORE})\w+": "is not a, are not",
    rf"one an? {UNITS}": "one per ...",
    rf"(?:an?|one) {COUNTED} an? {UNITS}": "one ... per ...",
    r"of (?:its|their) own(?! \w)": "its own ..., separate",
    r"anew|for ever|as ever": "again, forever, as usual",
    r"(?:goes|go|went) on (?:where|with|to|there|as|in)": "resumes, continues",
    r"stands? (?:in|beside|behind|below|above|there|at)": "is in, is listed",
    r"what there is": "the available ...",
    r"held against": "compared with",
    r"a place in": "an index into",
    r"tells? (?:apart|what is)": "distinguish, detect",
    r"(?:answer|answers|answered) rightly": "correct",
    # American spelling
    r"\w*(?:colour|neighbour|behaviour|favour|honour)\w*": "color, neighbor, ...",
    r"grey\w*|centre[sd]?|licences?|learnt|whilst|artefacts?|judgements?": "American spelling",
    r"\w+(?:[lmn]is|ris|gnis|rdis|tis)(?:es?|ed|ing|ation|er)(?<!\bpromise)(?<!noise)": "-ize",
    r"(?:re)?label(?:l)(?:ed|ing)|modell(?:ed|ing)|analyse[sd]?": "American spelling",
}
ALLOWED = re.compile(  # ordinary English that a pattern above would catch
    r"premises?|precise(?:d|r)?|rais(?:ed|es|ing|e)|nois(?:e|es|ed|ing)|otherwise|likewise|ris(?:e|es"
    r"|ing)|aris\w+|compris\w+|surpris\w+|exercis\w+|advertis\w+|pairwise|clockwise|counterclockwise"
    r"|elementwise|classwise|wise\w*|\w*wise|summaris(?!e|i)|early|raiser|paralysis|revis\w+|advis\w+"
    r"|devis\w+|supervis\w+|polis\w+|publis\w+|establis\w+|finis\w+|distinguis\w+|vanis\w+|premis\w+",
    re.IGNORECASE,
)
GUARD = r"refus(?:e|es|ed|al|als)"  # a guard abstains
GUARD_PAGES = (
    "guard.md",
    "audit.md",
    "monitoring.md",
    "page.html",
    "explorer.html",
    "section.html",
)
BANNED = re.compile(
    "|".join(rf"(?P<_{i}>\b(?:{pattern})\b)" for i, pattern in enumerate(INSTEAD)), re.IGNORECASE
)


class Offence(NamedTuple):
    """A banned word: where it is, what it is, and what to write."""

    where: str
    words: str
    instead: str

    def __str__(self) -> str:
        return f"{self.where}: {self.words!r}, write: {self.instead}"


def offences(text: str, where: str, first: int = 1) -> Iterator[Offence]:
    """The banned words of a text whose first line has the number `first`."""
    for match in BANNED.finditer(text):
        if match.lastgroup and not ALLOWED.fullmatch(match[0]):
            line = first + text.count("\n", 0, match.start())
            words = " ".join(match[0].split())
            yield Offence(f"{where}:{line}", words, [*INSTEAD.values()][int(match.lastgroup[1:])])


def prose(page: Path) -> str:
    """A page with code blanked out, line by line; comments in code blocks stay."""
    text = re.sub(r"`[^`\n]+`", "`code`", page.read_text())
    lines, in_code = [], False
    for line in text.split("\n"):
        in_code ^= line.startswith("```")
        lines.append(line.partition("  # ")[2] if in_code else line)
    text = "\n".join(lines)
    if page.suffix == ".html":
        text = re.sub(r"<style>.*?</style>|\{[%{].*?[%}]\}", _lines_of, text, flags=re.DOTALL)
    return text


def _lines_of(match: re.Match[str]) -> str:
    return "\n" * match[0].count("\n")


def commands(group: click.Group, name: str) -> Iterator[tuple[str, click.Command]]:
    """All commands below a group, by their full names."""
    for part in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), part)
        yield f"{name} {part}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{name} {part}")


def help_of(name: str, command: click.Command) -> str:
    with click.Context(
        command, info_name=name, terminal_width=10_000, max_content_width=10_000
    ) as c:
        return command.get_help(c)


HELP = {
    name: help_of(name, command) for name, command in [("nescio", main), *commands(main, "nescio")]
}


def in_help() -> list[Offence]:
    return [one for name, text in HELP.items() for one in offences(text, f"{name} --help")]


def strings(path: Path) -> Iterator[tuple[int, str]]:
    """Docstrings and other strings with a blank in them: line and text."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, re.sub(r"`[^`\n]+`", "`code`", node.value)


def in_source(package: str) -> list[Offence]:
    return [
        found
        for path in sorted((SOURCE / package).rglob("*.py"))
        for line, text in strings(path)
        for found in offences(text, str(path.relative_to(ROOT)), line)
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_uses_the_glossary(page: Path) -> None:
    text = prose(page)
    found = [str(one) for one in offences(text, page.name)]
    if page.name in GUARD_PAGES:
        found += [f"{page.name}: {words!r}, write: abstain" for words in re.findall(GUARD, text)]
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize("where", CEILING)
def test_help_and_source_get_closer_to_the_glossary(where: str) -> None:
    found = in_help() if where == "help" else in_source(where)
    listed = "\n" + "\n".join(map(str, found))
    assert len(found) <= CEILING[where], f"{len(found)} banned words, see the table{listed}"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("the network is surer there", ["surer"]),
        ("there is no guard, and there are no labels", []),
        ("a class is no number", ["is no number"]),
        ("one score a sample", ["one score a sample"]),
        ("one score per sample", []),
        ("a grey neighbour", ["grey", "neighbour"]),
        ("normalised and optimiser", ["normalised", "optimiser"]),
        ("noise is raised otherwise, a promise", ["promise"]),
        ("inputs that lie outside the range", []),
        ("called outside", ["called outside"]),
    ],
)
def test_the_table_finds_what_it_should(text: str, words: list[str]) -> None:
    assert [found.words for found in offences(text, "text")] == words


if __name__ == "__main__":
    for package in CEILING:
        listed = in_help() if package == "help" else in_source(package)
        print(*listed, f"{package}: {len(listed)}", sep="\n")
