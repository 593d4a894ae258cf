"""Layouts, gray, color, padding and cropping against Pillow, numpy and their own inverses."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from nescio.core import NescioError
from nescio.data import as_images, color, crop, gray, pad

RNG = np.random.default_rng(0)


def images(shape, dtype=torch.uint8):
    pixels = torch.from_numpy(RNG.integers(0, 256, shape, dtype=np.uint8))
    return pixels if dtype == torch.uint8 else pixels.to(dtype) / 255


def test_layouts_are_brought_into_one():
    flat, deep = images((3, 4, 5)), images((3, 4, 5, 3))
    assert torch.equal(as_images(flat), flat.reshape(3, 1, 4, 5))
    made = as_images(deep.numpy())
    assert made.shape == (3, 3, 4, 5)
    assert made.is_contiguous()
    for channel in range(3):
        assert torch.equal(made[:, channel], deep[..., channel])
    assert as_images(deep.float()).dtype == torch.float32
    with pytest.raises(NescioError, match=r"got \(3, 3, 4, 5\); \(N, C, H, W\) needs no change"):
        as_images(made)
    with pytest.raises(NescioError, match="alpha"):
        as_images(np.zeros((2, 5, 5, 4), np.uint8))


def test_gray_bytes_are_those_of_pillow():
    x = images((2500, 3, 4, 5))  # more than is converted at a time
    ours = gray(x)
    assert ours.dtype == torch.uint8
    assert ours.shape == (2500, 1, 4, 5)
    for place in (0, 1, 2047, 2048, 2499):
        theirs = Image.fromarray(x[place].permute(1, 2, 0).numpy()).convert("L")
        assert np.array_equal(ours[place, 0].numpy(), np.asarray(theirs))


def test_gray_is_the_luma_to_the_nearest():
    x = images((40, 3, 9, 9))
    red, green, blue = x.double().unbind(1)
    luma = 0.299 * red + 0.587 * green + 0.114 * blue
    assert (gray(x)[:, 0].double() - luma).abs().max() <= 0.5 + 256 / 65536
    floats = gray(x.double() / 255)
    torch.testing.assert_close(floats[:, 0], luma / 255, rtol=0, atol=1e-15)
    same = x[:, :1].repeat(1, 3, 1, 1)  # a gray image in three channels comes back
    assert torch.equal(gray(same), x[:, :1])
    assert gray(x.half() / 255).dtype == torch.float16


def test_color_repeats_the_channel_and_gray_undoes_it():
    x = images((5, 1, 3, 4))
    made = color(x)
    assert made.shape == (5, 3, 3, 4)
    assert all(torch.equal(made[:, i : i + 1], x) for i in range(3))
    assert torch.equal(gray(made), x)
    assert torch.equal(color(made), made)
    assert torch.equal(gray(x), x)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_28_to_32_and_back(dtype):
    x = images((3, 1, 28, 28), dtype)
    larger = pad(x, 32)
    assert larger.dtype == dtype
    assert np.array_equal(larger.numpy(), np.pad(x.numpy(), ((0, 0), (0, 0), (2, 2), (2, 2))))
    assert torch.equal(crop(larger, 28), x)
    wide = images((3, 3, 32, 32), dtype)
    assert torch.equal(crop(wide, 28), wide[:, :, 2:30, 2:30])


@settings(deadline=None, max_examples=40)
@given(
    st.integers(1, 6),
    st.integers(1, 6),
    st.integers(0, 5),
    st.integers(0, 5),
    st.sampled_from([1, 3]),
)
def test_crop_undoes_pad(height, width, more, wider, channels):
    x = torch.arange(1, 1 + 2 * channels * height * width, dtype=torch.float32)
    x = x.reshape(2, channels, height, width)
    size = (height + more, width + wider)
    larger = pad(x, size)
    assert tuple(larger.shape[2:]) == size
    assert larger.sum() == x.sum()
    assert torch.equal(crop(larger, (height, width)), x)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: pad(x, 3), "pad makes images larger, got 4 x 5 and 3 x 3; smaller ones: crop"),
        (lambda x: crop(x, (4, 6)), "crop makes images smaller, got 4 x 5 and 4 x 6"),
        (lambda x: pad(x, 0), "`size` must be a positive number"),
        (lambda x: pad(x, 4.5), "`size` must be"),
        (lambda x: crop(x, (1, 2, 3)), "`size` must be"),
        (lambda x: gray(x[:, :2]), r"1 or 3 channels, got \(2, 2, 4, 5\); as_images"),
        (lambda x: color(x[0]), r"got \(3, 4, 5\)"),
        (lambda x: gray(x.long()), "must be uint8 or floats, got torch.int64"),
    ],
)
def test_what_cannot_be_done_is_said(call, message):
    with pytest.raises(NescioError, match=message):
        call(images((2, 3, 4, 5)))
