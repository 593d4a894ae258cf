"""The Dirichlet part of the lecture: pictures, dice and formulas beside independent values."""

import math

import mpmath
import numpy as np
import pytest
import torch
from scipy import stats
from torch.distributions import Dirichlet, kl_divergence

from nescio_papers import Settings, named, run_experiment
from nescio_papers.kit.experiment import numbers_of
from nescio_papers.robust_deep_learning import dice, dirichlet_formulas, three_situations

QUICKLY = Settings(quick=True)
FIGURES = {f"dirichlet-{name}.png" for name in ("situations", "ensemble", "dice", "kl")}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dirichlet")
    experiment = named("robust-deep-learning")
    page = run_experiment(experiment, folder, settings=QUICKLY, only=["dirichlet"], show=False)
    return folder, page.read_text()


def test_a_quick_run_writes_the_pictures_and_leaves_claims_open(run):
    folder, text = run
    assert {path.name for path in folder.iterdir()} >= FIGURES
    table = text[text.index("## What the source says") :]
    assert table.count("| open |") >= 9
    assert all(f"| {word} |" not in table for word in ("holds", "does not hold", "holds in part"))


def test_the_posterior_is_that_of_scipy():
    counts = torch.tensor([[44, 28, 28]])
    own, reference = dice.Posterior(counts), stats.dirichlet([45, 29, 29])
    np.testing.assert_allclose(own.mean[0], reference.mean())
    np.testing.assert_allclose(own.deviation[0], np.sqrt(reference.var()))
    flat = dice.Posterior(torch.zeros(1, 3))
    np.testing.assert_allclose(flat.deviation[0], math.sqrt(1 / 18))


def test_rolls_are_counted_one_by_one():
    truth = torch.tensor([[0.5, 0.3, 0.2], [0.0, 0.0, 1.0]], dtype=torch.float64)
    counts = dice.rolled(truth, 1000, seed=0)
    assert counts.shape == (2, 1001, 3)
    assert (counts.sum(-1) == torch.arange(1001)).all()
    assert (counts[1, :, 2] == torch.arange(1001)).all()
    own = dice.Posterior(counts[0, -1:])
    assert ((own.mean - truth[:1]).abs() < 4 * own.deviation).all()
    np.testing.assert_array_equal(counts, dice.rolled(truth, 1000, seed=0))


def test_dice_know_what_they_do_not_know(run):
    many = numbers_of(Settings(quick=True, folder=run[0]), "dirichlet")["dice"]["many"]
    first = many["mutual_information"]["0"]["mean"]
    assert first == pytest.approx(math.log(3) - 5 / 6)  # log 3 less the expected entropy 1/2 + 1/3
    assert all(many["falls"])
    assert 0 < many["single_rolls_that_raise_it"] < 0.01


@pytest.mark.parametrize(("precision", "kl"), [(5, 0.0), (50, 3.12), (500, 7.61), (5000, 12.21)])
def test_divergence_from_the_flat_dirichlet(precision, kl):
    alpha = dirichlet_formulas.middle(torch.tensor(float(precision)).double(), 5)
    found = dirichlet_formulas.kl_to_flat(alpha).item()
    assert found == pytest.approx(kl, abs=6e-3)
    reference = kl_divergence(Dirichlet(alpha), Dirichlet(torch.ones(5).double())).item()
    assert found == pytest.approx(reference, abs=1e-9)


def test_asymptotes_are_those_of_mpmath():
    def exact(alpha):
        total = mpmath.fsum(alpha)
        logs = mpmath.loggamma(total) - mpmath.fsum(map(mpmath.loggamma, alpha))
        gaps = [(a - 1) * (mpmath.digamma(a) - mpmath.digamma(total)) for a in alpha]
        return float(logs - mpmath.loggamma(len(alpha)) + mpmath.fsum(gaps))

    at = torch.tensor([1e8], dtype=torch.float64)
    mean = [0.5, 0.25, 0.25]
    with mpmath.workdps(40):
        inside = exact([mpmath.mpf(m) * 10**8 for m in mean])
        corner = exact([mpmath.mpf(10**8 - 4), *([mpmath.mpf(1)] * 4)])
    assert dirichlet_formulas.asymptote(at, mean).item() == pytest.approx(inside, abs=1e-6)
    assert dirichlet_formulas.corner_asymptote(at, 5).item() == pytest.approx(corner, abs=1e-6)
    own = dirichlet_formulas.kl_to_flat(dirichlet_formulas.corner(at, 5)).item()
    assert own == pytest.approx(corner, abs=1e-6)


def test_formulas_of_the_slides(run):
    numbers = numbers_of(Settings(quick=True, folder=run[0]), "dirichlet")["formulas"]
    assert numbers["slope_per_log_precision"] == pytest.approx(2, abs=1e-4)  # (K - 1) / 2
    assert numbers["slope_towards_a_corner"] == pytest.approx(4, abs=1e-4)
    assert numbers["elbo_largest_error"] < 1e-10
    assert numbers["elbo_constant"] == pytest.approx(
        math.log(math.factorial(4) * math.factorial(100) / math.factorial(104))
    )
    assert numbers["elbo_ratio_high"] > 2 * numbers["elbo_ratio_low"]
    assert numbers["digamma_error_times_x2_at_1000"] == pytest.approx(1 / 12, rel=1e-4)
    assert numbers["expected_entropy_flat"] == pytest.approx(5 / 6)
    assert numbers["predictive_entropy_sharp"] == pytest.approx(math.log(3))


def test_the_plane_has_three_situations():
    found = three_situations.situations(4000, seed=0)
    near = torch.cdist(found.x, three_situations.class_means()).argmin(1)
    assert (near == found.y)[~found.overlap].double().mean() > 0.999
    counts = found.y[found.overlap].bincount()
    assert found.overlap.double().mean() == pytest.approx(0.25, abs=0.03)
    assert stats.chisquare(counts).pvalue > 1e-3  # labels of the overlap are random
    far = three_situations.ring(500, seed=0)
    radius = far.norm(dim=1)
    assert (float(radius.min()), float(radius.max())) == pytest.approx((8, 10), abs=0.05)
    assert float(far.mean(0).norm()) < 1
