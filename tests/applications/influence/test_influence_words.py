"""Influence in words: who helps, who harms, and what would happen without them."""

import re

import pytest
import torch
from torch import nn

from nescio import losses
from nescio.applications.influence import influence

X = torch.tensor([[-2.0], [-1.0], [-0.5], [0.5], [1.0], [2.0], [3.0]], dtype=torch.float64)
Y = torch.tensor([0, 0, 0, 1, 1, 1, 0])  # the last label is wrong
TEST = torch.tensor([[2.5]], dtype=torch.float64), torch.tensor([1])


@pytest.fixture
def net():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Linear(1, 2).double()


def test_the_wrong_label_is_called_harmful(net):
    found = influence(net, (X, Y), TEST, weight_decay=0.01)
    (text,) = found.words(1)
    value, fall = float(found.value[0]), -float(found.values[0, 6])
    assert text.startswith(f"The loss of test sample 0 (label 1, predicted 1) is {value:.4g}.")
    assert f"Most harmful: without training sample 6 (label 0) it would fall by {fall:.3g}." in text
    assert re.search(r"Most helpful: without training sample \d \(label \d\) it would rise", text)


def test_of_a_confidence_the_directions_turn_and_the_words_do_not(net):
    found = influence(net, (X, Y), TEST[0], on="confidence", weight_decay=0.01)
    (text,) = found.words(2)
    assert text.startswith("The confidence of test sample 0 (predicted 1) is 0.")
    assert "Most harmful: without training sample 6 (label 0) it would rise by" in text
    assert re.search(r"Most helpful: without training sample \d \(label 1\) it would fall", text)


def test_what_was_examined_is_said(net):
    found = influence(net, (X, Y), TEST, weight_decay=0.01)
    text = found.examined()
    assert text.startswith("Examined: the last linear layer (gradient norm ")
    assert "nll(categorical()), the likelihood; weight decay 0.01, as it was given." in text
    default = influence(net, (X, Y), TEST).examined()
    assert "weight decay 0.0001, by default, as the loss has none." in default
    assert f"fitted to its minimum in {found.refit.steps} Newton steps" in text
    assert f"{found.refit.changed:.2%} of the training predictions changed" in text
    still = influence(net, (X, Y), TEST, refit=False, loss=losses.nll(), limit=9, damping=1)
    assert "damping 1" in still.examined()
    assert "Newton" not in still.examined()


def test_nobody_helps_where_nothing_can(net):
    """A class that is asked for outright, whose logit no sample moves."""
    found = influence(net, (X, Y), TEST, on=lambda z: 0 * z[:, 0], weight_decay=0.01)
    assert found.words(1)[0].endswith(
        "No training sample is helpful. No training sample is harmful."
    )
    regression = influence(
        nn.Linear(1, 1).double(), (X, X**2), (X[:2], X[:2]), head="fixed_variance"
    )
    assert regression.words(1)[0].startswith("The loss of test sample 0 is ")
    assert "predictions changed by" in regression.examined()
