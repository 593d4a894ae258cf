"""Write what `nescio COMMAND --explain` prints: `python docs/site/command_pages.py`.

It takes the first paragraph of the page about each command into `src/nescio/cli/pages.json`, which
is part of the installed package, as the pages are not. `--check` writes nothing, says whether the
file is out of date, and ends with 1 if it is.
"""

import json
import re
import sys
from pathlib import Path

DOCS = Path(__file__).parent.parent
FILE = DOCS.parent / "src" / "nescio" / "cli" / "pages.json"
NOT_PROSE = re.compile(
    r"#|!\[|!!!|\?\?\?|\||>|<|[-*+] |\d+\. |\$\$|\[!|---|===|```|~~~|:::| {4}|\t"
)


def pages() -> dict[str, str]:
    """The first paragraph of the page about each command, by the page."""
    from nescio.cli.main import main, reference

    named = [main, *(one.command for one in reference())]
    found = {page for one in named if (page := getattr(one, "page", None)) is not None}
    return {page: first_paragraph((DOCS / page).read_text("utf-8")) for page in sorted(found)}


def first_paragraph(markdown: str) -> str:
    """The first paragraph of prose, in one line: links become their text, code marks stay.

    >>> first_paragraph("# Title\\n\\n![a](b.png)\\n\\nRead *this* [page](x.md) about\\n`nescio`:")
    'Read this page about `nescio`.'
    """
    text = re.sub(r"\A---\n.*?\n---\n|<!--.*?-->", "", markdown, flags=re.DOTALL)
    text = re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.DOTALL | re.MULTILINE)
    for block in re.split(r"\n\s*\n", text):
        lines = [line for line in block.strip("\n").split("\n") if not line.startswith("#")]
        if lines and lines[0].strip() and not NOT_PROSE.match(lines[0]):
            return _plain(" ".join(lines))
    raise ValueError("the page has no paragraph of prose")


def _plain(text: str) -> str:
    """Without links, pictures, emphasis and tags; what is code stays as it is."""
    parts = re.split(r"(`[^`]*`)", re.sub(r"!?\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])", r"\1", text))
    for place in range(0, len(parts), 2):
        part = re.sub(r"</?[a-zA-Z][^>]*>|\{[:#.][^}]*\}", "", parts[place])
        parts[place] = re.sub(r"(\*\*|\*|__|\b_|_\b)(?=\S)(.+?)(?<=\S)\1", r"\2", part)
    plain = " ".join("".join(parts).split())
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
