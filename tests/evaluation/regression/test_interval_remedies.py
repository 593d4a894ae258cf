"""Remedies of a regression: conformal intervals repair a spread that is too small."""

from statistics import NormalDist

import pytest
import torch
from torch import nn

import nescio
from nescio.evaluation.regression.interval_remedies import OFF, RMSE, SCORE

TRUE, SAID = 1.0, 0.5  # the deviation of the noise, and what the network says


class Narrow(nn.Module):
    """The right mean, and half of the right deviation."""

    def __init__(self, shift: float = 0.0) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.tensor(shift))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rho = torch.tensor(SAID**2).expm1().log()  # the inverse of softplus
        return torch.stack([x[:, 0] + self.shift, rho.expand(len(x))], 1)


def data(samples: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    draws = torch.Generator().manual_seed(seed)
    x = 3 * torch.randn(samples, 2, generator=draws)
    return x, x[:, :1] + TRUE * torch.randn(samples, 1, generator=draws)


@pytest.fixture(scope="module")
def found() -> nescio.Audit:
    nets = {"first": Narrow(), "shifted": Narrow(1.0)}
    return nescio.audit(
        nets, data(2000, 0), validation=data(1500, 1), head="gaussian", budget="standard",
        skip=["attack", "far field", "scaled inputs", "slices", "noise"],
    )  # fmt: skip


def test_conformal_intervals_hold_what_they_should(found: nescio.Audit) -> None:
    value = found.findings.sections["interval remedies"]
    tried = {one.name: one for one in value.remedies}
    normal = NormalDist()
    held = 2 * normal.cdf(normal.inv_cdf(0.95) * SAID / TRUE) - 1  # of its own intervals
    for name in ("normalized intervals", "residual intervals"):
        gain = tried[name].gains[OFF]
        assert gain.now == pytest.approx(0.9 - held, abs=0.03)
        assert gain.then < 0.03
        assert gain.low <= gain.change <= gain.high < 0
        assert gain.change == pytest.approx(gain.then - gain.now)
        assert tried[name].gains[SCORE].word == "better"
        assert RMSE not in tried[name].gains
        assert tried[name].samples == 2000


def test_another_network_and_the_ensemble_are_measured_on_the_same_samples(
    found: nescio.Audit,
) -> None:
    tried = {one.name: one for one in found.findings.sections["interval remedies"].remedies}
    x, y = data(2000, 0)
    unit = float(y.std(correction=0))
    rmse = {name: float((y - x[:, :1] - s).square().mean().sqrt()) / unit
            for name, s in (("now", 0.0), ("shifted", 1.0), ("ensemble", 0.5))}  # fmt: skip
    for name in ("shifted", "ensemble"):
        gain = tried[name].gains[RMSE]
        assert gain.now == pytest.approx(rmse["now"], rel=1e-5)
        assert gain.then == pytest.approx(rmse[name], rel=1e-5)
        assert gain.word == "worse"
    text = " ".join(str(found).split())
    assert "What would help the intervals" in text


def test_what_cannot_be_tried_says_why() -> None:
    alone = nescio.audit(
        Narrow(), data(60, 2), head="gaussian",
        skip=["attack", "far field", "scaled inputs", "slices", "noise", "guard"],
    )  # fmt: skip
    value = alone.findings.sections["interval remedies"]
    assert value.not_tried["guard"].startswith("there is no guard")
    assert value.not_tried["ensemble"].startswith("one predictor was given")
