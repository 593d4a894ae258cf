"""Drawn pictures: areas in closed form, distances by brute force."""

import importlib
import math

import numpy as np
import pytest
import torch

from nescio.core import NescioError
from nescio.data import ood

shapes = importlib.import_module("nescio.data.ood.drawn")
strokes = importlib.import_module("nescio.data.ood.drawn")

GRID = np.linspace(-1, 1, 401, dtype=np.float32)
CELL = (2 / 400) ** 2
CENTER, ANGLE, TAPER, ELLIPSE, BOX, SHARP, FULL = 0.5, 0.0, 0.5, 0.1, 0.9, 1.0, 1.0


def part(wide, high, kind, angle=ANGLE, taper=TAPER, level=FULL):
    numbers = [CENTER, CENTER, wide, high, angle, taper, kind, SHARP, level, 0.0]
    column = np.array(numbers, np.float32)[None, :, None, None]
    return shapes._part(column, GRID[None], GRID[:, None])[0].astype(np.float64)


@pytest.mark.parametrize(("kind", "factor"), [(ELLIPSE, math.pi), (BOX, 4.0)], ids=["oval", "box"])
@pytest.mark.parametrize("angle", [0.0, 0.55, 0.8], ids=str)
def test_the_area_of_a_part_is_that_of_an_ellipse_or_a_box(kind, factor, angle):
    wide, high = 0.12 + 0.75 * 0.5, 0.12 + 0.75 * 0.2
    drawn = part(0.5, 0.2, kind, angle)
    in_dist = (drawn > 0.5).sum() * CELL
    assert in_dist == pytest.approx(factor * wide * high, rel=0.02)
    assert drawn.max() == pytest.approx(1, abs=1e-3)


def test_half_of_the_parts_are_upright_and_others_turn():
    upright, turned = part(0.8, 0.0, BOX), part(0.8, 0.0, BOX, angle=0.75)  # a quarter turn
    np.testing.assert_allclose(turned, upright.T, atol=2e-3)
    np.testing.assert_array_equal(upright, part(0.8, 0.0, BOX, angle=0.49))


def test_the_level_of_a_part():
    np.testing.assert_allclose(
        part(0.5, 0.5, BOX, level=0.0), 0.25 * part(0.5, 0.5, BOX), rtol=1e-5
    )


def test_a_picture_has_a_ground_and_a_brightness_for_each_channel():
    gray = ood.shapes((1, 28, 28)).take(400).flatten(1)
    covered = (gray > gray.amin(1, keepdim=True) + 0.02).double().mean(1)
    assert covered.mean() > 0.1
    assert (gray.amin(1) > 0.05).double().mean() < 0.3  # most stand on black
    color = ood.shapes((3, 28, 28)).take(50)
    ratio = color.flatten(2).amax(2)
    assert torch.all(ratio.amax(1) > ratio.amin(1))
    for image, peak in zip(color, ratio, strict=True):  # one picture, three levels
        for channel in (1, 2):
            torch.testing.assert_close(image[channel] * peak[0], image[0] * peak[channel])


def test_the_distance_to_a_stroke_is_that_to_its_nearest_point():
    draw = np.random.default_rng(0)
    start, middle, end = draw.uniform(0, 20, (3, 15, 2)).astype(np.float32)
    y, x = np.mgrid[:18, :20].astype(np.float32)
    found = strokes._distance((start, middle, end), x, y)
    t = np.linspace(0, 1, strokes.PIECES + 1)[:, None, None]
    corners = (1 - t) ** 2 * start + 2 * t * (1 - t) * middle + t * t * end  # (7, 15, 2)
    share = np.linspace(0, 1, 400)[:, None, None, None]
    points = (corners[:-1] * (1 - share) + corners[1:] * share).reshape(-1, 15, 2)
    for curve in range(15):
        across = x[..., None] - points[:, curve, 0]
        down = y[..., None] - points[:, curve, 1]
        nearest = np.hypot(across, down).min(-1)
        np.testing.assert_allclose(found[curve], nearest, atol=0.02)


def test_a_stroke_of_no_length_is_a_dot():
    dot = np.array([[3.0, 4.0]], np.float32)
    y, x = np.mgrid[:9, :9].astype(np.float32)
    found = strokes._distance((dot, dot, dot), x, y)[0]
    np.testing.assert_allclose(found, np.hypot(x - 3, y - 4), atol=1e-5)


def test_more_strokes_are_more_ink():
    ink = [ood.strokes(least=least, seed=2).take(500).mean() for least in (1, 3, 5)]
    assert ink[0] < ink[1] < ink[2]
    assert ink[0] > 0.05
    assert ink[2] < 0.5
    picture = ood.strokes((3, 28, 28)).take(5)
    assert torch.equal(picture[:, 0], picture[:, 2])


@pytest.mark.parametrize("least", [0, 6])
def test_a_bad_number_of_strokes_is_refused(least):
    with pytest.raises(NescioError, match=rf"`least` must be in 1\.\.5, got {least}"):
        ood.strokes(least=least)


@pytest.mark.parametrize("make", [ood.shapes, ood.strokes])
@pytest.mark.parametrize("shape", [(28, 28), (1, 0, 4)], ids=str)
def test_only_images_are_drawn(make, shape):
    with pytest.raises(NescioError, match=r"`shape` must be \(channels, height, width\)"):
        make(shape)


@pytest.mark.parametrize(
    ("source", "means"),
    [
        (ood.shapes, [0.2956456, 0.6058701, 0.2627359, 0.1745237]),
        (ood.strokes, [0.1492507, 0.0506355, 0.1996824, 0.1547572]),
    ],
)
def test_a_seed_gives_the_pictures_it_always_gave(source, means):
    drawn = source((1, 28, 28), seed=3).take(4).double().mean((1, 2, 3))
    np.testing.assert_allclose(drawn, means, atol=1e-6)
