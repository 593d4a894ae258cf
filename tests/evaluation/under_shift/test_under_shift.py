"""Curves along a shift are what the parts give by themselves, strength by strength."""

import sys
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from sklearn.metrics import log_loss

from nescio import conformal
from nescio.core import Categorical, Gaussian, NescioError
from nescio.data.corruptions import brightness, feature_scaling, gaussian_noise
from nescio.evaluation import ShiftCurves, under_shift
from nescio.evaluation.answers import quality, see

N, C = 240, 4
X = torch.rand(N, 1, 4, 4, generator=torch.Generator().manual_seed(0))
Y = torch.arange(N) % C
WEIGHTS = torch.randn(3, 16, C, generator=torch.Generator().manual_seed(1))


def network(x):
    return Categorical(x.flatten(1) @ WEIGHTS)


def single(x):
    return network(x).choose([0])


@dataclass(frozen=True)
class Decided:
    decision: torch.Tensor
    label: torch.Tensor


def guard(x):
    brightness = x.mean((1, 2, 3))
    decision = (brightness > 0.5).long() + (brightness > 0.55).long()
    return Decided(decision, network(x).labels)


def test_every_number_at_every_strength(monkeypatch):
    monkeypatch.setattr(
        sys.modules["nescio.evaluation.under_shift"], "SAMPLES", 50
    )  # several pieces
    shift, rule = gaussian_noise(seed=3), conformal.adaptive(network(X), Y, randomize=True)
    found = under_shift(
        {"three": network, "one": single},
        (X, Y),
        shift,
        strengths=(0, 2.5),
        sets={"three": {"adaptive": rule}},
        guards={"guard": guard},
    )
    assert found.strengths == [0, 2.5]
    assert found.samples == N
    for place, strength in enumerate(found.strengths):
        moved = shift(X, strength)
        for name, predictor in (("three", network), ("one", single)):
            truth = quality(see(predictor, moved), Y)
            for key, value in truth.items():
                ours = found.curve(name, key)[place]
                assert ours == pytest.approx(value, abs=1e-6)
        probs = network(moved).to(torch.float64).probs.numpy()
        nll = found.curve("three", "nll")[place]
        assert nll == pytest.approx(log_loss(Y, probs), abs=1e-6)
        sets = rule(network(moved).to(torch.float64), inputs=torch.arange(len(Y)))  # by number
        truth = conformal.coverage(sets, Y)
        assert found.curve("three: adaptive", "covered")[place] == truth.covered.value
        assert found.curve("three: adaptive", "covered", "high")[place] == truth.covered.high
        assert found.curve("three: adaptive", "size")[place] == pytest.approx(truth.size)
        decided = guard(moved)
        answered = (decided.decision == 0).numpy()
        wrong = (decided.label != Y).numpy()
        assert found.curve("guard", "risk")[place] == pytest.approx(wrong[answered].mean())
        assert found.curve("guard", "answered")[place] == pytest.approx(answered.mean())
        assert found.curve("guard", "wrong")[place] == pytest.approx((wrong & answered).mean())
        ood = (decided.decision == 2).double().mean()
        assert found.curve("guard", "ood")[place] == pytest.approx(ood)
        unsure = (decided.decision == 1).double().mean()
        assert found.curve("guard", "unsure")[place] == pytest.approx(unsure)


def test_a_guard_that_never_answers_has_no_risk():
    found = under_shift({}, (X, Y), brightness(amount=0.2), strengths=[5], guards={"guard": guard})
    assert found.curve("guard", "risk") == [None]
    assert found.curve("guard", "wrong") == [0]
    assert found.curve("guard", "ood") == [1]


def test_numbers_and_intervals():
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.normal(size=(400, 3))).float()
    y = x.sum(1, keepdim=True) + torch.from_numpy(rng.normal(size=(400, 1))).float()

    def regression(inputs):
        mean = inputs.sum(1, keepdim=True)[None]
        return Gaussian(mean, torch.ones_like(mean))

    rule = conformal.residual(regression(x[:200]), y[:200])
    shift = feature_scaling(0, factor=3)
    found = under_shift(
        {"sum": regression}, (x[200:], y[200:]), shift, sets={"sum": {"residual": rule}}
    )
    moved = x[200:].clone()
    moved[:, 0] *= 9
    error = (moved.sum(1, keepdim=True) - y[200:]).double()
    assert found.curve("sum", "rmse")[2] == pytest.approx(error.square().mean() ** 0.5)
    nll = 0.5 * (np.log(2 * np.pi) + error.square().mean())
    assert found.curve("sum", "nll")[2] == pytest.approx(float(nll), rel=1e-5)
    low, high = rule(regression(moved))
    truth = conformal.interval_coverage(low, high, y[200:])
    assert found.curve("sum: residual", "covered")[2] == truth.covered[0].value
    assert found.curve("sum: residual", "size")[2] == pytest.approx(truth.width[0])
    assert found.curve("sum: residual", "covered")[0] > 0.8
    assert found.curve("sum: residual", "covered")[5] < 0.2


def test_it_is_kept_and_read_back(tmp_path):
    found = under_shift({"one": single}, (X, Y), brightness(), strengths=[0, 1])
    found.save(tmp_path / "along.json")
    assert ShiftCurves.load(tmp_path / "along.json") == found
    assert "brightness" in str(found)
    assert "one, accuracy" in str(found)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no file .*along.json"),
        ("{", "has no manifest"),
        ("[1]", "not a file of nescio"),
        ('{"kind": "shift curves", "shift": "rotation"}', "has no manifest"),
    ],
)
def test_what_cannot_be_read_is_said(tmp_path, content, message):
    path = tmp_path / "along.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(NescioError, match=message):
        ShiftCurves.load(path)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: under_shift({}, (X, Y), brightness()), "give a predictor or a guard"),
        (
            lambda: under_shift({"a": single}, (X, Y), brightness(), strengths=[]),
            "`strengths` is empty",
        ),
        (
            lambda: under_shift({"a": single}, (X, Y), brightness(), sets={"b": {}}),
            "unknown predictor 'b'",
        ),
        (
            lambda: under_shift({"a": single}, (X, Y), brightness(), sets={"a": single}),
            "must be by name too",
        ),
        (
            lambda: under_shift({"a": single}, (X, Y), brightness(), strengths=[0]).curve("x", "b"),
            "unknown subject 'x'",
        ),
    ],
)
def test_bad_calls_are_refused(call, message):
    with pytest.raises(NescioError, match=message):
        call()


def test_rmse_of_several_targets_is_the_mean_over_targets():
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.normal(size=(50, 3))).float()
    y = torch.from_numpy(rng.normal(size=(50, 2))).float()

    def regression(inputs):
        mean = inputs[None, :, :2]
        return Gaussian(mean, torch.ones_like(mean))

    found = under_shift({"two": regression}, (x, y), feature_scaling(0, factor=3))
    truth = (x[:, :2] - y).double().square().mean(0).sqrt().mean()
    assert found.curve("two", "rmse")[0] == pytest.approx(float(truth))
