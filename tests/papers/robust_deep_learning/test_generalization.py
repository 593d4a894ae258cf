"""Generalization: changed digits, least squares, the simplex, verdicts, and a quick run."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.optimize import linprog, minimize

from nescio.evaluation import Rademacher, RandomLabels
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
        options = {"settings": QUICKLY, "only": ["generalisation"], "show": False}
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
    numbers = numbers_of(replace(QUICKLY, folder=run[0]), "generalisation")
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
            dict.fromkeys(names, 0.5) | {"test_error": e + s, "squared_error": q + s}
            for s in (0, 0.01)
        ]
        for e, q in zip(errors, squared, strict=True)
    ]
    return Sweep(
        kind=FOURIER, samples=100, widths=[50, 100, 200], ratios=[0.5, 1.0, 2.0], numbers=rows
    )


def test_a_peak_at_the_threshold_with_a_descent_holds():
    found = generalization_verdicts.descent(sweep([0.3, 0.7, 0.2], [1, 9, 1]))
    assert found.verdict == "holds"
    assert "width 100 (1.00 of the threshold)" in found.measured
    assert generalization_verdicts.descent(sweep([0.3, 0.2, 0.1], [1, 9, 1])).verdict == "partly"
    assert generalization_verdicts.descent(sweep([0.3, 0.2, 0.1], [9, 2, 1])).verdict == "fails"
    assert generalization_verdicts.descent(sweep([0.1, 0.2, 0.3], [1, 2, 3])).verdict == "fails"


def test_verdicts_on_random_labels():
    train = np.ones((2, 3, 4)) * np.array([0.2, 0.5, 0.9, 1.0])
    train[0, :, 1:] = 1
    test = np.stack([np.array([[0.9], [0.91], [0.92]]), np.array([[0.1], [0.11], [0.09]])])
    rest = np.stack([np.full((3, 1), 0.1), np.array([[0.5], [0.52], [0.51]])])
    found = RandomLabels(
        samples=10, shares=(0.0, 1.0), goal=1.0, loss=train, train=train, epochs=np.array([4]),
        test=test, ece=rest, confidence=rest, far_field=np.ones_like(rest), far_factor=rest,
    )  # fmt: skip
    claims = generalization_verdicts.random_labels(found, {"Gaussian": found})
    assert [claim.verdict for claim in claims[:2]] == ["holds", "holds"]
    assert claims[2].verdict == "holds"
    assert "2 ± 0" in claims[2].measured
    assert claims[3].verdict == "holds"
    assert generalization_verdicts.knowing(found).verdict == "partly"  # confident further away
    nearer = replace(found, far_factor=found.far_factor[::-1])
    assert generalization_verdicts.knowing(nearer).verdict == "holds"


def test_a_slow_down_that_does_not_grow_with_the_share_holds_in_part():
    train = np.zeros((3, 3, 9))
    for share, epochs in enumerate((1, 4, 4)):
        train[share, :, epochs:] = 1
    zero = np.zeros((3, 3, 1))
    found = RandomLabels(
        samples=10, shares=(0.0, 0.5, 1.0), goal=1.0, loss=train, train=train, test=zero, ece=zero,
        epochs=np.array([9]), confidence=zero, far_field=zero, far_factor=zero,
    )  # fmt: skip
    assert generalization_verdicts.random_labels(found, {})[2].verdict == "partly"


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
    def one(value, samples, **options):
        draws = {"values": np.full(3, value), "exact": True, "seed": 0}
        return Rademacher(samples=samples, **draws, **options)

    found = {
        "two-layer network": [one(1.0, 100), one(1.0, 1000)],
        "linear classifier": [one(1.0, 100), one(0.9, 1000)],
        "linear, norm bounded (exact)": [
            one(0.1, 100, signs=False),
            one(0.03, 1000, signs=False),
        ],
    }
    near, nothing = generalization_verdicts.complexity(found)
    assert near.verdict == nothing.verdict == "holds"
    bounded = found["linear, norm bounded (exact)"][-1]
    margin = generalization_verdicts.least_margin(bounded)
    assert bounded.bound(0.0, margin=margin) == pytest.approx(0.5)
    assert generalization_verdicts.least_margin(one(0.1, 10, signs=False)) == np.inf
    found["two-layer network"] = [one(0.2, 1000)]
    assert generalization_verdicts.complexity(found)[0].verdict == "fails"
