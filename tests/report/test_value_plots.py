"""Plots of decisions, predictions, models and monitors: what they draw, and what they refuse."""

import numpy as np
import pytest
import torch

import nescio
from nescio import nets
from nescio.core import Categorical, Gaussian, NescioError
from nescio.guards import Decisions, RegressionDecisions


def decisions(count=50):
    draws = torch.Generator().manual_seed(0)
    numbers = torch.rand(count, generator=draws)
    rule = torch.arange(count) % 4
    return Decisions(
        decision=torch.tensor([0, 2, 2, 1])[rule],
        label=rule,
        probability=numbers,
        p_value=numbers,
        score=numbers,
        failure_score=-5 * numbers,
        rule=rule,
        in_range=rule >= 0,
    )


def test_decisions_have_a_point_each():
    figure = decisions().plot()
    assert sum(len(part.get_offsets()) for part in figure.axes[0].collections) == 50
    assert "answers 26.0 % of 50 inputs" in figure.get_suptitle()


def test_decisions_about_numbers_are_drawn_by_width():
    one = torch.ones(4)
    found = RegressionDecisions(
        decision=torch.tensor([0, 1, 2, 0]),
        mean=one[:, None],
        low=one[:, None] - 1,
        high=one[:, None] + torch.arange(4)[:, None],
        p_value=one,
        score=one,
        rule=torch.tensor([0, 9, 1, 0]),
        in_range=one > 0,
    )
    assert "width" in found.plot().axes[0].get_xlabel()


def test_many_decisions_are_thinned():
    figure = decisions(9000).plot()
    assert sum(len(part.get_offsets()) for part in figure.axes[0].collections) <= 2000


def test_probabilities_are_drawn_as_they_are():
    prediction = Categorical(torch.randn(3, 50, 4, generator=torch.Generator().manual_seed(0)))
    figure = prediction.plot()
    drawn = np.asarray(figure.axes[0].images[0].get_array())
    assert np.allclose(drawn, prediction.probs[:30].numpy().T)
    assert "the first 30 of 50" in figure.get_suptitle()


def test_means_have_their_deviations():
    figure = Gaussian(torch.ones(1, 5, 2), torch.full((1, 5, 2), 4.0)).plot()
    segments = figure.axes[0].collections[0].get_segments()
    assert segments[0][:, 1].tolist() == [-3.0, 5.0]


def test_a_model_draws_its_losses():
    x = torch.randn(40, 2)
    data = (x, (x[:, 0] > 0).long())
    model = nescio.train(lambda: nets.mlp(2, 2), data, members=3, epochs=4, progress=False)
    lines = [one for one in model.plot().axes[0].lines if len(one.get_xdata()) == 4]
    assert np.allclose([one.get_ydata() for one in lines], model.history.train.T)


def test_a_monitor_draws_its_martingale():
    rng = np.random.default_rng(0)
    watch = nescio.monitor(rng.normal(size=200)).update(rng.normal(size=300))
    assert watch.plot(changed=100).axes[0].get_xlabel() == "scores"


def test_what_has_no_picture_is_refused():
    with pytest.raises(NescioError, match="no decisions"):
        decisions(0).plot()
    with pytest.raises(NescioError, match="samples"):
        Categorical(torch.zeros(1, 2, 3, 3, 4)).plot()
    model = nescio.train(lambda: nets.mlp(2, 2), (torch.randn(9, 2), torch.arange(9) % 2), epochs=1,
                         progress=False)  # fmt: skip
    with pytest.raises(NescioError, match="no losses"):
        type(model)(model.net, model.tensors, model.head).plot()
