"""Blocks of logits: the same as all at once; sums that do not vanish."""

import importlib

import pytest
import torch

from nescio import detectors
from nescio.core import NescioError
from nescio.detectors.activations import Activations
from nescio.detectors.simple import check_classes, others, tempered

blocks = importlib.import_module("nescio.detectors.simple")
NAMES = ["msp", "energy", "entropy", "generalized_entropy", "max_logit"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("numbers", [1, 100, 10_000])
def test_the_size_of_a_block_does_not_matter(name, numbers, monkeypatch):
    activations = Activations(logits=5 * torch.randn(200, 30))
    whole = getattr(detectors, name)()(activations)
    monkeypatch.setattr(blocks, "NUMBERS", numbers)
    torch.testing.assert_close(getattr(detectors, name)()(activations), whole)


@pytest.mark.parametrize("name", NAMES)
def test_two_threads_give_the_same_and_their_number_stays(name, monkeypatch):
    activations = Activations(logits=5 * torch.randn(200, 30))
    monkeypatch.setattr(blocks, "NUMBERS", 100)
    alone = getattr(detectors, name)()(activations)
    torch.set_num_threads(2)
    try:
        assert torch.equal(getattr(detectors, name)()(activations), alone)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)


@pytest.mark.parametrize("name", NAMES)
def test_logits_are_not_changed(name):
    logits = torch.randn(20, 6)
    before = logits.clone()
    getattr(detectors, name)()(Activations(logits=logits))
    assert torch.equal(logits, before)


@pytest.mark.parametrize("name", NAMES)
def test_with_gradients_the_values_are_the_same(name):
    logits = (10 * torch.randn(50, 7)).requires_grad_()
    detector = getattr(detectors, name)()
    plain = detector(Activations(logits=logits.detach()))
    view = next(Activations(logits=logits.detach()).views(0))
    object.__setattr__(view, "logits", logits)
    scores = detector.score(view)
    torch.testing.assert_close(scores.detach(), plain, rtol=1e-4, atol=1e-5)
    assert torch.autograd.grad(scores.sum(), logits)[0].isfinite().all()


def test_the_others_are_a_sum_and_count_ties():
    logits = torch.tensor([[0.0, -40.0, -40.0], [0.0, 0.0, -1.0], [0.0, -0.1, -0.2]])
    rest, whole = others(logits.exp())
    expected = torch.tensor([2 * 4.248354e-18, 1 + 0.36787944, 0.9048374 + 0.8187308])
    torch.testing.assert_close(rest, expected)
    torch.testing.assert_close(whole, 1 + expected)


def test_a_high_temperature_is_applied_in_float64():
    logits = torch.randn(3, 4)
    assert tempered(logits, 1.0) is logits
    assert tempered(logits, 0.5).dtype == torch.float32
    hot = tempered(logits, 1000.0)
    assert torch.equal(hot, logits.double() / 1000)


@pytest.mark.parametrize("name", ["msp", "energy", "entropy", "odin"])
@pytest.mark.parametrize("temperature", [0.0, -1.0, float("nan"), float("inf")])
def test_a_temperature_is_positive(name, temperature):
    with pytest.raises(NescioError, match="temperature must be positive and finite"):
        getattr(detectors, name)(temperature=temperature)


def test_one_output_is_no_choice_of_classes():
    with pytest.raises(NescioError, match="one output; where it is"):
        check_classes(torch.zeros(3, 1))
    single = Activations(logits=torch.randn(3, 1))
    torch.testing.assert_close(detectors.energy()(single), -single.logits[0, :, 0])
    with pytest.raises(NescioError, match="one output"):
        detectors.msp()(single)
