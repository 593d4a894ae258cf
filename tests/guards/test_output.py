"""A guard of a network that returns more than its logits: by key, or by a function."""

import pytest
import torch
from torch import nn

import nescio
from nescio import NescioError


class Both(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Linear(3, 16), nn.Linear(16, 3)

    def forward(self, x):
        hidden = self.first(x).relu()
        return {"hidden": hidden, "scores": [self.last(hidden), hidden]}


def scores(result):
    return result["scores"][0]


def data(rows, seed):
    x = torch.randn(rows, 3, generator=torch.Generator().manual_seed(seed))
    return x, scores(Both()(x)).argmax(1)


@pytest.mark.filterwarnings("ignore::nescio.core.errors.NescioWarning")
def test_a_function_as_output(tmp_path):
    net = Both().eval()
    options = {"train": data(300, 1), "false_alarm": 0.05, "calibration_map": None}
    made = nescio.guard(net, data(400, 0), output=scores, **options)
    new, truth = data(50, 2)
    found = made(new)
    assert torch.equal(found.label, truth)
    path = made.save(tmp_path / "guard.safetensors", weights=True)
    with pytest.raises(NescioError, match="output was the function scores.*give output="):
        nescio.load(path, net=net)
    again = nescio.load(path, net=net, output=scores)
    assert torch.equal(again(new).decision, found.decision)
    with pytest.raises(NescioError, match="answers a probe differently"):
        nescio.load(path, net=net, output=lambda result: 2 * scores(result))


@pytest.mark.filterwarnings("ignore::nescio.core.errors.NescioWarning")
def test_a_detector_with_options_by_name():
    options = {"train": data(300, 1), "false_alarm": 0.05, "calibration_map": None}
    made = nescio.guard(Both(), data(400, 0), output=scores, detector="knn,k=1", **options)
    assert made.detector.options["k"] == 1
    with pytest.raises(NescioError, match="knn has no option 'neighbors'"):
        nescio.guard(Both(), data(400, 0), output=scores, detector="knn,neighbors=1", **options)
