"""Pictures of the part segmentation: labels of classes that lie near each other."""

from types import SimpleNamespace

import torch

from nescio_papers.robust_deep_learning import segmentation_pictures
from nescio_papers.robust_deep_learning.segmentation_measures import ALEATORIC, EPISTEMIC


def test_names_of_classes_near_each_other_are_on_two_sides():
    y = torch.arange(11)[None, :, None].expand(2, 11, 3)
    values = y.double().clone()
    values[y == 9] = 10 - 0.1  # just below class 10
    maps = SimpleNamespace(**dict.fromkeys((ALEATORIC, EPISTEMIC), values))
    quality = SimpleNamespace(by_class=[0.5] * 11, mean_iou=SimpleNamespace(value=0.5))
    shares = [0.3] * 9 + [0.0101, 0.01]
    figure = segmentation_pictures.classes(quality, maps, y, shares)
    for axis in figure.axes[1:]:
        below = [text.xyann[1] < 0 for text in axis.texts]
        assert below[9:] == [True, False]
