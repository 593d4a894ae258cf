"""Write what `nescio COMMAND --explain` prints: `python docs/site/command_pages.py`.

It takes the first paragraph of the page about each command into `src/nescio/cli/pages.json`, which
is part of the installed package, as the pages are not. `--check` writes nothing, says whether the
file is out of date, and ends with 1 if it is.
"""

import json
import re
import sys
from pathlib import Path

import prose

DOCS = Path(__file__).parent.parent
FILE = DOCS.parent / "src" / "nescio" / "cli" / "pages.json"
EMPHASIS = re.compile(r"(\*\*|\*|__|\b_|_\b)(?=\S)(.+?)(?<=\S)\1")


def pages() -> dict[str, str]:
    """The first paragraph of the page about each command, by the page."""
    from nescio.cli.main import main, reference

    named = [main, *(one.command for one in reference())]
    found = {page for one in named if (page := getattr(one, "page", None)) is not None}
    return {page: first_paragraph((DOCS / page).read_text("utf-8")) for page in sorted(found)}


def first_paragraph(markdown: str) -> str:
    """The first paragraph of a page without marks but those of code.

    >>> first_paragraph("# Title\\n\\n![a](b.png)\\n\\nRead *this* [page](x.md) about\\n`nescio`:")
    'Read this page about `nescio`.'
    """
    said = prose.opening(markdown)
    if not said:
        raise ValueError("the page has no paragraph of prose")
    parts = re.split(r"(`[^`]*`)", said)
    parts[::2] = [EMPHASIS.sub(r"\2", part) for part in parts[::2]]
    plain = "".join(parts)
    return f"{plain[:-1]}." if plain.endswith(":") else plain  # what it announces is left out


def main(words: list[str]) -> int:
    """Write the file, or say whether it is out of date."""
    text = json.dumps(pages(), indent=1, ensure_ascii=False) + "\n"
    if words == ["--check"]:
        if same := FILE.exists() and FILE.read_text("utf-8") == text:
            return 0
        print(f"{FILE.name} is out of date: python docs/site/command_pages.py")
        return int(not same)
    FILE.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
