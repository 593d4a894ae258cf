"""L-BFGS: the optimum of other libraries, stacked equals alone, resumed to the bit, refusals."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression
from torch import nn

import nescio
from nescio import NescioError, heads, losses, nets
from nescio.core import seeded

DRAW = torch.Generator().manual_seed(0)
X = torch.randn(120, 4, generator=DRAW, dtype=torch.float64)
NOISE = torch.randn(120, 3, generator=DRAW, dtype=torch.float64)
Y = (X @ torch.randn(4, 3, generator=DRAW, dtype=torch.float64) + NOISE).argmax(1)
STRENGTH = 0.01
LOSS = losses.weight_decay(losses.nll(), strength=STRENGTH)
FULL = {"batch_size": None, "optimizer": "lbfgs", "epochs": 300}


def linear() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 3, bias=False)).double()


def curved() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)).double()


class Wrapped(nn.Module):
    """A network that runs member by member."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = curved()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)


def gradient(net: nn.Module) -> torch.Tensor:
    parameters = list(net.parameters())
    penalty = STRENGTH * sum(p.square().sum() for p in parameters)
    loss = nn.functional.cross_entropy(net(X), Y) + penalty
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, parameters)])


def test_logistic_regression_is_that_of_scikit_learn_and_its_gradient_is_zero() -> None:
    model = nescio.train(linear, (X, Y), loss=LOSS, members=3, **FULL)
    judge = LogisticRegression(C=1 / (2 * STRENGTH * len(X)), fit_intercept=False, tol=1e-12)
    truth = torch.tensor(judge.fit(X.numpy(), Y.numpy()).coef_)
    for member in range(3):
        assert gradient(model.member(member)).norm() <= 1e-8
        weights = model.tensors["0.weight"][member]  # softmax weights up to a shift: here unique
        torch.testing.assert_close(weights, truth, rtol=0, atol=1e-6)
    steps = torch.tensor(model.history.stopped) - 1
    last = model.history.gradient[steps, torch.arange(3)]
    norms = torch.stack([gradient(model.member(member)).norm() for member in range(3)])
    torch.testing.assert_close(last, norms, rtol=1e-6, atol=1e-12)
    assert max(model.history.stopped) < 60


def test_a_network_ends_where_scipy_does() -> None:
    with seeded(0, "start", 0):
        net = curved()
    parameters = list(net.parameters())
    sizes = [p.numel() for p in parameters]

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        for p, part in zip(parameters, torch.tensor(flat).split(sizes), strict=True):
            p.data = part.view_as(p)
        loss = LOSS.score(net(X)[None], Y[None]).mean()
        loss += STRENGTH * sum(p.square().sum() for p in parameters)
        return loss.item(), gradient(net).numpy()

    start = torch.cat([p.detach().flatten() for p in parameters]).numpy()
    best = minimize(objective, start, jac=True, method="BFGS", options={"gtol": 1e-9}).fun
    model = nescio.train(curved, (X, Y), loss=LOSS, **FULL)
    assert gradient(model.member(0)).norm() <= 1e-8
    assert float(model.history.train[-1, 0]) == pytest.approx(best, rel=1e-9)
    assert (model.history.train.diff(dim=0) <= 1e-12).all()  # every step lowers the loss


@pytest.mark.parametrize("make", [curved, Wrapped])
def test_a_member_of_a_stack_ends_where_it_ends_alone(make) -> None:
    options = {"loss": LOSS, **FULL, "epochs": 25}
    together = nescio.train(make, (X, Y), members=3, **options)
    for member in range(3):
        alone = nescio.train(make, (X, Y), members=[member], **options)
        for key, tensor in alone.tensors.items():
            torch.testing.assert_close(tensor[0], together.tensors[key][member], rtol=0, atol=1e-7)


def test_members_leave_when_they_are_there_and_keep_their_weights() -> None:
    model = nescio.train(linear, (X, Y), loss=LOSS, members=4, **FULL)
    stopped = model.history.stopped
    assert len(set(stopped)) > 1
    for member, epochs in enumerate(stopped):
        assert model.history.train[epochs:, member].isnan().all()
        assert gradient(model.member(member)).norm() <= 1e-8


stop_at: list[int] = []


def stoppable() -> losses.Loss:
    def step(forward, batch, rng):
        if batch.step in stop_at:
            raise KeyboardInterrupt
        return LOSS(forward, batch, rng)

    return LOSS.with_step("stoppable", step)


@pytest.mark.parametrize("make", [curved, Wrapped])
def test_a_stopped_run_goes_on_to_the_same_bits(make, tmp_path) -> None:
    options = {"loss": stoppable(), "members": 2, **FULL, "epochs": 30}
    whole = nescio.train(make, (X, Y), **options)
    stop_at.append(11)
    run = {"run": tmp_path / "run", "checkpoint_seconds": 0.0}
    with pytest.raises(KeyboardInterrupt):
        nescio.train(make, (X, Y), **options, **run)
    stop_at.clear()
    resumed = nescio.train(make, (X, Y), **options, **run)
    assert torch.equal(whole.history.gradient, resumed.history.gradient)
    again = nescio.load(tmp_path / "run", net=make)
    assert torch.equal(again.history.gradient, resumed.history.gradient)
    for key, tensor in whole.tensors.items():
        assert torch.equal(tensor, resumed.tensors[key])


def test_it_stops_at_the_tolerance_that_is_asked_for() -> None:
    options = {**FULL, "optimizer": "lbfgs,tolerance=1e-3,memory=5"}
    model = nescio.train(linear, (X, Y), loss=LOSS, **options)
    assert 1e-7 < gradient(model.member(0)).norm() <= 1e-3


def test_single_precision_goes_as_far_as_its_rounding() -> None:
    make = lambda: nn.Sequential(nn.Linear(4, 3, bias=False))  # noqa: E731
    model = nescio.train(make, (X.float(), Y), loss=LOSS, **{**FULL, "epochs": 100})
    assert gradient(model.member(0).double()).norm() < 1e-5
    assert model.history.gradient[-1, 0] < 1e-5


def test_a_loss_that_overflows_on_the_way_is_searched_nearer() -> None:
    make = lambda: nn.Sequential(nn.Linear(4, 1)).double()  # noqa: E731

    def poisson(forward, batch, _):
        logs = 40 * forward(batch.x)[..., 0]
        return (logs.exp() - logs * batch.y[..., 0]).mean(1)

    loss = losses.squared_error().with_step("poisson", poisson)
    targets = (3 * X[:, :1]).exp()
    model = nescio.train(make, (X, targets), loss=loss, **FULL)
    expected = torch.tensor([[3 / 40, 0, 0, 0]]).double()
    torch.testing.assert_close(model.tensors["0.weight"][0], expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"batch_size": 50}, "lbfgs does not go with batch_size"),
        ({"clip": 1.0, "schedule": "cosine"}, "lbfgs does not go with schedule, clip"),
        ({"patience": 3, "validation": (X, Y)}, "patience"),
        ({"optimizer": "lbfgs,tolerance=0"}, "must be positive"),
        ({"optimizer": "lbfgs,memories=3"}, "lbfgs has no option 'memories'"),
        ({"optimizer": "adam,memory=3"}, "adam has no option 'memory'"),
        ({"optimizer": "lbfg"}, "unknown optimizer"),
        ({"optimizer": 3}, "optimizer= takes a name"),
        ({"loss": losses.virtual_adversarial(losses.nll(), radius=0.1)}, "the same loss"),
    ],
)
def test_what_does_not_fit_is_refused(options: dict, said: str) -> None:
    with pytest.raises(NescioError, match=said):
        nescio.train(linear, (X, Y), **{**FULL, **options})


@pytest.mark.parametrize(
    "make",
    [
        lambda: nets.mlp(4, 3, widths=(5,), dropout=0.2).double(),
        lambda: nets.bayesian_mlp(4, 3, widths=(5,)).double(),
    ],
)
def test_networks_that_draw_are_refused(make) -> None:
    with pytest.raises(NescioError, match="draws random numbers"):
        nescio.train(make, (X, Y), **FULL)


def test_a_regression_by_hand_and_by_autograd_agree() -> None:
    make = lambda: nets.mlp(4, 2, widths=()).double()  # noqa: E731
    targets = X[:, :1] + 0.5 * NOISE[:, :1]
    by_hand = losses.nll(heads.gaussian())
    every = [by_hand, losses.weight_decay(by_hand, strength=0.0)]
    models = [nescio.train(make, (X, targets), loss=loss, **FULL) for loss in every]
    for key, tensor in models[0].tensors.items():
        torch.testing.assert_close(tensor, models[1].tensors[key], rtol=0, atol=1e-6)


def test_members_with_their_own_rows_end_where_they_end_on_those_rows_alone() -> None:
    rows = [list(range(40)), list(range(20, 90)), list(range(120))]
    options = {"loss": LOSS, **FULL}
    together = nescio.train(linear, (X, Y), members=3, rows=rows, **options)
    for member, own in enumerate(rows):
        alone = nescio.train(linear, (X[own], Y[own]), members=[member], **options)
        one, two = alone.tensors["0.weight"][0], together.tensors["0.weight"][member]
        torch.testing.assert_close(one, two, rtol=0, atol=1e-9)
