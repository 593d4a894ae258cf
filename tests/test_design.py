"""docs/design.md describes the tree as it is: every path and every room that it names exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "nescio"
TEXT = (ROOT / "docs" / "design.md").read_text()
ROOMS = sorted(path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists())
NOT_IN_THE_TREE = {"audit.json", "results.json", "manifest.json", "model.safetensors"}
NOT_IN_THE_TREE |= {"search.json", "experiment.json", "table.json"}


def paths(text: str) -> list[str]:
    """What looks like a path between back quotes: with a slash at the end, or a file's ending."""
    found = re.findall(r"`((?:[\w.-]+/)*[\w-]+(?:/|\.(?:py|html|txt|md|json)))`", text)
    return sorted({path for path in found if path not in NOT_IN_THE_TREE})


def exists(path: str) -> bool:
    """Whether it is below the project, the package, or a room that the same page describes."""
    tops = [ROOT, SOURCE, *SOURCE.iterdir()] if path.count("/") <= 1 else [ROOT, SOURCE]
    tops += [ROOT / "src" / "nescio_papers"]
    return any((top / path).exists() for top in tops)


@pytest.mark.parametrize("path", paths(TEXT))
def test_a_path_of_the_design_exists(path: str) -> None:
    assert exists(path), f"docs/design.md names {path}, which does not exist"


def test_the_check_reads_the_page() -> None:
    assert len(paths(TEXT)) > 60
    assert not exists("guards/nowhere.py")
    assert paths("`a.py`, `b/c/`, `x.y`, `audit.json`, `nescio.train(x)`") == ["a.py", "b/c/"]


def test_every_room_is_in_the_table_and_in_the_picture() -> None:
    picture = (ROOT / "docs" / "images" / "layers.svg").read_text()
    for room in ROOMS:
        assert f"| `{room}/` |" in TEXT
        assert f">{room}</text>" in picture


def test_the_table_has_the_order_of_the_layers() -> None:
    order = re.search(r'ORDER = """\n(.*?)"""', (ROOT / "tests/test_layers.py").read_text(), re.S)
    assert order is not None
    listed = re.findall(r"^\| `(\w+)/` \|", TEXT, re.MULTILINE)
    assert listed == [name for name in order[1].split() if name != "__main__"]


def test_where_do_i_find_has_at_least_twenty_rows() -> None:
    section = TEXT.split("## Where do I find")[1].split("\n## ")[0]
    assert section.count("\n| ") >= 22  # with the two lines of the head
