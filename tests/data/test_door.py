"""The door: every form of the same data gives the same batches; what cannot be used is refused."""

from collections import UserDict

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader, Dataset, TensorDataset

from nescio.core import Bundle, NescioError, hash_inputs
from nescio.data import blobs, door, read_table
from nescio.data.ood import uniform
from nescio.data.readers import open_stream

X = torch.arange(20.0).reshape(10, 2)
Y = torch.arange(10) % 3
IDS = torch.arange(30).reshape(10, 3)
MASK = torch.ones(10, 3, dtype=torch.bool)


class Sentences(Dataset):
    def __len__(self):
        return len(IDS)

    def __getitem__(self, index):
        return {"ids": IDS[index], "mask": MASK[index], "labels": Y[index]}


TENSORS = {
    "pair": lambda size: (X, Y),
    "list": lambda size: [X, Y],
    "arrays": lambda size: (X.numpy(), Y.numpy()),
    "nested lists": lambda size: (X.tolist(), Y.tolist()),
    "table": lambda size: (read_table({"a": X[:, 0], "b": X[:, 1]}), Y),
    "dataset": lambda size: TensorDataset(X, Y),
    "loader": lambda size: DataLoader(TensorDataset(X, Y), batch_size=size),
    "batches": lambda size: list(zip(X.split(size), Y.split(size), strict=True)),
    "two batches": lambda size: ((X[:7], Y[:7]), (X[7:], Y[7:])),
    "generator": lambda size: (b for b in zip(X.split(size), Y.split(size), strict=True)),
}
MAPPINGS = {
    "mapping": lambda size: {"ids": IDS, "mask": MASK, "labels": Y},
    "label": lambda size: {"mask": MASK.numpy(), "label": Y.tolist(), "ids": IDS.tolist()},
    "another mapping": lambda size: UserDict(ids=IDS, mask=MASK, labels=Y),
    "pair": lambda size: ({"ids": IDS, "mask": MASK}, Y),
    "dataset": lambda size: Sentences(),
    "loader": lambda size: DataLoader(Sentences(), batch_size=size),
    "pairs": lambda size: [({"ids": IDS[i : i + size], "mask": MASK[i : i + size]}, Y[i : i + size])
                           for i in range(0, 10, size)],
}  # fmt: skip


@pytest.mark.parametrize("form", TENSORS)
@given(size=st.integers(1, 12))
def test_all_forms_of_tensors_read_alike(form, size):
    x, y = door.read(TENSORS[form](size), dtype=torch.float32)
    assert x.dtype == torch.float32
    assert torch.equal(x, X)
    assert torch.equal(y, Y)
    if form != "list":  # [x, y] may be two batches: only where labels are needed it is a pair
        source = door.batches(TENSORS[form](size), batch_size=size, dtype=torch.float32)
        first = source.first
        pieces = list(source)
        assert torch.equal(first[0], pieces[0][0])
        assert torch.equal(torch.cat([x for x, _ in pieces]), X)
        assert torch.equal(torch.cat([y for _, y in pieces]), Y)


@pytest.mark.parametrize("form", MAPPINGS)
@given(size=st.integers(1, 12))
def test_all_forms_of_mappings_read_alike(form, size):
    x, y = door.read(MAPPINGS[form](size), dtype=torch.float32)
    assert isinstance(x, Bundle)
    assert torch.equal(x["ids"], IDS)  # whole numbers stay whole
    assert torch.equal(x["mask"], MASK)
    assert torch.equal(y, Y)
    assert torch.equal(hash_inputs(x), hash_inputs(Bundle({"ids": IDS, "mask": MASK})))


def test_a_tuple_of_inputs_keeps_its_order_and_floats_are_converted():
    data = (X.double(), IDS), Y
    loader = DataLoader([((X[i].double(), IDS[i]), Y[i]) for i in range(10)], batch_size=4)
    for form in (data, loader, [((X[:4], IDS[:4]), Y[:4]), ((X[4:], IDS[4:]), Y[4:])]):
        x, y = door.read(form, dtype=torch.float32)
        assert x.is_tuple
        assert torch.equal(x["0"], X)
        assert torch.equal(x["1"], IDS)
        assert torch.equal(y, Y)
    (alone,) = door.input_batches((X, IDS), batch_size=100)
    assert list(alone.parts) == ["0", "1"]


def test_reading_whole_copies_nothing_that_is_there():
    assert door.read((X, Y))[0].data_ptr() == X.data_ptr()
    images = torch.zeros(4, 1, 2, 2, dtype=torch.uint8)
    assert door.read((images, Y[:4]))[0].data_ptr() == images.data_ptr()


def test_streams_of_files_and_sources_are_read_too(tmp_path):
    np.save(tmp_path / "x.npy", X.numpy())
    assert torch.equal(door.read(open_stream(tmp_path / "x.npy"), labels=False)[0], X)
    noise = uniform((2,))
    ((found, labels),) = door.batches(noise, count=5)
    assert torch.equal(found, noise(torch.arange(5)))
    assert labels is None
    with pytest.raises(NescioError, match="endless; say how many inputs to take: count="):
        door.read(noise, labels=False)


def test_arrow_tables_are_arrays_of_their_columns():
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"a": X[:, 0].numpy(), "b": X[:, 1].numpy()})
    assert torch.equal(door.read((table, Y), dtype=torch.float32)[0], X)
    with pytest.raises(NescioError, match="column 'a' holds text"):
        door.read(pa.table({"a": ["x", "y"]}), labels=False)
    assert read_table(table)["b"].tolist() == X[:, 1].tolist()


def test_whole_numbers_become_floats_unless_they_are_tokens():
    assert next(iter(door.batches(IDS, dtype=torch.float32)))[0].dtype == torch.float32
    assert next(iter(door.batches(IDS, dtype=torch.float32, tokens=True)))[0].dtype == torch.int64


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (DataLoader(TensorDataset(X[:3], Y[:3]), batch_size=5, drop_last=True), "no batch came"),
        ([(X[:4], Y[:4]), (X[4:, :1], Y[4:])], r"different shapes per sample: \(2,\), then \(1,\)"),
        ([{"a": X[:4], "labels": Y[:4]}, {"b": X[4:], "labels": Y[4:]}], "different keys: a, then"),
        ([(X, Y), ({"a": X}, Y)], "one tensor and some are several"),
        (X, r"must have labels.*'labels'; a Tensor of shape \(10, 2\) has none"),
        ({"input_ids": IDS}, "must have labels"),
        ([{"input_ids": IDS}], "must have labels"),
        ({"labels": Y}, "no key but labels"),
        ({}, "data must be an array.*got a dict"),
        ({"ids": IDS, "mask": MASK[:4], "labels": Y}, "rows are {'ids': 10, 'mask': 4}"),
        ({"ids": IDS, "text": ["a"] * 10, "labels": Y}, "'text' must be a tensor"),
        ({"ids": IDS, "x": X * torch.nan, "labels": Y}, "'x' contain NaN"),
        (({"ids": IDS}, Y[:3]), "10 inputs but 3 labels"),
        ((read_table({"a": ["x", "y"]}), Y[:2]), "column 'a' holds text; learn how to encode"),
        (blobs(), "whole data set; give a part of it"),
        (7, "data must be an array.*got a int"),
        ("photos", "got a str"),
        ([(X, Y, Y)], r"got a tuple of 3.*several inputs are a tuple"),
    ],
)
def test_what_cannot_be_read_is_refused(data, message):
    with pytest.raises(NescioError, match=message):
        door.read(data)


def test_a_generator_is_read_once():
    source = door.batches((b for b in X.split(4)), batch_size=4)
    assert len(source.first[0]) == 4
    assert sum(len(x) for x, _ in source) == 10
    with pytest.raises(NescioError, match="read only once"):
        list(source)
    with pytest.raises(NescioError, match="read only once"):
        _ = source.first
    again = door.batches(X, batch_size=4)
    assert len(list(again)) == len(list(again)) == 3


def test_data_without_end_stop_at_a_limit():
    with pytest.raises(NescioError, match=r"more than 1,000 bytes"):
        door.read(((X, Y) for _ in iter(int, 1)), memory=1000)


def test_a_list_of_samples_is_one_array():
    rows = [torch.arange(3.0) + i for i in range(4)]
    found, _ = door.read(rows, labels=False)
    assert torch.equal(found, torch.stack(rows))
    assert torch.equal(door.as_network_inputs([row.numpy() for row in rows]), found)
    images = [torch.zeros(1, 4, 4) for _ in range(5)]
    (batch,) = door.input_batches(images, shape=(1, 4, 4))
    assert batch.shape == (5, 1, 4, 4)
    pairs = [(torch.zeros(2, 3), torch.zeros(2).long())] * 2
    assert door.read(pairs)[0].shape == (4, 3)
    assert door.read([torch.zeros(2, 3), torch.ones(1, 3)], labels=False)[0].shape == (3, 3)
