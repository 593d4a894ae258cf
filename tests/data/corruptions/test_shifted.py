"""Shifts with strengths: what all promise, and each against scipy or a closed form."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy import ndimage
from scipy.stats import kstest

from nescio.core import NescioError, registry
from nescio.data import corruptions, scaling
from nescio.data.corruptions import Shifted, normal

IMAGES = torch.rand(7, 2, 12, 9, generator=torch.Generator().manual_seed(0))
NAMES = [name for name in registry.corruptions if name != "scaling"]  # that one takes factors
MAKE = {name: getattr(corruptions, name) for name in NAMES}
OPTION = {
    "blur": {"deviation": 1.0},
    "brightness": {"amount": 0.2},
    "contrast": {"share": 0.1},
    "feature_scaling": {"factor": 3.0},
    "gaussian_noise": {"deviation": 0.2},
    "impulse_noise": {"share": 0.1},
    "pixelation": {"share": 0.1},
    "rotation": {"degrees": 10},
    "translation": {"pixels": 1},
    "warping": {"stretch": 0.05},
}
DRAWN = ("gaussian_noise", "impulse_noise", "translation", "warping")


@pytest.mark.parametrize("name", NAMES)
def test_what_every_shift_guarantees(name):
    shift = MAKE[name]()
    assert isinstance(shift, Shifted)
    assert shift.name == name
    before = IMAGES.clone()
    assert torch.equal(shift(IMAGES, 0), IMAGES)
    distances = []
    for strength in (1, 2.5, 5):
        found = shift(IMAGES, strength)
        assert found.shape == IMAGES.shape
        assert found.dtype == torch.float32
        if shift.images:
            assert found.min() >= 0
            assert found.max() <= 1
        distances.append((found - IMAGES).abs().mean().item())
    assert distances == sorted(distances)
    assert distances[0] > 0
    assert torch.equal(IMAGES, before)
    other = MAKE[name](**OPTION[name])(IMAGES, 2)
    assert not torch.allclose(other, shift(IMAGES, 2))


@pytest.mark.parametrize("name", NAMES)
def test_a_shift_is_the_same_in_batches_of_any_size(name):
    shift = MAKE[name]()
    whole = shift(IMAGES, 3)
    parts = [shift(part, 3, first=3 * i) for i, part in enumerate(IMAGES.split(3))]
    torch.testing.assert_close(torch.cat(parts), whole, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", DRAWN)
def test_draws_follow_the_seed_and_the_number(name):
    same = IMAGES[:1].expand(4, -1, -1, -1)
    found = MAKE[name](seed=1)(same, 4)
    assert not torch.allclose(found[0], found[1])
    assert not torch.allclose(found, MAKE[name](seed=2)(same, 4))
    assert torch.equal(found, MAKE[name](seed=1)(same, 4))


@pytest.mark.parametrize("strength", [1, 3, 5])
def test_rotation_is_that_of_scipy(strength):
    found = corruptions.rotation()(IMAGES, strength).double().numpy()
    for image, truth in zip(
        found.reshape(14, 12, 9), IMAGES.numpy().reshape(14, 12, 9), strict=True
    ):
        turned = ndimage.affine_transform(truth.astype(float), *_turn(15 * strength), order=1,
                                          mode="grid-constant")  # fmt: skip
        np.testing.assert_allclose(image, turned, atol=2e-5)


def _turn(degrees):
    """Matrix and offset in (row, column): an counterclockwise turn on the screen."""
    angle = np.deg2rad(degrees)
    matrix = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    middle = np.array([5.5, 4.0])
    return matrix, middle - matrix @ middle


def test_a_quarter_turn_is_counterclockwise():
    square = IMAGES[:, :, :9]
    found = corruptions.rotation(degrees=90)(square, 1)
    torch.testing.assert_close(found, torch.rot90(square, 1, (2, 3)), rtol=0, atol=1e-5)


def test_translation_moves_by_its_distance_in_all_directions():
    dot = torch.zeros(300, 1, 41, 41)
    dot[:, :, 20, 20] = 1
    found = corruptions.translation()(dot, 3)[:, 0].double()
    places = torch.arange(41.0).double()
    torch.testing.assert_close(found.sum((1, 2)), torch.ones(300).double(), atol=1e-5, rtol=0)
    moved = torch.stack([found.sum(1) @ places, found.sum(2) @ places], dim=1) - 20
    torch.testing.assert_close(
        moved.norm(dim=1), torch.full((300,), 6.0).double(), atol=1e-3, rtol=0
    )
    angle = torch.atan2(moved[:, 1], moved[:, 0]) / (2 * np.pi) % 1
    assert kstest(angle.numpy(), "uniform").pvalue > 1e-3


@pytest.mark.parametrize("strength", [1, 3])
def test_blur_is_that_of_scipy(strength):
    found = corruptions.blur()(IMAGES, strength).numpy()
    truth = ndimage.gaussian_filter(
        IMAGES.double().numpy(), 0.5 * strength, axes=(2, 3), mode="nearest", truncate=4
    )
    np.testing.assert_allclose(found, truth, atol=1e-5)


def test_light_and_contrast_by_their_formulas():
    x = IMAGES.double()
    found = corruptions.brightness(amount=0.1)(IMAGES, 3).double()
    torch.testing.assert_close(found, (x + 0.3).clamp(0, 1), atol=1e-6, rtol=0)
    mean = x.mean((1, 2, 3), keepdim=True)
    found = corruptions.contrast(share=0.2)(IMAGES, 5).double()
    torch.testing.assert_close(found, mean.expand_as(x), atol=1e-6, rtol=0)
    found = corruptions.contrast(share=0.2)(IMAGES, 2).double()
    torch.testing.assert_close(found, mean + 0.6 * (x - mean), atol=1e-6, rtol=0)


def test_pixelation_averages_blocks():
    x = IMAGES[:, :, :8, :8]
    found = corruptions.pixelation(share=0.1)(x, 5)  # 4 x 4 blocks
    blocks = x.unflatten(2, (4, 2)).unflatten(4, (4, 2)).mean((3, 5))
    truth = blocks.repeat_interleave(2, 2).repeat_interleave(2, 3)
    torch.testing.assert_close(found, truth)


def test_noise_has_its_distribution():
    drawn = normal(3, np.arange(50, dtype=np.int64), 401).flatten()
    assert kstest(drawn.numpy(), "norm").pvalue > 1e-3
    gray = torch.full((20, 1, 50, 50), 0.5)
    found = corruptions.gaussian_noise(deviation=0.02)(gray, 5) - 0.5
    assert found.std() == pytest.approx(0.1, rel=0.01)
    lost = corruptions.impulse_noise(share=0.08)(gray, 5)
    assert (lost == 0.5).double().mean() == pytest.approx(0.6, abs=0.01)
    assert (lost == 1).double().mean() == pytest.approx(0.2, abs=0.01)


def test_pixels_once_lost_stay_lost():
    gray = torch.full((5, 1, 20, 20), 0.5)
    shift = corruptions.impulse_noise()
    lost = [shift(gray, strength) != 0.5 for strength in range(6)]
    for less, more in pairwise(lost):
        assert (more | ~less).all()


def test_colors_of_a_lost_pixel_go_together():
    found = corruptions.impulse_noise()(torch.full((5, 3, 9, 9), 0.5), 5)
    assert torch.equal(found[:, 0], found[:, 1])
    assert torch.equal(found[:, 0], found[:, 2])


def test_features_are_scaled_by_powers():
    x = torch.tensor([[1.0, -2.0, 3.0]])
    shift = corruptions.feature_scaling([0, 2], factor=10)
    assert shift(x, 2).tolist() == [[100.0, -2.0, 300.0]]
    assert torch.equal(shift(x, 1), scaling([0, 2])(x, 10.0))


def test_bytes_are_images():
    found = corruptions.brightness(amount=0.2)(torch.full((2, 1, 3, 3), 51, dtype=torch.uint8), 1)
    torch.testing.assert_close(found, torch.full((2, 1, 3, 3), 0.4))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: corruptions.blur()(IMAGES, 6), "a strength is from 0 to 5, got 6"),
        (lambda: corruptions.blur()(IMAGES, float("nan")), "got nan"),
        (
            lambda: corruptions.blur()(IMAGES[0, 0], 1),
            r"images \(N, C, H, W\), got shape \(12, 9\)",
        ),
        (lambda: corruptions.blur()(2 * IMAGES, 1), "values from 0 to 1"),
        (
            lambda: corruptions.blur(deviation=0),
            "`deviation` must be a finite number above 0, got 0",
        ),
        (lambda: corruptions.contrast(share=0.3), "at most 0.2 per step, got 0.3"),
        (lambda: corruptions.impulse_noise(share=0), "above 0 and at most 0.2"),
        (lambda: corruptions.pixelation(share=0.2), "between 0 and 0.2"),
        (lambda: corruptions.feature_scaling(factor=1), "not 1, got 1"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(NescioError, match=message):
        call()


@pytest.mark.parametrize("name", ["rotation", "translation"])
def test_images_are_read_on_their_own_device(name):
    away = IMAGES.to("meta")  # it has no numbers, so only what happens to them is seen
    numbers = np.arange(len(IMAGES))
    found = MAKE[name]().change(away, 2.0, numbers)
    assert found.device.type == "meta"
    assert found.shape == IMAGES.shape


def test_warping_reads_where_its_field_says_and_stretches_as_much_as_it_says():
    field, slope = corruptions.displacements((12, 9), np.arange(7), 2, 0)
    largest = torch.linalg.matrix_norm(slope, 2).amax((1, 2))
    tau = (0.3 * field / largest[:, None, None, None]).numpy()
    found = corruptions.warping(stretch=0.1)(IMAGES, 3)
    rows, columns = np.meshgrid(np.arange(12), np.arange(9), indexing="ij")
    for image, moved, where in zip(IMAGES.numpy(), found.numpy(), tau, strict=True):
        at = [rows - where[..., 1], columns - where[..., 0]]
        read = ndimage.map_coordinates(image[0].astype(float), at, order=1, mode="grid-constant")
        np.testing.assert_allclose(moved[0], read, atol=2e-5)
    assert abs(tau[:, [0, -1]]).max() < 1e-12
    assert abs(tau[:, :, [0, -1]]).max() < 1e-12


def test_the_derivative_of_a_field_is_that_of_differences():
    """On 10 times as many pixels the field is the same up to its scale."""
    coarse, slope = corruptions.displacements((12, 9), np.arange(3), 2, 1)
    fine, _ = corruptions.displacements((1101, 801), np.arange(3), 2, 1)
    np.testing.assert_allclose(fine[:, ::100, ::100], coarse, atol=1e-12)
    by_column = (fine[:, 100:-1:100, 101::100] - fine[:, 100:-1:100, 99:-2:100])[:, :, :7] * 50
    np.testing.assert_allclose(by_column, slope[:, 1:11, 1:8, :, 0], atol=1e-3)
    by_row = (fine[:, 101::100, 100:-1:100] - fine[:, 99:-2:100, 100:-1:100])[:, :10] * 50
    np.testing.assert_allclose(by_row, slope[:, 1:11, 1:8, :, 1], atol=1e-3)
