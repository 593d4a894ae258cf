"""Pictures of Q and its uncertainty: what is drawn is the mean and the spread over members."""

import numpy as np
import pytest
import torch

from nescio.core import NescioError
from nescio.report.plots.action_values_plot import (
    Axle,
    action_value_lines,
    action_value_maps,
    value_and_uncertainty,
)

VALUES = torch.randn(6, 4, 5, 3, generator=torch.Generator().manual_seed(0))  # K, H, W, A
POSITION, VELOCITY = Axle("position", -1.2, 0.6), Axle("velocity", -0.07, 0.07)


def test_the_value_is_the_best_mean_and_the_uncertainty_a_standard_deviation():
    value, spread = (part.numpy() for part in value_and_uncertainty(VALUES))
    plain = VALUES.numpy()
    np.testing.assert_allclose(value, plain.mean(0).max(-1), rtol=1e-5)
    np.testing.assert_allclose(spread, np.sqrt(plain.var(0, ddof=1).mean(-1)), rtol=1e-5)


def test_members_that_agree_are_not_uncertain():
    _, spread = value_and_uncertainty(VALUES[:1].expand(6, -1, -1, -1))
    torch.testing.assert_close(spread, torch.zeros(4, 5))


def test_one_member_alone_has_no_uncertainty_to_show():
    with pytest.raises(NescioError, match="two or more members"):
        value_and_uncertainty(VALUES[:1])
    with pytest.raises(NescioError, match="two or more members"):
        action_value_lines({"one": VALUES[:1, 0]})


def test_maps_show_values_above_their_uncertainty():
    visited = {"late": torch.tensor([[-0.5, 0.0]])}
    found = {"early": VALUES, "late": VALUES / 2}
    figure = action_value_maps(found, POSITION, VELOCITY, visited=visited)
    images = [axis.images[0] for axis in figure.axes if axis.images]
    assert len(images) == 4
    assert all(image.get_extent() == [-1.2, 0.6, -0.07, 0.07] for image in images)
    value, spread = value_and_uncertainty(VALUES / 2)
    np.testing.assert_allclose(images[1].get_array(), value, rtol=1e-5)
    np.testing.assert_allclose(images[3].get_array(), spread, rtol=1e-5)


def test_lines_show_each_action_with_a_band():
    figure = action_value_lines({"late": VALUES[:, 0]}, actions=("left", "stay", "right"))
    (axis,) = figure.axes
    assert [line.get_label() for line in axis.lines] == ["left", "stay", "right"]
    np.testing.assert_allclose(axis.lines[2].get_ydata(), VALUES[:, 0, :, 2].mean(0), rtol=1e-5)
    assert len(axis.collections) == 3
