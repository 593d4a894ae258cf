"""The section for a model card: every finding is in it, and names cannot become markup."""

import re
from dataclasses import replace

import pytest
import torch
from torch import nn

import nescio
from nescio.report import limit_of, model_card, number_of

NASTY = "<script>a|b</script>\n# [x](javascript:1) \u202ebackwards"


@pytest.fixture(scope="module")
def audit():
    rng = torch.Generator().manual_seed(0)
    y = torch.arange(900) % 3
    x = torch.randn(900, 4, generator=rng) + 3 * torch.eye(3, 4)[y]
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.Adam(net.parameters(), 0.01)
    for _ in range(100):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x[:300]), y[:300]).backward()
        optimizer.step()
    return nescio.audit(
        net, (x[300:], y[300:]), ood={NASTY: x[:200] + 9}, rays=0, attack_steps=0, progress=False
    )


def test_every_finding_has_a_row_with_its_number_and_limit(audit):
    card = audit.model_card()
    for one in audit.verdict.findings:
        assert f"| {one.status} | {number_of(one)} | {limit_of(one)} |" in card
    assert card.startswith("## Uncertainty and limits\n")
    assert audit.verdict.words.split(":")[0] in card


def test_the_guarantees_and_the_abstentions_are_in_it(audit):
    card = audit.model_card(level=3)
    assert "### Uncertainty and limits\n" in card
    assert "#### What is guaranteed\n" in card
    assert audit.guard.guarantees[0][:60] in card
    share = audit.findings.guard.ood["uniform noise"]
    assert re.search(rf"\| uniform noise \| noise \| {share.inputs:,} \| [\d.]+ % \|", card)


def test_a_name_cannot_become_markup_or_leave_its_line(audit):
    card = audit.model_card()
    assert "<script" not in card
    assert "\u202e" not in card
    assert not re.search(r"^# ", card, re.MULTILINE)
    assert not re.search(r"(?<!\\)\]\(javascript", card)
    rows = [line for line in card.splitlines() if line.startswith("|") and "backwards" in line]
    assert rows
    for row in rows:
        assert len(re.findall(r"(?<!\\)\|", row)) in (5, 6)


def test_the_use_of_a_saved_guard_is_shown(audit, tmp_path):
    bound = audit.bound_for(tmp_path, net="mine:make")
    assert "```python\nimport nescio\nguard = nescio.load(" in bound.model_card()
    assert "nescio score" in bound.model_card()


def test_what_was_not_measured_is_listed(audit):
    card = model_card(replace(audit.findings, not_run={"shift": "no images"}))
    assert "### Not measured" in card
    assert "- shift: no images" in card
