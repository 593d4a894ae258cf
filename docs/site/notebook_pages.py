"""Notebooks as pages: text as Markdown, code highlighted, outputs below it.

A notebook says in its metadata, `nescio: {"code": ...}`, the digest of the code that made its
outputs; `outdated` compares.
"""

import html
import json
import re
from collections.abc import Iterator
from typing import Any

from notebooks import digest

ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def page(text: str, name: str) -> str:
    """The Markdown of a notebook; `name` is its file, which can be downloaded."""
    notebook = json.loads(text)
    parts = []
    for cell in notebook["cells"]:
        source = _joined(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
        elif cell["cell_type"] == "code" and source.strip():
            parts.append(_fence(source, "python"))
            parts += [made for output in cell["outputs"] for made in _shown(output)]
    link = f'<a href="{name}" download>Download this notebook</a>'
    first, *rest = parts or [""]
    title, _, below = first.partition("\n")
    return "\n\n".join([title, f'<p class="notebook">{link}</p>', below.strip(), *rest]) + "\n"


def outdated(text: str) -> bool:
    """Whether the outputs were made by other code."""
    notebook = json.loads(text)
    recorded = notebook.get("metadata", {}).get("nescio", {}).get("code")
    return bool(recorded != digest(notebook))


def _shown(output: dict[str, Any]) -> Iterator[str]:
    """An output: the picture, else the HTML, else the text."""
    if output["output_type"] == "stream":
        yield _fence(_joined(output["text"]), "text")
    elif output["output_type"] == "error":
        yield _fence("\n".join(output["traceback"]), "text")
    else:
        data = output["data"]
        if "image/png" in data:
            said = html.escape(_joined(data.get("text/plain", "a picture")))
            png = "".join(_joined(data["image/png"]).split())
            source = f"data:image/png;base64,{png}"
            yield f'<p><img class="output" alt="Output: {said}" src="{source}"></p>'
        elif "text/html" in data:
            lines = (line for line in _joined(data["text/html"]).splitlines() if line.strip())
            yield '<div class="output">\n' + "\n".join(lines) + "\n</div>"
        elif "text/markdown" in data:
            yield _joined(data["text/markdown"])
        elif "text/plain" in data:
            yield _fence(_joined(data["text/plain"]), "text")


def _fence(code: str, kind: str) -> str:
    ticks = "`" * max(3, *(len(run) + 1 for run in re.findall("`{3,}", code)), 3)
    return f"{ticks}{kind}\n{ANSI.sub('', code).strip(chr(10))}\n{ticks}"


def _joined(source: str | list[str]) -> str:
    return source if isinstance(source, str) else "".join(source)
