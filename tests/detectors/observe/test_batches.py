"""Data of every form gives the same activations; what cannot be read is refused."""

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

import nescio
from nescio.core import NescioError
from nescio.data.ood import stored, uniform


class Stream(IterableDataset):
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __iter__(self):
        return iter(zip(self.x, self.y, strict=True))


class Cases(Dataset):
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return self.x[index], int(self.y[index])


FORMS = {
    "pair": lambda x, y: (x, y),
    "arrays": lambda x, y: (x.numpy(), y.numpy()),
    "doubles": lambda x, y: (x.numpy().astype(np.float64), y.tolist()),
    "backwards": lambda x, y: (x.flip(0).numpy()[::-1], y.flip(0).numpy()[::-1]),
    "column of labels": lambda x, y: (x, y[:, None]),
    "small labels": lambda x, y: (x, y.to(torch.uint8)),
    "loader": lambda x, y: DataLoader(TensorDataset(x, y), batch_size=7),
    "dropping": lambda x, y: DataLoader(TensorDataset(x, y), batch_size=23, drop_last=True),
    "samples": lambda x, y: Cases(x, y),
    "dataset": lambda x, y: TensorDataset(x, y),
    "stream": lambda x, y: DataLoader(Stream(x, y), batch_size=7),
    "bare stream": lambda x, y: Stream(x, y),
    "list": lambda x, y: list(zip(x.split(6), y.split(6), strict=True)),
    "two batches": lambda x, y: ((x[:9], y[:9]), (x[9:], y[9:])),
    "generator": lambda x, y: ((a, b) for a, b in zip(x.split(6), y.split(6), strict=True)),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same(net, x, y, form):
    expected = nescio.observe(net, (x, y))
    found = nescio.observe(net, FORMS[form](x, y), inputs=True)
    torch.testing.assert_close(found.logits, expected.logits, rtol=1e-4, atol=1e-5)
    assert torch.equal(found.labels, y)
    assert found.labels.dtype == torch.int64
    assert torch.equal(found.inputs, x)
    assert torch.equal(found.hashes, expected.hashes)


@pytest.mark.parametrize(
    "data",
    [
        lambda x: x,
        lambda x: x.numpy(),
        lambda x: (x, None),
        lambda x: [x[:9], x[9:]],
        lambda x: [(x[:9],), (x[9:],)],
        lambda x: DataLoader(x, batch_size=4),
    ],
)
def test_data_without_labels(net, x, y, data):
    assert nescio.observe(net, data(x)).labels is None
    assert torch.equal(nescio.observe(net, data(x), labels=y).labels, y)


def test_numbers_in_lists():
    net = torch.nn.Linear(2, 2)
    found = nescio.observe(net, [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    assert len(found) == 3


def test_memory_mapped_arrays_are_read_a_batch_at_a_time(net, x, tmp_path):
    np.save(tmp_path / "x.npy", x.numpy())
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    found = nescio.observe(net, mapped, batch_size=5, inputs=True)
    assert torch.equal(found.inputs, x)
    assert torch.equal(found.logits, nescio.observe(net, x, batch_size=5).logits)


def test_labels_can_be_left_out_or_replaced(net, x, y):
    assert nescio.observe(net, (x, y), labels=False).labels is None
    other = (y + 1) % 3
    assert torch.equal(nescio.observe(net, (x, y), labels=other).labels, other)
    targets = torch.rand(23, 4)
    assert nescio.observe(net, (x, targets), labels=False).labels is None


def test_numbers_as_labels_are_no_classes(net, x):
    with pytest.raises(NescioError, match="(?s)not known how to read.*gaussian: Mean and variance"):
        nescio.observe(net, (x, torch.rand(23)))
    found = nescio.observe(net, (x, torch.rand(23)), head="categorical")
    assert found.labels.dtype == torch.float32
    with pytest.raises(NescioError, match="whole numbers"):
        found.known()


def test_labels_may_have_gaps(net, x, y):
    assert torch.equal(nescio.observe(net, (x, 7 * y)).labels, 7 * y)


@pytest.mark.parametrize("count", [1, 6, 7, 22, 23])
def test_count_takes_the_first_samples(net, x, y, count):
    expected = nescio.observe(net, (x[:count], y[:count]))
    for form in ("pair", "loader", "generator"):
        found = nescio.observe(net, FORMS[form](x, y), count=count, batch_size=7, inputs=True)
        assert len(found) == count
        assert torch.equal(found.labels, y[:count])
        assert torch.equal(found.inputs, x[:count])
        assert torch.equal(found.hashes, expected.hashes)


def test_out_distributions_need_a_count(net):
    noise = uniform((2, 8, 8), seed=5)
    found = nescio.observe(net, noise, count=20, batch_size=6, inputs=True)
    assert torch.equal(found.inputs, noise.take(20))
    assert found.labels is None
    with pytest.raises(NescioError, match="endless; say how many inputs to take: count=1000"):
        nescio.observe(net, noise)


def test_out_distributions_that_end(net):
    given = stored(uniform((2, 8, 8), seed=5), 23)
    found = nescio.observe(net, given, inputs=True)
    assert torch.equal(found.inputs, given.take(23))
    with pytest.raises(NescioError, match="count=24, but .* has 23"):
        nescio.observe(net, given, count=24)


def test_a_part_of_a_data_set(net):
    digits = nescio.data.digits()
    small = nescio.nets.digit_cnn()
    found = nescio.observe(small, digits.test, count=50)
    assert torch.equal(found.labels, digits.test[1][:50])
    with pytest.raises(NescioError, match="is a whole data set; give a part of it"):
        nescio.observe(small, digits)


def test_a_shuffled_loader_keeps_networks_and_samples_together(net, x, y):
    torch.manual_seed(8)
    loader = DataLoader(TensorDataset(x, y), batch_size=5, shuffle=True)
    found = nescio.observe([net, net], loader, inputs=True)
    assert torch.equal(found.logits[0], found.logits[1])
    torch.testing.assert_close(
        found.answers[0](found.inputs), found.logits[0], rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (lambda x, y: x[:0], "empty"),
        (lambda x, y: (x[:0], y[:0]), "empty"),
        (lambda x, y: [], "no batch came"),
        (lambda x, y: [x, x[:0]], "the inputs from sample 23 are empty"),
        (lambda x, y: iter(()), "no batch came"),
        (lambda x, y: DataLoader(TensorDataset(x[:5]), batch_size=7, drop_last=True), "no batch"),
        (lambda x, y: (x, y[:5]), "23 inputs but 5 labels"),
        (lambda x, y: [(x, y[:5])], r"labels must be \(23,\)"),
        (lambda x, y: (x, torch.eye(3)[y]), r"argmax\(1\).*labels=False"),
        (lambda x, y: [(x[:5], y[:5]), x[5:]], "some batches have labels"),
        (lambda x, y: [(x, y, y)], r"a batch must be x or \(x, y\), got a tuple of 3"),
        (lambda x, y: [{"image": x}], "does not take inputs of shape {'image'"),
        (lambda x, y: {}, "data must be an array.*got a dict"),
        (lambda x, y: {"labels": y}, "no key but labels"),
        (lambda x, y: "mnist", "got a str"),
        (lambda x, y: 5, "got a int"),
        (lambda x, y: None, "got a NoneType"),
        (lambda x, y: torch.randint(0, 255, (5, 8), dtype=torch.uint8), "only images"),
        (lambda x, y: x.to(torch.complex64), "real numbers"),
        (lambda x, y: torch.ones(4), "must have shape"),
        (lambda x, y: [x[:5], x[5:, :, :6, :6]], "does not take inputs of shape"),
    ],
)
def test_what_cannot_be_read_is_refused(net, x, y, data, message):
    with pytest.raises(NescioError, match=message):
        nescio.observe(net, data(x, y))


def test_inputs_that_are_nan(net, x):
    x[17, 0, 0, 0] = torch.nan
    with pytest.raises(
        NescioError, match=r"the inputs from sample 16 contain NaN.*first in sample 1\)"
    ):
        nescio.observe(net, x, batch_size=8)


@pytest.mark.parametrize("option", [{"count": 24}, {"count": 0}, {"batch_size": 0}, {"memory": -1}])
def test_sizes_that_do_not_fit(net, x, option):
    with pytest.raises(NescioError, match="count|batch_size|memory"):
        nescio.observe(net, x, **option)


@pytest.mark.parametrize("labels", [torch.arange(5), torch.arange(30), torch.tensor(3)])
def test_labels_that_do_not_fit(net, x, labels):
    with pytest.raises(NescioError, match="labels"):
        nescio.observe(net, x, labels=labels)


def test_a_loader_that_gives_more_than_it_says(net, x):
    def twice(samples):
        return torch.stack(samples).repeat(2, 1, 1, 1)

    loader = DataLoader(x, batch_size=5, collate_fn=twice)
    with pytest.raises(NescioError, match=r"more than the 25 samples.*iter\(loader\)"):
        nescio.observe(net, loader)
    assert len(nescio.observe(net, iter(loader))) == 46
