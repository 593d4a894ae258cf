"""Part stability: a quick run whose verdicts stay open, and the bounds of moved digits."""

from dataclasses import replace

import pytest
import torch

from nescio_papers import Settings, named, run_experiment
from nescio_papers.kit import numbers_of
from nescio_papers.robust_deep_learning import stability_deformations, stability_networks

QUICKLY = Settings(quick=True)
FIGURES = ("lipschitz-map", "lipschitz", "examples", "deformations", "features", "translations")


@pytest.fixture(scope="module")
def run(image_files, tmp_path_factory):
    data = image_files(tmp_path_factory.mktemp("data"), train=60, test=30, letters=26)
    folder = tmp_path_factory.mktemp("stability")
    small = replace(
        stability_networks.QUICK, toy_epochs=2, epochs=1, points=3, segments=1, draws=5, deformed=4
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NESCIO_DATA", str(data))
        patch.setattr(stability_networks, "QUICK", small)
        part = {"settings": QUICKLY, "only": ["stability"], "show": False}
        page = run_experiment(named("robust-deep-learning"), folder, **part)
        yield folder, page.read_text()


def test_a_quick_run_writes_the_pictures_and_leaves_claims_open(run):
    folder, text = run
    assert {path.name for path in folder.iterdir()} >= {f"stability-{n}.png" for n in FIGURES}
    claims = text[text.index("## What the source says") :]
    assert claims.count("| open |") >= 6
    assert all(f"| {word} |" not in claims for word in ("holds", "does not hold", "holds in part"))


def test_exact_constants_lie_between_the_bounds(run):
    folder, _ = run
    numbers = numbers_of(replace(QUICKLY, folder=folder), "stability")
    toy = numbers["half_moons"]
    assert toy["relative_error_against_jacobians"] < 1e-9
    assert toy["sampled"] <= toy["largest"] <= toy["product"]
    for row in numbers["lipschitz"].values():
        assert max(row["sampled"], row["largest"], row["largest_on_segments"]) <= row["product"]
        assert row["median"] <= row["largest"]


def test_moved_images_are_within_both_bounds():
    x = torch.rand(5, 1, 12, 12, generator=torch.Generator().manual_seed(0))
    found = stability_deformations.translations(x, 2)
    assert found["within"] == [1.0] * len(stability_deformations.PIXELS)
    assert all(c <= b for c, b in zip(found["change"], found["shift_bound"], strict=True))
