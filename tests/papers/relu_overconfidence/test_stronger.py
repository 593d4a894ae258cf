"""The strong judge as rows of table 1, on a network that is dead around the noise."""

import pytest
import torch

from nescio import losses
from nescio.data.ood import another
from nescio.evaluation.compare import AdversarialNoise, AdversarialSamples
from nescio.models.model import Model
from nescio.nets.stack import stack
from nescio_papers.kit import InData
from nescio_papers.relu_overconfidence.budgets import QUICK
from nescio_papers.relu_overconfidence.stronger import (
    STRONG,
    WRONG_CLASS,
    balls_with_data,
    read_in_balls,
    strong_noise,
    strong_samples,
    without_gradient,
)

X = torch.tensor([0.3, 0.3, 0.9, 0.1]).reshape(2, 1, 1, 2)
Y = torch.tensor([0, 0])


@pytest.fixture(scope="module")
def model():
    """Of two pixels: class 0 by the first, class 1 by the second; dead where both are below 0.5."""
    first, last = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    first.weight.data, first.bias.data = 8 * torch.eye(2), torch.full((2,), -4.0)
    last.weight.data, last.bias.data = torch.eye(2), torch.zeros(2)
    net = torch.nn.Sequential(torch.nn.Flatten(), first, torch.nn.ReLU(), last)
    return Model(net, stack([net]), losses.nll().head)


def data():
    return InData((X, Y), (X, Y), 2)


def test_images_without_a_gradient_are_counted(model):
    assert without_gradient(model, X) == 0.5
    assert without_gradient(model, (255 * X).to(torch.uint8)) == 0.5


def test_noise_is_moved_to_the_most_confident_point_of_its_ball(model):
    """No gradient at (0.3, 0.3), yet (0.6, 0) is within 0.3, with the log-odds 0.8."""
    attack = AdversarialNoise(another(X[:1], "low"), 1, steps=20, options={"start": "input"})
    assert torch.equal(attack.near(model).x, X[:1])  # the paper's attack cannot move
    row = strong_noise(attack, QUICK)
    made = row.make(model, data())
    assert made.shape == (1, 1, 1, 2)
    sure = torch.tensor(0.8).sigmoid().item()
    assert model(made).probs.amax().item() == pytest.approx(sure, abs=1e-3)
    found = row.judge(model, data())
    assert torch.equal(found.x, made)
    assert found.value.item() == pytest.approx(0.8, abs=5e-3)
    assert sum(found.wins.values()) == 1


def test_any_answer_counts_where_that_is_asked(model):
    """Around (0.7, 0.3), an image read right as class 0, class 0 is surer than class 1 can be."""
    attack = AdversarialNoise(another(torch.tensor([[[[0.7, 0.3]]]]), "near"), 1, steps=0)
    rows = [strong_noise(attack, QUICK, any_class=either) for either in (False, True)]
    wrong, either = (row.judge(model, data()).value.item() for row in rows)
    assert wrong <= either
    assert either == pytest.approx(4.0, abs=1e-2)  # at (1, 0): 8 * 1 - 4
    assert rows[0].description != rows[1].description


def test_samples_are_moved_to_a_wrong_class_and_the_rest_is_dropped(model):
    row = strong_samples(AdversarialSamples(2), 10)
    made = row.make(model, data())
    assert len(made) == 1  # (0.9, 0.1) stays class 0 within 0.3
    assert made.flatten().tolist()[1] == pytest.approx(0.6, abs=1e-3)
    assert len(row.judge(model, data())) == 2


def test_an_unsure_answer_counts_as_misclassified_as_in_the_row_of_the_paper(model):
    """A tie between both classes, which the attack cannot leave, has less than 1.01 / 2."""
    low = torch.full((1, 1, 1, 2), 0.1)
    made = strong_samples(AdversarialSamples(1, radius=0.1), 5).make(
        model, InData((low, Y[:1]), (low, Y[:1]), 2)
    )
    assert len(made) == 1


def test_descriptions_hold_what_changes_the_inputs():
    noise = another(X[:1], "low")
    attack = AdversarialNoise(noise, 1, steps=20)
    samples = AdversarialSamples(2)
    texts = [
        strong_noise(attack, QUICK).description,
        strong_noise(AdversarialNoise(noise, 1, steps=30), QUICK).description,
        strong_samples(samples, 5).description,
        strong_samples(samples, 6).description,
        strong_samples(AdversarialSamples(2, radius=0.1), 5).description,
    ]
    assert len(set(texts)) == 5
    assert "step=0.03," in texts[0]  # 20 steps that cross the ball
    assert STRONG != WRONG_CLASS


def test_balls_that_hold_an_image_of_the_data_are_counted():
    noise = torch.tensor([[0.5, 0.5], [0.1, 0.1], [0.9, 0.1]])
    data = torch.tensor([[0.3, 0.7], [0.0, 1.0]])
    assert balls_with_data(noise, data, 0.2) == pytest.approx(1 / 3)
    assert balls_with_data(noise, data, 0.199) == pytest.approx(1 / 3)  # hardly changed
    assert balls_with_data(noise, data, 0.1) == 0.0


def test_images_are_read_right_where_the_ball_leaves_their_class(model):
    """The network names the larger number; all of the second ball is of the other class."""
    balls = torch.tensor([[0.5, 0.5], [0.1, 0.9]]).view(2, 1, 1, 2)
    assert read_in_balls(model, balls[:1], data().test, 0.5) == 1.0
    assert read_in_balls(model, balls[1:], data().test, 0.1) == 0.0
    assert read_in_balls(model, balls, data().test, 0.1) == 0.5  # they take turns
