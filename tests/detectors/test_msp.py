"""Maximum softmax probability: the order of 1 - p, in float64 and beyond where it rounds."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nescio.detectors import msp
from nescio.detectors.activations import Activations


def scores(logits, **options):
    return msp(**options)(Activations(logits=torch.as_tensor(logits)))


def by_definition(logits, temperature=1.0):
    """log((1 - p) / p) in float64, from the softmax."""
    probs = (logits.double() / temperature).softmax(-1)
    top = probs.amax(-1)
    rest = torch.stack([torch.cat([row[:k], row[k + 1 :]]).sum()
                        for row, k in zip(probs, probs.argmax(-1), strict=True)])  # fmt: skip
    return rest.log() - top.log()


@pytest.mark.parametrize("spread", [0.1, 1.0, 5.0, 30.0])
@pytest.mark.parametrize("temperature", [0.5, 1.0, 1000.0])
def test_the_definition(spread, temperature):
    logits = spread * torch.randn(500, 10)
    found = scores(logits, temperature=temperature)
    torch.testing.assert_close(
        found.double(), by_definition(logits, temperature), rtol=1e-5, atol=1e-5
    )


def test_it_does_not_saturate_where_p_rounds_to_one():
    """One logit g above nine equal ones: the log-odds are log 9 - g."""
    gaps = torch.tensor([1.0, 17.0, 40.0, 90.0, 110.0, 1000.0, 1e6])
    logits = torch.zeros(len(gaps), 10)
    logits[:, 3] = gaps
    torch.testing.assert_close(scores(logits), math.log(9) - gaps)


@pytest.mark.parametrize("classes", [2, 3, 100])
def test_ties(classes):
    found = scores(torch.full((4, classes), 7.25))
    torch.testing.assert_close(found, torch.full((4,), math.log(classes - 1)))


def test_a_temperature_does_not_tie_what_differs():
    """In float32 probabilities at T = 1000 hundreds of these coincide."""
    logits = torch.randn(5000, 10)
    found = scores(logits, temperature=1000.0)
    assert len(found.unique()) == 5000
    order = by_definition(logits, 1000.0).argsort()
    assert torch.equal(found.argsort(), order)


@settings(deadline=None, max_examples=50)
@given(
    st.lists(
        st.lists(st.floats(-300, 300, width=32), min_size=4, max_size=4), min_size=1, max_size=9
    ),
    st.floats(-100, 100, width=32),
)
def test_a_constant_added_to_all_logits_changes_nothing(rows, shift):
    logits = torch.tensor(rows, dtype=torch.float64)
    torch.testing.assert_close(scores(logits + shift), scores(logits), rtol=1e-9, atol=1e-9)
