"""The sections `groups` and `slices` of audits, and their words."""

import json

import numpy as np
import pytest
import torch

import nescio
from nescio import nets
from nescio.core import to_json
from nescio.evaluation.audit.sections import read_sections
from nescio.evaluation.audit.verdict import verdict_of
from nescio.report.render import Page
from nescio.report.sections import registered

OFF = {"rays": 0, "attack_steps": 0, "progress": False}
SKIP = ["far field", "scaled inputs", "noise", "shift", "guard"]
COLUMNS = ["age", "dose", "pressure"]


def confident() -> torch.nn.Module:
    """The class by the first number, with high confidence."""
    net = torch.nn.Linear(3, 2)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[-3.0, 0, 0], [3, 0, 0]]))
        net.bias.zero_()
    return net


def said(found, name: str) -> str:
    """The words and tables of a section."""
    one = next(section for section in registered(found) if section.name == name)
    parts = [one.title, one.note, Page(tables=one.tables).text(200), *map(" ".join, one.remarks)]
    return " ".join(" ".join(parts).split())


@pytest.fixture(scope="module")
def data():
    draws = torch.Generator().manual_seed(0)
    x = torch.randn(3000, 3, generator=draws)
    y = (x[:, 0] > 0).long()
    flipped = (x[:, 2] > 1.2) & (torch.rand(3000, generator=draws) < 0.4)
    flipped |= torch.rand(3000, generator=draws) < 0.02
    return x, torch.where(flipped, 1 - y, y)


@pytest.fixture(scope="module")
def audited(data):
    x, y = data
    site = np.where(x[:, 2] > 1.2, "<b>north</b>", "south")
    return nescio.audit(
        confident(), (x, y), groups={"site": site}, columns=COLUMNS,
        class_names=["no", "yes"], skip=SKIP, **OFF,
    )  # fmt: skip


def test_the_planted_slice_is_named(audited):
    search = audited.findings.sections["slices"].searches[0]
    first = str(search.found[0])
    assert first == "site = <b>north</b>" or first.startswith("pressure > 1.2")
    assert search.columns == ("predicted class", "site", *COLUMNS)
    text = said(audited.findings, "slices")
    assert text.startswith("Where it is wrong or overconfident")
    assert search.words(search.found[0]).split(": ")[1] in text
    assert f"Rows: {search.found[0].rows[0]}, " in text


def test_groups_have_tables_and_a_test(audited):
    part = audited.findings.sections["groups"]
    assert list(part.tables) == ["class", "site"]
    by, row = part.largest_gap
    assert (by, row.name) == ("site", "<b>north</b>")
    assert row.gap > 0.3
    assert {row.name for row in part.tables["class"].rows} == {"no", "yes"}
    text = said(audited.findings, "groups")
    assert "of all tables (Holm)" in text
    assert "more than chance explains" in text


def test_limits_read_the_sections(audited):
    found = {one.label: one for one in audited.verdict.findings}
    assert found["group_gap"].status == "attention"
    assert found["group_gap"].note == "site <b>north</b>"
    assert found["slices"].status == "attention"
    assert found["slices"].value >= 1


def test_sections_are_read_back(audited):
    sections = audited.findings.sections
    stored = json.loads(json.dumps(to_json(sections)))
    assert read_sections(stored, "here")[0]["slices"] == sections["slices"]
    assert read_sections(stored, "here")[0]["groups"] == sections["groups"]


def test_names_never_become_markup(audited, tmp_path):
    page = audited.save(tmp_path).read_text()
    assert "<b>north" not in page
    assert "north" in page


def test_images_are_described_by_statistics():
    draws = torch.Generator().manual_seed(1)
    bright = torch.rand(2000, generator=draws)
    x = bright[:, None, None, None] * torch.rand(2000, 1, 6, 6, generator=draws)
    y = torch.randint(0, 2, (2000,), generator=draws)
    x[:, 0, 0, 0] = y  # what the network reads
    y = torch.where((bright < 0.1) & (torch.rand(2000, generator=draws) < 0.6), 1 - y, y)
    y = torch.where(torch.rand(2000, generator=draws) < 0.02, 1 - y, y)
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(36, 2))
    with torch.no_grad():
        net[1].weight.zero_()
        net[1].weight[1, 0], net[1].bias[0] = 8.0, 4.0
    found = nescio.audit(net, (x, y), skip=[*SKIP, "stability"], **OFF)
    first = str(found.findings.sections["slices"].searches[0].found[0])
    assert any(word in first for word in ("brightness <= ", "contrast <= ", "sharpness <= "))


def test_a_regression_has_groups_and_slices(data):
    x, _ = data
    draws = torch.Generator().manual_seed(2)
    y = x[:, :1] + torch.randn(3000, 1, generator=draws) * torch.where(x[:, 2:] > 1.2, 4.0, 0.5)
    site = np.where(x[:, 2] > 1.2, "north", "south")
    net = torch.nn.Linear(3, 1)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[1.0, 0, 0]]))
        net.bias.zero_()
    found = nescio.audit(
        net, (x, y), groups=site, columns=COLUMNS, skip=["guard", "noise", "scaled inputs"], **OFF
    ).findings
    events = [one.event for one in found.sections["slices"].searches]
    assert events[0] == "outside the 90 % interval"
    assert events[1].startswith("off by more than ")
    for search in found.sections["slices"].searches:
        assert str(search.found[0]) == "group = north" or "pressure > 1" in str(search.found[0])
        assert all(y[row, 0] is not None and row < 3000 for row in search.found[0].rows)
    part = found.sections["groups"]
    assert part.largest_gap[1].name == "north"
    gap = {one.name: one for one in verdict_of(found).findings}["group_gap"]
    assert gap.note == "group north (inside the 90 % interval)"
    assert part.tables["group"].rows[0].mean_error.value > 2
    assert "inside the predicted 90 % interval" in said(found, "groups")
    assert "group = north" in said(found, "slices") or "pressure > 1" in said(found, "slices")


def test_a_regression_without_groups_says_so(data):
    x, _ = data
    found = nescio.audit(
        torch.nn.Linear(3, 1), (x[:200], x[:200, :1] + 0.1), skip=["guard", "noise"], **OFF
    ).findings
    assert "--group" in found.not_run["groups"]


def test_too_few_errors_are_a_reason(data):
    x, _ = data
    found = nescio.audit(confident(), (x[:60], (x[:60, 0] > 0).long()), skip=SKIP, **OFF).findings
    assert "too few to find slices" in found.not_run["slices"]
    assert "groups" in found.sections


def test_two_samples_and_an_absent_class():
    net = nets.mlp(2, 3)
    x, y = torch.randn(2, 2), torch.tensor([0, 1])
    found = nescio.audit(net, (x, y), skip=SKIP, **OFF).findings
    assert found.sections["groups"].tables["class"].absent == ("2",)
    assert "slices" in found.not_run


def test_more_classes_than_samples_lose_only_their_own_table():
    net = torch.nn.Linear(2, 500)
    x, y = torch.randn(60, 2), torch.arange(60)
    quick = {"budget": "quick", "progress": False, "rays": 0, "attack_steps": 0}
    found = nescio.audit(net, (x, y), groups={"site": ["a", "b"] * 30}, **quick).findings
    assert list(found.sections["groups"].tables) == ["site"]
    assert "too few of each class" in nescio.audit(net, (x, y), **quick).findings.not_run["groups"]
