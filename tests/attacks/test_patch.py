"""A patch: better than gray, repeatable, printable, and refused where it makes no sense."""

import io

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from nescio import NescioError, attacks
from nescio.attacks import Views

SIDE = 8
QUIET = Views(angle=5, scale=(0.9, 1.1), brightness=0.1)


class Brighter(nn.Module):
    """Class 0 where the left half of the image is brighter, 1 where the right one is."""

    def __init__(self):
        super().__init__()
        self.slope = nn.Parameter(torch.tensor(50.0))

    def forward(self, x):
        half = x.shape[3] // 2
        sides = [x[..., :half].mean((1, 2, 3)), x[..., half:].mean((1, 2, 3))]
        return self.slope * torch.stack(sides, 1)


def images(count=60, seed=0):
    x = 0.4 + 0.2 * torch.rand(count, 1, SIDE, SIDE, generator=torch.Generator().manual_seed(seed))
    return x, Brighter()(x).argmax(1)


def test_a_glued_patch_takes_the_color_that_the_target_needs():
    """On the left half, all white says 0 and all black says 1: the closed form."""
    x, _ = images()
    how = {"size": 0.25, "position": (0.5, 0.25), "views": QUIET, "steps": 30}
    for target, color in ((0, 1.0), (1, 0.0)):
        found = attacks.patch(Brighter(), x, target=target, **how)
        assert found.pixels.shape == (1, 2, 2)
        torch.testing.assert_close(found.pixels, torch.full((1, 2, 2), color))
        assert (Brighter()(found(x, seed=3)).argmax(1) == target).float().mean() > 0.9


def test_without_a_target_it_works_against_the_labels():
    x, y = images()
    ones = y == 0
    found = attacks.patch(Brighter(), x[ones], y[ones], size=0.5, position=(0.5, 0.25), steps=30,
                          views=QUIET)  # fmt: skip
    assert (Brighter()(found(x[ones])).argmax(1) == 1).all()
    own = attacks.patch(Brighter(), x[ones], size=0.5, position=(0.5, 0.25), steps=30, views=QUIET)
    assert torch.equal(own.pixels, found.pixels)  # the network's answers are the labels here


def test_a_seed_repeats_and_views_are_by_index():
    x, y = images()
    before = torch.get_rng_state()
    one, again, other = (
        attacks.patch(Brighter(), x, y, size=0.3, steps=3, seed=s) for s in (4, 4, 5)
    )
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(one.pixels, again.pixels)
    assert not torch.equal(one.pixels, other.pixels)
    whole = one(x, seed=9)
    torch.testing.assert_close(torch.cat([one(x[:7], seed=9), one(x[7:], seed=9, first=7)]), whole)
    assert not torch.equal(one(x, seed=10), whole)


def test_bytes_are_images():
    x = torch.randint(0, 256, (20, 3, SIDE, SIDE), dtype=torch.uint8)
    found = attacks.patch(Brighter(), x, target=0, steps=3, mask="circle")
    floats = attacks.patch(Brighter(), x.float() / 255, target=0, steps=3, mask="circle")
    assert torch.equal(found.pixels, floats.pixels)
    assert found(x).dtype == torch.float32


def test_it_prints_in_a_size_and_reads_back():
    x = torch.rand(20, 3, 20, 20)
    found = attacks.patch(Brighter(), x, target=0, steps=2, size=0.5, mask="circle")
    image = Image.open(io.BytesIO(found.png(centimeters=5)))
    assert image.mode == "RGBA"
    assert image.size == (1000, 1000)
    np.testing.assert_allclose(image.info["dpi"][0], 1000 / 5 * 2.54, rtol=1e-3)
    levels = torch.from_numpy(np.array(image))[::100, ::100].movedim(-1, 0)
    assert torch.equal(levels[3] == 255, found.mask == 1)
    assert torch.equal(levels[:3].float() / 255, found.pixels)


def test_save_png(tmp_path):
    x, _ = images()
    found = attacks.patch(Brighter(), x, target=0, steps=1)
    path = found.save_png(tmp_path / "patch.png", centimeters=12)
    assert path.read_bytes() == found.png(centimeters=12)


def test_masks():
    x, _ = images()
    bars = attacks.patch(Brighter(), x, target=0, steps=1, size=0.75, mask="bars").mask
    assert bars.tolist() == [[1.0] * 6, *[[0.0] * 6] * 4, [1.0] * 6]
    circle = attacks.patch(Brighter(), x, target=0, steps=1, size=1.0, mask="circle").mask
    assert circle[0, 0] == 0
    assert circle.mean() == pytest.approx(np.pi / 4, abs=0.05)
    own = torch.tensor([[1, 0], [0, 1], [1, 1]])
    found = attacks.patch(Brighter(), x, target=0, steps=1, mask=own)
    assert torch.equal(found.mask, own.float())
    assert found.pixels[0, 0, 1] == pytest.approx(0.5, abs=1 / 255)  # not part of it: gray


def test_the_gray_patch_has_its_shape():
    x, _ = images()
    gray = attacks.patch(Brighter(), x, target=0, steps=1, mask="circle").gray()
    assert (gray.pixels == 0.5).all()
    assert gray(x).shape == x.shape


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": 2}, "target"),
        ({"target": -1}, "target"),
        ({"size": 0.0}, "size is a share"),
        ({"mask": "star"}, "unknown shape 'star'.*square, circle, bars"),
        ({"mask": torch.zeros(2, 2)}, "with a 1 somewhere"),
        ({"mask": torch.ones(9, 9)}, "does not fit"),
        ({"position": (0.5, 1.5)}, "position is"),
        ({"y": [0, 1]}, "labels of shape"),
        ({"x": torch.rand(4, 5)}, "images"),
        ({"x": torch.rand(4, 2, 8, 8)}, "one or three channels"),
        ({"steps": -1}, "steps"),
        ({"high": 0.3}, "outside the box"),
    ],
)
def test_bad_input(options, message):
    x, y = images(10)
    given = {"x": x, "y": y, "steps": 1, **options}
    with pytest.raises(NescioError, match=message):
        attacks.patch(Brighter(), **given)


def test_the_width_of_a_print():
    x, _ = images(10)
    found = attacks.patch(Brighter(), x, target=0, steps=1)
    with pytest.raises(NescioError, match="centimeters"):
        found.png(centimeters=0)
    with pytest.raises(NescioError, match="does not fit"):
        found(torch.rand(2, 3, 8, 8))
