"""The guard of a regression: decisions, guarantees by simulation, files, options and bad input."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

import nescio
from nescio import heads, losses, models, nets
from nescio.core import (
    FewSamplesWarning,
    NescioError,
    NotFiniteWarning,
    RangeWarning,
    in_target_units,
)
from nescio.guards import RegressionDecisions, RegressionGuard, about, described
from nescio.guards.decisions import CODES
from nescio.guards.largest_coverage import all_or_none, upper_bound, whole_or_largest
from nescio.guards.rules import Scored, fit_rule
from nescio.guards.score import score


def curve(count, seed, targets=1):
    """A sine with noise that grows to the sides; a second target in other units."""
    draw = torch.Generator().manual_seed(seed)
    x = 6 * torch.rand(count, 2, generator=draw) - 3
    noise = torch.randn(count, targets, generator=draw)
    y = x[:, :1].sin() + (0.1 + 0.3 * x[:, :1].abs()) * noise
    return x, torch.cat([y[:, :1], 100 * y[:, 1:] + 5], 1)[:, :targets]


class Exact(nn.Module):
    """The truth: mean and variance as `heads.gaussian` reads them, with features to watch."""

    def __init__(self, targets=1, variance=True):
        super().__init__()
        self.features = nn.Linear(2, 3)
        self.last = nn.Linear(3, 1)
        self.targets, self.variance = targets, variance
        nn.init.eye_(self.features.weight[:2])
        nn.init.zeros_(self.features.bias)

    def forward(self, x):
        hidden = self.last(self.features(x)) * 0  # so that a detector has a layer
        means = [x[:, :1].sin(), 100 * x[:, :1].sin() + 5][: self.targets]
        deviation = 0.1 + 0.3 * x[:, :1].abs()
        spread = [deviation.square(), (100 * deviation).square()][: self.targets]
        outputs = [*means, *(v.expm1().clamp(min=1e-9).log().where(v < 20, v) for v in spread)]
        whole = torch.cat(outputs if self.variance else means, 1)
        return whole + hidden


@pytest.fixture(scope="module")
def guard():
    net = Exact()
    return nescio.guard(net, curve(900, 4), train=curve(500, 0)[0], head="gaussian", risk=0.1)


def test_decisions_hold_an_interval_a_decision_and_the_reason(guard):
    x, y = curve(2000, 2)
    found = guard(x)
    assert isinstance(found, RegressionDecisions)
    assert found.mean.shape == found.low.shape == found.high.shape == (2000, 1)
    assert torch.equal(found.width, found.high - found.low)
    assert (found.low < found.mean).all()
    assert found.answered.float().mean() > 0.9
    columns = found.columns()
    names = "decision mean low high width p_value score rule in_range"
    assert list(columns) == names.split()
    assert set(columns["rule"]) <= {"sure enough", "width", "p-value", "tie"}
    summary = found.summary(y)
    missed = ((y < found.low) | (y > found.high))[:, 0]
    assert summary["misses"] == int((missed & found.answered).sum())
    assert summary["interval_coverage"] == pytest.approx(1 - missed.double().mean().item())
    assert summary["risk"] == summary["misses"] / int(found.answered.sum())
    assert summary["rmse"] == pytest.approx(
        nescio.metrics.rmse(found.mean[found.answered], y[found.answered])
    )
    assert "answer" in str(found)
    assert len(found[:5]) == 5
    assert torch.equal(RegressionDecisions.join([found[:3], found[3:]]).low, found.low)
    assert found.batch(0.1).rule.shape == (2000,)


def test_batches_decide_as_the_whole(guard):
    x, _ = curve(300, 3)
    parts = RegressionDecisions.join([guard(x[:7]), guard(x[7:])])
    assert torch.allclose(parts.low, guard(x).low, rtol=1e-6)
    assert torch.equal(parts.rule, guard(x).rule)


def test_far_and_broken_inputs_are_ood(guard):
    x, _ = curve(20, 3)
    x[3], x[5] = torch.nan, 1000.0
    with pytest.warns(NotFiniteWarning), pytest.warns(RangeWarning):
        found = guard(x)
    assert found.rule[3] == CODES["not finite"]
    assert found.mean[3].isnan().all()
    assert (float(found.low[3]), float(found.high[3])) == (-math.inf, math.inf)
    assert found.columns()["decision"][[3, 5]].tolist() == ["ood", "ood"]
    assert not found.in_range[3]
    with pytest.warns(NotFiniteWarning):
        assert guard(x[3:4]).columns()["decision"].tolist() == ["ood"]


def test_the_intervals_cover_and_false_alarms_are_rare():
    """Means over calibration sets, with their own error bars."""
    covered, alarms = [], []
    for seed in range(12):
        made = nescio.guard(
            Exact(), curve(400, 100 + seed), detector="knn", train=curve(200, 50)[0],
            head="gaussian", miscoverage=0.1, false_alarm=0.05, risk=0.3, intervals="normalized",
        )  # fmt: skip
        x, y = curve(1000, 200 + seed)
        found = made(x)
        covered.append(1 - found.missed(y).double().mean().item())
        alarms.append((found.rule == CODES["p-value"]).double().mean().item())
    error = np.std(covered) / np.sqrt(12)
    assert 0.9 - 3 * error <= np.mean(covered) <= 0.9 + 0.01 + 3 * error
    assert np.mean(alarms) <= 0.05 + 3 * np.std(alarms) / np.sqrt(12)


RATES = {  # the chance of a miss by the width, and its mean up to a width
    "narrow intervals miss more": (lambda w: 0.25 * (1 - w), lambda w: 0.25 * (1 - w / 2)),
    "wide intervals miss more": (lambda w: 0.25 * w, lambda w: 0.25 * w / 2),
    "all miss too often": (lambda w: 0.12 + 0 * w, lambda w: 0.12 + 0 * w),
    "all may be answered": (lambda w: 0.05 + 0 * w, lambda w: 0.05 + 0 * w),
}


@pytest.mark.parametrize("kind", RATES)
def test_misses_among_the_answers_are_bounded_in_simulations(kind):
    """The true share of misses is known: it exceeds the risk in at most 1 - confidence of draws."""
    rng, broken, answered = np.random.default_rng(0), 0, []
    for _ in range(200):
        width = rng.random(400)
        missed = rng.random(400) < RATES[kind][0](width)
        samples = Scored(*(torch.tensor(v) for v in (rng.random(400), width, missed)))
        wish = {"false_alarm": 0.02, "risk": 0.1, "confidence": 0.9}
        top = fit_rule("", samples, **wish, search=whole_or_largest).coverage.threshold
        top = min(max(top, 0.0), 1.0)
        broken += top > 0 and RATES[kind][1](top) > 0.1
        answered.append(top)
    assert broken <= stats.binom.ppf(0.999, 200, 0.1)
    least = {"wide intervals miss more": 0.4, "all may be answered": 0.95}.get(kind, 0.0)
    assert np.mean(answered) >= least


def test_a_largest_width_that_is_fixed_beforehand():
    wide = nescio.guard(
        Exact(), curve(900, 4), train=curve(500, 0)[0], head="gaussian", max_width=2.0
    )
    found = wide(curve(1000, 2)[0])
    assert float(found.width[found.answered].max()) <= 2.0
    assert (found.rule == CODES["width"]).any()
    assert "within max_width" in " ".join(wide.guarantees)
    samples = Scored(torch.rand(500).double(), torch.rand(500).double(), torch.zeros(500).bool())
    rule = fit_rule("", samples, false_alarm=0.02, risk=0.1, confidence=0.9, most=0.3)
    assert rule.coverage.threshold == 0.3
    assert rule.coverage.samples == int(
        (samples.failure_score[samples.score < rule.limit] <= 0.3).sum()
    )


def test_the_unit_of_the_targets_changes_no_decision():
    x, y = curve(1200, 4)
    y = torch.where(x[:, :1].abs() < 1.5, x[:, :1].sin(), y)  # only wide intervals miss
    new, net = curve(500, 2)[0], Exact()
    options = {"train": curve(500, 0)[0], "intervals": "normalized", "miscoverage": 0.15}
    found = {}
    for unit in (1.0, 2.0**-20, 2.0**20):
        head = in_target_units(heads.gaussian(), torch.zeros(1, 1), torch.full((1, 1), unit))
        made = nescio.guard(net, (x, y * unit), **options, head=head, risk=0.05)
        limit = made.answered_widths[0]
        assert described(made)["groups"][0]["width_at_most"] == limit
        found[unit] = made(new)
        widest = float(found[1.0].width[found[1.0].answered].max())
        assert limit / unit == pytest.approx(widest, rel=0.02)
    first = found.pop(1.0)
    assert (first.rule == CODES["width"]).any()
    assert first.answered.any()
    assert all(torch.equal(one.decision, first.decision) for one in found.values())


def test_a_fitted_detector_needs_no_training_data():
    net = Exact()
    seen = nescio.observe(net, curve(500, 0), head="gaussian", progress=False)
    made = nescio.guard(net, curve(400, 4), head="gaussian", detector=nescio.detectors.knn(seen))
    assert made.notes["fitting"] == 0
    assert made(curve(200, 2)[0]).answered.any()


def test_one_width_for_all_is_tested_once():
    wrong = np.arange(200) < 10
    found = all_or_none(wrong, risk=0.1, confidence=0.95)
    assert found.threshold == math.inf
    assert found.bound == pytest.approx(float(upper_bound(10, 200, 0.95)))
    strict = all_or_none(wrong, risk=0.06, confidence=0.95)
    assert strict.threshold == -math.inf
    assert dict(strict.at_risks)[0.1] == 1.0
    net = Exact(variance=False)
    made = nescio.guard(net, curve(900, 4), train=curve(500, 0)[0])  # one output: the mean
    assert made.heads[0].name == "fixed_variance"
    assert made.intervals.name == "residual"
    assert made(curve(200, 2)[0]).answered.float().mean() > 0.9


def test_several_targets_are_held_at_once():
    made = nescio.guard(
        Exact(targets=2), curve(1500, 1, targets=2), train=curve(500, 0)[0], head="gaussian",
        names=["low", "high"], miscoverage=0.1, risk=0.2,
    )  # fmt: skip
    assert made.intervals.options["miscoverage"] == 0.05
    x, y = curve(2000, 2, targets=2)
    found = made(x)
    assert made.targets == 2
    assert 1 - found.missed(y).double().mean() > 0.88
    assert {"mean_low", "width_high"} <= set(found.columns())
    assert "all 2 targets of an input at once" in made.guarantees[0]
    limits = (2.0, 150.0)
    narrow = replace(made, max_width=limits, unit=torch.tensor(limits).double())
    assert narrow.widest == 1.0
    each = nescio.guard(
        Exact(targets=2), curve(1500, 1, targets=2), train=curve(500, 0)[0], head="gaussian",
        max_width=limits, risk=0.2,
    )(x)  # fmt: skip
    assert float(each.width[each.answered][:, 0].max()) <= 2.0
    assert float(each.width[each.answered][:, 1].max()) <= 150.0


@pytest.fixture(scope="module")
def model():
    loss = losses.nll(heads.gaussian())
    make = lambda: nets.mlp(2, 2, widths=(16,), dropout=0.1)  # noqa: E731
    data = curve(400, 0)
    return nescio.train(make, data, loss=loss, members=3, epochs=10, progress=False)


def in_units(**options):
    """Members that learned standardized targets: their heads have the units."""
    x, y = curve(400, 0)
    make = lambda: nets.mlp(2, 2, widths=(8,), dropout=0.1)  # noqa: E731
    options |= {"standardize": True, "standardize_targets": True, "progress": False}
    return nescio.train(make, (x, 50 * y + 1000), head=heads.gaussian(), epochs=5, **options)


def test_standardized_targets_come_back_in_their_units():
    model = in_units(members=2)
    for source in (model, models.mc_dropout(model, passes=3)):
        x, y = curve(500, 1)
        options = {"train": curve(200, 9)[0], "detector": "knn", "false_alarm": 0.05}
        with nescio.core.quiet():
            made = nescio.guard(source, (x, 50 * y + 1000), **options)
        found, alone = made(x[:20]), source(x[:20]).mixture_mean.double()
        assert torch.allclose(found.mean, alone, rtol=1e-5)
        assert 900 < float(found.mean.mean()) < 1100


def sources(model):
    net = model.member(0)
    passes = {"passes": 5, "seed": 3}
    return {
        "ensemble": (model, None),
        "list": ([model.member(0), model.member(1)], "gaussian"),
        "dropout": (models.mc_dropout(net, head="gaussian", **passes), None),
        "dropout of an ensemble": (models.mc_dropout(model, **passes), None),
        "Laplace": (net, "double_exponential"),
        "evidential": (nets.mlp(2, 4, widths=(8,)), "normal_inverse_gamma"),
    }


@pytest.mark.parametrize(
    "kind", ["ensemble", "list", "dropout", "dropout of an ensemble", "Laplace", "evidential"]
)
def test_every_source_predicts_as_it_does_alone_and_is_saved(model, kind, tmp_path):
    source, head = sources(model)[kind]
    x, _ = curve(30, 5)
    options = {"train": curve(200, 9)[0], "detector": "knn", "false_alarm": 0.05, "risk": 0.2}
    with nescio.core.quiet():
        made = nescio.guard(source, curve(500, 1), head=head, **options)
    if kind == "list":
        alone = nescio.models.ensemble(source, head=head)(x)
    elif isinstance(source, nn.Module):
        alone = nescio.models.plain(source, head=head)(x)
    else:
        alone = source(x)
    found = made(x)
    assert torch.allclose(found.mean, alone.to(torch.float64).mixture_mean, rtol=1e-5, atol=1e-6)
    made.save(tmp_path / "guard.safetensors", weights=True)
    again = nescio.load(tmp_path / "guard.safetensors")
    assert isinstance(again, RegressionGuard)
    for one, other in zip(again(x).columns().values(), found.columns().values(), strict=True):
        assert (one == other).all()
    assert again.guarantees == made.guarantees
    assert about(tmp_path / "guard.safetensors")["task"] == "regression"


def test_a_file_without_weights_wants_the_same_network(guard, tmp_path):
    guard.save(tmp_path / "guard.safetensors")
    x, _ = curve(30, 5)
    again = nescio.load(tmp_path / "guard.safetensors", net=guard.nets[0])
    assert torch.equal(again(x).low, guard(x).low)
    other = Exact()
    nn.init.ones_(other.last.bias)
    with pytest.raises(NescioError, match="weights of network 0 are not those"):
        nescio.load(tmp_path / "guard.safetensors", net=other)
    json.dumps(described(again))


def test_decisions_go_into_a_file(guard, tmp_path):
    x, _ = curve(300, 5)
    summary = score(guard, x, tmp_path / "decisions.csv", progress=False)
    assert summary.inputs == 300
    lines = (tmp_path / "decisions.csv").read_text().splitlines()
    assert lines[0] == "sample,decision,mean,low,high,width,p_value,score,rule,in_range"
    first = dict(zip(lines[0].split(","), lines[1].split(","), strict=True))
    assert float(first["width"]) == pytest.approx(float(guard(x).width[0]), rel=1e-6)
    again = score(guard, x, tmp_path / "decisions.csv", progress=False)
    assert again.seconds is None
    other = replace(guard, miscoverage=0.2)
    with pytest.raises(NescioError, match="belongs to another run"):
        score(other, x, tmp_path / "decisions.csv", progress=False)


def test_the_kind_of_intervals_can_be_named(model):
    options = {"train": curve(200, 9)[0], "detector": "knn", "false_alarm": 0.05, "risk": 0.2}
    for kind in ("residual", "quantile", "spread,noise=0.5"):
        made = nescio.guard(model, curve(500, 1), intervals=kind, **options)
        assert made.intervals.name == kind.split(",")[0]
    with pytest.raises(NescioError, match="widest"):
        nescio.guard(model, curve(500, 1), intervals="widest", **options)


def test_a_monitor_watches_the_scores(guard):
    monitor = nescio.monitoring.monitor(guard)
    assert len(monitor.calibration) if hasattr(monitor, "calibration") else monitor


def test_training_data_among_the_calibration_data_are_refused(model):
    x, y = curve(400, 0)
    with pytest.raises(NescioError, match="are among the data the model was trained on"):
        nescio.guard(model, (x, y))
    made = nescio.guard(model, (x, y), repeats=True, false_alarm=0.05, risk=0.3)
    assert "Equal inputs were taken as separate samples" in " ".join(made.guarantees)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by": "class"}, "by= is for a guard of classes"),
        ({"failure": "knn"}, "failure= is for a guard of classes"),
        ({"sets": 0.3}, "sets= is for a guard of classes"),
        ({"calibration_map": "isotonic"}, "calibration_map= is for a guard of classes"),
        ({"miscoverage": 0.001}, "too few for miscoverage"),
        ({"miscoverage": 1.5}, "must lie between 0 and 1"),
        ({"miscoverage": 0.0}, "must lie between 0 and 1"),
        ({"max_width": -1.0}, "max_width must be a positive number"),
        ({"max_width": (1.0, 2.0)}, "max_width must be a positive number"),
        ({"names": ["a", "b"]}, "2 names for 1 target"),
        ({"intervals": "adaptive"}, "unknown kind of prediction interval 'adaptive'"),
        ({"false_alarm": 0.001}, "too few for false_alarm"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(NescioError, match=message):
        nescio.guard(Exact(), curve(400, 1), train=curve(100, 0)[0], head="gaussian", **options)


def test_bad_data_are_refused():
    x, y = curve(400, 1)
    options = {"train": curve(100, 0)[0], "head": "gaussian"}
    with pytest.raises(NescioError, match="target is 3 in all 400 calibration samples"):
        nescio.guard(Exact(), (x, 0 * y + 3), **options)
    with pytest.raises(NescioError, match="target 1 is 0 in all"):
        nescio.guard(Exact(targets=2), (x, torch.cat([y, 0 * y], 1)), **options)
    with pytest.raises(NescioError, match="predicts 1 target"):
        nescio.guard(Exact(), (x, torch.cat([y, x], 1)), **options)
    with pytest.raises(NescioError, match="need targets"):
        nescio.guard(Exact(), x, **options)
    with pytest.raises(NescioError, match="NaN"):
        nescio.guard(Exact(), (x, y * math.nan), **options)
    with pytest.raises(NescioError, match="predicts 2 target.*is the head right"):
        nescio.guard(Exact(), (x, y), train=options["train"])  # without a head, outputs are means
    with pytest.raises(NescioError, match="max_width= is for a guard of numbers.*head="):
        nescio.guard(nets.mlp(2, 3), (x, y.round().abs().long()[:, 0]), max_width=3.0)
    seen = nescio.observe(Exact(), (x, y), head="gaussian")
    with pytest.raises(NescioError, match="not activations"):
        nescio.guard(None, seen, head="gaussian")


def test_a_guard_that_can_show_nothing_says_why():
    x, y = curve(400, 1)
    options = {"train": curve(100, 0)[0], "head": "gaussian", "detector": "knn"}
    with pytest.warns(FewSamplesWarning, match="abstain on every input. Nothing is answered"):
        made = nescio.guard(Exact(), (x, y), risk=0.01, **options)
    assert not made(x).answered.any()
    with pytest.warns(FewSamplesWarning, match="within max_width"):
        nescio.guard(Exact(), (x, y), max_width=1e-6, **options)
