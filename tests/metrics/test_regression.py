"""Metrics of a regression against numerical integration, closed forms and scikit-learn."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from sklearn.metrics import mean_absolute_error, root_mean_squared_error

import nescio
from nescio import metrics
from nescio.core import DoubleExponential, Gaussian, NescioError, StudentT
from nescio.metrics import regression

KINDS = {"normal": (Gaussian, 2, stats.norm), "laplace": (DoubleExponential, 1, stats.laplace)}


def mixture(kind, members, samples=3, targets=2, seed=0):
    rng = np.random.default_rng(seed)
    shape = members, samples, targets
    center, spread = rng.normal(size=shape) * 2, rng.uniform(0.05, 2, shape)
    value, power, _ = KINDS[kind]
    y = rng.normal(size=shape[1:]) * 3
    return value(torch.tensor(center), torch.tensor(spread**power)), center, spread, y


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("members", [1, 2, 5])
def test_crps_is_the_integral_of_its_definition(kind, members):
    said, center, spread, y = mixture(kind, members)
    found = regression.crps_values(said, y).numpy()
    law = KINDS[kind][2]
    for at in np.ndindex(y.shape):
        own = (slice(None), *at)

        def gap(t, below, own=own):
            cdf = law.cdf(t, center[own], spread[own]).mean()
            return (cdf if below else 1 - law.cdf(t, center[own], spread[own]).mean()) ** 2

        ends = sorted({-80.0, *center[own], y[at], 80.0})
        parts = pairwise(ends)
        exact = sum(
            integrate.quad(gap, a, b, (b <= y[at],), epsabs=1e-13, limit=400)[0] for a, b in parts
        )
        assert found[at] == pytest.approx(exact, abs=1e-10)
    assert metrics.crps(said, y) == pytest.approx(found.mean(), rel=1e-14)


@pytest.mark.parametrize("gap", [0.0, 1e-15, 1e-9, 1e-4, 1.0])
def test_laplace_members_of_almost_equal_scale_lose_no_digits(gap):
    from mpmath import exp, mp, mpf

    mp.dps = 60
    first, second, shift = 1.0 + gap, 1.0, 0.7
    own, other, d = mpf(first), mpf(second), mpf(shift)
    if own == other:
        exact = d + exp(-d / own) * (3 * own + d) / 2
    else:
        tails = own**3 * exp(-d / own) - other**3 * exp(-d / other)
        exact = d + tails / (own**2 - other**2)
    values = (torch.tensor(number, dtype=torch.float64) for number in (shift, first, second))
    assert float(regression._laplace_distance(*values)) == pytest.approx(float(exact), rel=1e-15)


@pytest.mark.parametrize("kind", KINDS)
def test_members_without_spread_have_the_crps_of_an_ensemble_of_points(kind):
    points, y = np.array([[1.0], [2.0], [5.0]]), np.array([2.5])
    value = KINDS[kind][0](torch.tensor(points)[..., None], torch.zeros(3, 1, 1).double())
    pairs = np.abs(points - points.T).mean()
    assert metrics.crps(value, y) == pytest.approx(np.abs(points - y).mean() - pairs / 2)
    one = KINDS[kind][0](torch.tensor([[[2.0]]]), torch.zeros(1, 1, 1))
    assert metrics.crps(one, [5.0]) == 3.0


def test_crps_in_chunks_is_the_same(monkeypatch):
    said, _, _, y = mixture("normal", 4, samples=50)
    whole = regression.crps_values(said, y)
    monkeypatch.setattr(regression, "CHUNK", 30)
    assert torch.allclose(regression.crps_values(said, y), whole, rtol=1e-14)


def test_errors_are_those_of_scikit_learn():
    said, center, _, y = mixture("normal", 3, samples=40)
    means = center.mean(0)
    assert metrics.rmse(said, y) == pytest.approx(root_mean_squared_error(y, means), rel=1e-12)
    assert metrics.mae(said, y) == pytest.approx(mean_absolute_error(y, means), rel=1e-12)
    assert metrics.rmse(means, y) == metrics.rmse(said, y)
    assert metrics.rmse(means[:, 0], y[:, 0]) == metrics.rmse(means[:, :1], torch.tensor(y[:, :1]))
    assert metrics.rmse([3.0, 1.0], [0.0, 1.0]) == pytest.approx(4.5**0.5)


@pytest.mark.parametrize("kind", KINDS)
def test_both_log_likelihoods(kind):
    said, center, spread, y = mixture(kind, 3, samples=20)
    densities = KINDS[kind][2].pdf(y, center, spread).prod(-1).mean(0)
    assert metrics.mixture_nll(said, y) == pytest.approx(-np.log(densities).mean(), rel=1e-10)
    variance = (spread**2 * (1 if kind == "normal" else 2)).mean(0) + center.var(0)
    matched = stats.norm.logpdf(y, center.mean(0), np.sqrt(variance)).sum(-1)
    assert metrics.moment_matched_nll(said, y) == pytest.approx(-matched.mean(), rel=1e-10)
    assert metrics.sharpness(said) == pytest.approx(np.sqrt(variance.mean(0)).mean(), rel=1e-12)
    one = said.choose([0])
    if kind == "normal":
        both = metrics.mixture_nll(one, y), metrics.moment_matched_nll(one, y)
        assert both[0] == pytest.approx(both[1], rel=1e-14)


def test_intervals_by_hand():
    low, high, y = [0.0, 0.0, 0.0], [1.0, 2.0, 4.0], [0.5, 3.0, -1.0]
    assert metrics.coverage(low, high, y) == pytest.approx(1 / 3)
    score = (1 + (2 + 20 * 1) + (4 + 20 * 1)) / 3
    assert metrics.interval_score(low, high, y, miscoverage=0.1) == pytest.approx(score)
    assert metrics.coverage([-np.inf], [np.inf], [3.0]) == 1.0
    assert metrics.interval_score([-np.inf], [np.inf], [3.0]) == np.inf
    ends = metrics.coverage([0.0, 1.0], [1.0, 2.0], [1.0, 1.0])
    assert ends == 1.0  # they count as covered


def test_the_interval_score_is_least_for_the_right_quantiles():
    y = np.random.default_rng(0).normal(size=20_000)
    scores = {z: metrics.interval_score(0 * y - z, 0 * y + z, y) for z in (1.2, 1.645, 2.1)}
    assert min(scores, key=scores.get) == 1.645


def test_maps_count_every_position():
    said, _, _, y = mixture("normal", 3, samples=12)
    maps = Gaussian(*(t.reshape(3, 2, 6, 2) for t in vars(said).values()))
    for metric in (metrics.rmse, metrics.crps, metrics.mixture_nll):
        assert metric(maps, y.reshape(2, 6, 2)) == pytest.approx(metric(said, y), rel=1e-14)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda said, y: metrics.crps(said.mean, y), "expected a regression"),
        (lambda said, y: metrics.rmse(said, y[:2]), "expected \\(3, 2\\)"),
        (lambda said, y: metrics.mae(said, y * np.nan), "NaN or infinity"),
        (lambda said, y: metrics.mae([], []), "empty"),
        (lambda said, y: metrics.interval_score(y, y - 1, y), "lower end above the upper"),
        (lambda said, y: metrics.interval_score(y, y, y, miscoverage=0.0), "between 0 and 1"),
        (lambda said, y: metrics.coverage(y, y[:1], y), "shape"),
        (lambda said, y: metrics.rmse(y > 0, y), "real numbers"),
        (lambda said, y: metrics.bootstrap_regression(said, y, of=["mse"]), "mse"),
    ],
)
def test_bad_input_is_refused(call, message):
    said, _, _, y = mixture("normal", 2)
    with pytest.raises(NescioError, match=message):
        call(said, y)


def test_members_without_spread_have_no_likelihood():
    points = Gaussian(torch.zeros(1, 3, 1), torch.zeros(1, 3, 1))
    for metric in (metrics.mixture_nll, metrics.moment_matched_nll):
        with pytest.raises(NescioError, match="variance 0"):
            metric(points, [1.0, 2.0, 3.0])


def test_registered_by_name():
    for name in ("rmse", "mae", "crps", "mixture_nll", "interval_score", "sharpness"):
        assert nescio.core.registry.metrics[name] is getattr(metrics, name)


def test_bootstrap_intervals_have_the_values_of_the_metrics():
    said, _, _, y = mixture("normal", 3, samples=60)
    names = list(regression_statistics())
    found = metrics.bootstrap_regression(said, y, of=names, resamples=50)
    low, high = said.quantile(0.05), said.quantile(0.95)
    for name in names:
        metric = getattr(metrics, name)
        given = (low, high, y) if name in ("coverage", "interval_score") else (said, y)
        expected = metric(said) if name == "sharpness" else metric(*given)
        assert found[name].value == pytest.approx(expected, rel=1e-10), name
        assert found[name].low <= found[name].value <= found[name].high or name.endswith("error")
    again = metrics.bootstrap_regression(said, y, of=names, resamples=50)
    assert again == found


def regression_statistics():
    from nescio.metrics.resampled_regression import STATISTICS

    return STATISTICS


def test_a_resample_is_the_metric_of_the_drawn_samples():
    from nescio.metrics.resampled_regression import _resampled
    from nescio.metrics.resampling import counts_of

    said, _, _, y = mixture("normal", 3, samples=30)
    rows = np.random.default_rng(1).integers(30, size=(1, 30))
    for name in ("rmse", "crps", "quantile_calibration_error", "sharpness"):
        table = regression_statistics()[name](said, y, {})
        metric = getattr(metrics, name)
        drawn = said[torch.tensor(rows[0])]
        expected = metric(drawn) if name == "sharpness" else metric(drawn, y[rows[0]])
        assert _resampled(name, table, counts_of(rows))[0] == pytest.approx(expected, rel=1e-10)


def test_bootstrap_intervals_hold_the_truth():
    held = 0
    for seed in range(100):
        y = np.random.default_rng(seed).normal(size=(200, 1))
        said = Gaussian(torch.zeros(1, 200, 1), torch.ones(1, 200, 1))
        found = metrics.bootstrap_regression(said, y, of=["crps"], resamples=100)["crps"]
        held += found.low <= np.pi**-0.5 <= found.high  # E|Z| - E|Z - Z'| / 2 on both sides
    assert 84 <= held <= 100


@pytest.mark.parametrize("df", [2.5, 5.0, 40.0, 1e6])
@pytest.mark.parametrize("y", [-1.0, 0.3, 4.0])
def test_crps_of_a_student_t_is_the_integral(df, y):
    law = stats.t(df, 0.5, 1.7)
    low = integrate.quad(lambda t: law.cdf(t) ** 2, -np.inf, y, epsabs=1e-10)[0]
    high = integrate.quad(lambda t: law.sf(t) ** 2, y, np.inf, epsabs=1e-10)[0]
    fields = {"mean": 0.5, "scale": 1.7, "df": df, "evidence": 1.0}
    said = StudentT(**{n: torch.full((1, 1, 1), v).double() for n, v in fields.items()})
    assert metrics.crps(said, [y]) == pytest.approx(low + high, rel=1e-6)


def test_crps_of_several_student_ts_is_refused():
    one = torch.ones(2, 3, 1)
    said = StudentT(mean=one, scale=one, df=3 * one, evidence=one)
    with pytest.raises(NescioError, match="2 member.s. of the kind StudentT"):
        metrics.crps(said, torch.zeros(3))
