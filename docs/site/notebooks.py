"""Run the tutorials and write what they print into them: `python docs/site/notebooks.py`.

A tutorial is a notebook `docs/tutorials/NAME.ipynb`. Its code cells run in one namespace, in an
empty folder, without Jupyter; printed text, the last expression of each cell and its figures are
stored in the notebook. `metadata.nescio` has the digest of the code that ran, and its seconds on
one processor. Only notebooks whose code has changed since are run, or those that are named.
`--check` runs nothing, lists the notebooks that are out of date and ends with 1 if there are any.
"""

import ast
import base64
import contextlib
import hashlib
import io
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib

from nescio.spelling import did_you_mean

FOLDER = Path(__file__).parent.parent / "tutorials"
DPI = 80  # of figures: 600 pixels for a width of 7.5 inches

Notebook = dict[str, Any]


def names() -> list[str]:
    """All tutorials."""
    return sorted(path.stem for path in FOLDER.glob("*.ipynb"))


def read(name: str) -> Notebook:
    """A notebook as Jupyter stores it, nbformat 4.5."""
    found: Notebook = json.loads((FOLDER / f"{name}.ipynb").read_text("utf-8"))
    return found


def source(cell: dict[str, Any]) -> str:
    """The text of a cell."""
    return "".join(cell["source"])


def code_cells(notebook: Notebook) -> list[dict[str, Any]]:
    """The cells that run."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def digest(notebook: Notebook) -> str:
    """The SHA-256 of the code of all cells."""
    return hashlib.sha256("\n".join(map(source, code_cells(notebook))).encode()).hexdigest()


def outdated() -> list[str]:
    """Notebooks whose outputs come from other code than they have."""
    notebooks = {name: read(name) for name in names()}
    recorded = {name: one["metadata"].get("nescio", {}) for name, one in notebooks.items()}
    return [name for name, one in notebooks.items() if recorded[name].get("code") != digest(one)]


def execute(notebook: Notebook) -> float:
    """Run all code cells in order and store their outputs; the processor seconds it took."""
    matplotlib.use("Agg")
    started = time.process_time()
    names: dict[str, Any] = {"__name__": "__main__"}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for count, cell in enumerate(code_cells(notebook), 1):
            cell["execution_count"] = count
            cell["outputs"] = list(run(source(cell), names, count))
    return round(time.process_time() - started, 1)


def run(code: str, names: dict[str, Any], count: int) -> Iterator[dict[str, Any]]:
    """Run one cell; its outputs: printed text, the last expression, figures."""
    tree = ast.parse(code)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    where, value, printed = f"cell {count}", None, io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, where, "exec"), names)
        if isinstance(last, ast.Expr) and not code.rstrip().endswith(";"):
            value = eval(compile(ast.Expression(last.value), where, "eval"), names)
        elif last is not None:
            exec(compile(ast.Module([last], []), where, "exec"), names)
    if printed.getvalue():
        yield {"output_type": "stream", "name": "stdout", "text": lines(printed.getvalue())}
    for figure in figures(value):
        yield shown({"image/png": png(figure), "text/plain": ["<Figure>"]})
    if value is not None and not is_figure(value):
        yield shown(bundle(value), count)


def shown(data: dict[str, Any], count: int | None = None) -> dict[str, Any]:
    """An output as Jupyter stores it: the result of cell `count`, or something displayed."""
    if count is None:
        return {"output_type": "display_data", "data": data, "metadata": {}}
    kind = {"output_type": "execute_result", "execution_count": count}
    return {**kind, "data": data, "metadata": {}}


def bundle(value: Any) -> dict[str, Any]:
    """A value as text, and as HTML where it has it."""
    data: dict[str, Any] = {"text/plain": lines(repr(value))}
    if html := getattr(value, "_repr_html_", lambda: None)():
        data["text/html"] = lines(html)
    return data


def lines(text: str) -> list[str]:
    """Text as a notebook stores it, one line per item."""
    return text.splitlines(keepends=True)


def figures(value: Any) -> list[Any]:
    """The figures of a cell: those of pyplot, which are closed, or the one that it returns."""
    from matplotlib import pyplot

    opened = [pyplot.figure(number) for number in pyplot.get_fignums()]
    pyplot.close("all")
    return opened + ([value] if is_figure(value) and value not in opened else [])


def is_figure(value: Any) -> bool:
    """Whether a value is a figure of matplotlib."""
    from matplotlib.figure import Figure

    return isinstance(value, Figure)


def png(figure: Any) -> str:
    """A figure as a PNG in base64."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI)
    return base64.b64encode(buffer.getvalue()).decode()


def write(name: str, notebook: Notebook) -> None:
    """Store a notebook."""
    text = json.dumps(notebook, indent=1, ensure_ascii=False)
    (FOLDER / f"{name}.ipynb").write_text(text + "\n", "utf-8")


def main(words: list[str]) -> int:
    """Run the notebooks that are named, or those that are out of date."""
    if words == ["--check"]:
        stale = outdated()
        for name in stale:
            print(f"docs/tutorials/{name}.ipynb: its outputs are older than its code")
        return int(bool(stale))
    for name in [one for one in words if one not in names()]:
        print(f"there is no notebook {name!r}{did_you_mean(name, names())}")
        return 1
    os.environ["NESCIO_DATA"] = str(Path(os.environ.get("NESCIO_DATA", "data")).absolute())
    for name in words or outdated():
        notebook = read(name)
        seconds = execute(notebook)
        notebook["metadata"]["nescio"] = {"code": digest(notebook), "seconds": seconds}
        write(name, notebook)
        print(f"docs/tutorials/{name}.ipynb: {seconds} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
