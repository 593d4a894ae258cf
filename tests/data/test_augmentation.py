"""Crops and mirrors: a loop as oracle, members apart, bytes stay bytes."""

import numpy as np
import pytest
import torch
from scipy.ndimage import affine_transform
from torch import nn

from nescio import NescioError, train
from nescio.core import Rng
from nescio.data.augmentation import (
    Augment,
    affine,
    augment,
    augment_pairs,
    check_augments,
    colors,
    crops,
    mirrors,
    still,
)

IMAGES = (40, 2, 5, 6)


def shifted(image, down, right):
    """The image moved, pixel by pixel; zeros come in."""
    moved = torch.zeros_like(image)
    _, height, width = image.shape
    for row in range(height):
        for column in range(width):
            if 0 <= row - down < height and 0 <= column - right < width:
                moved[:, row, column] = image[:, row - down, column - right]
    return moved


def bytes_or_floats(dtype):
    return torch.randint(1, 256, IMAGES, dtype=torch.uint8).to(dtype)


@pytest.mark.parametrize("pad", [1, 2, 4])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float64])
def test_a_crop_is_one_of_all_shifts(pad, dtype):
    x = bytes_or_floats(dtype)
    moved = crops(pad).change(x, torch.Generator().manual_seed(0))
    assert moved.dtype == dtype
    assert moved.shape == x.shape
    spots = range(-pad, pad + 1)
    met = set()
    for image, found in zip(x, moved, strict=True):
        hits = [(d, r) for d in spots for r in spots if torch.equal(shifted(image, d, r), found)]
        assert len(hits) == 1
        met.update(hits)
    assert len(met) > min(20, len(spots) ** 2 // 2)


def test_all_shifts_come_equally_often():
    x = torch.zeros(9000, 1, 3, 3)
    x[:, 0, 1, 1] = 1
    moved = crops(1).change(x, torch.Generator().manual_seed(0))
    share = moved.mean(0)[0]
    torch.testing.assert_close(share, torch.full((3, 3), 1 / 9), rtol=0, atol=0.012)


def test_crops_may_mirror_the_image_at_its_edges():
    x = torch.arange(60, dtype=torch.uint8).view(1, 2, 5, 6).expand(40, -1, -1, -1)
    step = crops(2, edge="mirror")
    moved = step.change(x, torch.Generator().manual_seed(0))
    padded = nn.functional.pad(x[0].float(), (2, 2, 2, 2), mode="reflect").byte()
    windows = [padded[:, i : i + 5, j : j + 6] for i in range(5) for j in range(5)]
    assert all(any(torch.equal(one, window) for window in windows) for one in moved)
    assert len({tuple(one.flatten().tolist()) for one in moved}) > 10
    assert moved.dtype is torch.uint8
    assert "mirror" in step.description
    with pytest.raises(NescioError, match='"zeros" or "mirror"'):
        crops(2, edge="wrap")


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_about_half_of_the_images_are_mirrored(dtype):
    x = torch.randint(0, 256, (2000, 2, 3, 4), dtype=torch.uint8).to(dtype)
    moved = mirrors().change(x, torch.Generator().manual_seed(0))
    assert moved.dtype == dtype
    same = (moved == x).flatten(1).all(1)
    turned = (moved == x.flip(3)).flatten(1).all(1)
    assert (same ^ turned).all()
    assert 0.46 < turned.float().mean() < 0.54


def test_members_draw_apart_and_each_as_it_would_alone():
    steps = [crops(2), mirrors()]
    x = bytes_or_floats(torch.uint8).expand(3, *IMAGES)
    together = augment(steps, x, Rng(1, (0, 4, 7), (2, 3)))
    assert not torch.equal(together[0], together[1])
    for place, member in enumerate((0, 4, 7)):
        alone = augment(steps, x[:1], Rng(1, (member,), (2, 3)))
        assert torch.equal(alone[0], together[place])


def test_a_change_is_a_function_of_seed_member_epoch_and_step():
    x = bytes_or_floats(torch.float32)[None]
    base = Rng(1, (0,), (2, 3))
    first = augment([crops(2)], x, base)
    assert torch.equal(first, augment([crops(2)], x, base))
    for other in (Rng(2, (0,), (2, 3)), Rng(1, (0,), (2, 4)), Rng(1, (0,), (3, 3))):
        assert not torch.equal(first, augment([crops(2)], x, other))


def test_the_images_given_stay_as_they_are():
    x = bytes_or_floats(torch.float32)
    before = x.clone()
    for step in (crops(2), mirrors()):
        step.change(x, torch.Generator().manual_seed(0))
    assert torch.equal(x, before)


def made():
    return nn.Sequential(nn.Flatten(), nn.Linear(60, 2)).double()


def test_training_sees_augmented_bytes_as_floats():
    """The same as training on the floats, member by member."""
    x, y = torch.randint(0, 256, IMAGES, dtype=torch.uint8), torch.arange(40) % 2
    options = {"epochs": 3, "batch_size": 10, "augment": [crops(1), mirrors()], "progress": False}
    bytes_ = train(made, (x, y), members=2, **options)
    floats = train(made, (x.double() / 255, y), members=[1], **options)
    torch.testing.assert_close(bytes_.tensors["1.weight"][1], floats.tensors["1.weight"][0])
    still = train(made, (x, y), members=2, **{**options, "augment": ()})
    assert not torch.equal(still.tensors["1.weight"], bytes_.tensors["1.weight"])


def test_another_augmentation_is_another_run(tmp_path):
    x, y = torch.rand(IMAGES).double(), torch.arange(40) % 2
    train(made, (x, y), epochs=1, augment=crops(1), run=tmp_path)
    with pytest.raises(NescioError, match="augment: .*crops.* there"):
        train(made, (x, y), epochs=1, augment=crops(2), run=tmp_path)


@pytest.mark.parametrize(
    ("steps", "features", "said"),
    [
        (crops(1), (6,), r"needs images .* got inputs \(6,\)"),
        ([mirrors()], (3, 3), "needs images"),
        ("crops", (1, 5, 5), "takes crops"),
        ([crops], (1, 5, 5), "takes crops"),
        (5, (1, 5, 5), "takes crops"),
        (crops(5), (1, 5, 9), r"crops\(5\) .* images of 5 x 9"),
    ],
    ids=["vector", "matrix", "name", "not called", "number", "wide"],
)
def test_bad_steps_are_refused(steps, features, said):
    with pytest.raises(NescioError, match=said):
        check_augments(steps, features)


@pytest.mark.parametrize("pad", [0, -1, 1.5, True])
def test_a_pad_is_a_whole_number(pad):
    with pytest.raises(NescioError, match="pad must be a whole number from 1 up"):
        crops(pad)


def test_steps_come_alone_or_in_a_list_and_nothing_is_none():
    one = crops(2)
    assert check_augments(one, (1, 5, 5)) == (one,)
    assert check_augments([one, mirrors()], (1, 5, 5))[0] is one
    assert check_augments((), (3,)) == ()
    assert check_augments(None, (3,)) == ()
    own = Augment("darker", lambda x, source: x * 0.5)
    assert check_augments(own, (1, 5, 5)) == (own,)


def test_label_maps_move_with_their_images():
    """Each pixel of the images holds its label, so they agree wherever both go."""
    labels = torch.randint(1, 200, (3, 40, 5, 6))
    x = labels[:, :, None].repeat(1, 1, 2, 1, 1).to(torch.uint8)
    rng = Rng(1, (0, 4, 7), (2, 3))
    images, maps = augment_pairs([crops(2), mirrors(), crops(1)], x, labels, rng, -100)
    filled = maps == -100
    assert torch.equal(images[:, :, 0], torch.where(filled, 0, maps).to(torch.uint8))
    assert torch.equal(images[:, :, 0] == 0, filled)
    assert 0 < filled.double().mean() < 0.8
    assert not torch.equal(maps, labels)
    assert torch.equal(images, augment([crops(2), mirrors(), crops(1)], x, rng))


def test_other_targets_stay():
    x, y = torch.rand(2, 4, 1, 5, 5), torch.rand(2, 4, 3)
    rng = Rng(1, (0, 1), (2, 3))
    assert augment_pairs([crops(1)], x, y, rng)[1] is y
    moved = augment_pairs(
        [Augment("darker", lambda x, _: x / 2, move_labels=still)], x, x[:, :, 0], rng
    )
    assert torch.equal(moved[1], x[:, :, 0])


@pytest.mark.parametrize(
    ("step", "targets", "index", "said"),
    [
        (crops(1), (5, 5), None, "give an ignore_index"),
        (mirrors(), (5, 4), 255, r"label maps of the size of the images, \(5, 5\)"),
        (Augment("own", lambda x, _: x), (5, 5), 255, "not known how own moves label maps"),
    ],
    ids=["no ignore index", "size", "own"],
)
def test_maps_that_cannot_move_along_are_refused(step, targets, index, said):
    with pytest.raises(NescioError, match=said):
        check_augments(step, (1, 5, 5), targets, index)
    assert check_augments(mirrors(), (1, 5, 5), (5, 5))


@pytest.mark.parametrize("size", [(9, 9), (8, 13)])
def test_affine_maps_are_those_of_scipy(size):
    x = torch.rand(6, 2, *size, dtype=torch.float64)
    limits = {"degrees": 30.0, "shift": 2.0, "scale": 0.2, "shear": 0.3}
    moved = affine(**limits).change(x, torch.Generator().manual_seed(3))
    draws = (2 * torch.rand(5, 6, generator=torch.Generator().manual_seed(3)) - 1).double()
    middle = (np.array(size) - 1) / 2
    for image, own, (turn, zoom, lean, right, down) in zip(x, moved, draws.T.numpy(), strict=True):
        angle = np.deg2rad(30 * turn)
        rotation = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        matrix = rotation @ np.array([[1, 0.3 * lean], [0, 1]]) / (1 + 0.2 * zoom)
        flipped = matrix[::-1, ::-1]  # scipy has rows first
        offset = middle + 2 * np.array([down, right]) - flipped @ middle
        wide = [np.pad(channel, 30) for channel in image.numpy()]  # zeros come in smoothly
        offset = offset + 30 - flipped @ np.full(2, 30.0)
        wanted = [affine_transform(channel, flipped, offset, order=1) for channel in wide]
        wanted = np.stack(wanted)[:, 30 : 30 + size[0], 30 : 30 + size[1]]
        np.testing.assert_allclose(own, wanted, atol=1e-5)


def test_affine_maps_without_limits_change_nothing():
    still_standing = affine(degrees=0, shift=0, scale=0, shear=0)
    for x in (bytes_or_floats(torch.uint8), bytes_or_floats(torch.float32)):
        torch.testing.assert_close(still_standing.change(x, torch.Generator()), x)


def test_affine_maps_move_label_maps_along_with_the_images():
    labels = torch.randint(0, 5, (20, 12, 10))
    step = affine(degrees=40, shift=3)
    moved = step.move_labels(labels, torch.Generator().manual_seed(1), 255)
    assert set(moved.unique().tolist()) == {0, 1, 2, 3, 4, 255}
    whole = step.change(torch.ones(20, 1, 12, 10), torch.Generator().manual_seed(1))[:, 0]
    assert (moved[whole < 0.2] == 255).all()  # from outside the image
    assert (moved[whole > 0.999] < 5).all()
    flat = step.move_labels(torch.full_like(labels, 3), torch.Generator().manual_seed(1), 3)
    assert (flat == 3).all()


def test_affine_maps_refuse_limits_that_are_none():
    with pytest.raises(NescioError, match="degrees must be a number from 0 up"):
        affine(degrees=-1)
    with pytest.raises(NescioError, match="scale"):
        affine(scale=1.0)


def test_colors_change_as_the_formula_says():
    x = torch.rand(7, 3, 4, 5, dtype=torch.float64)
    changed = colors(0.2, contrast=0.5, tint=0.3).change(x, torch.Generator().manual_seed(2))
    draws = (2 * torch.rand(5, 7, generator=torch.Generator().manual_seed(2)) - 1).double()
    for image, own, (u, shift, *tints) in zip(x, changed, draws.T, strict=True):
        middle = image.mean()
        for channel, found, v in zip(image, own, tints, strict=True):
            wanted = (channel - middle) * (0.5 * u + 0.3 * v).exp() + middle + 0.2 * shift
            torch.testing.assert_close(found, wanted, atol=1e-6, rtol=0)


def test_colors_of_bytes_are_those_of_floats_rounded_and_clipped():
    x = torch.randint(0, 256, (9, 3, 6, 6), dtype=torch.uint8)
    step = colors(0.3, contrast=0.5)
    found = step.change(x, torch.Generator().manual_seed(1))
    wanted = 255 * step.change(x.double() / 255, torch.Generator().manual_seed(1))
    assert found.dtype == torch.uint8
    assert (found.double() - wanted.round().clamp(0, 255)).abs().max() <= 1
    labels = torch.randint(0, 4, (9, 6, 6))
    assert step.move_labels(labels, torch.Generator(), 255) is labels
    same = colors(0, contrast=0, tint=0).change(x, torch.Generator())
    assert torch.equal(same, x)
    with pytest.raises(NescioError, match="contrast must be a number from 0 up"):
        colors(contrast=-0.1)
