"""The audit of networks that predict numbers: kinds of networks and heads, bad input, the files."""

import json
from functools import partial

import numpy as np
import pytest
import torch
from sklearn.metrics import r2_score
from torch import nn

import nescio
from nescio.core import NescioError
from nescio.report.audit_report import report_of

FEW = {"rays": 5, "attack_steps": 2, "alphas": (1.0, 10.0), "progress": False}


def data(count, seed, targets=1):
    rng = torch.Generator().manual_seed(seed)
    x = 4 * torch.rand(count, 3, generator=rng) - 2
    noise = (0.1 + 0.3 * x[:, 2:].abs()) * torch.randn(count, targets, generator=rng)
    y = torch.stack([x[:, 0] ** 2 + x[:, 1], 50 * x[:, 1]][:targets], 1)
    return x, y + noise


def make(outputs=2, dropout=0.0):
    layers = [nn.Linear(3, 20), nn.ReLU(), nn.Dropout(dropout), nn.Linear(20, outputs)]
    return nn.Sequential(*layers)


@pytest.fixture(scope="module")
def test():
    return data(300, 2)


@pytest.fixture(scope="module")
def trained():
    loss = nescio.losses.nll(nescio.heads.gaussian())
    options = {"loss": loss, "epochs": 60, "seed": 0, "progress": False}
    return nescio.train(make, data(400, 1), members=2, **options)


@pytest.fixture(scope="module")
def audit(trained, test):
    wide = {"wide": 3 * data(100, 5)[0]}
    return nescio.audit(trained, test, train=data(400, 1), ood=wide, **FEW)


def test_every_section_is_there(audit):
    found = audit.findings
    one = found.predictors["network"]
    assert (found.task, one.members, one.head) == ("regression", 2, "gaussian")
    assert set(one.ood) == {"uniform noise", "shuffled features", "wide", "scaled x 10"}
    measures = {"total_variance", "aleatoric_variance", "epistemic_variance", "detector"}
    assert set(one.ood["wide"].measures) == measures
    assert one.ood["wide"].measures["detector"].auroc > 0.9
    assert one.ood["wide"].deviation > one.deviation.deviation
    assert one.far_field.rays["random directions"].linear == 1
    assert one.attack.after.error > one.attack.before.error
    assert "far field" not in found.not_run
    assert found.baseline_from == "training"


def test_numbers_on_the_test_data_are_those_of_the_model(audit, trained, test):
    x, y = test
    mean = trained(x).mixture_mean.double()
    value = partial(audit.results.value, subject="network", data="test")
    assert value(metric="r2") == pytest.approx(r2_score(y.numpy(), mean.numpy()), abs=1e-6)
    assert value(metric="rmse") == pytest.approx((mean - y).square().mean().sqrt().item(), rel=1e-6)
    assert value(metric="nll") == pytest.approx(-trained(x).log_prob(y).mean().item(), rel=1e-5)
    base = audit.results.value(subject="mean of targets", data="test", metric="rmse")
    of_training = data(400, 1)[1].double().mean()
    assert base == pytest.approx((y - of_training).square().mean().sqrt().item(), rel=1e-6)


def test_measures_on_ood_data_are_those_of_the_model(audit, trained, test):
    wide = 3 * data(100, 5)[0]
    scores = [trained(x).to(torch.float64).epistemic[:, 0] for x in (test[0], wide)]
    found = audit.findings.predictors["network"].ood["wide"].measures["epistemic_variance"]
    assert found.auroc == pytest.approx(nescio.metrics.auroc(*scores))
    spread = trained(wide).to(torch.float64).mixture_variance.sqrt()
    unit = test[1].double().std(correction=0)
    wanted = np.median(spread.numpy()) / unit.item()
    assert audit.findings.predictors["network"].ood["wide"].deviation == pytest.approx(wanted)


def test_the_page_and_the_file_are_complete(audit, tmp_path):
    page = audit.save(tmp_path).read_text()
    for title in ("Predicted distributions", "Intervals of 90", "Under attack", "Infinitely far"):
        assert title in page
    assert page.count("<figure>") == 5
    saved = json.loads((tmp_path / "audit.json").read_text())
    assert saved["task"] == "regression"
    assert "network: RMSE" in str(audit)
    assert audit.verdict.words == str(audit).split("\n\n")[0].replace("\n", " ")
    assert "There is no guard for this network: 150 calibration samples are too few" in page


def test_the_guard_is_measured_on_other_samples_and_saved(trained, tmp_path):
    wide = {"wide": 10 * data(100, 5)[0]}
    audit = nescio.audit(trained, data(500, 2), train=data(400, 1), ood=wide, **FEW)
    found = audit.findings.guard
    x = data(500, 2)[0]
    assert (found.samples, found.test.samples, found.halved) == (250, 250, True)
    assert found.test.held.high > 0.9
    assert found.ood["wide"].ood > 0.9
    audit.save(tmp_path)
    again = nescio.load(tmp_path / "guard.safetensors", net=make)
    assert (again(x).decision == audit.guard(x).decision).all()
    assert "What the guard does" in (tmp_path / "audit.html").read_text()


class Overflows(nn.Module):
    """Far from the data its outputs are infinite, or NaN."""

    def __init__(self, power):
        super().__init__()
        self.inner, self.power = make(), power

    def forward(self, x):
        far = x[:, :1] ** self.power
        return self.inner(x) + (far if self.power % 2 else far - far)


@pytest.mark.parametrize("power", [31, 32])
def test_a_network_that_overflows_far_away_is_audited(test, power, tmp_path):
    torch.manual_seed(0)
    ood = {"far": 1e3 * data(50, 5)[0]}
    few = {**FEW, "alphas": (1.0, 1000.0)}
    few |= {"train": data(400, 1)[0]}
    audit = nescio.audit(Overflows(power), data(500, 2), head="gaussian", ood=ood, **few)
    one = audit.findings.predictors["network"]
    assert one.ood["far"].deviation is None
    assert one.scaling.deviation[0] is not None
    assert one.scaling.deviation[1] is one.scaling.auroc["total_variance"][1] is None
    assert audit.findings.guard.ood["far"].ood == 1
    assert "overflow on far and inputs scaled by 1000" in report_of(audit.findings).verdict[0]
    assert "NaN or infinite on far, scaled x 1000" in " ".join(str(audit).split())
    audit.save(tmp_path)


class Told(nn.Module):
    """Means and variances as they are said."""

    def __init__(self, shift=0.0, factor=1.0, unit=None):
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.shift, self.factor, self.unit = shift, factor, torch.tensor(unit or [1.0])

    def forward(self, x):
        mean = x[:, :1] * self.unit + self.shift
        raw = (self.factor * self.unit).square().expm1().log().expand_as(mean)
        return torch.cat([mean, raw], 1) + 0 * self.layer(x).sum(1, keepdim=True)


def normal(count, targets=1):
    rng = torch.Generator().manual_seed(7)
    x = torch.rand(count, 3, generator=rng)
    return x, x[:, :1] + torch.randn(count, targets, generator=rng)


@pytest.mark.parametrize(
    ("net", "words"),
    [
        (Told(), "Calibrated as far as the test data tell"),
        (Told(factor=0.5), "Overconfident"),
        (Told(factor=2.0), "Too cautious"),
    ],
)
def test_the_first_word_is_true(net, words):
    few = {**FEW, "rays": 0, "attack_steps": 0}
    audit = nescio.audit(net, normal(1000), head="gaussian", **few)
    assert report_of(audit.findings).headline.startswith(words)


def test_errors_to_one_side_are_no_calibration():
    few = {**FEW, "rays": 0, "attack_steps": 0}
    x, y = normal(1000)
    aside = x[:, :1] + (y - x[:, :1]).abs()
    audit = nescio.audit(Told(), (x, aside), head="gaussian", **few)
    said = report_of(audit.findings).headline
    assert said.startswith("Miscalibrated")
    assert "too often to one side of its quantiles (0 % below" in said


def test_one_target_does_not_make_up_for_another():
    few = {**FEW, "rays": 0, "attack_steps": 0}
    x, y = normal(1000, targets=2)
    gap = (y - x[:, :1]) * torch.tensor([1.255, 0.6])  # 81 and 99.4 % of the 90 % intervals
    audit = nescio.audit(Told(unit=[1.0, 1.0]), (x, x[:, :1] + gap), head="gaussian", **few)
    said = report_of(audit.findings).headline
    assert said.startswith("Miscalibrated")


@pytest.mark.parametrize(
    ("head", "outputs"),
    [("double_exponential", 2), ("fixed_variance,variance=0.5", 1), ("normal_inverse_gamma", 4)],
)
def test_every_regression_head_is_audited(test, head, outputs):
    torch.manual_seed(0)
    found = nescio.audit(make(outputs), test, head=head, **FEW).findings
    one = found.predictors["network"]
    assert one.head == head.partition(",")[0]
    assert one.far_field.rays
    assert found.baseline_from == "calibration"


def test_a_network_of_means_gets_the_spread_of_its_residuals(test):
    torch.manual_seed(0)
    net = make(1)
    found = nescio.audit(net, test, **FEW).findings
    one = found.predictors["network"]
    assert one.fitted_spread
    assert "same for every sample" in one.spread.skipped
    assert found.held_out.startswith("fitted on 150 of the 300")
    gap = (net(test[0]) - test[1]).detach().double().numpy()[:, 0]
    half = one.test.sharpness.value  # of the fitting half
    assert half == pytest.approx(np.sqrt((gap**2).mean()), rel=0.2)
    assert 0.8 < one.test.coverage["0.9"].value <= 1


def test_mc_dropout_and_functions_are_audited(test):
    torch.manual_seed(0)
    net = nescio.models.plain(make(dropout=0.3), head="gaussian")
    both = {"one": net, "dropout": nescio.models.mc_dropout(net, passes=5)}
    found = nescio.audit(both, test, **FEW).findings
    assert found.predictors["dropout"].members == 5
    assert found.predictors["dropout"].far_field.rays
    alone = nescio.audit(lambda x: net(x), test, **FEW).findings.predictors["network"]
    assert alone.test.rmse.value == pytest.approx(found.predictors["one"].test.rmse.value)
    assert "shows no networks" in alone.far_field.skipped


def test_several_targets_are_audited_by_target():
    torch.manual_seed(0)
    found = nescio.audit(make(4), data(200, 3, targets=2), head="gaussian", **FEW)
    assert list(found.findings.predictors["network"].targets) == ["0", "1"]
    assert "Target by target" in str(found)
    assert "detector" in found.findings.predictors["network"].ood["uniform noise"].measures


def test_whole_targets_are_numbers_for_a_regression_head(test):
    torch.manual_seed(0)
    found = nescio.audit(make(), (test[0], test[1].round().long()), head="gaussian", **FEW)
    assert found.findings.task == "regression"


def test_validation_data_fit_the_intervals(trained, test):
    found = nescio.audit(trained, test, validation=data(120, 9), **FEW).findings
    assert (
        found.held_out == "fitted on the 120 validation samples, measured on the 300 test samples"
    )
    assert found.predictors["network"].intervals.samples == 300


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda x, y: (x, 0 * y), r"never varies \(all 0\)"),
        (lambda x, y: (x, torch.where(y > 1, torch.nan, y)), "NaN"),
        (lambda x, y: (x, y[:5]), "one per sample|same number"),
        (lambda x, y: (x, torch.cat([y, y], 1)), "2"),
    ],
)
def test_bad_targets_are_refused(trained, test, change, words):
    with pytest.raises(NescioError, match=words):
        nescio.audit(trained, change(*test), **FEW)


def test_training_targets_that_never_vary_are_refused(trained, test):
    train = data(50, 1)[0], torch.ones(50, 1)
    with pytest.raises(NescioError, match=r"target 0 of the training data never varies \(all 1\)"):
        nescio.audit(trained, test, train=train, **FEW)


def test_outputs_that_are_not_one_mean_per_target_need_a_head(test):
    with pytest.raises(NescioError, match=r"2 output\(s\) for 1 target\(s\).*head"):
        nescio.audit(make(2), test, **FEW)


def test_classes_and_numbers_are_not_audited_together(trained, test):
    both = {"numbers": trained, "classes": nescio.models.plain(make(3))}
    with pytest.raises(NescioError, match="one task"):
        nescio.audit(both, test, **FEW)
