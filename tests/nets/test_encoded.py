"""Networks that read tables: the encoding travels with the network, the model and the guard."""

import warnings

import numpy as np
import pytest
import torch
from torch import nn

import nescio
from nescio.core import NescioError, NescioWarning
from nescio.data import learn_columns, read_table
from nescio.guards.score import score
from nescio.models import encoding_of
from nescio.nets import columns_of, encoded


def rows(count, seed, **changes):
    """A table whose class depends on its ward and its age, and the classes."""
    rng = np.random.default_rng(seed)
    age, ward = rng.normal(60, 10, count), rng.choice(["A", "B", "C"], count)
    pressure = np.where(rng.random(count) < 0.1, np.nan, rng.normal(130, 15, count))
    table = {"pressure": pressure, "ward": ward, "age": age, **changes}
    return read_table(table), torch.tensor((ward == "A") ^ (age > 60)).long()


TRAIN, CALIBRATION, TEST = (rows(count, seed) for count, seed in ((400, 0), (400, 1), (300, 2)))


@pytest.fixture(scope="module")
def model():
    return nescio.train(lambda inputs: nescio.nets.mlp(inputs, 2), TRAIN, epochs=15)


@pytest.fixture(scope="module")
def guard(model):
    return nescio.guard(model, CALIBRATION, train=TRAIN)


def test_training_learns_the_encoding_of_a_table(model):
    columns = encoding_of(model)
    assert columns == learn_columns(TRAIN[0])
    x = columns.encode(TEST[0]).x
    assert torch.equal(model(TEST[0]).logits, model(x).logits)
    assert (model(TEST[0]).labels == TEST[1]).float().mean() > 0.9


def test_a_model_file_holds_the_encoding(model, tmp_path):
    again = nescio.load(model.save(tmp_path).parent)
    assert encoding_of(again) == encoding_of(model)
    assert torch.equal(again(TEST[0]).logits, model(TEST[0]).logits)


def test_a_guard_and_its_file_hold_the_encoding(guard, tmp_path):
    found = guard(TEST[0])
    again = nescio.load(guard.save(tmp_path / "g.safetensors", weights=True))
    assert torch.equal(again(TEST[0]).score, found.score)
    mixed = read_table({name: TEST[0][name] for name in ("age", "ward", "pressure")})
    assert torch.equal(again(mixed).score, found.score)  # by name, in any order
    assert torch.equal(guard(dict(TEST[0].columns)).score, found.score)
    records = [{name: TEST[0][name][row] for name in TEST[0].names} for row in range(3)]
    torch.testing.assert_close(guard(records).score, found.score[:3], rtol=1e-5, atol=0)


def test_other_doors_read_tables_too(model):
    x = encoding_of(model).encode(TEST[0]).x
    for give in (
        lambda given: nescio.observe(model, (given, TEST[1])).logits,
        lambda given: nescio.models.plain(model.member(0))(given).logits,
        lambda given: nescio.calibration.temperature(model, (given, TEST[1]))(x).probs,
        lambda given: nescio.scorer(model, nescio.detectors.msp())(given),
    ):
        assert torch.equal(give(TEST[0]), give(x))
    found = nescio.compare(model, TEST, {"x": TEST}, task="confidence", resamples=10)
    assert found.about.features == (x.shape[1],)


def test_the_score_of_a_table_and_of_its_file(guard, tmp_path):
    path = tmp_path / "test.csv"
    names = TEST[0].names
    cells = ["?" if v != v or v == "" else str(v) for n in names for v in TEST[0][n].tolist()]
    lines = np.array(cells).reshape(len(names), -1).T.tolist()
    path.write_text("\n".join(",".join(line) for line in [list(names), *lines]))
    score(guard, path, tmp_path / "a.csv")
    score(guard, TEST[0], tmp_path / "b.csv")
    assert (tmp_path / "a.csv").read_text() == (tmp_path / "b.csv").read_text()


def test_a_network_of_the_users_with_an_encoding(tmp_path):
    columns = learn_columns(TRAIN[0])
    bare = nn.Sequential(nn.Linear(columns.width, 8), nn.ReLU(), nn.Linear(8, 2))
    net = encoded(bare, columns)
    assert columns_of(bare) is None
    assert columns_of(net) == columns
    assert net[0].weight is bare[0].weight
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NescioWarning)  # an untrained network answers nothing
        made = nescio.guard(net, CALIBRATION, train=TRAIN, calibration_map=None)
    path = made.save(tmp_path / "g.safetensors", weights=True)
    assert torch.equal(nescio.load(path, net=bare)(TEST[0]).score, made(TEST[0]).score)
    other = encoded(bare, learn_columns(CALIBRATION[0]))
    with pytest.raises(NescioError, match="encodes its columns otherwise"):
        nescio.load(path, net=other)
    with pytest.raises(NescioError, match="come from learn_columns"):
        encoded(bare, ["age"])


def test_a_factory_of_inputs_needs_a_table():
    with pytest.raises(NescioError, match="the factory takes inputs"):
        nescio.train(lambda inputs: nescio.nets.mlp(inputs, 2), (torch.zeros(4, 2), [0, 1, 0, 1]))
    with pytest.raises(NescioError, match="learn how to encode"):
        nescio.train(lambda: nescio.nets.mlp(3, 2), TRAIN)


def test_a_table_that_lacks_a_column_is_refused(guard):
    with pytest.raises(NescioError, match="unknown column 'age'"):
        guard(TEST[0].without("age"))


class Frame:
    """A table as pandas has them, with the mark of its own for what is missing."""

    def __init__(self, **columns):
        self.values = columns
        self.columns = list(columns)

    def __getitem__(self, name):
        return self.values[name]

    def __array__(self, *_, **__):
        return np.stack([np.asarray(column) for column in self.values.values()], 1)


class Series(list):
    def isna(self):
        return np.array([str(value) == "<NA>" for value in self])


class Nothing:
    def __repr__(self):
        return "<NA>"


def test_a_frame_of_numbers_is_read_by_its_names(tmp_path):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 400)), 5 + rng.normal(size=(2, 400))
    y = torch.tensor(a[0] > 0).long()
    model = nescio.train(lambda: nescio.nets.mlp(2, 2), (Frame(a=a[0], b=b[0]), y), epochs=3)
    wanted = model(np.stack([a[1], b[1]], 1)).logits
    assert torch.equal(model(Frame(b=b[1], a=a[1])).logits, wanted)
    with pytest.raises(NescioError, match="unknown column 'a'"):
        model(Frame(b=b[1], c=a[1]))
    labels = torch.tensor(a[1] > 0).long()
    guard = nescio.guard(model.member(0), (Frame(a=a[1], b=b[1]), labels), head="categorical")
    turned = guard(Frame(b=b[0], a=a[0])).score
    other = guard(np.stack([a[0], b[0]], 1)).score  # gower reads numbers of an array in float64
    torch.testing.assert_close(turned, other, rtol=1e-4, atol=1e-4)


def test_the_mark_of_pandas_for_missing_is_missing():
    frame = Frame(a=Series(["x", Nothing(), "y"]), b=Series([True, Nothing(), False]))
    table = read_table(frame)
    assert table["a"].tolist() == ["x", "", "y"]
    np.testing.assert_array_equal(table["b"], [1, np.nan, 0])


def test_detectors_of_tables_know_the_columns(model):
    train = nescio.observe(model, TRAIN, inputs=True)
    gower = nescio.detectors.gower(train)
    assert gower.options["columns"] == encoding_of(model).layout
    columns = encoding_of(model)
    given = nescio.detectors.gower(train, columns=columns)
    test = nescio.observe(model, TEST, inputs=True)
    assert torch.equal(gower(test), given(test))
    nescio.detectors.smoothed_density(train)(test)
