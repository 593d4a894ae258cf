"""Influence through all weights: autograd's Hessian, conjugate gradients, retraining."""

import pytest
import torch
from torch import nn

import nescio
from nescio import losses
from nescio.applications.influence import (
    at_minimum,
    fit,
    influence,
    parameter_change,
    self_influence,
)
from nescio.core import NescioError

N, T = 40, 3
LOSS = losses.weight_decay(losses.nll(), strength=0.01)
DRAWS = torch.Generator().manual_seed(0)
X = torch.randn(N, 3, generator=DRAWS, dtype=torch.float64)
Y = (X[:, 0] + X[:, 1] * X[:, 2] > 0).long()
TEST = X[:T] + 0.1, 1 - Y[:T]


def make():
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()


@pytest.fixture(scope="module")
def model():
    options = {"optimizer": "lbfgs", "batch_size": None, "epochs": 2000}
    return nescio.train(make, (X, Y), loss=LOSS, **options)


@pytest.fixture(scope="module")
def minimum(model):
    return fit(model, (X, Y), parameters="all", batch_size=16)


def objective(minimum):
    """The training objective of a flat vector, written down once more."""
    net, names = make(), minimum.problem.named

    def value(flat):
        weights = names(flat)
        outputs = torch.func.functional_call(net, weights, X)
        return nn.functional.cross_entropy(outputs, Y) + 0.01 * flat.square().sum()

    return value


def test_gradient_and_hessian_are_those_of_autograd(minimum):
    problem, value = minimum.problem, objective(minimum)
    assert problem.size == 3 * 4 + 4 + 4 * 2 + 2
    assert minimum.gradient_norm < 1e-7
    torch.testing.assert_close(problem.value_and_gradient()[0], value(problem.weight))
    hessian = torch.func.hessian(value)(problem.weight)
    torch.testing.assert_close(problem.hessian(), hessian, rtol=1e-10, atol=1e-11)
    vectors = torch.randn(3, problem.size, dtype=torch.float64)
    product = problem.hessian_product(vectors)
    torch.testing.assert_close(product, vectors @ hessian, rtol=1e-10, atol=1e-10)


def test_influence_is_gradient_times_inverse_hessian_times_gradient(model, minimum):
    problem, value = minimum.problem, objective(minimum)
    net = model.member(0)
    inverse = torch.linalg.inv(torch.func.hessian(value)(problem.weight))

    def flat(loss):
        return torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(net.parameters()))])

    def each(x, y):
        loss = nn.functional.cross_entropy
        return torch.stack([flat(loss(net(x[i : i + 1]), y[i : i + 1])) for i in range(len(x))])

    terms = each(X, Y) + 0.02 * problem.weight
    truth = each(*TEST) @ inverse @ terms.T / N
    found = at_minimum(minimum, TEST)
    torch.testing.assert_close(found.values, truth, rtol=1e-8, atol=1e-10)
    assert found.values.sum(1).abs().max() < 1e-5
    changes = parameter_change(minimum, [4, 9])
    expected = problem.named((inverse @ terms[[4, 9]].T).T / N)
    for name, tensor in expected.items():
        torch.testing.assert_close(changes[name], tensor, rtol=1e-8, atol=1e-10)


def test_conjugate_gradients_agree_with_the_factor(model, minimum):
    exact = at_minimum(minimum, TEST)
    found = influence(model, (X, Y), TEST, parameters="all", solver="cg", tolerance=1e-12)
    torch.testing.assert_close(found.values, exact.values, rtol=1e-8, atol=1e-10)
    assert found.residual < 1e-11
    options = {"parameters": "all", "damping": 0.3, "tolerance": 1e-12}
    damped = [influence(model, (X, Y), TEST, solver=name, **options) for name in ("cg", "exact")]
    torch.testing.assert_close(damped[0].values, damped[1].values, rtol=1e-8, atol=1e-10)
    assert (damped[0].values - exact.values).abs().max() > 1e-4


def test_it_predicts_retraining(minimum):
    """Without each of 12 samples, from where the network is, by L-BFGS to the minimum."""
    found, changes = at_minimum(minimum, TEST), []
    net, names = make(), minimum.problem.named
    for sample in range(12):
        others = [other for other in range(N) if other != sample]
        flat = minimum.problem.weight.clone().requires_grad_()
        search = torch.optim.LBFGS(
            [flat],
            max_iter=500,
            tolerance_grad=1e-9,
            tolerance_change=0,
            line_search_fn="strong_wolfe",
        )

        def closure(flat=flat, others=others, search=search):
            search.zero_grad()
            outputs = torch.func.functional_call(net, names(flat), X[others])
            value = nn.functional.cross_entropy(outputs, Y[others]) + 0.01 * flat.square().sum()
            value.backward()
            return value

        search.step(closure)
        assert flat.grad.norm() < 1e-6
        outputs = torch.func.functional_call(net, names(flat.detach()), TEST[0])
        loss = nn.functional.cross_entropy(outputs, TEST[1], reduction="none")
        changes.append(loss - found.value)
    both = torch.stack([torch.stack(changes, 1).flatten(), found.values[:, :12].flatten()])
    assert torch.corrcoef(both)[0, 1] > 0.9


def test_self_influence_is_the_diagonal(model, minimum):
    diagonal = at_minimum(minimum, (X, Y)).values.diagonal()
    torch.testing.assert_close(self_influence(minimum), diagonal, rtol=1e-8, atol=1e-12)
    by_products = self_influence(
        model, (X, Y), parameters="all", solver="cg", tolerance=1e-12, batch_size=7
    )
    torch.testing.assert_close(by_products, diagonal, rtol=1e-7, atol=1e-11)


def test_what_does_not_converge_is_refused(model):
    with pytest.raises(NescioError, match="did not converge: after 2 iterations the residual is"):
        influence(model, (X, Y), TEST, parameters="all", solver="cg", iterations=2)
    with pytest.raises(NescioError, match="gradient norm is .* train to a minimum"):
        influence(make(), (X, Y), TEST, parameters="all", loss=LOSS)
    with pytest.raises(NescioError, match="met a direction with curvature -"):
        influence(make(), (X, Y), TEST, parameters="all", loss=losses.nll(), limit=9, solver="cg")
    with pytest.raises(NescioError, match="only a last layer"):
        influence(make(), (X, Y), TEST, parameters="all", loss=LOSS, refit=True)


def test_convolutions_in_single_precision():
    draws = torch.Generator().manual_seed(1)
    x = torch.rand(20, 1, 6, 6, generator=draws)
    y = (x[:, 0, :3].mean((1, 2)) > x[:, 0, 3:].mean((1, 2))).long()
    net = nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8, 2)
    )
    before = x.clone()
    options = {"parameters": "all", "loss": LOSS, "damping": 1.0, "limit": 10}
    found = influence(net, (x, y), (x[:2], y[:2]), **options)
    again = influence(net, (x, y), (x[:2], y[:2]), solver="cg", batch_size=3, **options)
    torch.testing.assert_close(found.values, again.values, rtol=1e-6, atol=1e-9)
    assert torch.equal(x, before)
    assert next(net.parameters()).dtype == torch.float32


@pytest.mark.parametrize("label", [2, -1, -100])
def test_labels_of_test_samples_are_checked(minimum, label):
    with pytest.raises(NescioError, match="labels must lie in 0..1"):
        at_minimum(minimum, (X[:1], torch.tensor([label])))
