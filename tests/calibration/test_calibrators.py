"""What every calibration keeps: a better held-out likelihood, a predictor for a predictor."""

import pytest
import torch
from torch import nn

from nescio import heads
from nescio.errors import NescioError
from nescio.prediction import Categorical
from nescio.predictors import ensemble, mc_dropout, plain
from nescio.registry import calibrators


def net(dropout=False):
    layers = [nn.Linear(2, 8), nn.Tanh(), *([nn.Dropout(0.3)] if dropout else []), nn.Linear(8, 3)]
    made = nn.Sequential(*layers).double()
    made[-1].weight.data.mul_(4)
    return made


def predictor(kind):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        if kind == "one network":
            return plain(net())
        return (
            ensemble([net() for _ in range(3)])
            if kind == "ensemble"
            else mc_dropout(net(True), passes=10)
        )


def data(cases=300):
    """Labels that follow the predictor loosely: neither always right nor chance."""
    rng = torch.Generator().manual_seed(3)
    x = torch.randn(cases, 2, generator=rng, dtype=torch.float64)
    guess = predictor("one network")(x).labels
    return x, torch.where(
        torch.rand(cases, generator=rng) < 0.4, torch.randint(3, (cases,), generator=rng), guess
    )


KINDS = ["one network", "ensemble", "mc dropout"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", calibrators)
def test_the_likelihood_on_the_held_out_data_is_not_worse(name, kind):
    before, (x, y) = predictor(kind), data()
    after = calibrators[name](before, (x, y))
    assert isinstance(after(x), Categorical)
    assert after(x).members == before(x).members
    assert -after(x).log_prob(y).mean() <= -before(x).log_prob(y).mean() + 1e-12
    torch.testing.assert_close(after(x).probs.sum(-1), torch.ones(len(x), dtype=torch.float64))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", calibrators)
def test_member_logits_are_scaled_before_the_average(name, kind):
    before, (x, y) = predictor(kind), data()
    after = calibrators[name](before, (x, y))
    shift = torch.tensor(after.intercept, dtype=torch.float64)
    torch.testing.assert_close(after(x).logits, after.slope * before(x).logits + shift)


@pytest.mark.parametrize("name", calibrators)
def test_calibrating_twice_changes_nothing_more(name):
    once = calibrators[name](predictor("one network"), data())
    twice = calibrators[name](once, data())
    assert twice.slope == pytest.approx(1, abs=1e-4)
    assert twice.intercept == pytest.approx((0, 0, 0), abs=1e-4)


@pytest.mark.parametrize("name", calibrators)
def test_predictions_without_classes_are_refused(name):
    model = plain(nn.Linear(2, 4), head=heads.gaussian())
    with pytest.raises(NescioError, match="predictions of classes; a Gaussian has none"):
        calibrators[name](model, (torch.randn(5, 2), torch.tensor([0, 1, 2, 0, 1])))


@pytest.mark.parametrize("name", calibrators)
def test_held_out_data_that_is_always_right_is_refused(name):
    model = predictor("one network")
    x, _ = data()
    with pytest.raises(NescioError, match="every held-out case is classified right"):
        calibrators[name](model, (x, model(x).labels))


@pytest.mark.parametrize("name", calibrators)
@pytest.mark.parametrize(
    ("y", "message"),
    [
        (torch.zeros(7, dtype=torch.long), "300 inputs"),
        (torch.zeros(300), "integers"),
        (torch.full((300,), 3), r"0\.\.2"),
    ],
)
def test_labels_are_checked(name, y, message):
    with pytest.raises(NescioError, match=message):
        calibrators[name](predictor("one network"), (data()[0], y))
