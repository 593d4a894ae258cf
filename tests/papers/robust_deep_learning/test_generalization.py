"""Generalization: changed digits, least squares, the simplex, verdicts, and a quick run."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.optimize import linprog, minimize

from nescio.evaluation import Rademacher
from nescio.evaluation.generalization import random_signs
from nescio_papers import Settings, named, run_experiment
from nescio_papers.kit import numbers_of
from nescio_papers.kit.images import InData
from nescio_papers.robust_deep_learning import (
    generalization_labels,
    generalization_signs,
    generalization_verdicts,
    generalization_widths,
)
from nescio_papers.robust_deep_learning.generalization_tables import peak_words
from nescio_papers.robust_deep_learning.generalization_widths import FIXED, FOURIER, Sweep

QUICKLY = Settings(quick=True)
RNG = torch.Generator().manual_seed(0)
X, Y = torch.rand(30, 6, generator=RNG), torch.arange(30) % 10


@pytest.fixture(scope="module")
def run(image_files, tmp_path_factory):
    data = image_files(tmp_path_factory.mktemp("data"), train=60, test=40, letters=26)
    folder = tmp_path_factory.mktemp("generalization")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NESCIO_DATA", str(data))
        options = {"settings": QUICKLY, "only": ["generalization"], "show": False}
        page = run_experiment(named("robust-deep-learning"), folder, **options)
    return folder, page.read_text()


def test_a_quick_run_writes_the_pictures_and_leaves_claims_open(run):
    folder, text = run
    names = ("learning", "random-labels", "signs", "widths")
    assert all((folder / f"generalization-{name}.png").exists() for name in names)
    claims = text[text.index("## What the source says") :]
    assert claims.count("| open |") == 11
    assert "| holds |" not in claims


def test_numbers_are_by_seed_and_width(run):
    numbers = numbers_of(replace(QUICKLY, folder=run[0]), "generalization")
    assert np.array(numbers["random_labels"]["test"]).shape == (2, 2)
    assert list(numbers["rademacher"]) == [
        "two-layer network",
        "linear classifier",
        "linear classifier, by Adam",
        "linear, norm bounded (exact)",
    ]
    for kind in (FOURIER, FIXED):
        own = numbers["double_descent"][kind]
        assert own["widths"] == [10, 20, 40]
        assert all(len(row) == 2 for row in own["numbers"])
        assert 0 <= own["numbers"][0][0]["ood_auroc"] <= 1


def test_pixels_are_moved_or_replaced():
    shuffled, _ = generalization_labels.changed("shuffled pixels", (X, Y), 0)
    one = (shuffled[0][:, None] == X[0][None]).nonzero()[:, 1]
    assert torch.equal(shuffled, X[:, one])  # the same order for all
    moved, _ = generalization_labels.changed("random pixels", (X, Y), 0)
    assert torch.equal(moved.sort(1).values, X.sort(1).values)
    assert len({tuple((row[:, None] == x[None]).nonzero()[:, 1].tolist())
                for row, x in zip(moved, X, strict=True)}) > 20  # fmt: skip
    noise, _ = generalization_labels.changed("Gaussian", (X.repeat(100, 1), Y.repeat(100)), 0)
    assert float(noise.mean() - X.mean()) == pytest.approx(0, abs=0.01)


@pytest.mark.parametrize("kind", [FOURIER, FIXED])
@pytest.mark.parametrize("width", [12, 60])
def test_the_last_layer_is_the_least_squares_solution_of_the_smallest_norm(kind, width):
    x = X.double()
    net = generalization_widths.random_features(kind, x, Y, width, 0)
    features = net[:2](x).detach()
    targets = torch.nn.functional.one_hot(Y, 10).double()
    wanted = torch.linalg.pinv(features) @ targets
    torch.testing.assert_close(net(x).detach(), features @ wanted, atol=1e-6, rtol=1e-6)
    if width > 30:
        torch.testing.assert_close(net(x).detach(), targets, atol=1e-6, rtol=0)
    assert float(net[2].weight.detach().norm()) == pytest.approx(float(wanted.norm()), rel=1e-4)


def test_the_nearest_probabilities_are_the_nearest():
    outputs = 2 * torch.randn(5, 4, generator=RNG, dtype=torch.float64)
    found = generalization_widths.on_simplex(outputs)
    torch.testing.assert_close(found.sum(1), torch.ones(5, dtype=torch.float64))
    for row, own in zip(outputs.numpy(), found.numpy(), strict=True):
        best = minimize(
            lambda p, row=row: ((p - row) ** 2).sum(), np.full(4, 0.25), bounds=[(0, 1)] * 4,
            constraints={"type": "eq", "fun": lambda p: p.sum() - 1}, tol=1e-12,
        ).x  # fmt: skip
        np.testing.assert_allclose(own, best, atol=1e-5)


def test_one_hot_outputs_are_their_own_probabilities():
    one_hot = torch.eye(10)
    assert torch.equal(generalization_widths.on_simplex(one_hot), one_hot)


def test_subsets_are_drawn_by_seed():
    images = torch.arange(50)[:, None, None, None] * torch.ones(50, 1, 2, 2)
    images = InData((images, torch.arange(50)), (X, Y), 10)
    first, again, other = (generalization_widths.draw(images, 5, seed)[1] for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert len(set(first.tolist())) == 5


def sweep(errors, squared):
    names = ("train_error", "ece", "confidence", "confidence_far", "far_field", "ood_auroc")
    rows = [
        [
            dict.fromkeys(names, 0.5) | {"test_error": e + s * k, "squared_error": q + s * k}
            for s in (0, 0.001)
        ]
        for k, (e, q) in enumerate(zip(errors, squared, strict=True))
    ]
    return Sweep(
        kind=FOURIER, samples=100, widths=[50, 100, 200], ratios=[0.5, 1.0, 2.0], numbers=rows
    )


@pytest.mark.parametrize(
    ("errors", "squared", "verdict"),
    [
        ([0.3, 0.7, 0.2], [1, 9, 1], "holds"),
        ([0.3, 0.2, 0.1], [1, 9, 1], "holds in part"),  # squared errors peak, errors do not
        ([0.3, 0.2, 0.25], [9, 2, 1], "does not hold"),
        ([0.1, 0.2, 0.3], [1, 2, 3], "holds in part"),  # above the best before, but no peak
    ],
)
def test_a_peak_at_the_threshold_with_a_descent_holds(errors, squared, verdict):
    found = generalization_verdicts.descent(sweep(errors, squared))
    assert found.verdict == verdict


def test_a_stored_sweep_is_judged_like_the_sweep():
    one = sweep([0.3, 0.7, 0.2], [1, 9, 1])
    one.numbers[0][0]["far_field"] = None
    stored = {"widths": one.widths, "ratios": one.ratios, "numbers": one.numbers}
    again = generalization_verdicts.sweep_of(FOURIER, stored)
    assert np.isnan(again.values("far_field")[0][0])
    assert generalization_verdicts.descent(again).verdict == "holds"
    assert (
        "Double U-curve phenomena observed ..." in generalization_verdicts.descent(again).sentence
    )
    assert peak_words(again) == "width 100 (1.00 of the threshold)"


def wide(ece, ood):
    rows = [[{"test_error": 0.2, "squared_error": 1.0, "far_field": 1.0, "ece": e + s,
              "ood_auroc": o - s} for s in (0, 0.001 * k)]
            for k, (e, o) in enumerate(zip(ece, ood, strict=True))]  # fmt: skip
    return Sweep(kind=FOURIER, samples=9, widths=[1, 2], ratios=[0.5, 2.0], numbers=rows)


def test_a_wide_network_is_compared_with_a_narrow_one():
    judge = generalization_verdicts.wide_networks
    assert judge([wide([0.1, 0.3], [0.9, 0.7])]).verdict == "holds"
    assert judge([wide([0.1, 0.3], [0.7, 0.9])]).verdict == "holds in part"
    assert judge([wide([0.3, 0.1], [0.7, 0.9])]).verdict == "does not hold"


def labels(**changes):
    """Numbers of three shares of random labels and three seeds, in favor of the claims."""
    seeds = np.array([0.0, 0.001, -0.001])

    def rows(*values):
        return [[value + one * (1 + k) for one in seeds] for k, value in enumerate(values)]

    epochs = [[20.0, 21.0, 19.0], [60.0, 61.0, 60.0], [90.0, 92.0, 91.0]]
    slow = (np.array(epochs) / np.array(epochs[0])).tolist()
    return {
        "shares": [0.0, 0.5, 1.0], "samples": 1000, "train": [[1.0] * 3] * 3,
        "test": rows(0.9, 0.5, 0.1), "ece": rows(0.1, 0.3, 0.5), "far_field": rows(1, 1, 1),
        "far_factor": rows(5, 3, 1), "epochs_to_fit": epochs, "slow_down": slow,
        "Gaussian": [[5.0, 6.0, 5.0]] * 9,
    } | changes  # fmt: skip


def test_verdicts_on_random_labels():
    assert [one.verdict for one in generalization_verdicts.random_labels(labels())[:1]] == ["holds"]
    assert generalization_verdicts.knowing(labels()).verdict == "holds"
    found = generalization_verdicts.random_labels(labels())
    assert found[2].verdict == "open"  # nine trainings are too few to say they fit
    assert found[3].verdict == "holds"
    half = labels(train=[[0.5] * 3] * 3, slow_down=[[50.0, 51.0, 52.0]] * 3)
    assert generalization_verdicts.random_labels(half)[0].verdict == "does not hold"
    flat = labels(test=labels()["test"][::-1])
    assert generalization_verdicts.random_labels(flat)[3].verdict == "does not hold"
    turned = labels(ece=labels()["ece"][::-1], far_factor=labels()["far_factor"][::-1])
    assert generalization_verdicts.knowing(turned).verdict == "does not hold"


def test_a_slow_down_must_grow_with_the_share():
    many = {kind: [[5.0] * 30] for kind in generalization_labels.CHANGES}
    grows = labels(**many)
    assert generalization_verdicts.random_labels(grows)[1].verdict == "holds"
    assert generalization_verdicts.random_labels(grows)[2].verdict == "holds"
    epochs = [[20.0, 21.0, 19.0], [60.0, 61.0, 60.0], [30.0, 31.0, 31.0]]
    falls = labels(**many, epochs_to_fit=epochs)
    assert generalization_verdicts.random_labels(falls)[2].verdict == "holds in part"
    never = labels(**{kind: [[None] * 30] for kind in many})
    assert generalization_verdicts.random_labels(never)[1].verdict == "does not hold"


def test_linear_classifiers_separate_what_can_be_separated():
    rng = torch.Generator().manual_seed(0)
    wide = torch.randn(40, 30, generator=rng)  # 40 < 2 * 31: nearly all signs (Cover, 1965)
    found = generalization_signs.separated(wide, draws=6, seed=0)
    signs = random_signs(40, 6, 0).numpy()
    rows = np.c_[wide.double().numpy(), np.ones(40)]
    for sign, value in zip(signs, found.values, strict=True):
        free = {"bounds": (None, None), "b_ub": -np.ones(40)}
        possible = linprog(np.zeros(31), A_ub=-sign[:, None] * rows, **free).status == 0
        assert (value == 1) == possible
    line = torch.linspace(-1, 1, 9)[:, None]
    found = generalization_signs.separated(line, draws=6, seed=0)
    signs = random_signs(9, 6, 0)
    cuts = [(signs[:, :k].sum(1) - signs[:, k:].sum(1)).abs() for k in range(10)]
    assert (found.values <= (torch.stack(cuts).amax(0) / 9).numpy() + 1e-12).all()
    assert not found.exact


def test_verdicts_on_complexities():
    def judged(value, test=0.9):
        stored = {
            "two-layer network": {"100": [value] * 10, "1000": [value] * 10},
            "linear classifier": {"1000": [0.9] * 3},
            "linear, norm bounded (exact)": {"1000": [0.03] * 3},
        }
        found = generalization_verdicts.complexities_of(stored)
        known = {"test": [[test, test + 0.01, test - 0.01]]}
        return [one.verdict for one in generalization_verdicts.complexity(found, known)]

    assert judged(1.0) == ["holds", "holds"]
    assert judged(0.2) == ["open", "open"]  # training finds a lower bound only
    assert judged(1.0, test=0.1) == ["holds", "not reached here"]  # nothing to explain


def test_a_margin_makes_the_bound_say_something():
    def one(value, samples):
        draws = {"values": np.full(3, value), "exact": True, "seed": 0, "signs": False}
        return Rademacher(samples=samples, **draws)

    bounded = one(0.03, 1000)
    margin = generalization_verdicts.least_margin(bounded)
    assert bounded.bound(0.0, margin=margin) == pytest.approx(0.5)
    assert generalization_verdicts.least_margin(one(0.1, 10)) == np.inf
