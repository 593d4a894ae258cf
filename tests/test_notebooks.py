"""The tutorials run from top to bottom, and their outputs come from the code that they have."""

import json
import os
import re
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "docs" / "site"))
import notebooks  # noqa: E402

FOLDER = ROOT / "docs" / "tutorials"
NOTEBOOKS = sorted(path.stem for path in FOLDER.glob("*.ipynb"))
NEEDED = {  # files of the folder NESCIO_DATA
    "tables": ("medical/heart-disease/processed.cleveland.data",),
    "text": ("text/trec_questions_train_5452.label.xz", "text/SMSSpamCollection.xz"),
}
LARGEST = 600_000  # bytes


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_the_cells_run_in_order(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = Path(os.environ.get("NESCIO_DATA", "data")).absolute()
    missing = [one for one in NEEDED.get(name, ()) if not (data / one).exists()]
    if missing:
        pytest.skip(f"no data: {missing[0]} is not in the folder NESCIO_DATA")
    monkeypatch.setenv("NESCIO_DATA", str(data))  # the cells run in another folder
    notebook = notebooks.read(name)
    notebooks.execute(notebook)
    assert all(cell["execution_count"] for cell in notebooks.code_cells(notebook))


@pytest.mark.parametrize("name", [name for name in NOTEBOOKS if name in NEEDED])
def test_without_its_data_a_notebook_says_what_to_get(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NESCIO_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=re.escape(NEEDED[name][0])):
        notebooks.execute(notebooks.read(name))


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_the_outputs_are_those_of_the_code(name: str) -> None:
    assert name not in notebooks.outdated(), f"run `python docs/site/notebooks.py {name}`"
    counts = [cell["execution_count"] for cell in notebooks.code_cells(notebooks.read(name))]
    assert counts == list(range(1, len(counts) + 1))


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_is_small_and_knows_no_machine(name: str) -> None:
    text = (FOLDER / f"{name}.ipynb").read_text()
    assert len(text) < LARGEST
    places = {f"{one}/" for one in (ROOT, Path.home(), tempfile.gettempdir()) if str(one) != "/"}
    for place in (*places, "site-packages"):
        assert place not in text


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_links_of_a_notebook_lead_somewhere(name: str) -> None:
    cells = notebooks.read(name)["cells"]
    text = "".join(notebooks.source(cell) for cell in cells if cell["cell_type"] == "markdown")
    for target in re.findall(r"\]\(([^)#\s]+)", text):
        assert re.match(r"https?://", target) or (FOLDER / target).exists(), target


def test_changed_code_is_out_of_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cell = {"cell_type": "code", "id": "a", "metadata": {}, "outputs": [], "execution_count": None}
    book = {"cells": [{**cell, "source": ["print(1)\n", "2 + 3"]}], "metadata": {}}
    monkeypatch.setattr(notebooks, "FOLDER", tmp_path)
    (tmp_path / "mine.ipynb").write_text(json.dumps(book))
    assert notebooks.main(["--check"]) == 1
    assert notebooks.main([]) == 0
    assert notebooks.main(["--check"]) == 0
    printed, result = notebooks.read("mine")["cells"][0]["outputs"]
    assert printed["text"] == ["1\n"]
    assert result["data"]["text/plain"] == ["5"]
    book = notebooks.read("mine")
    book["cells"][0]["source"] = ["2 + 4"]
    notebooks.write("mine", book)
    assert notebooks.outdated() == ["mine"]


def test_figures_and_html_are_stored() -> None:
    code = "import matplotlib.pyplot as plt\nplt.plot([1, 2]);"
    (figure,) = notebooks.run(code, {}, 1)
    assert figure["data"]["image/png"].startswith("iVBOR")
    code = (
        "class A:\n    def _repr_html_(self): return '<b>a</b>'\n    def __repr__(self): return 'a'"
    )
    (shown,) = notebooks.run(f"{code}\nA()", {}, 2)
    assert shown["data"] == {"text/plain": ["a"], "text/html": ["<b>a</b>"]}
