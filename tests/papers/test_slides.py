"""The table of the lecture's slides: up to date, whole, and with every part."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

from nescio_papers import named

DOCS = Path(__file__).parents[2] / "docs"
FOLDER = DOCS / "robust-deep-learning"
RESULTS = json.loads((FOLDER / "results.json").read_text())["parts"]


@pytest.fixture(scope="module")
def slides() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_slides", DOCS / "make_slides.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_is_that_of_the_results(slides: ModuleType) -> None:
    assert (FOLDER / "README.md").read_text() == slides.page(RESULTS), "run docs/make_slides.py"


def test_every_slide_has_something_to_say(slides: ModuleType) -> None:
    for slide in slides.SLIDES:
        waiting = any(part not in RESULTS for part, _ in slide.claims)
        assert slide.instead or waiting or slides.claims_of(slide, RESULTS), slide.title


def test_every_claim_of_the_lecture_is_in_the_table(slides: ModuleType) -> None:
    shown = [one for slide in slides.SLIDES for one in slides.claims_of(slide, RESULTS)]
    for part in RESULTS.values():
        for claim in part["claims"]:
            assert claim in shown or not claim["source"].startswith("lecture"), claim["sentence"]


def test_every_part_is_named(slides: ModuleType) -> None:
    page = (FOLDER / "README.md").read_text()
    for part in named("robust-deep-learning").parts:
        assert f"`{part.name}`" in page, part.name
