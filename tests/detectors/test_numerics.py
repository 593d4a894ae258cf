"""Float32 and half-precision features against the same numbers in float64."""

from dataclasses import replace

import pytest
import torch
from tests.detectors.test_contract import make

from nescio.core import NescioError
from nescio.core.registry import detectors as registry
from nescio.detectors.activations import Activations

DISTANCES = (
    "knn", "mahalanobis", "relative_mahalanobis", "trust_score", "gaussian_mixture", "vim", "gower",
    "smoothed_density",
)  # fmt: skip


def drawn(samples, seed, *, offset=0.0, scale=1.0, dtype=torch.float32):
    """Three classes of eight features with a common offset: (float32, the same in float64)."""
    rng = torch.Generator().manual_seed(seed)
    labels = torch.arange(samples) % 3
    centers = 3 * torch.randn(3, 8, generator=torch.Generator().manual_seed(9))
    rows = (centers[labels] + torch.randn(samples, 8, generator=rng)) * scale + offset
    rows = rows.to(dtype)
    weight = torch.randn(3, 8, generator=torch.Generator().manual_seed(5))
    logits = ((rows.double() - offset) / scale @ weight.double().T).to(dtype)
    parts = {"labels": labels, "weight": weight, "inputs": rows.float()}
    short = Activations(logits=logits, features={"last": rows}, **parts)
    exact = replace(
        short,
        logits=logits.double(),
        features={"last": rows.double()[None]},
        weight=weight.double(),
        bias=None,
        inputs=rows.double(),
    )
    return short, exact


def apart(name, **options):
    (train, train_exact), (test, test_exact) = (drawn(300, 0, **options), drawn(60, 1, **options))
    if name in ("knn", "trust_score"):
        found, expected = (
            registry[name](a, k=5, normalize=False)(b).double()
            for a, b in ((train, test), (train_exact, test_exact))
        )
    else:
        found, expected = (
            make(name, a)(b).double() for a, b in ((train, test), (train_exact, test_exact))
        )
    return float((found - expected).abs().max() / expected.std())


@pytest.mark.parametrize("name", DISTANCES)
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_an_offset_costs_no_figures(name, offset):
    assert apart(name, offset=offset) < 2e-3


@pytest.mark.parametrize("name", DISTANCES)
@pytest.mark.parametrize("scale", [1e-12, 1e12, 1e30])
def test_large_and_small_features_are_right_or_refused(name, scale):
    try:
        difference = apart(name, scale=scale)
    except NescioError:
        return
    assert difference < 2e-3


@pytest.mark.parametrize("name", DISTANCES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_near_its_largest_number(name, dtype):
    assert apart(name, scale=4000.0, dtype=dtype) < 2e-3
