"""The gallery: every picture with its caption, its pages, its code and the seconds it took."""

import ast
import json
from collections.abc import Iterator
from pathlib import Path

import pictures
import prose

PAGE = "gallery.md"
DOCS = Path(__file__).parents[1]
OTHERS = ("layers.svg", "piece-cost.png")  # drawn by make_layers.py and by `make bench`


def page() -> str:
    """The Markdown of the gallery."""
    known, shown = pictures.recorded(), where_shown(DOCS)
    cards = "\n".join(_card(name, known.get(name, {}), shown) for name in pictures.names())
    return (
        "# Gallery\n\n"
        "Every picture of these pages, with the code that draws it and the seconds that took.\n\n"
        f'<div class="grid cards gallery" markdown>\n\n{cards}\n</div>\n\n'
        "## Figures of the papers\n\n"
        "The command computes everything anew and draws the figures; `--quick` takes minutes"
        " instead of hours.\n\n" + "\n".join(_papers())
    )


def where_shown(docs: Path) -> dict[str, list[Path]]:
    """The pages that show each picture, by its path."""
    found: dict[str, list[Path]] = {}
    for path in prose.pages(docs):
        for one in prose.pictures(path.read_text("utf-8")):
            if not one.path.startswith(("http", "data:")):
                shown = found.setdefault(str((path.parent / one.path).resolve()), [])
                shown += [path] if path not in shown else []
    return found


def unknown_pictures(docs: Path = DOCS) -> Iterator[tuple[Path, str]]:
    """Pages that show a picture of `docs/images` which no file draws."""
    drawn = {docs / "images" / name for name in OTHERS}
    drawn |= {docs / "images" / f"{name}.png" for name in pictures.names()}
    for picture, paths in where_shown(docs).items():
        if Path(picture).parent == docs / "images" and Path(picture) not in drawn:
            yield from ((path, Path(picture).name) for path in paths)


def _card(name: str, known: dict[str, object], shown: dict[str, list[Path]]) -> str:
    """A picture: what it shows, where, how long it took, its code."""
    code = (pictures.CODE / f"{name}.py").read_text("utf-8").strip()
    caption = " ".join((ast.get_docstring(ast.parse(code)) or name).split())
    places = ", ".join(_link(path) for path in shown.get(str(pictures.IMAGES / f"{name}.png"), ()))
    seconds = f"Drawn in {known['seconds']} s" if "seconds" in known else "Not drawn yet"
    lines = [
        f"-   ![{prose.without_links(caption)}](images/{name}.png){{ loading=lazy }}",
        f"{caption}" + (f" See {places}." if places else ""),
        f'<span class="soft">{seconds}.</span>',
        f'??? quote "Code: {name}.py"',
        *(f"    {line}".rstrip() for line in f"```python\n{code}\n```".splitlines()),
    ]
    head, *text, fold = lines[0], *lines[1:3], lines[3]
    body = "\n\n".join([head, *(f"    {one}" for one in text), f"    {fold}"])
    return body + "\n\n" + "\n".join(f"    {one}".rstrip() for one in lines[4:]) + "\n"


def _link(path: Path) -> str:
    return f"[{prose.title(path.read_text('utf-8'), path.stem)}]({path.relative_to(DOCS)})"


def _papers() -> Iterator[str]:
    """The figures of every paper that was reproduced, as links."""
    for results in sorted(DOCS.glob("*/results.json")):
        found = json.loads(results.read_text("utf-8"))
        title = prose.title(results.with_name("summary.md").read_text("utf-8"))
        links = [
            f"    - [{file}]({results.parent.name}/{file}): {_short(said)}"
            for part in found["parts"].values()
            for file, said in part["figures"].items()
        ]
        yield f'??? quote "{title}: {len(links)} figures"\n'
        link = f"[the summary]({results.parent.name}/summary.md)"
        yield f"    Made by `nescio reproduce {found['experiment']}`; read {link}.\n"
        yield "\n".join(links) + "\n"


def _short(said: str, most: int = 120) -> str:
    """The beginning of a caption."""
    first = said.split(". ")[0]
    return first if len(first) <= most else first[:most].rsplit(" ", 1)[0] + " ..."
