"""The simplex plot draws the density and the members where they are."""

import numpy as np
import pytest
import torch
from scipy.stats import dirichlet

from nescio.core import Categorical, Dirichlet, Gaussian, NescioError
from nescio.report.plots.look import svg
from nescio.report.plots.simplex_plot import CORNERS, FAINTEST, _grid, density, simplex

FLAT, SHARP, CORNERED = (1.0, 1.0, 1.0), (20.0, 30.0, 10.0), (0.3, 0.4, 0.5)


def concentrations(*alphas):
    """A prediction of one sample with a member for each."""
    return Dirichlet.from_alpha(torch.tensor(alphas, dtype=torch.float64)[:, None])


@pytest.mark.parametrize("alpha", [FLAT, SHARP, CORNERED, (101.0, 1.0, 1.0)])
def test_density_is_that_of_scipy(alpha):
    points = np.random.default_rng(0).dirichlet((1, 1, 1), 50)
    found = density(concentrations(alpha), torch.from_numpy(points))
    np.testing.assert_allclose(found, dirichlet(alpha).pdf(points.T), rtol=1e-9)


def test_density_of_members_is_their_mean_and_integrates_to_one():
    points = _grid()
    both = density(concentrations(FLAT, SHARP), points)
    parts = [density(concentrations(alpha), points) for alpha in (FLAT, SHARP)]
    torch.testing.assert_close(both, (parts[0] + parts[1]) / 2)
    inside = (points > 0.5 / 240).all(-1)
    # two free probabilities: half as many pixels of the box lie in the triangle, which has area 1/2
    assert float((both * inside).sum() / inside.sum() / 2) == pytest.approx(1, abs=0.01)


def test_panels_show_densities_members_means_and_measures():
    members = Categorical(torch.tensor([[[9.0, 0.0, 0.0]], [[0.0, 9.0, 0.0]], [[0.0, 0.0, 9.0]]]))
    figure = simplex({"a Dirichlet": concentrations(SHARP), "an ensemble": members})
    drawn, points, *_ = figure.axes
    (image,) = drawn.images
    np.testing.assert_allclose(image.get_array(), density(concentrations(SHARP), _grid()))
    assert image.norm.vmin == FAINTEST
    places, mean = points.collections[0].get_offsets(), points.collections[1].get_offsets()
    np.testing.assert_allclose(places, CORNERS, atol=1e-3)
    np.testing.assert_allclose(mean[0], CORNERS.mean(0), atol=1e-6)
    cross = drawn.collections[0].get_offsets()[0]
    np.testing.assert_allclose(cross, torch.tensor(SHARP).double() / 60 @ CORNERS)
    said = [text.get_text() for text in points.texts]
    assert "an ensemble" in said
    assert "entropy 1.099\nmutual information 1.1" in said
    assert "a Dirichlet" in svg(figure)


def test_one_scale_for_all_panels_names_and_notes():
    found = {"flat": concentrations(FLAT), "sharp": concentrations(SHARP)}
    figure = simplex(found, classes=("a", "b", "c"), notes={"flat": "prior"}, title="t", across=1)
    scales = [axis.images[0].norm for axis in figure.axes[:2]]
    assert scales[0] is scales[1]
    texts = [[text.get_text() for text in axis.texts] for axis in figure.axes[:2]]
    assert texts[0] == ["a", "b", "c", "flat", "prior"]
    assert texts[1][-1].startswith("entropy")
    assert figure.get_suptitle() == "t"
    assert len(simplex({"members": Categorical(torch.zeros(2, 1, 3))}).axes) == 1  # no color bar


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({}, "nothing to draw"),
        ({"a": Categorical(torch.zeros(1, 1, 4))}, "three classes"),
        ({"a": Gaussian(torch.zeros(1, 1, 3), torch.ones(1, 1, 3))}, "three classes"),
        ({"a": Categorical(torch.zeros(1, 2, 3))}, r"one sample.*prediction\[0\]"),
    ],
)
def test_what_cannot_be_drawn_is_said(found, said):
    with pytest.raises(NescioError, match=said):
        simplex(found)


def test_names_of_classes_are_three():
    with pytest.raises(NescioError, match="three corners"):
        simplex({"a": concentrations(FLAT)}, classes=("a", "b"))
