"""The guard of an audit: promised on one part, measured on the other, or refused with a number."""

import json
from pathlib import Path

import pytest
import torch
from scipy.stats import betabinom, binomtest
from torch import nn

from nescio import audit, guard, nets
from nescio.core import NescioError
from nescio.evaluation.audit import guarded, hold
from nescio.evaluation.audit.cost import Draws
from nescio.evaluation.audit.findings import Broken, Shares
from nescio.evaluation.audit.guard_section import decided_on, least_samples, shares_of
from nescio.models import mc_dropout, plain

Pair = tuple[torch.Tensor, torch.Tensor]


def drawn(count: int, seed: int, *, flipped: float = 0.0) -> Pair:
    """Two classes far apart in four features; some labels are wrong."""
    rng = torch.Generator().manual_seed(seed)
    y = torch.randint(2, (count,), generator=rng)
    x = torch.randn(count, 4, generator=rng)
    x[:, 0] += 8.0 * y - 4
    return x, torch.where(torch.rand(count, generator=rng) < flipped, 1 - y, y)


def net() -> nn.Module:
    made = nets.mlp(4, 2, widths=(8,), dropout=0.1)
    with torch.no_grad():
        for weight in made.parameters():
            weight.zero_()
        first, last = [layer for layer in made.modules() if isinstance(layer, nn.Linear)]
        first.weight[:4], first.weight[4:] = torch.eye(4), -torch.eye(4)
        last.weight[0, 4], last.weight[1, 0] = 1.0, 1.0
    return made


@pytest.mark.parametrize("training", [True, False])
def test_the_fewest_samples_are_enough_and_one_less_is_not(training: bool) -> None:
    """Without an error, the guard answers from there on."""
    least = least_samples(training=training)
    train = drawn(500, 9) if training else None
    made = guard(net(), drawn(least, 1), train=train, sets=None, calibration_map=None)
    assert made.rules[0].coverage.holds
    try:
        with pytest.warns(UserWarning, match="abstain on every input"):
            few = guard(net(), drawn(least - 3, 1), train=train, sets=None, calibration_map=None)
    except NescioError:
        return  # too few for the false alarms already
    assert not few.rules[0].coverage.holds


def test_numbers_are_those_of_the_guard_on_the_other_part() -> None:
    held = hold(drawn(600, 2, flipped=0.005), drawn(500, 3), seed=0)
    found = guarded("mine", plain(net()), held, drawn(500, 4), seed=0)
    x, y = held.measured
    decisions = found.guard(x)
    answered = int(decisions.answered.sum())
    errors = int(((decisions.label != y) & decisions.answered).sum())
    test = found.findings.test
    assert test.answered.value == pytest.approx(answered / 600)
    known = binomtest(answered, 600).proportion_ci(0.95, method="exact")
    assert test.answered.low == pytest.approx(known.low)
    assert test.answered.high == pytest.approx(known.high)
    assert (test.errors, test.risk.value) == (errors, pytest.approx(errors / answered))
    assert found.findings.holds
    assert found.findings.broken == Broken(false_alarm=False, risk=False)
    assert found.findings.trained == 500
    assert not found.findings.own_network
    far = shares_of(decided_on(found.guard, {"far": (None, 100 + torch.rand(50, 4))}, Draws()))[
        "far"
    ]
    assert far == Shares(inputs=50, answer=0.0, unsure=0.0, ood=1.0)


def test_it_is_made_on_none_of_the_measured_samples() -> None:
    held = hold(drawn(800, 5), None, seed=0)
    found = guarded("mine", plain(net()), held, drawn(500, 4), seed=0)
    from nescio.detectors.activations import hash_inputs

    measured = hash_inputs(held.measured[0])
    assert not torch.isin(measured, found.guard.hashes).any()
    assert len(found.guard.hashes) == 400


def test_test_data_of_another_kind_break_the_guarantees() -> None:
    x, y = drawn(600, 2)
    held = hold((x, 1 - y), drawn(500, 3), seed=0)
    assert guarded("mine", plain(net()), held, drawn(500, 4)).findings.broken.risk
    held = hold((x + 9, y), drawn(500, 3), seed=0)
    assert guarded("mine", plain(net()), held, drawn(500, 4)).findings.broken.false_alarm


def judged(x: torch.Tensor, y: torch.Tensor) -> Broken:
    held = hold((x, y), drawn(500, 3), seed=0)
    broken = guarded("mine", plain(net()), held, drawn(500, 4), seed=0).findings.broken
    assert broken is not None
    return broken


def test_the_verdict_on_the_risk_is_that_of_an_exact_test() -> None:
    """A broken risk is said from the first number of errors that chance has in 0.1 % of draws."""
    held = hold(drawn(600, 2), drawn(500, 3), seed=0)
    decisions = guarded("mine", plain(net()), held, drawn(500, 4), seed=0).guard(held.measured[0])
    answered = decisions.answered.nonzero().flatten()
    assert 300 < len(answered) < 600
    chances = [binomtest(k, len(answered), 0.02, "greater").pvalue for k in range(60)]
    most = next(k for k, chance in enumerate(chances) if chance < 1e-3)
    for errors in (most - 1, most):
        y = decisions.label.clone()
        y[answered[:errors]] = 1 - y[answered[:errors]]
        verdict = judged(held.measured[0], y)
        assert verdict == Broken(false_alarm=False, risk=errors == most)


def test_the_verdict_on_false_alarms_is_that_of_an_exact_test() -> None:
    """Of 500 calibration scores 5 may be larger: the false alarms are beta-binomial."""
    held = hold(drawn(600, 2), drawn(500, 3), seed=0)
    x, y = held.measured
    usual = guarded("mine", plain(net()), held, drawn(500, 4), seed=0).guard(x).answered
    x, y = x[usual][:400], y[usual][:400]
    chances = betabinom(400, 5, 501 - 5).sf([k - 1 for k in range(60)])
    most = next(k for k, chance in enumerate(chances) if chance < 1e-3)
    for alarms in (most - 1, most):
        far = x.clone()
        far[:alarms] += 100 * far[:alarms].sign()
        assert judged(far, y).false_alarm == (alarms == most)


def test_too_few_samples_say_how_many_it_takes() -> None:
    found = guarded("mine", plain(net()), hold(drawn(200, 0), None, seed=0), drawn(100, 1))
    assert found.guard is None
    assert found.findings.samples == 100
    assert found.findings.needed == least_samples(training=True) == 150


def test_a_network_that_errs_too_often_says_so() -> None:
    held = hold(drawn(600, 2, flipped=0.3), drawn(600, 3, flipped=0.3), seed=0)
    found = guarded("mine", plain(net()), held, drawn(500, 4), seed=0)
    assert not found.findings.holds
    assert found.findings.enough is None
    assert found.findings.test.answered.value == 0
    assert found.findings.test.risk is None


def test_what_cannot_be_guarded_says_why() -> None:
    model = plain(net())
    held = hold(drawn(500, 0), drawn(500, 1), seed=0)
    found = guarded("mine", lambda x: model(x), held, None)
    assert "expected an nn.Module" in found.findings.skipped
    trained = guarded("mine", model, held, held.fitting)
    assert "are among the training data given" in trained.findings.skipped


def test_the_network_behind_passes_of_dropout_is_guarded() -> None:
    held = hold(drawn(300, 0), drawn(300, 1), seed=0)
    found = guarded("mine", mc_dropout(net(), passes=3), held, drawn(300, 2))
    assert found.guard is not None
    assert len(found.guard.nets) == 1


def test_the_guard_of_an_audit_is_described_beside_it(tmp_path: Path) -> None:
    data = {"validation": drawn(500, 3), "train": drawn(500, 4)}
    found = audit(net(), drawn(400, 2), rays=0, attack_steps=0, progress=False, **data)
    found.save(tmp_path)
    about = json.loads((tmp_path / "guard.safetensors.json").read_text())
    assert about["guarantees"] == list(found.guard.guarantees)
    assert about["groups"][0]["samples"] == len(found.guard.rules[0].scores)
