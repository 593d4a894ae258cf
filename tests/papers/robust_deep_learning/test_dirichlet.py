"""The Dirichlet part of the lecture: pictures, dice and formulas beside independent values."""

import math
from dataclasses import replace

import mpmath
import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.metrics import average_precision_score, roc_auc_score
from torch.distributions import Dirichlet, kl_divergence

import nescio
from nescio import nets
from nescio_papers import Settings, named, run_experiment
from nescio_papers.kit import exactly, numbers_of
from nescio_papers.robust_deep_learning import (
    dice,
    dirichlet_digits,
    dirichlet_formulas,
    dirichlet_toy,
    dirichlet_verdicts,
    networks,
    sets,
    simplexes,
    three_situations,
)

QUICKLY = Settings(quick=True)
TINY = replace(sets.QUICK, train=120, test=40, out=40, batch=30, seeds=2)
FIGURES = {
    f"dirichlet-{name}.png"
    for name in ("situations", "ensemble", "dice", "kl", "maps", "network", "exposure")
}


@pytest.fixture(scope="module")
def run(image_files, tmp_path_factory):
    data = image_files(tmp_path_factory.mktemp("data"), train=150, test=50, letters=104)
    build = nets.small_cnn
    folder = tmp_path_factory.mktemp("dirichlet")
    experiment = named("robust-deep-learning")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NESCIO_DATA", str(data))
        patch.setattr(sets, "QUICK", TINY)
        patch.setattr(networks.nets, "small_cnn", lambda *a, dropout: build(*a, width=2))
        page = run_experiment(experiment, folder, settings=QUICKLY, only=["dirichlet"], show=False)
        yield folder, page.read_text()


def test_a_quick_run_writes_the_pictures_and_leaves_claims_open(run):
    folder, text = run
    assert {path.name for path in folder.iterdir()} >= FIGURES
    table = text[text.index("## What the source says") :]
    assert table.count("| open |") >= 15
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


def found_by_softmax(shift, *, exposed=0.0):
    """Accuracies of two trainings without OOD inputs, one with each of two sets."""
    return {"nothing": [0.99 + shift, 0.98 + shift], "a": [0.99 + exposed], "b": [0.97 + exposed]}


def test_accuracies_are_compared_training_by_training():
    right = {"softmax": found_by_softmax(0), "Dirichlet": found_by_softmax(-0.001, exposed=-0.02)}
    gaps = dirichlet_digits.accuracy_gaps(right, "Dirichlet")
    assert gaps["without"].values == pytest.approx((-0.001, -0.001))
    assert gaps["with"].values == pytest.approx((-0.02, -0.02))
    stored = {name: one.numbers() for name, one in gaps.items()}
    claim = dirichlet_verdicts.accuracy_claim("Dirichlet", stored, LEARNED)
    assert claim.verdict == "open"  # equal differences leave no interval


LEARNED = exactly("accuracy", 0.99, why="made up", above=0.98)


@pytest.mark.parametrize(
    ("gaps", "verdict"),
    [
        ([0.0, 0.001, -0.001], "holds"),
        ([-0.01, -0.011, -0.012], "does not hold"),
        ([-0.002, 0.002, -0.004], "open"),  # within 0.3 points on average, not by the interval
    ],
)
def test_as_accurate_is_within_a_stated_margin(gaps, verdict):
    found = {"without": {"values": gaps}, "with": {"values": gaps}}
    assert dirichlet_verdicts.accuracy_claim("D", found, LEARNED).verdict == verdict
    nothing = exactly("accuracy", 0.5, why="made up", above=0.98)
    assert dirichlet_verdicts.accuracy_claim("D", found, nothing).verdict == "not reached here"


def gap(value):
    return {"value": value, "low": value - 0.002, "high": value + 0.002}


def test_a_set_that_was_not_shown_is_compared_with_outlier_exposure():
    def judged(first, second):
        found = {"nothing": {"a": gap(0.0)}, "a": {"a": gap(-1.0), "b": gap(first)},
                 "b": {"a": gap(second)}}  # fmt: skip
        unseen = dirichlet_verdicts.unseen(found)
        return dirichlet_verdicts.unseen_claim("D", "precision", unseen, LEARNED)

    assert judged(0.1, 0.01).verdict == "holds"
    assert judged(0.1, 0.01).source == "here"
    assert judged(0.1, -0.05).verdict == "holds in part"  # on average, but not on every set
    assert "worst pair, a after b, -0.05" in judged(0.1, -0.05).measured
    assert judged(-0.1, -0.05).verdict == "does not hold"


def test_the_spread_is_compared_with_softmax_and_with_its_own_probabilities():
    def judged(others, own):
        found = {"a": gap(others), "b": gap(others)}
        return dirichlet_verdicts.plain_claim("D", "precision", found, {"a": gap(own)}).verdict

    assert judged(0.1, 0.1) == "holds"
    assert judged(0.1, -0.1) == "holds in part"
    assert judged(-0.1, -0.1) == "does not hold"
    assert judged(0.1, 0.0) == "open"


def test_older_numbers_have_wider_intervals():
    areas = {"precision": {"a": gap(0.9)}, "maximum probability": {"a": gap(0.8)}}
    found = dirichlet_verdicts.own_gains({"areas": {"posterior": {"nothing": areas}}}, "posterior")
    assert found["a"] == pytest.approx({"value": 0.1, "low": 0.096, "high": 0.104})
    assert dirichlet_verdicts.own_gains({"spread_less_own": {"x": {"a": 1}}}, "x") == {"a": 1}


def test_members_that_spread_on_half_of_the_ring_only_are_not_enough():
    def judged(area, share):
        spread = [-0.01, 0.0, 0.01]
        numbers = {
            "ensemble_auroc": {"values": [area + one for one in spread]},
            "ensemble_share_above": {"values": [share + one for one in spread]},
        }
        return simplexes.claims(numbers)[0].verdict

    assert judged(0.9, 0.8) == "holds"
    assert judged(0.9, 0.2) == "holds in part"
    assert judged(0.3, 0.2) == "does not hold"


def test_formulas_are_judged_by_their_values(run):
    numbers = numbers_of(Settings(quick=True, folder=run[0]), "dirichlet")["formulas"]
    found = [claim.verdict for claim in dirichlet_formulas.claims(numbers)]
    fails, part = "does not hold", "holds in part"
    assert found == [part, fails, "holds", "holds", fails, part, fails]
    wrong = {**numbers, "softmax_largest_error": 0.1, "elbo_largest_error": 0.1}
    turned = [claim.verdict for claim in dirichlet_formulas.claims(wrong)]
    assert turned[2:4] == [fails, fails]


def test_a_cell_is_what_scikit_learn_finds(run):
    folder, text = run
    numbers = numbers_of(Settings(quick=True, folder=folder), "dirichlet")["mnist"]
    assert sets.KANA in numbers["missing"]
    assert "nescio data download kuzushiji_mnist" in text
    rows = numbers["areas"]["Dirichlet"]
    assert set(rows) == {"nothing", sets.STRICT, sets.FASHION, sets.NOISE}
    assert set(rows["nothing"]) == set(dirichlet_digits.SCORES)
    model = nescio.load(folder / "dirichlet" / f"mnist--dirichlet-ood--{'noise'}")
    in_dist = sets.in_data(dirichlet_digits.BLOCK, TINY)
    ood = sets.ood_data(dirichlet_digits.BLOCK, in_dist, TINY, seed=0)[sets.FASHION]
    evidence = torch.cat(
        [model.outputs(x)[0].double().logsumexp(1) for x in (in_dist.test[0], ood)]
    )
    truth = np.r_[np.zeros(len(in_dist.test[0])), np.ones(len(ood))]
    cell = rows[sets.NOISE]["precision"][sets.FASHION]
    assert cell["value"] == pytest.approx(roc_auc_score(truth, -evidence), abs=1e-6)
    precise = average_precision_score(1 - truth, evidence)
    assert cell["aupr_in_dist"] == pytest.approx(precise, abs=1e-6)
    assert cell["low"] <= cell["value"] <= cell["high"]
    assert len(numbers["accuracy"]["softmax"]["nothing"]) == TINY.seeds


def test_mutual_information_separates_what_entropy_does_not(monkeypatch, tmp_path):
    monkeypatch.setattr(dirichlet_toy, "SEEDS", 2)
    monkeypatch.setattr(dirichlet_toy, "QUICK", dirichlet_toy.Budget(samples=1000, epochs=60))
    settings = Settings(quick=True, folder=tmp_path)
    model = dirichlet_toy._trained(settings, "dirichlet_ood")
    found = dirichlet_toy._areas(model, settings, three_situations.RING)
    assert min(found["mutual information"].values) > 0.95
    assert min(found["precision"].values) > 0.95
    assert max(found["predictive entropy"].values) < 0.75
    assert min(dirichlet_toy._accuracy(model, settings).values) > 0.99


def test_without_mnist_the_command_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("NESCIO_DATA", str(tmp_path))
    assert "nescio data download mnist" in dirichlet_digits.findings(QUICKLY).text


@pytest.mark.parametrize(
    ("shared", "entropy", "verdict"),
    [
        ([1.0, 1.0, 1.0], [0.5, 0.51, 0.52], "holds"),
        ([0.99, 0.98, 0.99], [0.9, 0.91, 0.92], "holds in part"),
        ([0.6, 0.61, 0.62], [0.9, 0.91, 0.92], "does not hold"),
        ([0.99, 0.9, 0.99], [0.5, 0.51, 0.52], "open"),
    ],
)
def test_the_spread_must_separate_and_entropy_must_not(shared, entropy, verdict):
    found = {"mutual information": {"values": shared}, "predictive entropy": {"values": entropy}}
    numbers = {
        dirichlet_toy.WITH: {"radius 8 to 10": found},
        "accuracy": {dirichlet_toy.WITH: {"values": [1.0, 0.99]}},
    }
    assert dirichlet_toy.claims(numbers)[0].verdict == verdict
    numbers["accuracy"][dirichlet_toy.WITH]["values"] = [0.4, 0.5]
    assert dirichlet_toy.claims(numbers)[0].verdict == "not reached here"
