"""The smoothed density: against scipy, hand counts, brute-force trees, and its own integral."""

import importlib
import itertools
import math

import numpy as np
import pytest
import torch
from scipy.stats import gaussian_kde

from nescio import load
from nescio.core import NescioError
from nescio.data import learn_columns, read_table
from nescio.detectors import smoothed_density
from nescio.detectors.activations import Activations

density = importlib.import_module("nescio.detectors.smoothed_density")  # beside the function
KINDS = {"v": "continuous", "g": "ordinal", "c": "categorical", "d": "categorical"}


def activations(x, members=1):
    return Activations(logits=torch.zeros(members, len(x), 2, dtype=torch.float64), inputs=x)


def draw(seed, rows, *, holes=True):
    """Columns that hang together: g follows v, d follows c."""
    rng = np.random.default_rng(seed)
    v = rng.normal(size=rows)
    c = rng.integers(0, 3, rows)
    d = np.where(rng.random(rows) < 0.9, c == 1, rng.random(rows) < 0.5).astype(int)
    g = np.clip(np.round(v + 2), 0, 4).astype(int)

    def with_holes(values):
        return [None if holes and rng.random() < 0.1 else value for value in values]

    return read_table(
        {
            "v": with_holes(v.tolist()),
            "g": with_holes(g.tolist()),
            "c": with_holes([["a", "b", "c"][i] for i in c]),
            "d": with_holes(d.tolist()),
        }
    )


def test_numbers_have_the_kernels_of_scipy():
    x = torch.randn(300, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    deviation = x.std(correction=0).item()
    spread = min(deviation, np.subtract(*np.quantile(x, [0.75, 0.25])) / 1.34)
    at = np.linspace(-4, 4, 50)
    for bandwidth in (1.0, 2.0):
        width = bandwidth * 0.9 * spread * 300**-0.2
        kernel = gaussian_kde(x[:, 0].numpy(), bw_method=width / x.std(correction=1).item())
        found = smoothed_density(activations(x), bandwidth=bandwidth)
        score = found(activations(torch.from_numpy(at)[:, None]))
        np.testing.assert_allclose(score, -kernel.logpdf(at), rtol=2e-3)


def test_levels_have_smoothed_shares():
    columns = learn_columns(read_table({"c": list("aab?")}), {"c": "categorical"})
    train = columns.encode(read_table({"c": list("aab?")})).x
    test = columns.encode(read_table({"c": list("ab?x")})).x
    for smoothing in (1.0, 0.5):
        found = smoothed_density(activations(train), columns=columns, smoothing=smoothing)
        counts = np.array([2, 1, 1, 0]) + smoothing
        np.testing.assert_allclose(
            found(activations(test)), -np.log(counts / (4 + 4 * smoothing)), rtol=1e-12
        )


def test_a_missing_number_has_its_own_share():
    columns = learn_columns(read_table({"v": [0.0, 1.0, None]}), {"v": "continuous"})
    train = columns.encode(read_table({"v": [0.0, 1.0, None]})).x
    found = smoothed_density(activations(train), columns=columns)
    score = found(activations(columns.encode(read_table({"v": [None]})).x))
    np.testing.assert_allclose(score, [-math.log(2 / 5)], rtol=1e-12)


@pytest.mark.parametrize("structure", ["product", "tree"])
def test_the_density_sums_to_one(structure):
    table = draw(0, 400)
    columns = learn_columns(table, {**KINDS, "g": "categorical"})
    found = smoothed_density(
        activations(columns.encode(table).x), columns=columns, structure=structure
    )
    if structure == "tree":
        assert (found.states[0]["parents"] >= 0).sum() >= 2
    step = 0.02  # of the encoded number
    z = torch.arange(-12, 12, step, dtype=torch.float64)
    marks = [torch.eye(column.width, dtype=torch.float64) for column in columns.columns[1:]]
    total = 0.0
    for rest in itertools.product(*marks):
        own = torch.cat([torch.stack([z, torch.zeros_like(z)], 1), torch.tensor([[0.0, 1.0]])])
        x = torch.cat([own, torch.cat(rest).expand(len(own), -1)], 1)
        p = (-found(activations(x))).exp()
        total += p[:-1].sum().item() * step + p[-1].item()
    assert abs(total - 1) < 1e-3


def test_the_tree_has_the_largest_gain_of_all_forests():
    rng = np.random.default_rng(0)
    for _ in range(20):
        gains = rng.normal(size=(4, 4))
        gains = torch.from_numpy(gains + gains.T)
        parents = density._spanning(gains)
        found = sum(gains[p, c].item() for c, p in enumerate(parents) if p >= 0)
        pairs = list(itertools.combinations(range(4), 2))
        best = max(
            sum(gains[i, j].item() for i, j in chosen)
            for size in range(4)
            for chosen in itertools.combinations(pairs, size)
            if _acyclic(chosen)
        )
        assert found == pytest.approx(best)


def _acyclic(edges):
    group = list(range(4))
    for i, j in edges:
        if group[i] == group[j]:
            return False
        group = [group[i] if g == group[j] else g for g in group]
    return True


def test_mutual_information_is_that_of_scikit_learn():
    from sklearn.metrics import mutual_info_score

    rng = np.random.default_rng(0)
    one = rng.integers(0, 3, 200)
    two = np.where(rng.random(200) < 0.6, one, rng.integers(0, 3, 200))
    marks = torch.from_numpy(np.concatenate([np.eye(4)[one], np.eye(3)[two]], 1))
    gains = density._gains(marks.mT @ marks, [4, 3])
    cost = 2 * 2 * math.log(200) / 400
    assert gains[0, 1].item() == pytest.approx(mutual_info_score(one, two) - cost)


def test_a_tree_sees_a_combination_that_never_occurs():
    table = draw(0, 1000, holes=False)
    columns = learn_columns(table, KINDS)
    train = activations(columns.encode(table).x)
    odd = table.rows(slice(1)).changed(c=["b"], d=[0.0])
    usual = table.rows(slice(1)).changed(c=["a"], d=[0.0])
    gaps = {}
    for structure in ("product", "tree"):
        found = smoothed_density(train, columns=columns, structure=structure)
        far, near = (found(activations(columns.encode(t).x)).item() for t in (odd, usual))
        gaps[structure] = far - near
    assert abs(gaps["product"]) < 0.3
    assert gaps["tree"] > 1.5
    parents = found.states[0]["parents"].tolist()
    assert {frozenset((c, p)) for c, p in enumerate(parents) if p >= 0} == {
        frozenset((0, 1)), frozenset((2, 3)),
    }  # fmt: skip


@pytest.mark.parametrize("structure", ["product", "tree"])
def test_unseen_and_far_is_further_out_in_any_block(structure, monkeypatch, tmp_path):
    table = draw(0, 300)
    columns = learn_columns(table, KINDS)
    train = activations(columns.encode(table).x)
    found = smoothed_density(train, columns=columns, structure=structure)
    one = table.rows([0])
    far = {"v": [1e4], "g": [9], "c": ["new"], "d": [7]}
    here = found(activations(columns.encode(one).x))
    for name, value in far.items():
        there = found(activations(columns.encode(one.changed(**{name: value})).x))
        assert there.isfinite()
        assert there > here
    whole = found(train)
    single = torch.cat([found(train[i : i + 1]) for i in range(20)])
    torch.testing.assert_close(single, whole[:20], rtol=1e-12, atol=0)
    again = load(found.save(tmp_path / "d.safetensors"))
    assert torch.equal(again(train), whole)


def test_every_option_changes_something():
    table = draw(0, 300)
    columns = learn_columns(table, KINDS)
    train = activations(columns.encode(table).x)
    base = smoothed_density(train, columns=columns, structure="tree")(train)
    for options in (
        {"structure": "product"}, {"bandwidth": 2.0}, {"smoothing": 0.1}, {"bins": 3},
    ):  # fmt: skip
        chosen = {"structure": "tree", **options}
        assert not torch.equal(smoothed_density(train, columns=columns, **chosen)(train), base)


@pytest.mark.parametrize("heavy", [False, True])
def test_values_that_share_kernels_keep_the_tails(heavy):
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.standard_t(3, (5000, 1)) if heavy else rng.normal(size=(5000, 1)))
    found = smoothed_density(activations(x))
    state = found.states[0]
    assert len(state["centers.0"]) < 600
    width = state["width.0"].item() / x.std(correction=1).item()
    kernel = gaussian_kde(x[:, 0].numpy(), bw_method=width)
    at = np.concatenate([np.linspace(-6, 6, 101), np.sort(x[:, 0])[[0, 1, 2, -3, -2, -1]]])
    score = found(activations(torch.from_numpy(at)[:, None]))
    np.testing.assert_allclose(score, -kernel.logpdf(at), rtol=0, atol=0.01)


def test_columns_without_any_value_or_with_one():
    columns = learn_columns(
        read_table({"a": [None, None], "b": [2.0, 2.0]}), {"a": "continuous", "b": "continuous"}
    )
    x = columns.encode(read_table({"a": [None, 1.0], "b": [2.0, 3.0]})).x
    score = smoothed_density(activations(x[:1].repeat(2, 1)), columns=columns)(activations(x))
    assert score.isfinite().all()
    assert score[1] > score[0]


def test_what_is_refused():
    x = torch.rand(5, 4)
    with pytest.raises(NescioError, match='"product" or "tree", got'):
        smoothed_density(activations(x), structure="graph")
    with pytest.raises(NescioError, match="must be positive"):
        smoothed_density(activations(x), bandwidth=0.0)
    with pytest.raises(NescioError, match="observe with inputs=True"):
        smoothed_density(Activations(logits=torch.zeros(5, 2)))
    found = smoothed_density(activations(x))
    with pytest.raises(NescioError, match="observe with inputs=True"):
        found(Activations(logits=torch.zeros(5, 2)))
    columns = learn_columns(read_table({"c": list("ab")}), {"c": "categorical"})
    with pytest.raises(NescioError, match="one 1 among its levels"):
        smoothed_density(activations(x), columns=columns)
