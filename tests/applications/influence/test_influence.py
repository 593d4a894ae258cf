"""Influence of the last layer: against weights of samples, retraining, and every loss."""

from dataclasses import replace

import pytest
import torch
from torch import nn

import nescio
from nescio import losses
from nescio.applications.influence import fit, influence
from nescio.applications.influence.newton import refitted
from nescio.core import NescioError
from nescio.nets.stack import Forward, Stack, stack

N, T = 50, 4


def rows(seed=0, features=4):
    draws = torch.Generator().manual_seed(seed)
    x = torch.randn(N, features, generator=draws, dtype=torch.float64)
    noise = torch.randn(N, generator=draws, dtype=torch.float64)
    return x, ((x[:, 0] + 0.5 * x[:, 1] + 0.5 * noise) > 0).long() + (x[:, 2] > 0.8).long()


X, Y = rows()
TARGETS = X[:, :1] - 2 * X[:, 1:2] + 0.3 * rows(1)[0][:, :1]
TEST = X[:T], Y[:T]


def network(outputs=3, seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, outputs)).double()


CASES = {
    "softmax": (3, Y, losses.nll(), None),
    "one logit": (1, (Y > 0).long(), losses.nll(nescio.heads.binary()), "binary"),
    "smooth hinge": (3, Y, losses.smooth_hinge(temperature=0.5), None),
    "squared error": (1, TARGETS, losses.squared_error(), "fixed_variance"),
    "two targets": (
        2,
        torch.cat([TARGETS, -TARGETS.square()], 1),
        losses.squared_error(),
        "fixed_variance",
    ),
}


def fitted(case, **options):
    outputs, y, loss, head = CASES[case]
    return fit(network(outputs), (X, y), loss=loss, head=head, weight_decay=0.01, **options)


def answers(case, **options):
    outputs, y, loss, head = CASES[case]
    given = {"loss": loss, "head": head, "weight_decay": 0.01, **options}
    return influence(network(outputs), (X, y), (X[:T], y[:T]), **given)


def minimum(problem, weights):
    """The weights at the minimum where each sample has a weight, by Newton steps on autograd."""
    theta = problem.weight.clone()
    wide = problem.extended(problem.features)

    def objective(flat):
        scores = problem.objective.scores(wide @ flat.view_as(theta).T, problem.targets)
        share = weights.sum() / len(weights)  # the weight decay of the samples goes with them
        return (weights * scores).mean() + share * problem.objective.decay * flat.square().sum()

    flat = theta.flatten()
    for _ in range(30):
        gradient = torch.func.grad(objective)(flat)
        if gradient.norm() < 1e-13:
            break
        flat = flat - torch.linalg.solve(torch.func.hessian(objective)(flat), gradient)
    assert gradient.norm() < 1e-12
    return flat.view_as(theta)


@pytest.mark.parametrize("case", CASES)
def test_it_is_the_derivative_in_the_weight_of_a_sample(case):
    """Minus d loss(minimum) / d weight of the sample, over finite differences of minima."""
    problem, step = fitted(case).problem, 1e-4
    found = answers(case).values
    wide, targets = problem.extended(problem.features[:T]), problem.targets[:T]
    for sample in (0, 3, 17):
        ends = []
        for sign in (1, -1):
            weights = torch.ones(N, dtype=torch.float64)
            weights[sample] += sign * step
            there = minimum(problem, weights)
            ends.append(problem.objective.scores(wide @ there.T, targets))
        slope = -(ends[0] - ends[1]) / (2 * step)
        torch.testing.assert_close(found[:, sample], slope, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("case", CASES)
def test_it_predicts_retraining_without_a_sample(case):
    problem, found = fitted(case).problem, answers(case)
    wide, targets = problem.extended(problem.features[:T]), problem.targets[:T]
    truth = []
    for sample in range(N):
        others = [other for other in range(N) if other != sample]
        part = replace(problem, features=problem.features[others], targets=problem.targets[others])
        there, _ = refitted(part, 1e-10)
        truth.append(problem.objective.scores(wide @ there.weight.T, targets) - found.value)
    both = torch.stack([torch.stack(truth, 1).flatten(), found.values.flatten()])
    assert torch.corrcoef(both)[0, 1] > 0.95
    large = both[0].abs() > both[0].abs().mean()
    assert (both[0].sign() == both[1].sign())[large].float().mean() > 0.98


@pytest.mark.parametrize("case", CASES)
def test_the_hessian_and_the_gradient_are_those_of_autograd(case):
    problem = fitted(case).problem
    wide = problem.extended(problem.features)

    def objective(flat):
        scores = problem.objective.scores(wide @ flat.view_as(problem.weight).T, problem.targets)
        return scores.mean() + problem.objective.decay * flat.square().sum()

    there = problem.moved(0.1 * torch.ones(problem.size, dtype=torch.float64))
    flat = there.weight.flatten()
    value, gradient = there.value_and_gradient()
    torch.testing.assert_close(value, objective(flat), rtol=1e-12, atol=0)
    torch.testing.assert_close(gradient, torch.func.grad(objective)(flat), rtol=1e-10, atol=1e-12)
    hessian = torch.func.hessian(objective)(flat)
    torch.testing.assert_close(there.hessian(), hessian, rtol=1e-10, atol=1e-12)
    vectors = torch.randn(3, problem.size, dtype=torch.float64)
    torch.testing.assert_close(
        there.hessian_product(vectors), vectors @ hessian, rtol=1e-10, atol=1e-11
    )


def test_all_samples_together_move_nothing():
    """At a minimum the gradients of all terms, weight decay included, add up to zero."""
    found = answers("softmax")
    assert found.values.shape == (T, N)
    assert found.values.sum(1).abs().max() < 1e-10
    assert found.residual < 1e-12
    assert found.gradient_norm < 1e-8


@pytest.mark.parametrize("on", ["logit", "confidence", "margin", "loss"])
def test_what_it_is_on(on):
    found = answers("softmax", on=on)
    problem = fitted("softmax").problem
    logits = problem.extended(problem.features[:T]) @ problem.weight.T
    top = logits.topk(2).values
    truth = {
        "logit": top[:, 0],
        "confidence": logits.softmax(-1).amax(-1),
        "margin": top[:, 0] - top[:, 1],
        "loss": nn.functional.cross_entropy(logits, Y[:T], reduction="none"),
    }[on]
    torch.testing.assert_close(found.value, truth)
    weights = torch.ones(N, dtype=torch.float64)
    weights[5] -= 1e-4
    there = problem.extended(problem.features[:T]) @ minimum(problem, weights).T
    moved = {
        "logit": there.gather(1, found.predicted[:, None])[:, 0],
        "confidence": there.softmax(-1).gather(1, found.predicted[:, None])[:, 0],
        "margin": there.topk(2).values[:, 0] - there.topk(2).values[:, 1],
        "loss": nn.functional.cross_entropy(there, Y[:T], reduction="none"),
    }[on]
    torch.testing.assert_close(found.values[:, 5], (moved - truth) / 1e-4, rtol=2e-3, atol=1e-7)


def test_a_function_and_a_class_may_be_asked_for():
    third = answers("softmax", on=lambda z: z[:, 2])
    assert torch.equal(third.values, answers("softmax", on="logit", target=2).values)
    assert torch.equal(third.values, answers("softmax", on="logit", target=[2] * T).values)


def test_one_logit_is_that_of_class_1_and_its_negative_that_of_class_0():
    classes = torch.tensor([0, 1, 0, 1])
    found = answers("one logit", on="logit", target=classes)
    raw = answers("one logit", on=lambda z: z[:, 0])
    sign = 2 * classes - 1
    torch.testing.assert_close(found.value, sign * raw.value)
    torch.testing.assert_close(found.values, sign[:, None] * raw.values)
    assert (answers("one logit", on="logit").value > 0).all()  # of the predicted class


def test_helpful_and_harmful_have_the_sign_of_what_happens_without_them():
    loss, confidence = answers("softmax"), answers("softmax", on="confidence")
    right = loss.predicted == Y[:T]
    assert right.any()
    best = loss.helpful(3)
    assert best.shape == (T, 3)
    assert (loss.values.gather(1, best) > 0).all()  # without it, the loss rises
    assert (loss.values.gather(1, loss.harmful(3)) < 0).all()
    assert (confidence.values.gather(1, confidence.helpful(3)) < 0).all()  # the confidence falls
    same = (loss.helpful(1) == confidence.helpful(1))[:, 0]
    assert same[right].all()


def test_a_model_knows_its_objective_and_is_where_it_was_trained():
    loss = losses.weight_decay(losses.nll(), strength=0.01)
    model = nescio.train(
        lambda: nn.Linear(4, 3).double(),
        (X, Y),
        loss=loss,
        optimizer="lbfgs",
        batch_size=None,
        epochs=300,
    )
    found = influence(model, (X, Y), TEST, refit=False)
    assert found.refit is None
    assert found.gradient_norm < 1e-7
    by_hand = influence(model.member(0), (X, Y), TEST, loss=loss, refit=False)
    torch.testing.assert_close(found.values, by_hand.values)
    assert influence(model, (X, Y), TEST).refit.steps == 0


def test_a_refit_says_how_far_it_moved():
    net = network()
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    found = influence(net, (X, Y), TEST, weight_decay=0.01)
    assert found.refit.gradient_norm > 0.1
    assert 0 < found.refit.shift < 1
    assert 0 < found.refit.changed <= 1
    assert all(torch.equal(before[name], tensor) for name, tensor in net.state_dict().items())


def test_standardized_targets_are_scaled_as_in_training():
    loss = losses.weight_decay(losses.squared_error(), strength=0.01)
    options = {"loss": loss, "optimizer": "lbfgs", "batch_size": None, "epochs": 200}
    y = 100 + 50 * TARGETS
    make = lambda: nn.Linear(4, 1).double()  # noqa: E731
    model = nescio.train(make, (X, y), standardize_targets=True, **options)
    found = influence(model, (X, y), (X[:T], y[:T]), refit=False)
    scaled = (y - y.mean(0)) / y.std(0, correction=0)
    again = influence(model.member(0), (X, scaled), (X[:T], scaled[:T]), loss=loss, refit=False,
                      head="fixed_variance")  # fmt: skip
    torch.testing.assert_close(found.values, again.values, rtol=1e-4, atol=1e-9)


def test_the_data_are_read_once():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.samples = network(), 0

        def forward(self, x):
            COUNTED.append(len(x))
            return self.inner(x)

    influence(Counting(), (X, Y), TEST, weight_decay=0.01)
    assert sum(COUNTED) <= N + T + 4 * 8  # each once, and a few for dry runs


COUNTED: list[int] = []


def test_a_network_that_did_not_converge_is_refused():
    with pytest.raises(NescioError, match=r"gradient norm is 0\.\d+, above limit=1e-06"):
        influence(network(), (X, Y), TEST, loss=losses.nll(), refit=False)
    allowed = influence(
        network(), (X, Y), TEST, loss=losses.nll(), weight_decay=1, refit=False, limit=10
    )
    assert allowed.gradient_norm > 0.1


def test_a_hessian_that_is_not_positive_definite_is_refused():
    with pytest.raises(NescioError, match="not positive definite: its smallest eigenvalue is"):
        influence(network(), (X, Y), TEST, loss=losses.nll(), weight_decay=0, refit=True)
    with pytest.raises(NescioError, match="not positive definite"):
        influence(network(), (X, Y), TEST, loss=losses.brier(), refit=False, limit=10)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"on": "los"}, "unknown quantity"),
        ({"parameters": "first"}, "unknown parameters"),
        ({"solver": "lissa"}, "unknown solver"),
        ({"damping": -1}, "damping is 0 or more"),
        ({"weight_decay": -1}, "weight_decay must not be negative"),
        ({"loss": losses.anchored(losses.nll())}, "has other terms"),
        ({"loss": losses.squared_error()}, "reads outputs by the head fixed_variance"),
        ({"refit": False}, "what the network was trained to minimize"),
        ({"on": "logit", "target": 7}, "from 0 to 2"),
        ({"memory": 1000}, "solver='cg'"),
        ({"solver": "cg", "tolerance": 2.0}, "tolerance is between 0 and 1"),
        ({"on": lambda z: z[:, 0] / 0}, "NaN or infinite"),
        ({"on": lambda z: z[:, 0].abs().sqrt() * torch.nan, "solver": "cg"}, "NaN or infinite"),
    ],
)
def test_what_cannot_be_answered(options, words):
    with pytest.raises(NescioError, match=words):
        influence(network(), (X, Y), TEST, **options)


def test_a_loss_with_kinks_is_refused():
    with pytest.raises(NescioError, match="has no curvature"):
        influence(
            network(1), (X, TARGETS), (X[:T], TARGETS[:T]), loss=losses.absolute_error(),
            head="fixed_variance",
        )  # fmt: skip


def test_data_without_labels_and_several_members():
    with pytest.raises(NescioError, match="must have labels"):
        influence(network(), X, TEST)
    with pytest.raises(NescioError, match="needs the labels of the test"):
        influence(network(), (X, Y), X[:T])
    with pytest.raises(NescioError, match=r"model\.choose"):
        influence(nescio.models.ensemble([network(), network(seed=1)]), (X, Y), TEST)
    with pytest.raises(NescioError, match="labels must lie in 0..2"):
        influence(network(), (X, Y + 2), TEST)
    confident = influence(network(), (X, Y), X[:T], on="confidence")
    assert confident.test_labels is None


def test_the_step_of_a_loss_with_decay_is_the_objective():
    """The loss that models train by is the one that is examined."""
    net = network()
    loss = losses.weight_decay(losses.nll(), strength=0.02)
    forward = Forward(Stack(net), stack([net]))
    batch = losses.Batch(x=X[None], y=Y[None], points=N, low=X.amin(0), high=X.amax(0))
    whole = loss(forward, batch, nescio.core.Rng(0, (0,)))
    squares = sum(p.square().sum() for p in net.parameters())
    mean = nn.functional.cross_entropy(net(X), Y)
    torch.testing.assert_close(whole[0], mean + loss.decay * squares)


def test_many_outputs_have_the_same_products(monkeypatch):
    """Beyond some outputs no matrix of second derivatives is held for a sample."""
    problem = fitted("softmax").problem
    vectors = torch.randn(3, problem.size, dtype=torch.float64)
    few = problem.hessian_product(vectors)
    monkeypatch.setattr("nescio.applications.influence.linear_head.FEW_OUTPUTS", 2)
    torch.testing.assert_close(problem.hessian_product(vectors), few, rtol=1e-12, atol=1e-14)


def test_steps_from_some_of_the_samples_lead_to_the_same_minimum(monkeypatch):
    whole = answers("softmax", limit=1e-10)
    monkeypatch.setattr("nescio.applications.influence.newton.SOME", 10)
    some = answers("softmax", limit=1e-10)
    torch.testing.assert_close(some.values, whole.values, rtol=1e-7, atol=1e-11)
    by_products = answers("softmax", limit=1e-10, solver="cg", tolerance=1e-12)
    torch.testing.assert_close(by_products.values, whole.values, rtol=1e-8, atol=1e-12)
    monkeypatch.setattr("nescio.applications.influence.newton.DIRECT", 1)
    without = answers("softmax", limit=1e-10)
    torch.testing.assert_close(without.values, whole.values, rtol=1e-7, atol=1e-11)


def test_some_of_the_samples_need_not_know_what_all_of_them_do(monkeypatch):
    """A feature that few samples have: the Hessian of the others alone is singular."""
    x = X.clone()
    x[:, 3] = 0
    x[1:4, 3] = torch.tensor([1.0, 2.0, -1.0], dtype=torch.float64)
    linear = nn.Linear(4, 1).double()
    options = {"loss": losses.squared_error(), "head": "fixed_variance", "weight_decay": 0}
    monkeypatch.setattr("nescio.applications.influence.newton.SOME", 10)
    found = fit(linear, (x, TARGETS), **options)
    wide = found.problem.extended(x)
    truth = torch.linalg.lstsq(wide, TARGETS.float().double()).solution.T
    torch.testing.assert_close(found.problem.weight, truth, rtol=1e-6, atol=1e-7)
