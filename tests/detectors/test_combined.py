"""Combined p-values against the conformal formula, scipy's rules, and a toy of two layers."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import combine_pvalues

from nescio import load
from nescio.core import NescioError
from nescio.detectors import combined, energy, knn, mahalanobis, measured, msp
from nescio.detectors.activations import Activations
from nescio.detectors.combined import calibrated, surprise
from nescio.metrics import auroc


def some(samples=300, members=1, seed=0, early=0.0, last=0.0):
    """Two layers that vary by themselves; OOD data differ in one or the other."""
    rng = torch.Generator().manual_seed(seed)
    labels = torch.arange(samples) % 2
    noise = torch.randn(members, samples, 9, generator=rng)
    features = {
        "early": noise[..., :3] + 4 * early,
        "last": noise[..., 3:7] + 4 * last + 3 * labels[:, None],
    }
    return Activations(logits=noise[..., 7:], features=features, labels=labels, last="last")


def parts(train):
    return [mahalanobis(train, layers="early"), knn(train, k=10), energy()]


def conformal(calibration, scores):
    """(1 + #{calibration >= s}) / (n + 1)."""
    calibration, scores = np.asarray(calibration), np.asarray(scores)
    return (1 + (calibration[None] >= scores[:, None]).sum(1)) / (len(calibration) + 1)


numbers = st.lists(st.integers(-20, 20), min_size=2, max_size=40)


@given(numbers.filter(lambda values: len(set(values)) > 1))
@settings(deadline=None)
def test_p_is_conformal_at_the_calibration_scores(values):
    found = torch.tensor(values).double()
    p = (-surprise(found, **calibrated(found, "x"))).exp()
    np.testing.assert_allclose(p, conformal(values, values), rtol=1e-12)


@given(numbers.filter(lambda values: len(set(values)) > 1), st.lists(st.floats(-30, 30)))
@settings(deadline=None)
def test_p_is_never_below_the_formula_within_the_range(values, scores):
    """So its level holds: P(p <= a) <= a for a new input like the calibration data."""
    scores = torch.tensor([s for s in scores if s <= max(values)], dtype=torch.float64)
    p = (-surprise(scores, **calibrated(torch.tensor(values).double(), "x"))).exp()
    assert (p.numpy() >= conformal(values, scores) - 1e-12).all()
    assert (p <= 1).all()


@given(numbers.filter(lambda values: len(set(values)) > 1))
@settings(deadline=None)
def test_a_larger_score_has_a_smaller_p(values):
    scores = torch.linspace(min(values), max(values) + 1e6, 500).double()
    logs = surprise(scores, **calibrated(torch.tensor(values).double(), "x"))
    assert (logs.diff() > 0).all()


def test_the_tail_beyond_the_largest():
    values = torch.arange(100).double()  # the largest tenth: 90 to 99, mean excess 4.5
    logs = surprise(torch.tensor([99.0, 99 + 4.5, 99 + 9.0, 99e9]), **calibrated(values, "x"))
    expected = np.array([2 / 101, 1 / 101, 2 / 303, 2 / 101 / (1 + (99e9 - 99) / 4.5)])
    np.testing.assert_allclose((-logs).exp(), expected, rtol=1e-6)


def test_a_tie_at_the_top_still_has_a_tail():
    values = torch.cat([torch.arange(50), torch.full((50,), 60)]).double()
    logs = surprise(torch.tensor([60.0, 61.0, 1000.0]), **calibrated(values, "x"))
    assert logs.isfinite().all()
    assert (logs.diff() > 0).all()


@pytest.mark.parametrize("weights", [None, (2, 1, 7)])
@pytest.mark.parametrize("rule", ["fisher", "bonferroni", "harmonic"])
def test_the_rules(rule, weights):
    train, calibration, test = some(), some(seed=1), some(samples=80, seed=2)
    own = parts(train)
    in_dist = [part(calibration).double() for part in own]
    ps = [
        (-surprise(part(test).double(), **calibrated(scores, part.name))).exp().numpy()
        for part, scores in zip(own, in_dist, strict=True)
    ]
    found = combined(own, calibration, rule=rule, weights=weights)(test).numpy()
    shares = np.array(weights or (1, 1, 1)) / sum(weights or (1, 1, 1))
    if rule == "fisher" and weights is None:
        expected = [combine_pvalues(row, "fisher").statistic for row in np.stack(ps, 1)]
    elif rule == "fisher":
        expected = -6 * shares @ np.log(ps)
    elif rule == "bonferroni":
        expected = -np.log(np.min(np.stack(ps, 1) / shares, axis=1))
    else:
        expected = -np.log(1 / (shares @ (1 / np.stack(ps))))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("weights", [(1, 1), (1, 0, 1), (1, -1, 1), (1, float("nan"), 1)])
def test_weights_are_positive_and_one_a_part(weights):
    train, calibration = some(), some(seed=1)
    with pytest.raises(NescioError, match="weights must be 3 positive numbers"):
        combined(parts(train), calibration, weights=weights)


def test_a_part_with_little_weight_speaks_only_where_it_is_sure():
    train, calibration, test = some(), some(samples=2000, seed=1), some(samples=2000, seed=2)
    ood = some(samples=2000, seed=3, last=0.6)  # the first layer knows nothing of it
    own = [mahalanobis(train), mahalanobis(train, layers="early")]
    found = {
        share: auroc(both(test), both(ood))
        for share in (0.5, 0.1)
        for both in [combined(own, calibration, rule="harmonic", weights=(1 - share, share))]
    }
    assert found[0.5] < found[0.1] < auroc(own[0](test), own[0](ood)) + 0.01


def test_the_rules_differ():
    train, calibration, test = some(), some(seed=1), some(seed=2)
    found = [
        combined(parts(train), calibration, rule=rule)(test)
        for rule in ("fisher", "bonferroni", "harmonic")
    ]
    assert not torch.allclose(found[0], found[1])
    assert not torch.allclose(found[1], found[2])


def test_one_part_keeps_its_order():
    train, calibration = some(), some(seed=1)
    test = some(samples=500, seed=2, last=0.5)
    part = knn(train, k=10)
    in_dist = part(test) > part(calibration).min()  # below the smallest, p is 1
    alone = combined([part], calibration)(test)
    order = part(test)[in_dist].argsort()
    assert (alone[in_dist][order].diff() > 0).all()


def test_layers_catch_what_the_other_misses():
    train, calibration, test = some(), some(seed=1), some(seed=2)
    far = {"early": some(seed=3, early=1.0), "last": some(seed=4, last=2.0)}
    each = {"early": mahalanobis(train, layers="early"), "last": mahalanobis(train)}
    for layer, detector in each.items():
        for where, out in far.items():
            found = auroc(detector(test), detector(out))
            assert (found > 0.9) == (layer == where)
            assert (found < 0.6) == (layer != where)
    for rule in ("fisher", "bonferroni", "harmonic"):
        both = combined(list(each.values()), calibration, rule=rule)
        assert min(auroc(both(test), both(out)) for out in far.values()) > 0.9


def test_each_network_has_its_own_p_values():
    train, calibration, test = (some(members=2, seed=s) for s in range(3))
    detector = combined(parts(train), calibration)
    each = detector.each(test)
    for member in range(2):
        one, two, three = (_member(a, member) for a in (train, calibration, test))
        alone = combined(parts(one), two)(three)
        torch.testing.assert_close(each[member], alone, rtol=1e-4, atol=1e-4)


def _member(a, member):
    return Activations(
        logits=a.logits[member],
        features={name: value[member] for name, value in a.features.items()},
        labels=a.labels,
        last=a.last,
    )


def test_save_and_load(tmp_path):
    train, calibration, test = (some(members=2, seed=s) for s in range(3))
    detector = combined(parts(train), calibration, rule="harmonic")
    again = load(detector.save(tmp_path / "d.safetensors"))
    assert torch.equal(again(test), detector(test))
    assert again.layers == ("early", "last")
    assert [part["name"] for part in again.options["parts"]] == ["mahalanobis", "knn", "energy"]


def test_a_combination_is_a_part_of_another(tmp_path):
    train, calibration, test = some(), some(seed=1), some(samples=50, seed=2)
    inner = combined(parts(train)[:2], calibration)
    outer = combined([inner, msp()], calibration, rule="bonferroni")
    again = load(outer.save(tmp_path / "d.safetensors"))
    assert torch.equal(again(test), outer(test))


def test_scores_do_not_depend_on_the_batch():
    train, calibration, test = some(), some(seed=1), some(samples=60, seed=2)
    detector = combined(parts(train), calibration)
    alone = torch.cat([detector(test[i : i + 1]) for i in range(60)])
    torch.testing.assert_close(detector(test), alone, rtol=1e-4, atol=1e-4)


def test_gradients_reach_the_features():
    train, calibration, test = some(), some(seed=1), some(samples=5, seed=2, early=1.0)
    view = next(test.views(0))
    features = {name: value.clone().requires_grad_() for name, value in view.features.items()}
    view = type(view)(view.logits, features, *[None] * 4)
    score = combined(parts(train), calibration).score(view)
    slopes = torch.autograd.grad(score.sum(), list(features.values()))
    assert all(slope.abs().sum(1).min() > 0 for slope in slopes[:1])


def test_a_measure_of_all_networks():
    calibration, test = some(seed=1), some(seed=2)
    detector = combined([measured("predictive_entropy"), msp()], calibration)
    assert detector(test).shape == (300,)
    with pytest.raises(NescioError, match="reads all 2 networks at once"):
        combined([measured("mutual_information")], some(members=2))


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: combined([], some()), "at least one fitted detector"),
        (lambda: combined([knn], some()), "at least one fitted detector"),
        (lambda: combined(msp(), some()), "a list of at least one"),
        (lambda: combined([msp()], some(), rule="fischer"), "did you mean 'fisher'"),
        (lambda: combined([msp()], some(samples=1)), "msp gives all 1 calibration inputs the same"),
        (lambda: combined([knn(some())], some(members=2)), "fitted on one network"),
    ],
    ids=["none", "not fitted", "no list", "rule", "one sample", "members"],
)
def test_what_cannot_be(made, message):
    with pytest.raises(NescioError, match=message):
        made()


def test_rounding_does_not_matter_where_scores_repeat():
    """Half of the scores are 1, give or take their last bits, with a neighbor close above."""
    rng = np.random.default_rng(0)
    ones = 1 + 1e-7 * rng.standard_normal(200)
    values = torch.tensor(np.concatenate([rng.random(100), ones, 1 + rng.random(100), [1.001]]))
    again = torch.tensor([1 - 1e-6, 1.0, 1 + 1e-6]).double()
    logs = surprise(again, **calibrated(values, "x"))
    assert float(logs.amax() - logs.amin()) < 1e-4
