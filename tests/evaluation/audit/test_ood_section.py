"""Under shift: curves of few samples, for images of any range."""

import pytest
import torch
from torch import nn

from nescio import data, metrics
from nescio.data.corruptions import rotation
from nescio.data.ranges import units_of
from nescio.evaluation.audit import hold, shifted
from nescio.evaluation.audit.ood_section import turned
from nescio.models import plain


def test_images_are_turned_in_their_own_range() -> None:
    x = data.digits().test[0][:20]
    wide = 4 * x - 1
    found = turned(units_of(wide))(wide, 2)
    torch.testing.assert_close(found, 4 * rotation()(x, 2) - 1, atol=1e-5, rtol=0)
    assert turned(units_of(wide))(wide, 0).equal(wide)


def test_vectors_are_scaled_and_samples_are_bounded() -> None:
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(700, 2, generator=rng)
    y = (x[:, 0] > 0).long()
    net = nn.Linear(2, 2)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[-1.0, 0.0], [1.0, 0.0]]))
        net.bias.copy_(torch.tensor([0.0, 0.7]))  # it matters less and less
    held = hold((x, y), (x[:1] + 9, y[:1]), seed=0)
    found = shifted({"net": plain(net)}, {}, held)
    assert found.shift == "feature_scaling"
    assert found.samples == 500
    accuracy = found.curve("net", "accuracy")
    assert accuracy[0] < accuracy[-1] == pytest.approx(1.0, abs=0.02)
    small = hold((x[:100], y[:100]), (x[:1] + 9, y[:1]), seed=0)
    found = shifted({"net": plain(net)}, {}, small)
    with torch.no_grad():
        probs = net(8 * x[:100]).double().softmax(1)
    error = metrics.ece(probs.amax(1), probs.argmax(1) == y[:100])
    assert found.curve("net", "ece")[3] == pytest.approx(error, abs=1e-5)
