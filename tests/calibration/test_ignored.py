"""Calibration of maps: every pixel is a sample, and ignored labels are left out."""

import pytest
import torch
from torch import nn

import nescio
from nescio import NescioError, calibration
from nescio.core import Categorical, MultiLabel
from nescio.core.registry import calibrators
from nescio.models import plain

CLASSES, IGNORED = 3, 255


def made(members=1):
    source = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(members, 4, 20, 25, CLASSES, generator=source).double()
    probs = (logits / 2).softmax(-1).mean(0)
    labels = torch.multinomial(probs.flatten(0, -2), 1, generator=source).reshape(4, 20, 25)
    labels[:, :3] = IGNORED
    return Categorical(logits), labels


@pytest.mark.parametrize("members", [1, 2])
@pytest.mark.parametrize("name", calibrators)
def test_a_calibration_of_maps_is_that_of_the_pixels_that_count(name, members):
    prediction, labels = made(members)
    counts = labels != IGNORED
    found = calibration.fit(name, prediction, labels, ignore_index=IGNORED)
    alone = calibration.fit(name, prediction[counts], labels[counts])
    for key, tensor in alone.state.items():
        assert torch.equal(found.state[key], tensor)
    assert found(prediction).batch_shape == prediction.batch_shape
    dropped = found(prediction[counts]).log_probs
    torch.testing.assert_close(found(prediction).log_probs[counts], dropped)


class Logits(nn.Module):
    """A network that gives its inputs back, so that the labels fit."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones((), dtype=torch.double))

    def forward(self, x):
        return self.scale * x


@pytest.mark.parametrize("name", calibrators)
def test_a_predictor_of_maps_is_calibrated_and_saved(name, tmp_path):
    prediction, labels = made()
    x = prediction.logits[0].movedim(-1, 1)
    calibrated = calibrators[name](plain(Logits()), (x, labels), ignore_index=IGNORED)
    alone = calibration.fit(name, prediction, labels, ignore_index=IGNORED)
    torch.testing.assert_close(calibrated(x).probs, alone(prediction).probs)
    calibrated.save(tmp_path)
    again = nescio.load(tmp_path, net=Logits)
    assert torch.equal(again(x).probs, calibrated(x).probs)


def test_bad_input_is_refused():
    prediction, labels = made()
    with pytest.raises(NescioError, match="labels must lie in 0..2"):
        calibration.fit("temperature", prediction, labels)
    with pytest.raises(NescioError, match="ignore_index=0 is a class"):
        calibration.fit("temperature", prediction, labels, ignore_index=0)
    nothing = torch.full_like(labels, IGNORED)
    with pytest.raises(NescioError, match="all 2000 labels are ignored"):
        calibration.fit("temperature", prediction, nothing, ignore_index=IGNORED)
    with pytest.raises(NescioError, match="labels have shape"):
        calibration.fit("temperature", prediction, labels[:, 0], ignore_index=IGNORED)


@pytest.mark.parametrize("shared", [False, True])
def test_unknown_labels_of_several_are_left_out(shared):
    source = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(300, 2, generator=source).double()
    y = (torch.rand(300, 2, generator=source) < (logits / 2).sigmoid()).long()
    y[:100, 0] = -1
    found = calibration.fit_labels("temperature", logits, y, shared=shared, ignore_index=-1)
    if shared:
        both = torch.cat([logits[100:, 0], logits[:, 1]])
        alone = calibration.fit("temperature", both, torch.cat([y[100:, 0], y[:, 1]]))
    else:
        alone = calibration.fit("temperature", logits[100:, 0], y[100:, 0])
    assert found.temperatures[0] == pytest.approx(alone.temperature, rel=1e-9)
    with pytest.raises(NescioError, match="must be 0 or 1"):
        calibration.fit_labels("temperature", MultiLabel(logits[None]), y)
