"""Segmentation: measures by frame against loops, and a quick run whose verdicts stay open."""

import lzma

import numpy as np
import pytest
import torch

from nescio.metrics import Interval
from nescio_papers import Settings, named, run_experiment
from nescio_papers.kit import numbers_of
from nescio_papers.robust_deep_learning.segmentation_measures import between, edges, of_classes
from nescio_papers.robust_deep_learning.segmentation_network import (
    IGNORED,
    rare_classes,
    shares,
    warm_cosine,
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Frames of the sky above and the road below, with a car and pixels without a class."""
    data, folder = tmp_path_factory.mktemp("data"), tmp_path_factory.mktemp("segmentation")
    (data / "camvid").mkdir()
    rng = np.random.default_rng(0)
    for part, count in (("train", 16), ("val", 4)):
        labels = np.zeros((count, 12, 16), np.uint8)
        labels[:, 6:] = 3
        labels[:, 7, 4:7] = 8
        labels[:, :, 0] = IGNORED
        x = 20 * labels[..., None] + rng.integers(0, 60, (count, 12, 16, 3))
        with lzma.open(data / "camvid" / f"camvid_{part}_16x12_x.npy.xz", "wb") as file:
            np.save(file, x.astype(np.uint8))
        np.savez(data / "camvid" / f"camvid_{part}_16x12_y.npz", labels=labels)
    settings = Settings(quick=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NESCIO_DATA", str(data))
        part = {"settings": settings, "only": ["segmentation"], "show": False}
        page = run_experiment(named("robust-deep-learning"), folder, **part)
        yield folder, page.read_text()


def test_a_quick_run_writes_the_pictures_and_leaves_claims_open(run):
    folder, text = run
    names = {f"segmentation-{name}.png" for name in ("scenes", "classes", "errors")}
    assert {path.name for path in folder.iterdir()} >= names
    claims = text[text.index("## What the source says") :]
    assert claims.count("| open |") == 6
    assert all(f"| {word} |" not in claims for word in ("holds", "does not hold", "holds in part"))


def test_its_numbers_say_which_classes_are_absent(run):
    folder, _ = run
    numbers = numbers_of(Settings(quick=True, folder=folder), "segmentation")
    for side in numbers["quality"].values():
        assert 0 <= side["mean_iou"]["value"] <= 1
        assert len(side["by_class"]) == IGNORED
    present = [value is not None for value in numbers["mutual_information"]]
    assert [i for i, there in enumerate(present) if there] == [0, 3, 8]
    assert set(numbers["rare_classes"]) >= {"building", "pole", "bicyclist"}
    assert numbers["cpu_seconds"] > 0


def test_a_finished_network_is_read_again(run):
    folder, _ = run
    assert (folder / "segmentation" / "unet" / "model.safetensors").exists()


def test_edges_are_pixels_beside_another_class():
    y = torch.randint(0, 3, (5, 6, 7))
    y[torch.rand(y.shape) < 0.2] = IGNORED
    found = edges(y)
    for n, row, column in np.ndindex(5, 6, 7):
        around = [(row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)]
        labels = [int(y[n, i, j]) for i, j in around if 0 <= i < 6 and 0 <= j < 7]
        own = int(y[n, row, column])
        wanted = own != IGNORED and any(other not in (own, IGNORED) for other in labels)
        assert bool(found[n, row, column]) == wanted


def test_differences_are_paired_by_frame():
    y = torch.tensor([[[0, 1, 1]], [[0, 0, 1]], [[0, 0, 0]]])
    values = torch.tensor([[[1.0, 4.0, 6.0]], [[1.0, 3.0, 3.0]], [[9.0, 9.0, 9.0]]])
    found = between(values, of_classes(y, [1]), of_classes(y, [0]))
    assert isinstance(found, Interval)
    assert found.value == pytest.approx((4.0 + 1.0) / 2)  # the last frame has no class 1


def test_shares_leave_pixels_without_a_class_out():
    labels = torch.tensor([[[0] * 98, [1] * 2 + [IGNORED] * 96]])
    found = shares(labels)
    assert found[:3] == pytest.approx([0.98, 0.02, 0.0])
    assert 0 not in rare_classes(found)
    assert 2 in rare_classes(found)


def test_the_learning_rate_rises_and_falls():
    rates = [warm_cosine(step, 100) for step in range(101)]
    assert rates[0] == 0
    assert rates[10] == pytest.approx(1)
    assert rates[100] == pytest.approx(0)
    assert np.argmax(rates) == 10
