"""Guards of models with a head of the user: saved, and loaded with the head or with the model."""

from dataclasses import replace

import pytest
import torch

import nescio
from nescio import NescioError, heads, losses, nets
from nescio.core import Categorical, Head

DRAW = torch.Generator().manual_seed(0)
X = torch.randn(900, 3, generator=DRAW)
Y = (X + 0.3 * torch.randn(900, 3, generator=DRAW)).argmax(1)
TARGETS = X[:, :1] + 0.2 * torch.randn(900, 1, generator=DRAW)


def sharpened(power: float = 2.0) -> Head:
    plain = heads.categorical()
    return Head(
        "sharpened",
        {"power": power},
        "classification",
        1,
        lambda outputs: Categorical(power * outputs),
        lambda outputs: (power * outputs).log_softmax(-1),
        lambda outputs, y: plain.nll(power * outputs, y),
        lambda p, q: plain.divergence(power * p, power * q),
    )


def own_gaussian() -> Head:
    return replace(heads.gaussian(floor=0.01), name="own_gaussian")


@pytest.fixture(scope="module")
def model() -> nescio.Model:
    make = lambda: nets.mlp(3, 3, widths=(16,))  # noqa: E731
    options = {"loss": losses.nll(sharpened()), "epochs": 10, "learning_rate": 0.01, "members": 2}
    return nescio.train(make, (X[:300], Y[:300]), **options)


def test_a_guard_of_a_model_with_its_own_head(model, tmp_path) -> None:
    fitting = {"train": (X[:300], Y[:300]), "detector": "knn", "risk": 0.3}
    guard = nescio.guard(model, (X[300:], Y[300:]), **fitting)
    assert guard.head is model.head
    decided = guard(X[300:400])
    for weights in (False, True):
        path = guard.save(tmp_path / f"{weights}.safetensors", weights=weights)
        for options in ({"net": model}, {"net": model, "head": sharpened()}):
            again = nescio.load(path, **options)(X[300:400])
            assert torch.equal(again.failure_score, decided.failure_score)
            assert list(again.decision) == list(decided.decision)
    again = nescio.load(path, head=sharpened())(X[300:400])
    assert torch.equal(again.failure_score, decided.failure_score)
    with pytest.raises(NescioError, match=r"the head 'sharpened'.*head=head"):
        nescio.load(path)
    with pytest.raises(NescioError, match="'power': 2.0.*'power': 3.0"):
        nescio.load(path, head=sharpened(3.0))
    with pytest.raises(NescioError, match="reads outputs otherwise"):
        nescio.load(path, head=replace(sharpened(), read=Categorical))


@pytest.mark.parametrize("units", [False, True])
def test_a_guard_of_a_regression_with_its_own_head(units: bool, tmp_path) -> None:
    make = lambda: nets.mlp(3, 2, widths=(16,))  # noqa: E731
    options = {"loss": losses.nll(own_gaussian()), "epochs": 20, "members": 2}
    data = X[:300], 100 + 10 * TARGETS[:300] if units else TARGETS[:300]
    model = nescio.train(make, data, learning_rate=0.01, standardize_targets=units, **options)
    scale = (lambda y: 100 + 10 * y) if units else (lambda y: y)
    model.save(tmp_path)
    loaded = nescio.load(tmp_path, head=own_gaussian())
    assert torch.equal(loaded(X).mixture_mean, model(X).mixture_mean)
    fitting = {"train": X[:300], "risk": 0.4}
    guard = nescio.guard(model, (X[300:], scale(TARGETS[300:])), **fitting)
    path = guard.save(tmp_path / "guard.safetensors", weights=True)
    for given in ({"net": model}, {"head": own_gaussian()}):
        again = nescio.load(path, **given)
        assert torch.equal(again(X[300:350]).mean, guard(X[300:350]).mean)
    with pytest.raises(NescioError, match="the head 'own_gaussian'"):
        nescio.load(path)
