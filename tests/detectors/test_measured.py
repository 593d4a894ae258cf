"""Measures as detectors: the numbers of the measure itself, for all members at once."""

import importlib

import pytest
import torch

from nescio import Categorical, Dirichlet, Gaussian, load, measures
from nescio.core import NescioError, applicable, fixed_variance
from nescio.core.heads import dirichlet, gaussian
from nescio.core.registry import measures as registry
from nescio.detectors import measured
from nescio.detectors.activations import Activations

LOGITS = torch.randn(3, 40, 4, generator=torch.Generator().manual_seed(0))
HEADS = {"categorical": Categorical, "dirichlet": dirichlet(), "gaussian": gaussian()}
SAMPLES = [
    pytest.param(head, name, id=f"{head}-{name}")
    for head, read in HEADS.items()
    for name in applicable(read(LOGITS))
]


@pytest.mark.parametrize(("head", "name"), SAMPLES)
def test_every_measure_of_every_reading(head, name, monkeypatch):
    monkeypatch.setattr(importlib.import_module("nescio.detectors.simple"), "NUMBERS", 60)
    found = measured(name, head=head).each(Activations(logits=LOGITS))
    assert found.shape == (1, 40)
    torch.testing.assert_close(found[0], registry[name](HEADS[head](LOGITS)))


def test_no_measure_is_left_out():
    assert {sample.values[1] for sample in SAMPLES} == set(registry)


def test_options_of_measure_and_head_are_kept(tmp_path):
    activations = Activations(logits=LOGITS)
    bits = measured("mutual_information", base=2.0)
    torch.testing.assert_close(
        bits(activations), measures.mutual_information(Categorical(LOGITS), base=2.0)
    )
    wide = measured("aleatoric_variance", head="gaussian", head_options={"floor": 3.0})
    expected = gaussian(floor=3.0)(LOGITS)
    assert isinstance(expected, Gaussian)
    torch.testing.assert_close(wide(activations), measures.aleatoric_variance(expected))
    again = load(wide.save(tmp_path / "w.safetensors"))
    assert torch.equal(again(activations), wide(activations))
    assert isinstance(dirichlet()(LOGITS), Dirichlet)


def test_the_regression_ensemble_has_its_epistemic_variance():
    means = torch.tensor([[[0.0], [1.0]], [[0.0], [3.0]]])
    detector = measured("epistemic_variance", head="fixed_variance")
    assert detector(Activations(logits=means)).tolist() == [0.0, 1.0]
    assert measures.epistemic_variance(fixed_variance()(means)).tolist() == [0.0, 1.0]


def test_bad_input():
    with pytest.raises(NescioError, match="unknown measure 'mutual_info'; did you mean"):
        measured("mutual_info")
    with pytest.raises(NescioError, match="unknown head 'normal'"):
        measured("total_variance", head="normal")
    with pytest.raises(NescioError, match="total_variance reads a Regression, got Categorical"):
        measured("total_variance")
    with pytest.raises(NescioError, match="class_variance has no option 'base'; it has: none"):
        measured("class_variance", base=2)
    with pytest.raises(NescioError, match="categorical has no option 'floor'"):
        measured("predictive_entropy", head_options={"floor": 1.0})
