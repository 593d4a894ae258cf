"""Scaled, faded, cut, overlaid and other images, against plain loops."""

import importlib
import re

import numpy as np
import pytest
import torch
from scipy.stats import kstest

from nescio.core import NescioError
from nescio.data import ood

X = torch.rand(12, 3, 8, 12, generator=torch.Generator().manual_seed(1))


def test_scaled_leaves_the_box_on_purpose():
    noise = ood.uniform((4,), seed=2)
    made = ood.scaled(noise, 1000.0)
    assert torch.equal(made.take(50), noise.take(50) * 1000)
    assert made.take(50).max() > 900
    assert made.name == "1000 * uniform"
    assert ood.scaled(ood.another(X, "x"), 2).size == 12


@pytest.mark.parametrize("factor", [float("nan"), float("inf"), 1e39], ids=str)
def test_a_bad_factor_is_refused(factor):
    with pytest.raises(NescioError, match=re.escape(f"finite in float32, got {factor}")):
        ood.scaled(ood.uniform((4,)), factor)


def test_another_is_the_data_in_its_order():
    made = ood.another(X, "pictures")
    assert torch.equal(made.take(12), X)
    assert (made.name, made.size, made.shape) == ("pictures", 12, (3, 8, 12))
    table = torch.rand(5, 2)
    assert torch.equal(ood.another(table, "table")(torch.tensor([4, 0, 4])), table[[4, 0, 4]])


def test_faded_keeps_the_mean_of_each_channel_and_loses_contrast():
    made = ood.faded(X.repeat(50, 1, 1, 1), low=0.2, high=0.6, seed=3).take(600).double()
    means = X.double().mean((2, 3))  # (12, 3)
    source = torch.cdist(made.mean((2, 3)), means).argmin(1)
    torch.testing.assert_close(made.mean((2, 3)), means[source], rtol=0, atol=1e-7)
    assert torch.equal(source.bincount(), torch.full((12,), 50))
    rest = made.std((2, 3)) / X.double().std((2, 3))[source]
    torch.testing.assert_close(rest[:, 0], rest[:, 1], rtol=1e-5, atol=0)
    around = means[source][:, :, None, None]
    expected = around + rest[:, :1, None, None] * (X.double()[source] - around)
    torch.testing.assert_close(made, expected, rtol=0, atol=1e-6)
    assert kstest((rest[:, 0].numpy() - 0.2) / 0.4, "uniform").pvalue > 0.01


def test_faded_to_nothing_and_not_at_all():
    whole = ood.faded(X, low=1.0, high=1.0).take(12)
    torch.testing.assert_close(whole.sum((1, 2, 3)).sort()[0], X.sum((1, 2, 3)).sort()[0])
    flat = ood.faded(X, low=0.0, high=0.0).take(12)
    assert torch.equal(flat.amin((2, 3)), flat.amax((2, 3)))


@pytest.mark.parametrize(("low", "high"), [(-0.1, 0.5), (0.5, 0.4), (0.5, 1.1)], ids=str)
def test_bad_contrasts_are_refused(low, high):
    with pytest.raises(NescioError, match=f"0 <= low <= high <= 1, got low={low} and high={high}"):
        ood.faded(X, low=low, high=high)


@pytest.mark.parametrize("grid", [2, 4])
def test_every_patch_of_the_grid_is_used_once(grid):
    place = torch.arange(float(grid * grid)).reshape(grid, grid)
    cells = place.repeat_interleave(8 // grid, 0).repeat_interleave(12 // grid, 1)
    number = torch.arange(40.0)[:, None, None, None]
    x = torch.cat([cells.expand(40, 1, 8, 12), number.expand(40, 1, 8, 12)], 1)
    cut = x.unfold(2, 8 // grid, 8 // grid).unfold(3, 12 // grid, 12 // grid)
    made = ood.patches(x, grid=grid).take(300)
    found = made.unfold(2, 8 // grid, 8 // grid).unfold(3, 12 // grid, 12 // grid)
    assert torch.equal(found.amin((4, 5)), found.amax((4, 5)))  # whole patches
    patch, image = found[:, :, :, :, 0, 0].flatten(2).unbind(1)  # (300, G) each
    assert torch.equal(patch.sort(1)[0], torch.arange(float(grid * grid)).repeat(300, 1))
    assert len(patch.unique(dim=0)) > 20
    counts = image.long().flatten().bincount(minlength=40)
    mean = 300 * grid * grid / 40
    assert torch.all((counts - mean).abs() < 5 * mean**0.5)
    assert cut.shape[2:4] == (grid, grid)


def test_patches_keep_their_pixels():
    x = torch.arange(2 * 1 * 4 * 4.0).reshape(2, 1, 4, 4)
    known = {
        tuple(x[i, 0, a : a + 2, b : b + 2].flatten().tolist())
        for i in range(2)
        for a in (0, 2)
        for b in (0, 2)
    }
    for image in ood.patches(x, grid=2).take(50):
        for a in (0, 2):
            for b in (0, 2):
                assert tuple(image[0, a : a + 2, b : b + 2].flatten().tolist()) in known


@pytest.mark.parametrize("grid", [1, 3, 5, 0, -2])
def test_a_grid_that_does_not_fit_is_refused(grid):
    with pytest.raises(NescioError, match=f"divide the height and width of 8 x 12.*got {grid}"):
        ood.patches(X, grid=grid)


def moved(image, down, right):
    """`image` (H, W) moved within a frame of zeros, pixel by pixel."""
    result = np.zeros_like(image)
    for i, j in np.ndindex(image.shape):
        if 0 <= i + down < image.shape[0] and 0 <= j + right < image.shape[1]:
            result[i + down, j + right] = image[i, j]
    return result


def test_an_overlay_is_the_larger_value_of_two_moved_images():
    x = torch.rand(4, 1, 5, 6)
    images = x[:, 0].numpy()
    moves = [(a, b) for a in (-1, 0, 1) for b in (-1, 0, 1)]
    every = {(i, m): moved(images[i], *m) for i in range(4) for m in moves}
    firsts = set()
    for found in ood.overlaid(x, shift=1, seed=7).take(60)[:, 0].numpy():
        pairs = [
            (one, two)
            for one in every
            for two in every
            if one[0] < two[0] and np.array_equal(np.maximum(every[one], every[two]), found)
        ]
        assert pairs
        firsts.update(part for pair in pairs for part in pair)
    assert {image for image, _ in firsts} == {0, 1, 2, 3}
    assert {move for _, move in firsts} == set(moves)


def test_all_pairs_are_overlaid():
    x = torch.eye(4).reshape(4, 1, 2, 2)
    found = ood.overlaid(x, shift=0).take(1200)
    assert torch.all(found.sum((1, 2, 3)) == 2)  # never an image with itself
    kinds, counts = found.flatten(1).unique(dim=0, return_counts=True)
    assert len(kinds) == 6
    assert torch.all((counts - 200).abs() < 60)


def test_bad_overlays_are_refused():
    with pytest.raises(NescioError, match="x has only one"):
        ood.overlaid(X[:1])
    for shift in (-1, 8):
        with pytest.raises(NescioError, match=rf"`shift` must be in 0\.\.7 .* got {shift}"):
            ood.overlaid(X, shift=shift)


def test_each_feature_comes_from_a_sample_of_its_own():
    x = torch.stack([torch.arange(50.0), 100 + torch.arange(50.0)], 1)
    left, right = (ood.shuffled(x, seed=4).take(5000) - torch.tensor([0.0, 100.0])).long().T
    for column in (left, right):
        counts = column.bincount(minlength=50)  # 100 +- 10 each
        assert len(counts) == 50
        assert torch.all((counts - 100).abs() < 50)
    together = (left == right).double().mean()
    assert abs(together - 1 / 50) < 4 * (0.02 * 0.98 / 5000) ** 0.5
    assert abs(torch.corrcoef(torch.stack([left, right]).double())[0, 1]) < 4 / 5000**0.5


def test_stored_images_are_those_rounded_to_bytes(monkeypatch):
    noise = ood.uniform((1, 5, 5), seed=3)
    monkeypatch.setattr(importlib.import_module("nescio.data.ood.source"), "PIECE", 7)
    made = ood.stored(noise, 30, start=10)
    assert torch.equal(made.take(30), torch.round(255 * noise.take(30, 10)) / 255)
    assert (made.size, made.name) == (30, "uniform")
    exact = ood.stored(ood.another((X * 255).to(torch.uint8), "bytes"), 12)
    assert torch.equal(exact.take(12), (X * 255).to(torch.uint8).float() / 255)


@pytest.mark.parametrize(
    ("make", "count", "start", "message"),
    [
        (lambda: ood.uniform((5,)), 3, 0, r"only images \(C, H, W\)"),
        (lambda: ood.uniform((1, 2, 2)), 0, 0, "got 0 from 0"),
        (lambda: ood.uniform((1, 2, 2)), 3, -1, "got 3 from -1"),
        (lambda: ood.another(X, "few"), 10, 5, r"'few' has 12 inputs"),
        (lambda: ood.scaled(ood.uniform((1, 9, 9)), 2.0), 3, 0, r"leaves the range"),
        (lambda: ood.scaled(ood.uniform((1, 9, 9)), -1.0), 3, 0, r"leaves the range"),
    ],
    ids=["table", "none", "before", "few", "above", "below"],
)
def test_what_cannot_be_stored_is_refused(make, count, start, message):
    with pytest.raises(NescioError, match=message):
        ood.stored(make(), count, start=start)


@pytest.mark.parametrize("make", [ood.faded, ood.patches, ood.overlaid])
def test_only_images_will_do(make):
    with pytest.raises(NescioError, match=r"x must be images \(N, C, H, W\), got \(5, 4, 4\)"):
        make(torch.rand(5, 4, 4))
