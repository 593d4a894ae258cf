"""The picture of a maze shows every wall, every item and every eye."""

import numpy as np

from nescio.applications.exploration.maze_world import WALLS, first_world
from nescio.report.plots.maze_plot import maze_picture


def test_walls_items_and_eyes_are_drawn_where_they_are():
    world = first_world([0, 1])
    (axis,) = maze_picture(world, run=1).axes
    assert len(axis.lines) == len(WALLS) + 9
    far, _ = world.seen
    for eye, line in enumerate(axis.lines[-9:]):
        across, up = np.diff(line.get_xdata())[0], np.diff(line.get_ydata())[0]
        np.testing.assert_allclose(np.hypot(across, up), far[1, eye])
    good, bad, agent = (dots.get_offsets() for dots in axis.collections)
    assert len(good) + len(bad) == 30
    np.testing.assert_allclose(agent, [[world.at[1].real, world.at[1].imag]])
