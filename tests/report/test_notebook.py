"""What values show in a notebook: complete, small, and without markup from names."""

from html.parser import HTMLParser

import pytest
import torch

import nescio
from nescio import models, nets
from nescio.core import Categorical, DataSet, Gaussian, Results, Row

EVIL = "<script>alert('1')</script>\u202e\n\"'"
ALLOWED = {"p", "strong", "table", "thead", "tbody", "tr", "th", "td", "h4", "ul", "li", "pre"}
ALLOWED |= {"abbr", "caption"}


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.seen = [], set()

    def handle_starttag(self, tag, _):
        self.open.append(tag)
        self.seen.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def checked(value):
    """The HTML of a value: tags that are closed, no others, no marks, not large."""
    text = value._repr_html_()
    tags = Tags()
    tags.feed(text)
    assert not tags.open
    assert tags.seen <= ALLOWED
    assert "\u202e" not in text
    assert len(text) < 40_000
    return text


@pytest.fixture(scope="module")
def guarded():
    draws = torch.Generator().manual_seed(0)
    x = torch.randn(900, 2, generator=draws)
    y = (x[:, 0] > 0).long()
    net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    with torch.no_grad():
        net[0].weight.copy_(torch.randn(8, 2, generator=draws))
        net[0].weight[:2] = torch.tensor([[4.0, 0], [-4.0, 0]])
        net[2].weight.zero_()
        net[2].weight[:, :2] = torch.tensor([[-3.0, 3.0], [3.0, -3.0]])
    guard = nescio.guard(net, (x[:500], y[:500]), train=x[500:], names=[EVIL, "b"], progress=False)
    return guard, x


def test_results_are_cut_and_escaped():
    rows = tuple(
        Row(subject=f"{EVIL} {i}", data=EVIL, metric=m, value=0.5) for i in range(500) for m in "ab"
    )
    text = checked(Results(rows, (DataSet(name=EVIL),), {"notes": [EVIL]}))
    assert "&lt;script&gt;" in text
    assert "the first 60 of 500 rows" in text


def test_a_guard_says_what_it_guarantees(guarded):
    text = checked(guarded[0])
    assert "What it guarantees" in text
    assert text.count("<li>") == len(guarded[0].guarantees)


def test_decisions_show_their_first_rows(guarded):
    guard, x = guarded
    text = checked(guard(x))
    assert "&lt;script&gt;" in text
    assert text.count("<tr>") == 21
    assert "880 more" in text


def test_a_monitor_says_where_it_stands(guarded):
    guard, x = guarded
    with nescio.core.quiet():
        watch = nescio.monitor(guard).update(guard(x + 50))
    assert watch.alarm is not None
    assert f"at score {watch.alarm:,}" in checked(watch)
    assert "none" in checked(nescio.monitor(guard))


def test_a_model_shows_its_layers():
    class Odd(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(2, 2)

        def extra_repr(self):
            return EVIL

        def forward(self, x):
            return self.layer(x)

    x = torch.randn(30, 2)
    model = nescio.train(Odd, (x, (x[:, 0] > 0).long()), members=2, epochs=2, progress=False)
    text = checked(model)
    assert "2 member(s)" in text
    assert "6" in text
    assert "&lt;script&gt;" in text


@pytest.mark.parametrize(
    ("prediction", "word"),
    [
        (Categorical(torch.zeros(2, 30, 200)), "0.0050"),
        (Gaussian(torch.ones(2, 3, 2), torch.ones(2, 3, 2)), "deviation 1"),
        (Categorical(torch.zeros(1, 2, 4, 4, 3)), "2 x 4 x 4"),
    ],
)
def test_a_prediction_shows_numbers(prediction, word):
    assert word in checked(prediction)


def test_an_audit_shows_verdict_and_findings():
    moons = nescio.data.half_moons()
    net = nets.mlp(2, 2)
    found = nescio.audit(
        {EVIL: models.plain(net)}, moons.test, rays=0, attack_steps=0, progress=False
    )
    text = checked(found)
    assert found.verdict.words.split(":")[0] in text
    assert text.count("<tr>") == 1 + len(found.verdict.shown)
    assert repr(found).startswith(f"Audit({found.verdict.status}: ")
    assert len(repr(found)) < 200
