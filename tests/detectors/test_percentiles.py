"""Percentiles by counting bits: numpy's, to the last digit of float32."""

import importlib

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from nescio.core import NescioError
from nescio.detectors.kit.percentiles import percentile

last_layer = importlib.import_module("nescio.detectors.kit.last_layer")


@settings(deadline=None, max_examples=60)
@given(
    arrays.arrays(
        np.float32,
        st.tuples(st.integers(1, 9), st.integers(1, 5)),
        elements=st.floats(-(2.0**90), 2.0**90, width=32) | st.sampled_from([0.0, -0.0, 1.0]),
    ),
    st.floats(0, 100),
)
def test_against_numpy(values, percent):
    found = float(percentile(torch.from_numpy(values), percent))
    expected = np.percentile(values.astype(np.float64), percent)
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-6 * float(np.ptp(values)))


@pytest.mark.parametrize("percent", [0, 10, 50, 90, 99.9, 100])
def test_many_numbers_in_blocks(percent, monkeypatch):
    monkeypatch.setattr(last_layer, "NUMBERS", 1000)
    values = torch.randn(3000, 7).relu()
    expected = np.percentile(values.double().numpy(), percent)
    assert float(percentile(values, percent)) == pytest.approx(expected, rel=1e-6)


def test_a_percentile_is_a_share():
    with pytest.raises(NescioError, match="from 0 to 100, got 101"):
        percentile(torch.zeros(2, 2), 101)
