"""Every Python block of the documentation runs, page by page."""

import re
from pathlib import Path

import pytest

import nescio
from nescio.core import registry

ROOT = Path(__file__).parent.parent
NEEDED = {"integrations.md": "pytorch_lightning"}  # an extra, without which a page does not run
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.filterwarnings("ignore:.*(does not have many workers|LeafSpec|logging interval).*")
@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p)], ids=lambda p: p.name)
def test_the_blocks_of_a_page_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if page.name in NEEDED:
        pytest.importorskip(NEEDED[page.name])
    names: dict[str, object] = {}
    for block in blocks(page):
        exec(compile(block, page.name, "exec"), names)
    assert any(value is nescio or value is nescio.measures for value in names.values())


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_within_the_documentation_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("name", registry.measures)
def test_every_measure_stands_in_the_table(name: str) -> None:
    assert f"`{name}`" in (ROOT / "docs" / "values.md").read_text()


@pytest.mark.parametrize("kind", ["losses", "heads"])
def test_every_loss_and_head_stands_in_the_docs(kind: str) -> None:
    text = (ROOT / "docs" / "training.md").read_text()
    for name in getattr(registry, kind):
        assert f"{name}" in text


@pytest.mark.parametrize("name", registry.acquisitions)
def test_every_acquisition_stands_in_the_table(name: str) -> None:
    assert f"| `{name}` |" in (ROOT / "docs" / "active-learning.md").read_text()


@pytest.mark.parametrize("name", registry.agents)
def test_every_agent_stands_in_the_table(name: str) -> None:
    assert f"| `{name}` |" in (ROOT / "docs" / "exploration.md").read_text()
