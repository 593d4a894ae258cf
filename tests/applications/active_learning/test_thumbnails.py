"""Thumbnails: the pixels of the image, enlarged."""

import base64
import io

import numpy as np
import pytest
import torch
from PIL import Image

from nescio import NescioError
from nescio.applications.active_learning import data_url, thumbnail


def pixels(png):
    return np.asarray(Image.open(io.BytesIO(png)))


def test_bytes_stay_and_small_images_grow_in_whole_steps():
    image = torch.arange(2 * 28 * 28).reshape(2, 28, 28).to(torch.uint8)[:1]
    shown = pixels(thumbnail(image))
    assert shown.shape == (112, 112)
    assert np.array_equal(shown[::4, ::4], image[0].numpy())


def test_colors_and_floats():
    image = torch.rand(3, 120, 140)
    shown = pixels(thumbnail(image))
    assert shown.shape == (120, 140, 3)
    assert np.abs(shown.transpose(2, 0, 1) / 255 - image.numpy()).max() <= 0.5 / 255 + 1e-6
    wide = pixels(thumbnail(torch.tensor([[[-2.0, 0.0, 2.0]]])))
    assert [wide[0, 0], wide[0, 50], wide[0, -1]] == [0, 128, 255]


def test_large_images_shrink_and_other_channels_are_averaged():
    assert max(pixels(thumbnail(torch.zeros(1, 600, 1200))).shape) == 512
    shown = pixels(thumbnail(torch.stack([torch.zeros(112, 112), torch.ones(112, 112)])))
    assert shown.shape == (112, 112)
    assert shown[0, 0] == 128


def test_a_thumbnail_within_a_text():
    start, _, rest = data_url(thumbnail(torch.zeros(1, 8, 8))).partition(",")
    assert start == "data:image/png;base64"
    assert pixels(base64.b64decode(rest)).shape == (112, 112)


def test_only_images_have_thumbnails():
    with pytest.raises(NescioError, match=r"shape \(C, H, W\)"):
        thumbnail(torch.zeros(8, 8))
