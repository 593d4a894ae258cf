"""The tools of the site are modules beside each other; the site is built once."""

import importlib.util
import logging
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / "docs" / "site"
sys.path.append(str(TOOLS))


class Said(logging.Handler):
    """Keeps what the build said."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())


@pytest.fixture(scope="session")
def build():
    """Builds a site: the exit code, and the warnings."""
    pytest.importorskip("material", reason='the site needs pip install "nescio[docs]"')
    spec = importlib.util.spec_from_file_location("site_build", TOOLS / "build.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)

    def run(out, **options):
        said = Said()
        logging.getLogger("mkdocs").addHandler(said)
        try:
            code = tool.build(out, **options)
        finally:
            logging.getLogger("mkdocs").removeHandler(said)
        return SimpleNamespace(code=code, said=said.lines, folder=out)

    return run


@pytest.fixture(scope="session")
def site(build, tmp_path_factory):
    """The site itself, built once."""
    return build(tmp_path_factory.mktemp("site"))


@pytest.fixture
def small(build, tmp_path, monkeypatch):
    """Builds a site of one page, with the hooks of the real one."""
    import pictures

    docs = tmp_path / "docs"
    (docs / "images").mkdir(parents=True)
    (docs / "pictures").mkdir()
    monkeypatch.setattr(pictures, "CODE", docs / "pictures")
    monkeypatch.setattr(pictures, "IMAGES", docs / "images")
    monkeypatch.setattr(pictures, "RECORD", docs / "images" / "pictures.json")
    config = tmp_path / "mkdocs.yml"
    config.write_text(
        f"site_name: small\nhooks: [{TOOLS / 'hooks.py'}]\ntheme: {{name: material, font: false}}\n"
        "plugins: []\nnav: [index.md]\nexclude_docs: '*.py'\n"
        "markdown_extensions: [pymdownx.superfences, {pymdownx.arithmatex: {generic: true}}]\n"
    )

    def run(text, **files):
        (docs / "index.md").write_text(text)
        for path, content in files.items():
            (docs / path).write_text(content)
        return build(tmp_path / "out", config_file=config)

    run.docs = docs
    return run
