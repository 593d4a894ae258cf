"""observe: the same as hooks by hand, in any batches, in memory or in files; nothing is changed."""

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

import nescio
from nescio import nets
from nescio.core import NescioError
from nescio.detectors.activations import hash_inputs
from nescio.detectors.observe import store


def by_hand(net, x):
    """Every value in float64, one sample at a time, without any hook."""
    net = net.double().eval()
    found = {"conv": [], "norm": [], "block": [], "last": [], "logits": []}
    with torch.no_grad():
        for sample in x.double()[:, None]:
            conv = F.conv2d(sample, net.features[0].weight, net.features[0].bias)
            pooled = F.max_pool2d(F.relu(conv), 2)
            inner = net.block.norm(net.block.conv(pooled))
            block = F.relu(F.relu(inner) + pooled)
            last = F.relu(net.head[1](block.flatten(1)))
            for name, value in zip(found, (conv, inner, block, last, net.fc(last)), strict=True):
                found[name].append(value)
    net.float().train()
    return {name: torch.cat(values).float() for name, values in found.items()}


def close(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_by_default_it_takes_what_enters_the_last_linear_layer(net, x, y):
    expected = by_hand(net, x)
    found = nescio.observe(net, (x, y))
    close(found.logits[0], expected["logits"])
    assert list(found.features) == ["input of fc"]
    close(found.features["input of fc"][0], expected["last"])
    assert torch.equal(found.labels, y)
    assert found.inputs is None
    assert found.last == found.layer() == "input of fc"
    assert torch.equal(found.weight[0], net.fc.weight)
    assert torch.equal(found.bias[0], net.fc.bias)
    close(F.linear(found.features["input of fc"], found.weight[0], found.bias[0]), found.logits)
    assert repr(found) == "Activations(23 inputs, 3 classes; input of fc (7))"


def test_what_was_done_is_kept(net, x, y):
    made = nescio.observe(net, (x, y)).about
    assert json.loads(json.dumps(made)) == made
    assert made["network"] == "Images"
    assert made["layers"] == ["input of fc"]
    assert made["linear"] == "fc"
    assert made["pool"] == "mean"
    assert made["output"] is None
    assert made["dtype"] == "float32"
    assert made["widths"] == {"input of fc": 7}
    assert made["bytes"] == 23 * (4 * (3 + 7) + 8 + 8)  # logits, features, labels, hashes
    assert made["stored"] == "memory"
    again = nescio.observe(net, (x.numpy(), y.numpy()), batch_size=5)
    assert again.about["data"] == made["data"]
    assert nescio.observe(net, x[:-1]).about["data"] != made["data"]


@pytest.mark.parametrize("pool", ["mean", "max", "flatten"])
def test_maps_are_pooled(net, x, pool):
    expected = by_hand(net, x)
    function = {
        "mean": lambda f: f.mean((2, 3)),
        "max": lambda f: f.amax((2, 3)),
        "flatten": lambda f: f.flatten(1),
    }[pool]
    layers = ["features.0", "block.norm", "block"]
    found = nescio.observe(net, x, layers=layers, pool=pool)
    for name, own in zip(layers, ("conv", "norm", "block"), strict=True):
        close(found.features[name][0], function(expected[own]))
    mine = nescio.observe(net, x, layers=layers, pool=function)
    for name in layers:
        close(mine.features[name], found.features[name])
    assert mine.about["pool"]["function"].endswith("<lambda>")


def test_a_layer_is_read_before_the_next_one_writes_on_it(net, x):
    """features.0 and block.norm are followed by a ReLU in place: negative values must be seen."""
    found = nescio.observe(net, x, layers=["features.0", "block.norm"], pool="flatten")
    assert (found.features["features.0"] < 0).any()
    assert (found.features["block.norm"] < 0).any()


@settings(
    deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(size=st.integers(1, 30))
def test_batches_change_nothing(net, x, y, size):
    layers = ["features.*", None]
    whole = nescio.observe(net, (x, y), layers=layers)
    parts = nescio.observe(net, (x, y), layers=layers, batch_size=size)
    close(parts.logits, whole.logits)
    for name, value in whole.features.items():
        close(parts.features[name], value)
    assert torch.equal(parts.labels, whole.labels)
    assert torch.equal(parts.hashes, whole.hashes)


def state(net):
    return {
        "modes": [m.training for m in net.modules()],
        "flags": [p.requires_grad for p in net.parameters()],
        "gradients": [p.grad for p in net.parameters()],
        "tensors": {name: t.clone() for name, t in net.state_dict().items()},
        "hooks": [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in net.modules()],
    }


def assert_same(before, after):
    assert before["modes"] == after["modes"]
    assert before["flags"] == after["flags"]
    assert before["hooks"] == after["hooks"]
    assert all(a is b for a, b in zip(before["gradients"], after["gradients"], strict=True))
    for name, tensor in before["tensors"].items():
        assert torch.equal(tensor, after["tensors"][name]), name


def test_the_network_and_the_inputs_stay_as_they_were(net, x, y):
    net.block.eval()  # a mode of its own
    net.fc.weight.requires_grad_(False)
    net.head[1].weight.grad = torch.ones_like(net.head[1].weight)
    before, given = state(net), x.clone()
    nescio.observe(net, (x, y), layers=["*", None], inputs=True)
    assert_same(before, state(net))
    assert torch.equal(x, given)


def test_the_network_stays_as_it_was_when_something_fails(net, x):
    before = state(net)

    def fail(features):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        nescio.observe(net, x, layers="block", pool=fail)
    with pytest.raises(NescioError, match="does not take inputs of shape"):
        nescio.observe(net, x[:, :1])

    def broken():
        yield x[:5]
        raise OSError("a disk is gone")

    with pytest.raises(OSError, match="a disk is gone"):
        nescio.observe(net, broken())
    assert_same(before, state(net))


def test_a_first_layer_that_writes_in_place_does_not_reach_the_inputs():
    net = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(4, 2))
    x = torch.randn(6, 4)
    given = x.clone()
    found = nescio.observe(net, x, inputs=True)
    assert torch.equal(x, given)
    assert torch.equal(found.inputs, given)


def test_bytes_are_read_as_everywhere(net, y):
    images = torch.randint(0, 256, (23, 2, 8, 8), dtype=torch.uint8)
    found = nescio.observe(net, (images, y), inputs=True)
    floats = nescio.observe(net, (images.float() / 255, y))
    assert torch.equal(found.logits, floats.logits)
    assert torch.equal(found.hashes, floats.hashes)
    assert found.inputs.dtype == torch.uint8
    assert found.inputs.data_ptr() == images.data_ptr()  # no copy
    close(found.answers[0](images), found.logits[0])


def test_inputs_are_kept_where_asked(net, x):
    batches = [x[:9], x[9:]]
    for data in (x, x.numpy(), batches, iter(batches)):
        found = nescio.observe(net, data, inputs=True)
        assert torch.equal(found.inputs, x)
        assert torch.equal(found.hashes, hash_inputs(x))


def test_answers_have_gradients_with_respect_to_inputs_only(net, x):
    found = nescio.observe(net, x)
    before = state(net)
    leaf = x[:4].clone().requires_grad_()
    logits = found.answers[0](leaf)
    close(logits, found.logits[0, :4])
    logits[:, 0].sum().backward()
    reference = x[:4].clone().requires_grad_()
    net.eval()(reference)[:, 0].sum().backward()
    close(leaf.grad, reference.grad)
    net.zero_grad()
    net.train()
    assert_same(before, state(net))


# Files.


def same_bits(a, b):
    for name in ("logits", "labels", "inputs", "hashes"):
        assert torch.equal(getattr(a, name), getattr(b, name)), name
    assert a.features.keys() == b.features.keys()
    for name in a.features:
        assert torch.equal(a.features[name], b.features[name]), name


@pytest.mark.parametrize("members", [1, 3])
def test_files_hold_the_bits_that_memory_would(members, x, y, tmp_path):
    torch.manual_seed(0)
    several = [nets.mlp((2, 8, 8), 3, widths=(6, 5)) for _ in range(members)]
    options = {"layers": ["*", None], "inputs": True, "batch_size": 7}
    in_dist = nescio.observe(several, [(x[:10], y[:10]), (x[10:], y[10:])], **options)
    assert in_dist.about["stored"] == "memory"
    for folder in (None, tmp_path / "mine"):
        mapped = nescio.observe(
            several, [(x[:10], y[:10]), (x[10:], y[10:])], memory=0, folder=folder, **options
        )
        assert mapped.about["stored"] == "files"
        same_bits(in_dist, mapped)
    names = sorted(path.name for path in (tmp_path / "mine").iterdir())
    assert len(names) == 1 + len(in_dist.features) + 3
    assert all(name.endswith(".npy") for name in names)
    logits = np.load(tmp_path / "mine" / "0-logits.npy")
    assert np.array_equal(logits, in_dist.logits.numpy())


def test_temporary_files_go_with_the_value(net, x, tmp_path, monkeypatch):
    monkeypatch.setattr(store.tempfile, "tempdir", str(tmp_path))
    found = nescio.observe(net, x, memory=0)
    assert list(tmp_path.iterdir()) == []  # unnamed, and still readable
    close(found.logits, nescio.observe(net, x).logits)


def test_a_failed_pass_leaves_no_file(net, x, tmp_path, monkeypatch):
    monkeypatch.setattr(store.tempfile, "tempdir", str(tmp_path))

    def broken():
        yield x[:5]
        raise OSError("a disk is gone")

    for folder in (None, tmp_path / "mine"):
        with pytest.raises(OSError, match="a disk is gone"):
            nescio.observe(net, broken(), memory=0, folder=folder)
    assert list(tmp_path.rglob("*")) == [tmp_path / "mine"]


def test_a_disk_that_fills_up_is_said(net, x, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store.os, "replace", full)
    with pytest.raises(NescioError, match="cannot write .*0-logits.npy: No space left.*folder="):
        nescio.observe(net, x, memory=0, folder=tmp_path / "mine")
    assert list((tmp_path / "mine").iterdir()) == []


def test_an_older_value_outlives_its_files(net, x, tmp_path):
    options = {"memory": 0, "folder": tmp_path / "mine"}
    first = nescio.observe(net, x[:5], **options)
    kept = first.logits.clone()
    second = nescio.observe(net, x[5:], **options)
    assert torch.equal(first.logits, kept)
    assert len(second) == 18


def test_a_slice_and_the_mean_of_mapped_activations(net, x, y):
    in_dist, mapped = (nescio.observe(net, (x, y), memory=m) for m in (10**9, 0))
    assert torch.equal(mapped[3:9].logits, in_dist[3:9].logits)
    assert torch.equal(mapped.mean().logits, in_dist.mean().logits)
    mapped.features["input of fc"][0, 0] = 5.0  # a private copy of the page: no file to spoil


def test_a_generator_of_unknown_length(net, x, y):
    expected = nescio.observe(net, (x, y), inputs=True, batch_size=8)
    for memory in (10**9, 0):
        parts = zip(x.split(8), y.split(8), strict=True)
        found = nescio.observe(net, parts, inputs=True, memory=memory)
        same_bits(found, expected)
        assert found.about["stored"] == ("memory" if memory else "files")


def test_the_disk_must_have_room(net, x, monkeypatch):
    usage = store.shutil.disk_usage("/")._replace(free=1000)
    monkeypatch.setattr(store.shutil, "disk_usage", lambda _: usage)
    need = 2 * 23 * (4 * 10 + 8)
    with pytest.raises(NescioError, match=f"need {need} bytes .* 1000 .*folder="):
        nescio.observe(net, x, memory=0)


def test_bytes_are_said_before_anything_is_allocated(net, x, capsys, monkeypatch):
    said = []
    monkeypatch.setattr(store.Room, "open", lambda room, _: said.append(str(room)) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        nescio.observe(net, x, progress=True)
    assert said == ["1.1 kB in memory"]
    assert "1.1 kB in memory" in capsys.readouterr().err


def test_nothing_is_printed_where_there_is_no_terminal(net, x, capsys):
    nescio.observe(net, x)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (2_500_000_000, "2.5 GB"), (10**16, "1e+04 TB")],
)
def test_sizes_for_people(size, text):
    assert store.readable(size) == text


# Networks of other kinds.


class Returns(nn.Module):
    def __init__(self, wrap):
        super().__init__()
        self.fc = nn.Linear(4, 3)
        self.wrap = wrap

    def forward(self, x):
        return self.wrap(self.fc(x))


@pytest.mark.parametrize(
    ("wrap", "output", "text"),
    [
        (lambda z: (z, z), 1, "a tuple of 2"),
        (lambda z: {"loss": z.sum(), "z": z}, "z", "dictionary with 'loss', 'z'"),
        (lambda z: [{"z": z}], lambda out: out[0]["z"], "a list of 1"),
    ],
)
def test_networks_that_return_more_than_logits(wrap, output, text):
    net, x = Returns(wrap), torch.randn(5, 4)
    with pytest.raises(NescioError, match=f"{text}.*output="):
        nescio.observe(net, x)
    found = nescio.observe(net, x, output=output)
    close(found.logits[0], net.fc(x).detach())
    assert found.last == "input of fc"
    for made in (
        nescio.models.plain(net, output=output),
        nescio.models.ensemble([net], output=output),
    ):
        close(made(x).logits[0], net.fc(x).detach())
    with pytest.raises(NescioError, match="output=7"):
        nescio.observe(net, x, output=7)


@pytest.mark.parametrize(
    ("wrap", "output"),
    [
        (lambda z: (z.sum(), z), 1),
        (lambda z: (z.argmax(1)[:, None], z, z[:, None]), 1),
        (lambda z: {"loss": z.sum(), "logits": z, "hidden": z}, "logits"),
        (lambda z: SimpleNamespace(logits=z, hidden=z), "logits"),
    ],
)
def test_logits_are_found_and_where_is_said(wrap, output):
    net, x = Returns(wrap), torch.randn(5, 4)
    found = nescio.observe(net, x)
    close(found.logits[0], net.fc(x).detach())
    assert found.about["output"] == output
    close(nescio.models.plain(net)(x).logits[0], net.fc(x).detach())


@pytest.mark.parametrize(
    ("wrap", "message"),
    [
        (lambda z: z.sum(1), r"it has 1 output\(s\), the data have no labels"),
        (lambda z: z[:, :, None], r"it returned \(4, 3, 1\)"),
        (lambda z: z.T, r"it returned \(3, 4\)"),
        (lambda z: z.softmax(-1), "probabilities already"),
        (lambda z: None, "a NoneType"),
    ],
)
def test_what_is_no_logits_is_refused(wrap, message):
    with pytest.raises(NescioError, match=message):
        nescio.observe(Returns(wrap), torch.randn(5, 4))


@pytest.mark.parametrize(
    ("wrap", "known"),
    [
        (lambda z: z, True),
        (lambda z: z.view(-1, 3), True),
        (lambda z: 2 * z, False),
        (lambda z: z.mul_(2), False),
        (lambda z: z.clamp(-0.01, 0.01), False),
        (lambda z: z.log_softmax(-1), False),
    ],
)
def test_the_last_layer_is_known_only_where_its_output_is_the_networks(wrap, known):
    torch.manual_seed(0)
    found = nescio.observe(Returns(wrap), torch.randn(5, 4))
    assert (found.weight is not None) == known
    assert (found.about["linear"] == "fc") == known
    assert list(found.features) == ["input of fc"]


class Ends(nn.Module):
    def __init__(self, end):
        super().__init__()
        self.inp, self.fc, self.end = nn.Linear(4, 4), nn.Linear(4, 3), end

    def forward(self, x):
        return self.end(self.fc(self.inp(x)))


@pytest.mark.parametrize(
    "end",
    [
        lambda z: z.log_softmax(-1),
        lambda z: z.softmax(-1).log(),
        lambda z: z - z.logsumexp(-1, keepdim=True),
        nn.LogSoftmax(1),
    ],
)
def test_the_features_before_log_probabilities_are_known(end):
    torch.manual_seed(0)
    x = torch.randn(9, 4)
    net = Ends(end)
    found = nescio.observe(net, x, layers=["inp", None])
    assert found.layer() == found.last == "input of fc"
    assert torch.equal(found.features[found.last][0], net.inp(x).detach())
    assert found.weight is None  # the layer's logits are not the network's
    assert found.about["linear"] is None
    close(found.logits[0].logsumexp(-1), torch.zeros(9))
    both = nescio.observe([net, Ends(nn.Identity())], x, layers=["inp", None])
    assert both.last == "input of fc"
    assert both.weight is None
    assert both.about["linear"] is None
    with pytest.raises(NescioError, match="changes its logits after that layer"):
        nescio.detectors.react(found)


def test_a_linear_layer_of_its_own_kind_is_not_taken_for_a_plain_one():
    class Cosine(nn.Linear):
        def forward(self, x):
            return F.normalize(x) @ F.normalize(self.weight).T

    found = nescio.observe(nn.Sequential(nn.ReLU(), Cosine(4, 3)), torch.randn(5, 4))
    assert found.weight is None
    assert found.layer() == "input of 1"


def test_a_layer_without_bias_and_one_with_weight_norm():
    normed = torch.nn.utils.parametrizations.weight_norm(nn.Linear(4, 3, bias=False))
    found = nescio.observe(nn.Sequential(nn.Tanh(), normed), torch.randn(5, 4))
    close(found.weight[0], normed.weight.detach())
    assert torch.equal(found.bias, torch.zeros(1, 3))


def test_a_network_that_is_one_layer():
    net, x = nn.Linear(4, 3), torch.randn(5, 4)
    found = nescio.observe(net, x)
    assert torch.equal(found.features["input of ."][0], x)
    close(found.logits[0], net(x).detach())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_number_types_follow_the_network(net, x, dtype):
    expected = by_hand(net, x)
    found = nescio.observe(net.to(dtype), x, layers=["block", None], inputs=True)
    kept = torch.float64 if dtype == torch.float64 else torch.float32
    near = {"rtol": 0.05, "atol": 0.05} if dtype != torch.float64 else {"rtol": 1e-4, "atol": 1e-5}
    for value, own in (
        (found.logits[0], expected["logits"]),
        (found.features["block"][0], expected["block"].mean((2, 3))),
        (found.features["input of fc"][0], expected["last"]),
    ):
        assert value.dtype == kept
        torch.testing.assert_close(value.float(), own, **near)
    assert found.about["dtype"] == str(dtype).removeprefix("torch.")
    assert found.weight.dtype == kept
    assert torch.equal(found.hashes, hash_inputs(x))


def test_half_precision_that_a_device_cannot_run_is_said(x):
    class Missing(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 3)

        def forward(self, x):
            raise RuntimeError("\"some_op\" not implemented for 'Half'")

    with pytest.raises(NescioError, match=r"is in float16.*some_op.*net.float\(\)"):
        nescio.observe(Missing().half(), torch.randn(5, 4))


def test_half_precision_that_overflows_is_counted():
    net = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2)).half()
    nn.init.constant_(net[0].weight, 300.0)
    x = torch.tensor([[1.0, 1.0], [200.0, 200.0], [1.0, 0.0]])
    with pytest.raises(NescioError, match="NaN or infinite for 1 of 3 inputs"):
        nescio.observe(net, x)


def test_a_network_that_gives_nan(x, net):
    nn.init.constant_(net.fc.bias, math.nan)
    with pytest.raises(NescioError, match="logits .*NaN or infinite for 23 of 23"):
        nescio.observe(net, x)


def test_tokens_and_sequences():
    class Text(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(11, 6)
            self.lstm = nn.LSTM(6, 5, batch_first=True)
            self.norm = nn.LayerNorm(5)
            self.fc = nn.Linear(5, 3)

        def forward(self, tokens):
            hidden, _ = self.lstm(self.embed(tokens))
            return self.fc(self.norm(hidden).mean(1))

    net, tokens = Text(), torch.randint(0, 11, (9, 4))
    with torch.no_grad():
        embedded = net.embed(tokens)
        hidden, _ = net.lstm(embedded)
    layers = ["embed", "lstm", "norm", None]
    found = nescio.observe(net, tokens, layers=layers, pool="tokens", inputs=True)
    close(found.features["embed"][0], embedded.mean(1))
    close(found.features["lstm"][0], hidden.mean(1))
    close(found.features["norm"][0], net.norm(hidden).mean(1).detach())
    close(found.logits[0], net(tokens).detach())
    assert found.inputs.dtype == torch.int64
    first = nescio.observe(net, tokens, layers="lstm", pool="first")
    close(first.features["lstm"][0], hidden[:, 0])
    for pool in ("mean", "max"):
        with pytest.raises(NescioError, match="pool='tokens'"):
            nescio.observe(net, tokens, layers="lstm", pool=pool)
    net.lstm.batch_first = False
    with pytest.raises(NescioError, match="one row for each of the 4 inputs"):
        nescio.observe(net, tokens, layers="lstm", pool=lambda f: f[:, :2].mean(1)[:3])


def test_maps_of_one_axis():
    net = nn.Sequential(nn.Conv1d(2, 5, 3), nn.ReLU(), nn.Flatten(), nn.Linear(30, 3))
    x = torch.randn(7, 2, 8)
    found = nescio.observe(net, x, layers=1)
    close(found.features["1"][0], net[:2](x).mean(2).detach())


def test_an_unknown_pooling_is_refused(net, x):
    with pytest.raises(NescioError, match="unknown pooling 'men'; did you mean 'mean'"):
        nescio.observe(net, x, pool="men")
    with pytest.raises(NescioError, match=r"pooled to \(4,\)"):
        nescio.observe(net, x, layers="block", pool=lambda f: f.mean((1, 2, 3)))
    with pytest.raises(NescioError, match=r"does not take what 'fc' gives, \(4, 3\): Dimension"):
        nescio.observe(net, x, layers="fc", pool=lambda f: f.mean((2, 3)))


# Several networks.


def test_a_model_is_observed_member_by_member(x, y):
    model = nescio.train(
        lambda: nets.mlp((2, 8, 8), 3, widths=(6,)),
        (x, y), members=3, epochs=1, standardize=True, progress=False,
    )  # fmt: skip
    found = nescio.observe(model, (x, y), layers=["1", None])
    assert found.logits.shape == (3, 23, 3)
    close(found.logits, model.outputs(x))
    for member in range(3):
        inner = model.member(member).net
        hidden = inner[:2](model.member(member).scaling(x)).detach()
        close(found.features["1"][member], hidden)
        close(found.weight[member], inner[-1].weight)
        close(found.answers[member](x), found.logits[member])


def test_networks_must_be_alike(x):
    two = [nets.mlp((2, 8, 8), 3, widths=(w,)) for w in (6, 7)]
    with pytest.raises(NescioError, match="network 1 differs from network 0"):
        nescio.observe(two, x)


@pytest.mark.parametrize("source", [None, "net", [], [1], lambda x: x])
def test_what_is_no_network_is_refused(source, x):
    with pytest.raises(NescioError, match="expected an nn.Module, a nescio model"):
        nescio.observe(source, x)


def test_a_sampler_has_no_one_set_of_features(net, x):
    with pytest.raises(NescioError, match=r"got MCDropout; .*MC dropout and .*nescio.guard\(net, "):
        nescio.observe(nescio.models.mc_dropout(net, passes=2), x)


def test_one_pass_is_enough(net, x, y):
    calls = []
    handle = net.fc.register_forward_hook(lambda *_: calls.append(1))
    nescio.observe(net, (x, y), layers=["*", None], batch_size=5, inputs=True)
    handle.remove()
    assert len(calls) == 5 + 3  # and a dry run
