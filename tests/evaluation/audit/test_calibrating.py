"""Calibration before and after temperature, against the metrics and a known temperature."""

import numpy as np
import pytest
import torch
from torch import nn

from nescio import calibration as calibrations
from nescio import metrics
from nescio.evaluation.answers import see
from nescio.evaluation.audit import calibration, hold
from nescio.evaluation.audit.findings import CalibrationFindings
from nescio.models import ensemble, plain

SHARP = 3.0  # by which the logits are too large


def drawn(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Three classes, drawn from the softmax of the inputs."""
    rng = torch.Generator().manual_seed(seed)
    x = 2 * torch.randn(count, 3, generator=rng)
    return x, torch.multinomial(x.softmax(1), 1, generator=rng)[:, 0]


def sharp(factor: float = SHARP) -> nn.Module:
    net = nn.Linear(3, 3, bias=False)
    with torch.no_grad():
        net.weight.copy_(factor * torch.eye(3))
    return net


@pytest.fixture(scope="module")
def held():
    return hold(drawn(2000, 0), drawn(3000, 1), seed=0)


@pytest.fixture(scope="module")
def found(held):
    return calibration(plain(sharp()), held)


def test_the_temperature_is_what_the_logits_are_too_large_by(found) -> None:
    assert found.temperature == pytest.approx(SHARP, rel=0.1)
    assert found.after.ece.value < 0.03 < found.before.ece.value


@pytest.mark.parametrize("when", ["before", "after"])
def test_numbers_are_those_of_the_metrics(found, held, when: str) -> None:
    x, y = held.measured
    heat = 1.0 if when == "before" else found.temperature
    probs = (SHARP * x.double() / heat).softmax(1)
    part = getattr(found, when)
    confidence, right = probs.amax(1), probs.argmax(1) == y
    assert part.nll == pytest.approx(metrics.nll(probs, y), rel=1e-5)
    assert part.brier == pytest.approx(metrics.brier(probs, y), rel=1e-5)
    assert part.ece.value == pytest.approx(metrics.ece(confidence, right), rel=1e-4)
    assert part.smooth_ece == pytest.approx(metrics.smooth_ece(confidence, right), rel=1e-4)
    assert sum(part.reliability.count) == 2000
    hits = np.nansum(np.array(part.reliability.accuracy) * part.reliability.count)
    assert hits == pytest.approx(int(right.sum()))


def test_the_interval_of_a_miscalibrated_network_excludes_0(found) -> None:
    assert found.before.ece.low > 0.05
    assert found.after.ece.low < 0.01


def test_a_mixture_is_calibrated_as_a_mixture(held) -> None:
    both = ensemble([sharp(), sharp(2 * SHARP)])
    found = calibration(both, held)
    truth = calibrations.temperature(both, held.fitting).temperature
    assert found.temperature == pytest.approx(truth, rel=1e-6)


def test_a_calibrated_predictor_gets_no_second_temperature(held) -> None:
    ready = calibrations.temperature(sharp(), held.fitting)
    assert calibration(ready, held) == CalibrationFindings(skipped="it is calibrated already")


def test_without_an_error_there_is_no_temperature(held) -> None:
    x, _ = held.fitting
    perfect = hold(held.test, (x, x.argmax(1)), seed=0)
    found = calibration(plain(sharp()), perfect)
    assert found.after is None
    assert found.skipped
    assert found.before.nll > 0


def test_a_calibrated_network_is_not_called_miscalibrated() -> None:
    """2.5 % may be: three or more of ten have a probability of 0.2 %."""
    found = [
        calibration(plain(sharp(1.0)), hold(drawn(1000, seed), drawn(200, 100 + seed), seed=0))
        for seed in range(10)
    ]
    assert sum(part.before.ece.low > 0 for part in found) < 3


def test_predictions_that_are_there_are_read_and_not_made_again() -> None:
    x = torch.randn(300, 4, generator=torch.Generator().manual_seed(0))
    net = nn.Linear(4, 3)
    y = net(x).argmax(1)
    y[::3] = (y[::3] + 1) % 3
    held = hold((x, y), None, seed=0)
    predictor = plain(net)
    told, again = calibration(predictor, held, see(predictor, x)), calibration(predictor, held)
    assert told.temperature == pytest.approx(again.temperature, rel=1e-6)
    assert told.before is not None
    assert again.before is not None
    assert told.before.nll == pytest.approx(again.before.nll, rel=1e-6)
    assert told.before.ece.value == pytest.approx(again.before.ece.value, abs=1e-6)
