"""Segmentation: measures by frame against loops, and a quick run whose verdicts stay open."""

import lzma

import numpy as np
import pytest
import torch

from nescio.metrics import Interval
from nescio_papers import Settings, named, run_experiment
from nescio_papers.kit import numbers_of
from nescio_papers.robust_deep_learning import segmentation_verdicts
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


def near(value, half=0.01):
    return {"value": value, "low": value - half, "high": value + half}


def measured(sign=1.0, *, overlap=0.6, gain=0.01):
    """Numbers of a run, all in favor of the claims or all against them."""
    both = ("expected_entropy", "mutual_information")
    return {
        "quality": {"MC dropout": {"mean_iou": near(overlap)}},
        "weights": 10,
        "ranking_of_errors": {name: {"auroc": near(0.7 + 0.2 * sign)} for name in both},
        "rare_classes": ["pole"],
        "rare_less_frequent": {name: near(0.1 * sign) for name in both},
        "edges_less_rest": {name: near(0.1 * sign) for name in both},
        "upside_down": {
            "mutual_information": {"ratio": 2.0, "difference": near(0.1 * sign)},
            "expected_entropy": {"ratio": 1.0, "difference": near(0.1 - 0.1 * sign)},
        },
        "gain_in_mean_iou": near(gain, 0.001),
    }


def test_verdicts_turn_with_their_numbers():
    found = [one.verdict for one in segmentation_verdicts.judge(measured())]
    assert found == ["holds"] * 6
    assert [one.source for one in segmentation_verdicts.judge(measured())][2:5] == ["here"] * 3
    against = segmentation_verdicts.judge(measured(-1.0, overlap=0.4, gain=-0.01))
    assert [one.verdict for one in against] == ["does not hold"] * 6
    nothing = segmentation_verdicts.judge(measured(overlap=0.1))
    assert [one.verdict for one in nothing] == ["does not hold"] + ["not reached here"] * 5
    assert segmentation_verdicts.judge({"absent": "no data"}) == []


def test_a_gain_that_no_table_shows_is_none():
    assert segmentation_verdicts.judge(measured(gain=0.0005))[-1].verdict == "open"
    assert "recalled from the paper" in segmentation_verdicts.judge(measured())[-1].note
    assert segmentation_verdicts.judge(measured(gain=-0.0006))[-1].verdict == "does not hold"


def test_aleatoric_uncertainty_that_rises_too_is_half_the_claim():
    numbers = measured()
    numbers["upside_down"]["expected_entropy"]["difference"] = near(0.3)
    assert segmentation_verdicts.judge(numbers)[-2].verdict == "holds in part"
