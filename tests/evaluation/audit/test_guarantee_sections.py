"""Thresholds, shift budget, planner, remedies and stability: each against numbers made apart."""

import json
import math

import pytest
import torch
from torch import nn

import nescio
from nescio.core import to_json
from nescio.evaluation.audit.sections import read_sections
from nescio.guards import shift_budget
from nescio.report.sections import registered

QUICK = {"rays": 0, "attack_steps": 0, "alphas": (1.0,), "progress": False}
MINE = {"thresholds", "shift budget", "planner", "remedies", "stability"}
OTHERS = ["groups", "slices", "cases", "label errors", "duplicates", "answers", "provenance"]


def drawn(samples, seed):
    """Two Gaussian clouds in 4 dimensions that overlap a little."""
    rng = torch.Generator().manual_seed(seed)
    y = torch.arange(samples) % 2
    x = torch.randn(samples, 4, generator=rng)
    x[:, 0] += 4.2 * y - 2.1
    return x, y


@pytest.fixture(scope="module")
def audited():
    torch.manual_seed(0)
    body = [nn.Linear(4, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 2)]
    net = nn.Sequential(*body)
    x, y = drawn(600, 1)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    for _ in range(60):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
    net.eval()
    shallow = nn.Sequential(nn.Linear(4, 2)).eval()
    ood = {"far": 6 + torch.randn(150, 4, generator=torch.Generator().manual_seed(5))}
    known = [name for name in OTHERS if name in nescio.core.registry.audit_sections]
    return nescio.audit(
        {"network": net, "shallow": shallow},
        drawn(700, 2),
        train=(x, y),
        validation=drawn(500, 3),
        ood=ood,
        skip=known,
        **QUICK,
    )


@pytest.fixture(scope="module")
def sections(audited):
    missing = {name: audited.findings.not_run.get(name) for name in MINE}
    assert set(audited.findings.sections) >= MINE, missing
    return audited.findings.sections


def test_the_guards_step_is_what_the_guard_does(audited, sections):
    value, test = sections["thresholds"], audited.findings.guard.test
    step = value.steps[value.own]
    assert value.samples == test.samples == 700
    assert step.answered == round(test.answered.value * 700)
    assert step.errors == test.errors
    assert step.risk == test.risk
    assert set(step.abstained) >= {"far", "uniform noise"}
    shares = audited.findings.guard.ood["far"]
    assert step.abstained["far"] == pytest.approx(1 - shares.answer)


def test_the_shift_budget_is_that_of_the_counts(audited, sections):
    value, test = sections["shift budget"], audited.findings.guard.test
    counts = {name: (one.answered, one.inputs) for name, one in value.ood.items()}
    answered = round(test.answered.value * test.samples)
    wish = {"risk": 0.02, "confidence": 0.95, "false_alarm": 0.01}
    assert value == shift_budget(answered, test.errors, test.samples, ood=counts, **wish)
    assert value.ood["far"].inputs == 150


def test_the_planner_says_how_many_more_there_must_be(sections):
    value = sections["planner"]
    assert value.calibration == 500
    assert [(one.risk, one.coverage) for one in value.plans][:4] == [
        (0.005, 0.8), (0.005, 0.9), (0.005, 0.95), (0.01, 0.8),
    ]  # fmt: skip
    easiest = value.plans[-3]  # 5 % at 80 %
    assert easiest.needed < 500
    assert easiest.more == 0
    for one in value.plans:
        assert one.needed is None or one.more == max(0, one.needed - 500)
        assert one.needed is None or one.low <= one.needed


def test_remedies_are_measured_on_the_samples_of_the_other_sections(audited, sections):
    value = sections["remedies"]
    found = {one.name: one for one in value.remedies}
    first = audited.findings.predictors["network"]
    temperature = found["temperature"].gains
    assert temperature["NLL"].now == pytest.approx(first.calibration.before.nll)
    assert temperature["NLL"].then == pytest.approx(first.calibration.after.nll)
    assert temperature["ECE"].then == pytest.approx(first.calibration.after.ece.value)
    assert temperature["error rate"].change == 0
    guard = found["guard"]
    assert guard.coverage == audited.findings.guard.test.answered
    assert guard.gains["error rate"].then == audited.findings.guard.test.risk.value
    assert guard.gains["error rate"].word == "better"
    shallow = audited.findings.predictors["shallow"].test
    assert found["shallow"].gains["error rate"].then == pytest.approx(1 - shallow.accuracy)
    assert found["shallow"].gains["NLL"].word == "worse"
    assert found["MC dropout"].samples == 700
    assert "network, shallow" in found["ensemble"].how
    assert value.not_tried == {}


def test_stability_is_part_of_the_standard_budget_without_proofs(sections):
    value = sections["stability"]
    assert len(value.changes.size) == 20
    assert value.lipschitz is None
    assert value.skipped == {"Lipschitz constants": "they are part of the thorough budget"}
    (noise,) = value.corruptions.values()
    accuracy = noise.curve("network", "accuracy")
    assert accuracy[0] > 0.95 > accuracy[-1]
    assert noise.samples == 200


def test_the_noise_of_a_table_is_a_share_of_the_range_of_each_number():
    from nescio.data import corruptions, ranges
    from nescio.evaluation.audit.ood_section import in_units

    x = torch.randn(400, 3, generator=torch.Generator().manual_seed(0)) * torch.tensor([1, 10, 0.1])
    units = ranges.units_of(x)
    moved = in_units(corruptions.gaussian_noise(deviation=0.03), units, inside=False)(x, 2)
    widths = x.amax(0) - x.amin(0)
    assert ((moved - x).std(0) / widths).tolist() == pytest.approx([0.06] * 3, rel=0.15)


def test_values_are_written_and_read(sections):
    kept = {name: value for name, value in sections.items() if name in MINE - {"stability"}}
    again, _ = read_sections(json.loads(json.dumps(to_json(kept))), "here")
    assert again == kept


def test_the_words_have_the_numbers(audited, sections):
    shown = {one.name: one for one in registered(audited.findings)}
    assert set(shown) >= MINE
    assert all(shown[name].title and (shown[name].tables or shown[name].points) for name in MINE)
    budget = sections["shift budget"]
    told = shown["shift budget"].note
    assert "total variation" in told
    assert budget.distance == 0 or f"{math.floor(budget.distance * 1000) / 1000:.3f}"[:4] in told
    assert any("the guard's" in row[0] for row in shown["thresholds"].tables[0].rows)
    assert "from paired resamples" in shown["remedies"].note


def test_without_a_guard_the_scores_of_the_network_are_planned_with():
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(4, 2))
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[-2.0, 0, 0, 0], [2.0, 0, 0, 0]]))
        net[0].bias.zero_()
    found = nescio.audit(net, drawn(60, 4), skip=["stability", "noise"], **QUICK).findings
    assert found.guard.skipped
    assert found.sections["thresholds"].own is None
    assert found.sections["thresholds"].samples == 60
    assert any(one.more for one in found.sections["planner"].plans)
    assert "no guard" in found.not_run["shift budget"]
    remedies = found.sections["remedies"]
    assert {"guard", "MC dropout", "ensemble", "retraining"} <= set(remedies.not_tried)


def test_a_regression_has_thresholds_budget_and_plan():
    rng = torch.Generator().manual_seed(0)
    net = nn.Linear(3, 1)
    with torch.no_grad():
        net.weight.fill_(1.0)
        net.bias.zero_()

    def numbers(count):
        x = torch.randn(count, 3, generator=rng)
        return x, x.sum(1, keepdim=True) + torch.randn(count, 1, generator=rng)

    found = nescio.audit(net, numbers(900), validation=numbers(900), **QUICK).findings
    mine = {"thresholds", "shift budget", "planner"}
    assert mine <= set(found.sections), {name: found.not_run.get(name) for name in mine}
    test, value = found.guard.test, found.sections["shift budget"]
    assert (value.errors, value.samples) == (test.misses, test.samples)
    step = found.sections["thresholds"].steps[found.sections["thresholds"].own]
    assert (step.answered, step.errors) == (value.answered, value.errors)
    assert {one.risk for one in found.sections["planner"].plans} == {0.05, 0.1, 0.2}
    assert {one.name for one in registered(found)} >= mine
