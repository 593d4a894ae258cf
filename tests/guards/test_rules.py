"""Both promises from the same samples: exact over many draws, with and without ties."""

import numpy as np
import pytest
import torch
from scipy.stats import binom

from nescio.core import NescioError
from nescio.guards.decisions import CODES
from nescio.guards.rules import Scored, fit_rule

FALSE_ALARM, RISK, CONFIDENCE = 0.05, 0.1, 0.9
WISH = {"false_alarm": FALSE_ALARM, "risk": RISK, "confidence": CONFIDENCE}


def world(ties: bool) -> Scored:
    """A finite population, drawn from with replacement: every rate is a share of it."""
    rng = np.random.default_rng(3)
    score, failure_score = rng.gamma(2.0, size=5_000), rng.normal(size=5_000)
    wrong = rng.random(5_000) < np.clip(0.02 + 0.05 * failure_score + 0.03 * score, 0, 1)
    score = score.round(1) if ties else score
    return Scored(torch.tensor(score), torch.tensor(failure_score), torch.tensor(wrong))


@pytest.mark.parametrize("ties", [False, True])
def test_the_guarantees_hold_over_many_draws(ties):
    whole, rng = world(ties), torch.Generator().manual_seed(0)
    redraws, alarms, broken, held = 300, 0, 0, 0
    for _ in range(redraws):
        drawn = torch.randint(len(whole), (600,), generator=rng)
        rule = fit_rule("", whole[drawn[:599]], **WISH)
        spoken = rule.read(whole.score, whole.failure_score)[1]
        alarms += int(spoken[drawn[599]] == CODES["p-value"])
        answered = spoken == CODES["sure enough"]
        broken += bool(answered.any() and whole.wrong[answered].double().mean() > RISK)
        held += rule.coverage.holds
    assert binom.sf(alarms - 1, redraws, FALSE_ALARM) > 1e-3
    assert binom.sf(broken - 1, redraws, 1 - CONFIDENCE) > 1e-3
    assert held > redraws / 2


def test_the_false_alarm_rate_is_not_loose():
    whole, rng = world(False), torch.Generator().manual_seed(1)
    rates = []
    for _ in range(60):
        drawn = torch.randint(len(whole), (599,), generator=rng)
        rule = fit_rule("", whole[drawn[100:]], **WISH)
        rates.append((whole.score > rule.limit).double().mean())
    assert 0.8 * FALSE_ALARM < np.mean(rates) <= FALSE_ALARM * 1.1


def test_the_rule_and_the_p_values_agree():
    whole = world(True)
    rule = fit_rule("", whole[torch.arange(100, 600)], **WISH)
    p = rule.read(whole.score, whole.score)[0]
    ood = rule.read(whole.score, whole.failure_score)[1] == CODES["p-value"]
    assert torch.equal(p <= FALSE_ALARM, ood)
    known = whole.score[100:600]
    brute = (1 + (known[None] >= whole.score[:50, None]).sum(1)) / 501
    assert torch.allclose(p[:50], brute.double())


def test_a_score_at_the_limit_is_unsure():
    whole = world(True)
    rule = fit_rule("", whole[torch.arange(100, 600)], **WISH)
    at = torch.tensor([rule.limit], dtype=torch.float64)
    assert rule.read(at, torch.tensor([-50.0]).double())[1] == CODES["tie"]


def test_too_few_samples_for_the_false_alarm_rate_are_refused_with_their_number():
    whole = world(False)
    with pytest.raises(NescioError, match=r"in group 7 .* at least 19"):
        fit_rule("7", whole[torch.arange(100, 118)], **WISH)


def test_where_no_threshold_holds_nothing_is_answered():
    few = Scored(torch.rand(40).double(), torch.rand(40).double(), torch.ones(40).bool())
    rule = fit_rule("", few, **WISH)
    spoken = rule.read(few.score, few.failure_score)[1]
    assert not (spoken == CODES["sure enough"]).any()
    assert (spoken == CODES["no guarantee"]).any()


@pytest.mark.parametrize("moved", [-1e-6, 1e-6])
def test_rounding_moves_no_input_across_the_limit(moved):
    """One score in five is the same, at the limit; later it comes out a little different."""
    score = torch.cat([torch.linspace(1, 3, 800), torch.full((200,), 3.7)]).double()
    failure_score, wrong = torch.zeros(1000).double(), score > 3.5
    samples = Scored(score, failure_score, wrong)
    rule = fit_rule("", samples, **WISH)
    assert rule.limit == pytest.approx(3.7)
    assert rule.coverage.errors == 0
    again = torch.tensor([3.7 + moved]).double()
    assert rule.read(again, failure_score[:1])[1] == CODES["tie"]
    assert float(rule.read(again, again)[0]) == 201 / 1001


@pytest.mark.parametrize("moved", [-1e-6, 1e-6])
def test_rounding_moves_no_input_across_the_threshold(moved):
    """Doubts take four values, so that every threshold comes from one of them."""
    failure_score = (torch.arange(1000) % 4).double()
    samples = Scored(torch.linspace(0, 1, 1000).double(), failure_score, failure_score > 1)
    rule = fit_rule("", samples, **WISH)
    assert rule.coverage.answered > 400
    assert rule.coverage.errors == 0
    spoken = rule.read(torch.zeros(4).double(), torch.arange(4.0).double() + moved)[1]
    assert spoken.tolist() == [CODES["sure enough"]] * 2 + [CODES["failure_score"]] * 2


def test_infinite_scores_keep_their_places():
    score = torch.cat([torch.linspace(0, 1, 700), torch.full((300,), torch.inf)]).double()
    samples = Scored(score, torch.full((1000,), -torch.inf).double(), torch.zeros(1000).bool())
    rule = fit_rule("", samples, **WISH)
    assert rule.limit == torch.inf
    assert rule.coverage.samples == 700
    ends = torch.tensor([-torch.inf, torch.inf]).double()
    assert rule.read(ends, ends)[1][1] == CODES["tie"]
    assert rule.read(ends, ends)[0].tolist() == [1.0, 301 / 1001]
