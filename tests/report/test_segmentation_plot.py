import matplotlib
import pytest
import torch
from matplotlib.colors import to_rgb

from nescio.core import NescioError
from nescio.models import UncertaintyMaps
from nescio.report.plots.segmentation_plot import ABSTAINED, NO_LABEL, TITLES, segmentation_figure

NAMES = ("road", "car", "$sky")
COLORS = ("#ff0000", "#00ff00", "#0000ff")


def shown(images=2, height=3, width=5):
    maps = UncertaintyMaps(
        labels=torch.arange(images * height * width).reshape(images, height, width) % 3,
        **{
            name: torch.full((images, height, width), value)
            for name, value in {
                "least_confidence": 0.2,
                "predictive_entropy": 0.7,
                "expected_entropy": 0.5,
                "mutual_information": 0.2,
            }.items()
        },
        members=4,
    )
    x = torch.randint(256, (images, 3, height, width), dtype=torch.uint8)
    y = torch.full((images, height, width), 1)
    y[0, 0, 0] = 255
    return x, y, maps


@pytest.mark.parametrize("dark", [False, True])
def test_five_columns_with_the_colors_of_the_classes(dark):
    x, y, maps = shown()
    before = dict(matplotlib.rcParams)
    figure = segmentation_figure(
        x, y, maps, names=NAMES, colors=COLORS, ignore_index=255, dark=dark
    )
    assert dict(matplotlib.rcParams) == before
    assert [axis.get_title() for axis in figure.axes[:5]] == list(TITLES)
    truth, said = (figure.axes[column].images[0].get_array() for column in (1, 2))
    assert tuple(truth[0, 0]) == to_rgb(NO_LABEL)
    assert tuple(truth[0, 1]) == to_rgb(COLORS[1])
    assert [tuple(color) for color in said[0, :3]] == [to_rgb(color) for color in COLORS]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "road", "car", r"\$sky", "no label",
    ]  # fmt: skip
    assert (sum(to_rgb(figure.get_facecolor())) < 1) is dark


def test_abstained_pixels_are_blank_and_scales_are_shared():
    x, y, maps = shown()
    answered = torch.ones_like(y, dtype=torch.bool)
    answered[1, 2, 4] = False
    figure = segmentation_figure(x, y, maps, names=NAMES, answered=answered)
    assert tuple(figure.axes[7].images[0].get_array()[2, 4]) == to_rgb(ABSTAINED)
    scales = {figure.axes[index].images[0].get_clim() for index in (3, 8)}
    assert scales == {(0.0, 0.5)}


def test_gray_images_of_any_range_and_many_classes():
    _, y, maps = shown(1)
    figure = segmentation_figure(
        torch.randn(1, 1, 3, 5), y[:1], maps, names=[str(i) for i in range(19)]
    )
    pixels = figure.axes[0].images[0].get_array()
    assert (pixels.min(), pixels.max()) == (0, 1)


def test_what_does_not_fit_is_refused():
    x, y, maps = shown()
    with pytest.raises(NescioError, match=r"label maps \(N, H, W\)"):
        segmentation_figure(x, y[:, :2], maps, names=NAMES)
    with pytest.raises(NescioError, match="2 names for 3 classes"):
        segmentation_figure(x, y, maps, names=NAMES[:2])
    with pytest.raises(NescioError, match="1 colors"):
        segmentation_figure(x, y, maps, names=NAMES, colors=["red"])
