"""Stability: all parts in one value, proofs below attacks, and what cannot be computed is said."""

import math

import pytest
import torch
from torch import nn

from nescio import geometry, models, nets
from nescio.core import NescioError, from_json, to_json
from nescio.evaluation import Stability, smallest_changes, stability

FAST = {"samples": 12, "steps": 8}


def network(seed=0):
    torch.manual_seed(seed)
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 3)
    )
    x = torch.rand(60, 1, 6, 6)
    return net, x, net(x).argmax(1)


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_no_flip_is_below_what_is_proved(norm):
    net, x, y = network()
    found = stability(net, (x, y), norm=norm, **FAST)
    constants = found.lipschitz
    assert len(constants.local) == 12
    assert max(constants.local) <= constants.product
    assert constants.sampled <= constants.product
    proved = torch.tensor(constants.proved, dtype=torch.float64)
    assert (proved > 0).all()
    assert (proved <= found.changes.sizes).all()
    local = geometry.local_lipschitz(net, x[list(found.changes.sample)], norm=norm)
    assert constants.local == pytest.approx(local.tolist())
    assert found.changes == smallest_changes(net, (x, y), norm=norm, **FAST)


@pytest.mark.parametrize(("norm", "dual"), [("linf", 1), ("l2", 2), ("l1", math.inf)])
def test_the_proof_is_sharp_enough_for_two_opposite_logits(norm, dual):
    """Of a linear network, the proof is below the exact distance, which is known."""
    torch.manual_seed(1)
    net = nn.Linear(5, 2)
    x = 3 * torch.rand(40, 5)
    y = net(x).argmax(1)
    found = stability(net, (x, y), norm=norm, **FAST)
    rows = list(found.changes.sample)
    gap = (net(x)[:, 0] - net(x)[:, 1]).abs().detach()[rows].double()
    width = x.amax(0) - x.amin(0)
    slope = torch.linalg.vector_norm(
        ((net.weight[0] - net.weight[1]) * width).detach().double(), ord=dual
    )
    exact = gap / slope
    assert (torch.tensor(found.lipschitz.proved).double() <= exact).all()


def test_words_and_json():
    net, x, y = network()
    found = stability(net, (x, y), patch=True, **FAST)
    words = found.words()
    assert "12 of 12 correct answers were flipped" in words
    assert "the largest change of a pixel" in words
    assert "The Lipschitz constant of its logits (linf), exact" in words
    assert "It is proved that no change below" in words
    assert "with the patch in a fresh view" in words
    assert set(found.deformations) == {"rotation", "translation", "warping"}
    assert "Rotation changes this share of the labels:" in words
    assert "Not computed" not in words
    again = from_json(Stability, to_json(found))
    assert again.words() == words
    assert not again.drawable
    assert found.drawable


def test_what_cannot_be_computed_is_said():
    net, x, y = network()
    found = stability(net, (x.flatten(1).unflatten(1, (1, 6, 6)), y), **FAST)
    assert found.skipped == {}
    smooth = nn.Sequential(nn.Linear(4, 8), nn.Sigmoid(), nn.Linear(8, 2))
    x = torch.rand(50, 4)
    y = smooth(x).argmax(1)
    found = stability(smooth, (x, y), patch=True, **FAST)
    assert set(found.skipped) == {"lipschitz", "patch"}
    assert found.changes is not None
    assert "Not computed, lipschitz" in found.words()
    wrong = stability(smooth, (x, 1 - y), **FAST)
    assert set(wrong.skipped) == {"changes", "examples"}


def test_a_mixture_has_no_proof():
    torch.manual_seed(2)
    model = models.ensemble([nets.mlp(3, 2, widths=(8,)) for _ in range(2)])
    x = torch.rand(40, 3)
    found = stability(model, (x, model(x).labels), **FAST)
    assert len(found.lipschitz.local) == 24  # two members
    assert found.lipschitz.proved is None
    single = models.ensemble([nets.mlp(3, 2, widths=(8,))])
    assert stability(single, (x, single(x).labels), **FAST).lipschitz.proved is not None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"norm": "l3"}, "unknown norm 'l3'"),
        ({"samples": 0}, "samples and steps must be positive, got 0"),
    ],
)
def test_options_that_cannot_be_are_refused_and_not_left_out(options, words):
    net, x, y = network()
    with pytest.raises(NescioError, match=words):
        stability(net, (x, y), **options)


def test_tokens_are_refused():
    net = nets.lstm(4, 2, vocabulary=5, width=3)
    with pytest.raises(NescioError, match="reads tokens"):
        stability(net, (torch.ones(6, 4, dtype=torch.long), torch.zeros(6, dtype=torch.long)))
