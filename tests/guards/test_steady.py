"""Decisions about a row have the same bits in every batch, file and thread."""

from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from functools import cache

import numpy as np
import pytest
import torch
from torch import nn

import nescio
from nescio import nets
from nescio.core import Bundle
from nescio.guards import steady as module
from nescio.guards.score import score
from nescio.guards.steady import Steady, decided_together
from nescio.guards.table_text import json_lines

ROWS = 1000


class Tokens(nn.Module):
    """A small Transformer on tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(30, 12)
        self.layer = nn.TransformerEncoderLayer(12, 2, 20, batch_first=True, dropout=0.0)
        self.classifier = nn.Linear(12, 3)

    def forward(self, x):
        return self.classifier(self.layer(self.embedding(x)).mean(1))


class Both(nn.Module):
    """A network of two tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.last = nn.Embedding(9, 5), nn.Linear(8, 2)

    def forward(self, ids, row):
        return self.last(torch.cat([self.embedding(ids).mean(1), row], 1))


def of_numbers(count, *shape):
    return torch.randn(count, *shape, generator=torch.Generator().manual_seed(count))


def answers(net, x):
    """Labels that the network mostly gives, so that a threshold is found."""
    with torch.no_grad():
        labels = net(x).argmax(1)
    wrong = torch.rand(len(labels), generator=torch.Generator().manual_seed(3)) < 0.01
    return torch.where(wrong, (labels + 1) % 2, labels)


def classes(net, draw, **options):
    calibration, train = draw(600), draw(400)
    first = net[0] if isinstance(net, list) else net
    with torch.no_grad():  # as sure as a trained one
        for one in net if isinstance(net, list) else [net]:
            list(one.parameters())[-2].mul_(30)
    calibrated, trained = ((x, answers(first, x)) for x in (calibration, train))
    made = nescio.guard(net, calibrated, train=trained, risk=0.1, progress=False, **options)
    return made, draw(ROWS)


def odd():
    """Widths that no vector register divides."""
    net = nn.Sequential(
        nn.Linear(37, 101), nn.ReLU(), nn.Linear(101, 53), nn.ReLU(), nn.Linear(53, 7)
    )
    made, x = classes(net.eval(), lambda count: of_numbers(count, 37))
    x[5], x[6, 3], x[7], x[8] = np.nan, np.inf, 1e30, 3e38
    return made, x


def by_class():
    net = nn.Sequential(nn.Linear(5, 33), nn.ReLU(), nn.Linear(33, 2)).eval()
    return classes(net, lambda count: of_numbers(count, 5), by="class", names=["no", "yes"])


def images():
    net = nn.Sequential(
        nn.Conv2d(1, 6, 3), nn.ReLU(), nn.Conv2d(6, 9, 3, stride=2), nn.ReLU(), nn.Flatten(),
        nn.Linear(9 * 4 * 4, 21), nn.ReLU(), nn.Linear(21, 4),
    )  # fmt: skip
    return classes(net.eval(), lambda count: of_numbers(count, 1, 12, 12))


def tokens():
    def draw(count):
        return torch.randint(0, 30, (count, 7), generator=torch.Generator().manual_seed(count))

    return classes(Tokens().eval(), draw)


def table():
    """A mixed table, and the detector that compares rows by Gower's distance."""
    draw = np.random.default_rng(0)

    def rows(count):
        words = draw.choice(["red", "green", "blue"], count)
        return {"size": draw.normal(size=count), "age": draw.normal(size=count), "color": words}

    kinds = {"size": "continuous", "age": "continuous", "color": "categorical"}
    columns = nescio.data.learn_columns(rows(300), kinds)
    net = nets.encoded(nets.mlp(columns.width, 2, widths=(13,)), columns).eval()
    made, _ = classes(net, lambda count: columns.numbers(rows(count)), detector="gower")
    return made, columns.numbers(rows(ROWS))


def regression():
    net = nn.Sequential(nn.Linear(9, 31), nn.Tanh(), nn.Linear(31, 2)).eval()

    def pair(count):
        x = of_numbers(count, 9)
        with torch.no_grad():
            return x, net(x)[:, :1] + 0.1 * of_numbers(count, 1)

    made = nescio.guard(net, pair(800), train=pair(400), head="gaussian", progress=False)
    return made, of_numbers(ROWS, 9)


def ensemble():
    net = nn.Sequential(nn.Linear(11, 23), nn.ReLU(), nn.Linear(23, 3)).eval()
    each = [net, *(deepcopy(net) for _ in range(2))]
    with torch.no_grad():
        for number, one in enumerate(each):
            one[0].weight += 0.003 * number * torch.randn_like(one[0].weight)
    return classes(each, lambda count: of_numbers(count, 11))


def recorded():
    def draw(count):
        z = 3 * of_numbers(count, 5)
        return nescio.recorded(z, features=of_numbers(count + 1, 13)[1:], labels=z.argmax(1))

    made = nescio.guard(None, draw(600), train=draw(400), risk=0.1, progress=False)
    return made, draw(ROWS).inputs


def bundles():
    def draw(count):
        ids = torch.randint(0, 9, (count, 4), generator=torch.Generator().manual_seed(count))
        return {"ids": ids, "row": of_numbers(count, 3)}

    net = Both().eval()
    calibration, train = draw(600), draw(400)
    with torch.no_grad():
        labels = [net(**x).argmax(1) for x in (calibration, train)]
    made = nescio.guard(
        net, (calibration, labels[0]), train=(train, labels[1]), risk=0.1, progress=False
    )
    return made, Bundle(draw(ROWS))


MADE = [odd, by_class, images, tokens, table, regression, ensemble, recorded, bundles]


@cache
def guarded(make):
    torch.manual_seed(0)
    return make()


@cache
def steady(make):
    return Steady(guarded(make)[0])


def lines(decisions):
    return json_lines(decisions.columns()).splitlines()


def bits(decisions):
    return [
        (name, one.numpy().tobytes())
        for name, one in vars(decisions).items()
        if isinstance(one, torch.Tensor)
    ]


@pytest.mark.parametrize("make", MADE, ids=lambda make: make.__name__)
def test_rows_have_the_same_bits_in_all_batches(make):
    (made, x), once = guarded(make), steady(make)
    assert once.least is not None
    assert once.least <= module.FEWEST
    whole = decided_together(made, x)
    draw, start = np.random.default_rng(1), 0
    cuts = []
    while start < ROWS:
        cuts.append(slice(start, start + int(draw.integers(1, 71))))
        start = cuts[-1].stop
    with ThreadPoolExecutor(8) as pool:
        parts = list(pool.map(lambda cut: once(x[cut]), cuts))
    assert bits(type(whole).join(parts)) == bits(whole)
    mixed = torch.randperm(ROWS)
    assert bits(once(x[mixed])) == bits(whole[mixed])


@pytest.mark.parametrize("make", MADE, ids=lambda make: make.__name__)
def test_files_have_the_same_bytes_in_all_parts(make, tmp_path):
    made, x = guarded(make)
    given = dict(x.parts) if isinstance(x, Bundle) else x
    texts, before = set(), torch.get_num_threads()
    try:
        for threads, size in ((1, 1 << 24), (2, 1 << 24), (2, 1)):
            torch.set_num_threads(threads)
            out = tmp_path / f"{threads}-{size}.jsonl"
            score(made, given, out, batch_bytes=size)
            texts.add(out.read_bytes())
    finally:
        torch.set_num_threads(before)
    assert len(texts) == 1
    own = [line.partition(b",")[2] for line in texts.pop().splitlines()]
    assert own == [line[1:] for line in lines(steady(make)(x))]


def test_a_guard_that_is_not_steady_says_so_and_decides_row_by_row(monkeypatch):
    made, x = guarded(by_class)
    monkeypatch.setattr(module, "_least", lambda _: None)
    once = Steady(made)
    assert once.least is None
    assert bits(once(x[:5])) == bits(type(made(x)).join([once(x[i : i + 1]) for i in range(5)]))


def test_one_row_whose_score_is_lost_leaves_the_others_alone():
    """Numbers so large that a detector gives NaN are, as infinite ones, not finite: OOD."""
    made, x = guarded(odd)
    found = decided_together(made, x[:20]).columns()
    assert found["rule"][[5, 6, 8]].tolist() == ["not finite"] * 3
    assert not found["in_range"][[5, 6, 7, 8]].any()
    assert "not finite" not in {*found["rule"][:5], *found["rule"][9:]}


def test_a_start_costs_few_batches(monkeypatch):
    """All sizes up to that of the smallest part are compared, in two places; others are thinned."""
    sizes = []

    def counted(guard, x, least=module.FEWEST):
        sizes.append(len(x))
        return decided_together(guard, x, least)

    monkeypatch.setattr(module, "decided_together", counted)
    monkeypatch.setattr(module, "SLOW", np.inf)
    assert Steady(guarded(odd)[0]).least == steady(odd).least
    assert len(sizes) <= 50
    small = {size for size in sizes if steady(odd).least <= size <= module.FEWEST}
    assert small == set(range(steady(odd).least, module.FEWEST + 1))
    assert all(sizes.count(size) == 2 for size in small)
