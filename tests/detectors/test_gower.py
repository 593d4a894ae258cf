"""Gower neighbors: against the definition, pair by pair and column by column."""

import importlib
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nescio import load
from nescio.core import NescioError
from nescio.data import learn_columns, read_table
from nescio.detectors import gower
from nescio.detectors.activations import Activations
from nescio.detectors.gower import EncodedRows, as_encoded, distances, read_rows

KINDS = {"v": "continuous", "g": "ordinal", "c": "categorical", "d": "categorical"}


def draw(seed, rows, unseen=False):
    rng = np.random.default_rng(seed)

    def holes(values):
        return [None if rng.random() < 0.2 else v for v in values]

    levels = ["a", "b", "c", "new"] if unseen else ["a", "b", "c"]
    return read_table(
        {
            "v": holes(rng.normal(size=rows) * (3 if unseen else 1)),
            "g": holes(rng.integers(0, 5 if unseen else 4, rows).tolist()),
            "c": holes(rng.choice(levels, rows).tolist()),
            "d": holes(rng.choice([0, 1], rows).tolist()),
        }
    )


def activations(x, members=1):
    return Activations(logits=torch.zeros(members, len(x), 2), inputs=x)


def by_definition(one, two, columns, ranges, missing):
    """A distance of two rows as dicts of raw values."""
    total = count = 0.0
    for column in columns.columns:
        a, b = one[column.name], two[column.name]
        gone = [v == "" if isinstance(v, str) else np.isnan(v) for v in (a, b)]
        if missing == "skip" and any(gone):
            continue
        count += 1
        if any(gone):
            total += float(not all(gone))
        elif column.kind == "categorical":
            known = {f"{v:g}" if not isinstance(v, str) else v for v in (a, b)}
            total += float(a != b or not known <= set(column.levels))
        elif column.kind == "ordinal" and not {f"{a:g}", f"{b:g}"} <= set(column.levels):
            total += 1
        elif column.kind == "ordinal":
            places = [column.levels.index(f"{v:g}") for v in (a, b)]
            total += abs(places[0] - places[1]) / max(1, len(column.levels) - 1)
        else:
            total += abs(a - b) / ranges[column.name]
    return total / count if count else 1.0


def rows_of(table):
    return [{n: table[n][i] for n in table.names} for i in range(len(table))]


@pytest.mark.parametrize("missing", ["level", "skip"])
@given(seed=st.integers(0, 1000), k=st.integers(1, 4))
@settings(deadline=None, max_examples=15)
def test_the_score_is_the_definition(missing, seed, k):
    train, test = draw(seed, 12), draw(seed + 1, 8, unseen=True)
    columns = learn_columns(train, KINDS)
    ranges = {"v": np.nanmax(train["v"]) - np.nanmin(train["v"])}
    detector = gower(activations(columns.encode(train).x), columns=columns, k=k, missing=missing)
    found = detector(activations(columns.encode(test).x))
    every = [
        [by_definition(one, two, columns, ranges, missing) for two in rows_of(train)]
        for one in rows_of(test)
    ]
    expected = np.sort(np.array(every), 1)[:, :k].mean(1)
    np.testing.assert_allclose(found.numpy(), expected, rtol=2e-5, atol=2e-6)


def test_blocks_of_queries_and_bank_change_nothing(monkeypatch):
    train, test = draw(0, 200), draw(1, 60, unseen=True)
    columns = learn_columns(train, KINDS)
    in_dist, ood = (activations(columns.encode(t).x) for t in (train, test))
    detector = gower(in_dist, columns=columns)
    whole = detector(ood)
    module = importlib.import_module("nescio.detectors.gower")  # the function has the same name
    monkeypatch.setattr(module, "QUERIES", 7)
    monkeypatch.setattr(module, "PAIRS", 7 * 13)
    torch.testing.assert_close(detector(ood), whole, rtol=1e-6, atol=1e-7)
    one = torch.cat([detector(ood[i : i + 1]) for i in range(len(ood))])
    torch.testing.assert_close(one, whole, rtol=1e-6, atol=1e-7)


def test_every_option_changes_something_and_files_keep_it(tmp_path):
    train, test = draw(0, 50), draw(1, 20, unseen=True)
    columns = learn_columns(train, KINDS)
    in_dist, ood = (activations(columns.encode(t).x) for t in (train, test))
    base = gower(in_dist, columns=columns)(ood)
    for options in ({"k": 2}, {"missing": "skip"}, {"bank": 20}, {"bank": 20, "seed": 1}):
        assert not torch.equal(gower(in_dist, columns=columns, **options)(ood), base)
    drawn = [gower(in_dist, columns=columns, bank=20, seed=s)(ood) for s in (0, 0, 1)]
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])
    again = load(gower(in_dist, columns=columns).save(tmp_path / "d.safetensors"))
    assert torch.equal(again(ood), base)


def test_plain_numbers_need_no_columns_and_grow_ood():
    x = torch.randn(100, 3, generator=torch.Generator().manual_seed(0))
    detector = gower(activations(x), k=1)
    width = x.amax(0) - x.amin(0)
    far = torch.tensor([[1e6, 0.0, 0.0], [10.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    expected = ((far[:, None] - x).abs() / width).mean(-1).amin(1)
    torch.testing.assert_close(detector(activations(far)), expected)
    assert (detector(activations(x)) == 0).all()


def test_several_networks_see_the_same_rows():
    x = torch.randn(30, 2, generator=torch.Generator().manual_seed(0))
    each = gower(activations(x, 3)).each(activations(x + 1, 3))
    assert each.shape == (3, 30)
    assert torch.equal(each[0], each[2])


def test_what_is_refused():
    seen = Activations(logits=torch.zeros(6, 2), inputs=torch.rand(6, 3))
    with pytest.raises(NescioError, match="bank must be a whole number of rows"):
        gower(seen, bank=-3, k=1)
    with pytest.raises(NescioError, match="k must be a whole number"):
        gower(seen, k=2.5)
    letters = learn_columns(read_table({"letter": ["a", "b", "a"]}))
    with pytest.raises(NescioError, match="one 1 among its levels and flags"):
        gower(Activations(logits=torch.zeros(6, 2), inputs=torch.rand(6, 4)), columns=letters)
    x = torch.randn(5, 4)
    with pytest.raises(NescioError, match="k must be a whole number in 1..5, .* got 6"):
        gower(activations(x), k=6)
    with pytest.raises(NescioError, match="observe with inputs=True"):
        gower(Activations(logits=torch.zeros(5, 2)))
    with pytest.raises(NescioError, match="NaN or infinite in 1 of 5"):
        gower(activations(torch.where(torch.arange(5)[:, None] == 2, torch.nan, x)))
    with pytest.raises(NescioError, match='"level" or "skip", got'):
        gower(activations(x), missing="guess")
    with pytest.raises(NescioError, match="inputs have 3 numbers, 4 columns take 4"):
        gower(activations(x))(activations(x[:, :3]))


def test_a_huge_number_beside_missing_ones():
    """A number of 1e30 that the other row lacks must not cost the figures of other columns."""
    one = EncodedRows(
        values=torch.tensor([[1e30, 0.25, 0.0]], dtype=torch.float64),
        missing=torch.tensor([[0.0, 0.0, 1.0]], dtype=torch.float64),
        unseen=torch.zeros(1, 3, dtype=torch.float64),
        levels=torch.zeros(1, 0, dtype=torch.float64),
        holes=torch.zeros(1, 0, dtype=torch.float64),
    )
    two = replace(
        one,
        values=torch.tensor([[0.0, 0.75, 1.0]], dtype=torch.float64),
        missing=torch.tensor([[1.0, 0.0, 0.0]], dtype=torch.float64),
    )
    assert float(distances(one, two)) == pytest.approx(2.5 / 3)
    assert float(distances(one, two, "skip")) == pytest.approx(0.5)


def test_dates_in_seconds_are_told_apart():
    rng = torch.Generator().manual_seed(0)
    x = 1.7e9 + 1000 * torch.rand(300, 2, generator=rng, dtype=torch.float64)
    train = Activations(logits=torch.zeros(300, 2), inputs=x)
    test = Activations(logits=torch.zeros(9, 2), inputs=x[:9] + 3)
    shifted = [Activations(logits=a.logits, inputs=a.inputs - 1.7e9) for a in (train, test)]
    torch.testing.assert_close(gower(train)(test), gower(shifted[0])(shifted[1]), rtol=1e-5, atol=0)


def test_what_never_varied_counts_as_much_as_all_columns():
    rng = torch.Generator().manual_seed(0)
    x = torch.cat([torch.rand(60, 9, generator=rng), torch.full((60, 1), 0.5)], 1)
    rows = x[:2].clone()
    rows[1, 9] = 1.5  # 1 from what all rows have
    train, test = (Activations(logits=torch.zeros(len(r), 2), inputs=r) for r in (x, rows))
    usual, strict = gower(train)(test), gower(train, unseen=1.0, bank=60)(test)
    assert strict[0] == usual[0]
    assert float(strict[1] - usual[1]) == pytest.approx(1.0)
    with pytest.raises(NescioError, match="unseen must be a number from 0 up"):
        gower(train, unseen=-1.0)


def test_numbers_become_the_nearest_rows_of_an_encoding():
    layout = [["continuous", 2], ["ordinal", 3], ["categorical", 4], ["number", 1]]
    noise = 3 * torch.randn(50, 10, generator=torch.Generator().manual_seed(0))
    rows = as_encoded(noise, layout)
    read_rows(rows, layout)  # refuses what an encoding would not give
    assert rows.dtype == noise.dtype
    assert torch.equal(as_encoded(rows, layout), rows)
    assert torch.equal(rows[:, 9], noise[:, 9])
    missing = noise[:, 1] > 0.5
    assert torch.equal(rows[:, 0], torch.where(missing, 0.0, noise[:, 0]))
    assert torch.equal(rows[:, 5:9].argmax(1), noise[:, 5:9].argmax(1))
