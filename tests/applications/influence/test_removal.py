"""Self-influence, parameter changes, perturbations and Cook's distance of the last layer."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from nescio import losses
from nescio.applications.influence import (
    at_minimum,
    cooks_distance,
    fit,
    leverages,
    parameter_change,
    perturbation,
    self_influence,
)
from nescio.applications.influence.newton import refitted
from nescio.core import NescioError

N, T = 40, 3
DRAWS = torch.Generator().manual_seed(3)
X = torch.randn(N, 4, generator=DRAWS, dtype=torch.float64)
Y = (X[:, 0] + 0.4 * torch.randn(N, generator=DRAWS, dtype=torch.float64) > 0).long()
TARGETS = X[:, :1] + X[:, 1:2] + torch.randn(N, 1, generator=DRAWS, dtype=torch.float64)
TARGETS = TARGETS.float().double()  # targets are read in single precision


def network(outputs=2):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, outputs)).double()


@pytest.fixture(scope="module")
def minimum():
    return fit(network(), (X, Y), weight_decay=0.01)


def test_self_influence_is_the_diagonal_of_influence(minimum):
    diagonal = at_minimum(minimum, (X, Y)).values.diagonal()
    torch.testing.assert_close(self_influence(minimum), diagonal, rtol=1e-10, atol=1e-13)
    again = self_influence(network(), (X, Y), weight_decay=0.01, solver="cg", tolerance=1e-12)
    torch.testing.assert_close(again, diagonal, rtol=1e-8, atol=1e-12)


def test_a_wrong_label_has_the_largest_self_influence():
    far = X.clone()
    far[0] = torch.tensor([3.0, 0, 0, 0])
    wrong = (far[:, 0] > 0).long()
    wrong[0] = 0
    found = self_influence(nn.Linear(4, 2).double(), (far, wrong), weight_decay=0.01)
    assert int(found.argmax()) == 0


def test_the_change_of_the_weights_points_to_the_minimum_without_the_sample(minimum):
    problem = minimum.problem
    changes = parameter_change(minimum, range(N))
    assert {name: tuple(t.shape) for name, t in changes.items()} == {
        "2.weight": (N, 2, 5),
        "2.bias": (N, 2),
    }
    truth = []
    for sample in range(N):
        others = [other for other in range(N) if other != sample]
        part = replace(problem, features=problem.features[others], targets=problem.targets[others])
        truth.append(refitted(part, 1e-10)[0].weight - problem.weight)
    truth = torch.stack(truth)
    found = torch.cat([changes["2.weight"], changes["2.bias"][..., None]], -1)
    cosine = torch.cosine_similarity(found.flatten(1), truth.flatten(1))
    assert cosine.min() > 0.9
    assert (found - truth).norm() < 0.2 * truth.norm()


@pytest.mark.parametrize("on", ["loss", "margin"])
def test_a_perturbation_is_the_derivative_of_the_minimum_in_a_training_input(minimum, on):
    net, test = network(), (X[:T] + 0.2, Y[:T])
    found = perturbation(minimum, test, (X[5:8], Y[5:8]), on=on)
    assert found.shape == (T, 3, 4)
    step = 1e-5
    for feature in range(4):
        ends = []
        for sign in (1, -1):
            moved = X.clone()
            moved[6, feature] += sign * step
            there = fit(net, (moved, Y), weight_decay=0.01, limit=1e-10)
            ends.append(at_minimum(there, test, on=on).value)
        slope = (ends[0] - ends[1]) / (2 * step)
        torch.testing.assert_close(found[:, 1, feature], slope, rtol=1e-4, atol=1e-8)
    summed = perturbation(minimum, test, (X[5:8], Y[5:8]), on=on, together=True)
    torch.testing.assert_close(summed, found.sum(0))


def test_the_perturbation_of_all_weights_is_that_of_a_linear_network():
    """Of a network that is one linear layer, the last layer is all there is."""
    net = nn.Linear(4, 2).double()
    loss = losses.weight_decay(losses.nll(), strength=0.05)
    options = {"loss": loss, "limit": 10}
    test, samples = (X[:T], Y[:T]), (X[3:5], Y[3:5])
    both = [
        perturbation(fit(net, (X, Y), parameters=p, refit=False, **options), test, samples)
        for p in ("last", "all")
    ]
    torch.testing.assert_close(*both, rtol=1e-9, atol=1e-12)


def test_images_of_bytes_are_perturbed_in_shares():
    images = torch.randint(0, 256, (12, 1, 2, 2), dtype=torch.uint8, generator=DRAWS)
    labels = torch.arange(12) % 2
    net = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    minimum = fit(net, (images, labels), weight_decay=0.1)
    found = perturbation(minimum, (images[:2], labels[:2]), (images[5:6], labels[5:6]))
    assert found.shape == (2, 1, 1, 2, 2)
    shares = fit(net, (images / 255, labels), weight_decay=0.1)
    again = perturbation(shares, (images[:2] / 255, labels[:2]), (images[5:6] / 255, labels[5:6]))
    torch.testing.assert_close(found, again, rtol=1e-4, atol=1e-9)


def regression(y=TARGETS, **options):
    given = {"loss": losses.squared_error(), "head": "fixed_variance", "weight_decay": 0}
    return fit(nn.Linear(4, 1).double(), (X, y), **{**given, **options})


def test_cooks_distance_is_that_of_fits_without_each_sample():
    design = torch.cat([X, torch.ones(N, 1, dtype=torch.float64)], 1)
    beta = torch.linalg.lstsq(design, TARGETS).solution
    residual = TARGETS - design @ beta
    variance = residual.square().sum() / (N - 5)
    truth = []
    for sample in range(N):
        others = [other for other in range(N) if other != sample]
        without = torch.linalg.lstsq(design[others], TARGETS[others]).solution
        truth.append((design @ (beta - without)).square().sum() / (5 * variance))
    minimum = regression()
    torch.testing.assert_close(cooks_distance(minimum), torch.stack(truth), rtol=1e-8, atol=1e-12)
    hat = design @ torch.linalg.pinv(design)
    torch.testing.assert_close(leverages(minimum), hat.diagonal(), rtol=1e-9, atol=1e-12)


def test_a_sample_without_features_has_no_distance():
    """Its leverage is 0, and its residual counts in the noise as any other."""
    x = X.clone()
    x[4] = 0
    options = {"loss": losses.squared_error(), "head": "fixed_variance", "weight_decay": 0}
    found = fit(nn.Linear(4, 1, bias=False).double(), (x, TARGETS), **options)
    beta = torch.linalg.lstsq(x, TARGETS).solution
    hat = (x @ torch.linalg.pinv(x)).diagonal()
    squares = (TARGETS - x @ beta).square()[:, 0]
    variance = squares.sum() / (N - 4)
    truth = squares * hat / (4 * variance * (1 - hat).square())
    torch.testing.assert_close(cooks_distance(found), truth, rtol=1e-8, atol=1e-12)


def test_removal_is_exact_after_division_by_one_minus_the_leverage():
    minimum = regression()
    changes = parameter_change(minimum, range(N))
    exact = changes["weight"][:, 0] / (1 - leverages(minimum))[:, None]
    problem = minimum.problem
    for sample in (0, 11, 25):
        others = [other for other in range(N) if other != sample]
        part = replace(problem, features=problem.features[others], targets=problem.targets[others])
        truth = refitted(part, 1e-12)[0].weight - problem.weight
        torch.testing.assert_close(exact[sample], truth[0, :4], rtol=1e-8, atol=1e-11)


def test_cooks_distance_is_refused_where_it_has_no_meaning(minimum):
    with pytest.raises(NescioError, match="regression with one target"):
        cooks_distance(minimum)
    with pytest.raises(NescioError, match="weight_decay=0"):
        cooks_distance(regression(weight_decay=0.1))
    with pytest.raises(NescioError, match="solver='exact'"):
        cooks_distance(regression(solver="cg"))


def test_bad_samples(minimum):
    with pytest.raises(NescioError, match=r"in 0\.\.39"):
        parameter_change(minimum, [40])
    with pytest.raises(NescioError, match="whole numbers"):
        parameter_change(minimum, [0.5])
    with pytest.raises(NescioError, match="must have labels"):
        perturbation(minimum, (X[:2], Y[:2]), X[:1])
