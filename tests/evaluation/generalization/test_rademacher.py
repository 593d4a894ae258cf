"""The Rademacher complexity against closed forms and brute force."""

import itertools
import math

import numpy as np
import pytest
import torch

from nescio import NescioError, nets
from nescio.evaluation import Rademacher, linear_rademacher, rademacher
from nescio.evaluation.generalization import random_signs

DRAWS = 4
X = torch.randn(10, 3, generator=torch.Generator().manual_seed(0))
FULL = {"batch_size": None, "learning_rate": 0.05, "progress": False}


def linear(inputs, outputs=2):
    return lambda: nets.mlp(inputs, outputs, widths=())


def thresholds(signs):
    """The largest correlation of signs with a threshold on a line, by all cuts; (draws,)."""
    cuts = [signs[:, :k].sum(1) - signs[:, k:].sum(1) for k in range(signs.shape[1] + 1)]
    return (torch.stack(cuts).abs().amax(0) / signs.shape[1]).numpy()


def test_linear_functions_of_a_bounded_norm_have_the_closed_form():
    found = linear_rademacher(X, radius=2.0, draws=4000)
    every = torch.tensor(list(itertools.product((-1.0, 1.0), repeat=10)), dtype=torch.float64)
    exact = float((2.0 / 10 * (every @ X.double()).norm(dim=1)).mean())  # all 1,024 signs
    error = found.values.std() / math.sqrt(4000)
    assert abs(found.estimate - exact) < 4 * error
    assert exact <= 2.0 / 10 * math.sqrt(float(X.double().square().sum()))  # Jensen
    assert found.exact


def test_its_supremum_is_attained_by_the_best_direction():
    found = linear_rademacher(X, draws=3)
    signs = random_signs(10, 3, 0).double()
    best = signs @ X.double()
    best = best / best.norm(dim=1, keepdim=True)
    np.testing.assert_allclose(found.values, (signs * (best @ X.double().T)).mean(1))


def test_a_linear_network_with_enough_features_fits_all_signs():
    x = torch.randn(6, 6, generator=torch.Generator().manual_seed(1))  # any labels are separable
    found = rademacher(linear(6), x, draws=DRAWS, epochs=500, **FULL)
    assert found.estimate == 1
    assert found.exact
    half = math.sqrt(2 * math.log(40) / (6 * DRAWS))
    assert found.interval().low == pytest.approx(max(0, 1 - half))
    assert found.interval().high == 1


def test_thresholds_on_a_line_come_near_the_largest_of_all_cuts():
    x = torch.linspace(-1, 1, 7)[:, None]
    found = rademacher(linear(1), x, draws=8, epochs=400, patience=400, **FULL)
    exact = thresholds(random_signs(7, 8, 0))
    assert (found.values <= exact + 1e-12).all()  # no training beats the supremum
    assert exact.mean() < 1
    assert found.estimate > 0.8 * exact.mean()
    assert not found.exact


def test_intervals_hold_the_complexity_over_all_signs():
    every = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0])] * 7)
    truth = thresholds(every).mean()
    for exact in (True, False):
        held = 0
        for seed in range(60):
            values = np.asarray(thresholds(random_signs(7, 20, seed)))
            ends = Rademacher(samples=7, values=values, exact=exact, seed=seed).interval(level=0.8)
            held += ends.low <= truth <= ends.high
            assert ends.high == 1 or exact
        assert held >= 48  # 80 % of them


def test_one_output_and_more_classes():
    options = {"draws": 2, "epochs": 300, **FULL}
    assert rademacher(linear(3, 1), X[:3], head="binary", **options).estimate == 1
    assert rademacher(linear(3, 5), X[:3], **options).estimate == 1


def test_draws_are_the_same_among_more_draws():
    assert torch.equal(random_signs(20, 2, 3), random_signs(20, 5, 3)[:2])


def test_the_bound_and_the_words():
    found = Rademacher(samples=1000, values=np.ones(3), exact=True, seed=0)
    expected = 0.1 + 1 + 3 * math.sqrt(math.log(40) / 2000)
    assert found.bound(0.1) == pytest.approx(expected)
    assert "says nothing" in str(found)
    small = Rademacher(samples=10**6, values=np.full(3, 0.01), exact=False, seed=0)
    assert "at least 0.008 (training found 0.010, 3 draws" in str(small)
    assert "says nothing" not in str(small)
    with pytest.raises(NescioError, match="have no margin"):
        found.bound(0.1, margin=1.0)


def test_the_bound_of_numbers_needs_a_margin_and_does_not_depend_on_their_scale():
    small, large = (linear_rademacher(X, radius=radius) for radius in (0.1, 10.0))
    spread = 3 * math.sqrt(math.log(40) / 20)
    assert small.bound(0.1, margin=0.2) == pytest.approx(0.1 + 10 * small.estimate + spread)
    assert small.bound(0.1, margin=0.2) == pytest.approx(large.bound(0.1, margin=20.0))
    assert "the share of margins up to 1 plus" in str(small)
    for margin in (None, 0.0, math.inf):
        with pytest.raises(NescioError, match="need a positive margin"):
            small.bound(0.1, margin=margin)


def test_the_margin_bound_holds_for_linear_functions():
    generator = torch.Generator().manual_seed(3)
    held = 0
    for _ in range(50):
        x = torch.randn(400, 2, generator=generator)
        y = torch.where(x[:, 0] + torch.randn(400, generator=generator) > 0, 1.0, -1.0)
        w = y @ x / (y @ x).norm()  # a function of the training data, of norm 1
        new = torch.randn(5000, 2, generator=generator)
        truth = torch.where(new[:, 0] + torch.randn(5000, generator=generator) > 0, 1.0, -1.0)
        share = float((y * (x @ w) <= 0.5).double().mean())
        bound = linear_rademacher(x, draws=20).bound(share, margin=0.5)
        held += float((truth * (new @ w) <= 0).double().mean()) <= bound
    assert held >= 48


def test_a_complexity_is_never_negative():
    found = rademacher(linear(3, 10), X, draws=2, epochs=1, learning_rate=1e-9, progress=False)
    assert (found.values >= 0).all()


def test_saved_and_loaded(tmp_path):
    found = linear_rademacher(X, draws=3)
    again = Rademacher.load(found.save(tmp_path / "r.json"))
    assert again.values.tolist() == found.values.tolist()
    assert again.samples == 10
    assert again.exact


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: rademacher(linear(3), X, draws=1), "at least 2"),
        (lambda: linear_rademacher(X, radius=0), "positive"),
        (lambda: rademacher(linear(3, 1), X), "one output"),
        (lambda: linear_rademacher(X, draws=0), "draws"),
        (lambda: linear_rademacher(X).bound(1.5, margin=1.0), "error rate, from 0 to 1"),
    ],
)
def test_what_cannot_be_is_refused(call, words):
    with pytest.raises(NescioError, match=words):
        call()
