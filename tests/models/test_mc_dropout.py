"""MC dropout: T networks in one, for any batch size and any network, that change nothing."""

import copy
import importlib

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from nescio import heads
from nescio.core import Categorical, Gaussian, NescioError, generator
from nescio.models import ensemble, mc_dropout
from nescio.nets.copies import sharing
from nescio.nets.modes import MaskPerPass

SOURCE = importlib.import_module("nescio.models.mc_dropout")
CLOSE = {"rtol": 1e-9, "atol": 1e-11}


class Net(nn.Module):
    """Layers by name and a forward given as a function."""

    def __init__(self, forward, **layers):
        super().__init__()
        self.run = forward
        for name, layer in layers.items():
            self.add_module(name, layer)

    def forward(self, x):
        return self.run(self, x)


def conv(*before_last):
    return nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 8), nn.ReLU(), *before_last,
        nn.Linear(8, 3),
    )  # fmt: skip


def residual():
    return Net(
        lambda n, x: n.out(n.first(x) + n.drop(n.first(x).relu())),
        first=nn.Linear(5, 6),
        drop=nn.Dropout(0.5),
        out=nn.Linear(6, 3),
    )


def discarded(scale=1.0):
    """Overwrites the dropped tensor without using the result of the call."""

    def run(n, x):
        hidden = n.drop(n.first(x))
        hidden.relu_()
        return scale * n.out(hidden)

    return Net(run, first=nn.Linear(5, 6), drop=nn.Dropout(0.5), out=nn.Linear(6, 3, bias=False))


def per_step(steps=20):
    """Dropout on (N x S, F): rows that are not samples."""

    def run(n, x):
        rows = n.drop(n.first(x.reshape(-1, 1)).relu())
        return n.out(rows.reshape(-1, steps, 4).mean(1))

    return Net(run, first=nn.Linear(1, 4), drop=nn.Dropout(0.5), out=nn.Linear(4, 3))


def batch_norm():
    net = nn.Sequential(
        nn.Linear(5, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(0.5), nn.Linear(6, 3)
    )
    net[1].running_mean.uniform_(-1, 1)
    return net


FLAT, IMAGE, SERIES = (5,), (1, 6, 6), (20,)
NETS = {
    "before the last layer": (lambda: conv(nn.Dropout(0.5)), IMAGE),
    "two dropouts": (
        lambda: nn.Sequential(
            nn.Linear(5, 6),
            nn.Dropout(0.3),
            nn.ReLU(),
            nn.Linear(6, 7),
            nn.Tanh(),
            nn.Dropout(0.6),
            nn.Linear(7, 3),
        ),
        FLAT,
    ),
    "on the inputs": (lambda: nn.Sequential(nn.Dropout(0.5), nn.Linear(5, 3)), FLAT),
    "on the inputs in place": (
        lambda: nn.Sequential(nn.Dropout(0.5, inplace=True), nn.Linear(5, 3)),
        FLAT,
    ),
    "channels": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.Dropout2d(0.5), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)
        ),
        IMAGE,
    ),
    "channels and features": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 4, 3),
            nn.Dropout2d(0.5),
            nn.Conv2d(4, 2, 2),
            nn.Flatten(),
            nn.Dropout(0.2),
            nn.Linear(18, 3),
        ),
        IMAGE,
    ),
    "functional": (
        lambda: Net(
            lambda n, x: n.out(F.dropout(n.first(x), 0.5, n.training)),
            first=nn.Linear(5, 6),
            out=nn.Linear(6, 3),
        ),
        FLAT,
    ),
    "in place": (lambda: conv(nn.Dropout(0.5, inplace=True)), IMAGE),
    "in place, result unused": (
        lambda: Net(
            lambda n, x: (h := n.first(x), F.dropout(h, 0.5, inplace=True), n.out(h))[-1],
            first=nn.Linear(5, 6),
            out=nn.Linear(6, 3),
        ),
        FLAT,
    ),
    "relu in place after": (
        lambda: nn.Sequential(nn.Linear(5, 6), nn.Dropout(0.5), nn.ReLU(True), nn.Linear(6, 3)),
        FLAT,
    ),
    "the last operation": (lambda: nn.Sequential(nn.Linear(5, 3), nn.Dropout(0.5)), FLAT),
    "twice in a row": (
        lambda: nn.Sequential(nn.Linear(5, 6), nn.Dropout(0.5), nn.Dropout(0.2), nn.Linear(6, 3)),
        FLAT,
    ),
    "without a bias": (
        lambda: nn.Sequential(nn.Linear(5, 6), nn.Dropout(0.5), nn.Linear(6, 3, bias=False)),
        FLAT,
    ),
    "more outputs than samples": (
        lambda: nn.Sequential(nn.Linear(5, 6), nn.Dropout(0.5), nn.Linear(6, 40)),
        FLAT,
    ),
    "two readers": (
        lambda: Net(
            lambda n, x: (h := n.drop(n.first(x)), n.out(h) + n.out(h.tanh()))[-1],
            first=nn.Linear(5, 6),
            drop=nn.Dropout(0.5),
            out=nn.Linear(6, 3),
        ),
        FLAT,
    ),
    "concatenation": (
        lambda: Net(
            lambda n, x: (h := n.drop(n.first(x)), n.out(torch.cat([h, h.relu()], 1)))[-1],
            first=nn.Linear(5, 6),
            drop=nn.Dropout(0.5),
            out=nn.Linear(12, 3),
        ),
        FLAT,
    ),
    "sizes read": (
        lambda: Net(
            lambda n, x: (h := n.drop(n.first(x)), n.out(h.view(h.size(0), 2, -1).flatten(1)))[-1],
            first=nn.Linear(5, 6),
            drop=nn.Dropout(0.5),
            out=nn.Linear(6, 3),
        ),
        FLAT,
    ),
    "rows of images": (
        lambda: nn.Sequential(
            nn.Flatten(1, 2), nn.Linear(6, 6), nn.Dropout(0.5), nn.Linear(6, 2), nn.Flatten()
        ),
        IMAGE,
    ),
    "residual": (residual, FLAT),
    "side branch": (
        lambda: Net(
            lambda n, x: n.out(n.first(x)) + n.out(n.drop(n.first(x))),
            first=nn.Linear(5, 6),
            drop=nn.Dropout(0.5),
            out=nn.Linear(6, 3),
        ),
        FLAT,
    ),
    "overwritten, result unused": (discarded, FLAT),
    "overwritten, tiny outputs": (lambda: discarded(1e-6), FLAT),
    "time steps": (per_step, SERIES),
    "batch norm": (batch_norm, FLAT),
}


def made(name, samples=7):
    make, shape = NETS[name]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = make().double()
        return net, torch.randn(samples, *shape, dtype=torch.float64)


def one_by_one(net, x, passes, seed=0):
    """The definition: each pass is the plain network with its own masks, for all inputs."""
    outputs, copied = [], sharing(net)
    for t in range(passes):
        with torch.no_grad(), MaskPerPass([generator(seed, "pass", t)], len(x)):
            outputs.append(copied(x.clone()))
    return torch.stack(outputs)


@pytest.mark.parametrize("passes", [1, 2, 20])
@pytest.mark.parametrize("name", NETS)
def test_passes_together_are_passes_one_by_one(name, passes):
    net, x = made(name)
    expected = one_by_one(net, x, passes)
    outputs = mc_dropout(net, passes=passes).outputs(x)
    torch.testing.assert_close(
        outputs, expected, rtol=1e-9, atol=1e-11 * expected.abs().max().item()
    )
    assert passes == 1 or not torch.allclose(outputs[0], outputs[1], rtol=1e-3, atol=0)


@pytest.mark.parametrize("name", NETS)
def test_neither_the_network_nor_the_inputs_change(name):
    net, x = made(name)
    net.train()
    next(net.children()).eval()  # a mixture of modes
    modes, state, kept = (
        [m.training for m in net.modules()],
        copy.deepcopy(net.state_dict()),
        x.clone(),
    )
    mc_dropout(net, passes=3)(x)
    assert [m.training for m in net.modules()] == modes
    assert torch.equal(x, kept)
    assert all(torch.equal(state[key], value) for key, value in net.state_dict().items())


@pytest.mark.parametrize("name", ["before the last layer", "two dropouts", "residual", "channels"])
@pytest.mark.parametrize("limit", [8, 200, 5000])
def test_memory_limits_and_batch_sizes_do_not_change_the_answer(name, limit, monkeypatch):
    net, x = made(name, samples=13)
    predict = mc_dropout(net, passes=9, seed=4)
    whole = predict.outputs(x)
    for size in (1, 5):
        parts = torch.cat([predict.outputs(part) for part in x.split(size)], dim=1)
        torch.testing.assert_close(parts, whole, **CLOSE)
    monkeypatch.setattr(SOURCE, "BYTES", limit)
    monkeypatch.setattr(SOURCE, "SAMPLES", 4)
    torch.testing.assert_close(predict.outputs(x), whole, **CLOSE)


def test_small_limits_cut_both_passes_and_samples(monkeypatch):
    net, x = made("two dropouts", samples=13)
    seen = []

    class Watched(MaskPerPass):
        def __init__(self, generators, samples):
            super().__init__(generators, samples)
            seen.append((len(generators), samples))

    monkeypatch.setattr(SOURCE, "MaskPerPass", Watched)
    monkeypatch.setattr(SOURCE, "BYTES", 4 * 7 * 6)  # six rows of the widest tensor
    mc_dropout(net, passes=4).outputs(x)
    assert max(passes * samples for passes, samples in seen[4:]) <= 6
    monkeypatch.setattr(SOURCE, "BYTES", 1)
    seen.clear()
    mc_dropout(net, passes=4).outputs(x)
    assert set(seen[4:]) == {(1, 1)}


def test_seeds_repeat_and_differ_and_passes_are_nested():
    net, x = made("two dropouts")
    first = mc_dropout(net, passes=8, seed=1).outputs(x)
    assert torch.equal(first, mc_dropout(net, passes=8, seed=1).outputs(x))
    assert not torch.allclose(first, mc_dropout(net, passes=8, seed=2).outputs(x))
    torch.testing.assert_close(first[:3], mc_dropout(net, passes=3, seed=1).outputs(x), **CLOSE)


def test_the_global_generator_plays_no_part():
    net, x = made("two dropouts")
    before = torch.get_rng_state()
    mc_dropout(net, passes=3)(x)
    assert torch.equal(before, torch.get_rng_state())


def test_batch_norm_stays_in_evaluation_mode():
    net, x = made("batch norm")
    net.train()
    tracked = net[1].num_batches_tracked.item()
    outputs = mc_dropout(net, passes=5).outputs(x)
    alone = mc_dropout(net, passes=5).outputs(x[:1])  # batch statistics of one sample would fail
    torch.testing.assert_close(outputs[:, :1], alone, **CLOSE)
    assert net[1].num_batches_tracked.item() == tracked


@pytest.mark.parametrize("p", [0.1, 0.5])
def test_mean_and_variance_of_a_masked_linear_layer(p):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Dropout(p), nn.Linear(6, 2)).double()
    x = torch.linspace(-1, 2, 18, dtype=torch.float64).reshape(3, 6)
    passes = 20_000
    outputs = mc_dropout(net, passes=passes).outputs(x)
    weight = net[1].weight.detach()
    variance = p / (1 - p) * x.square() @ weight.square().T
    error = (variance / passes).sqrt()
    assert ((outputs.mean(0) - net[1](x)).abs() < 5 * error).all()
    torch.testing.assert_close(outputs.var(0), variance, rtol=0.08, atol=0)
    # masks are shared by the inputs, so answers move together
    products = p / (1 - p) * (x[0] * x[2] * weight.square()).sum(-1)
    shared = (
        (outputs[:, 0] - outputs[:, 0].mean(0)) * (outputs[:, 2] - outputs[:, 2].mean(0))
    ).mean(0)
    bound = 5 * (variance[0] * variance[2] * 2 / passes).sqrt()
    assert ((shared - products).abs() < bound).all()


def test_members_of_a_prediction():
    net, x = made("before the last layer")
    prediction = mc_dropout(net, passes=30)(x)
    assert isinstance(prediction, Categorical)
    assert prediction.members == 30
    assert prediction.batch_shape == (7,)
    torch.testing.assert_close(prediction.probs.sum(-1), torch.ones(7, dtype=torch.float64))


def test_each_network_of_a_model_gives_its_passes():
    nets = [made("two dropouts")[0] for _ in range(3)]
    for scale, net in enumerate(nets, 1):
        net[-1].weight.data.mul_(scale)
    _, x = made("two dropouts")
    outputs = mc_dropout(ensemble(nets), passes=4, seed=2).outputs(x)
    assert outputs.shape == (12, 7, 3)
    expected = torch.cat([mc_dropout(net, passes=4, seed=2).outputs(x) for net in nets])
    torch.testing.assert_close(outputs, expected, **CLOSE)


def test_the_head_of_the_model_is_used():
    model = ensemble(
        [nn.Sequential(nn.Linear(5, 4), nn.Dropout(0.5), nn.Linear(4, 2))], head=heads.gaussian()
    )
    assert isinstance(mc_dropout(model, passes=4)(torch.randn(3, 5)), Gaussian)


@pytest.mark.parametrize(
    "net",
    [
        nn.Sequential(nn.Linear(5, 3)),
        nn.Sequential(nn.Linear(5, 3), nn.Dropout(0.0)),
        Net(lambda n, x: n.out(x), out=nn.Linear(5, 3), drop=nn.Dropout(0.5)),  # never called
    ],
)
def test_a_network_that_draws_no_mask_is_refused(net):
    with pytest.raises(NescioError, match="no dropout layer with p > 0"):
        mc_dropout(net, passes=5)(torch.randn(4, 5))


@pytest.mark.parametrize(
    "layer",
    [nn.LSTM(5, 6, 2, dropout=0.5), nn.GRU(5, 6, 2, dropout=0.5), nn.MultiheadAttention(5, 1, 0.5)],
)
def test_dropout_in_dist_a_layer_that_would_stay_off_is_refused(layer):
    attention = isinstance(layer, nn.MultiheadAttention)

    def run(n, x):
        rows = x[:, None]
        hidden = n.layer(rows, rows, rows)[0] if attention else n.layer(rows)[0]
        return n.out(n.drop(hidden[:, 0]))

    net = Net(run, layer=layer, drop=nn.Dropout(0.5), out=nn.Linear(5 if attention else 6, 3))
    with pytest.raises(NescioError, match="dropout"):
        mc_dropout(net, passes=5)(torch.randn(4, 5))


@pytest.mark.parametrize(
    ("options", "message"), [({"passes": 0}, "passes"), ({"passes": -3}, "passes")]
)
def test_options_are_checked(options, message):
    with pytest.raises(NescioError, match=message):
        mc_dropout(nn.Linear(2, 2), **options)


@pytest.mark.parametrize("thing", ["net", lambda x: x, [nn.Linear(2, 2)]])
def test_other_things_than_networks_are_refused(thing):
    with pytest.raises(NescioError, match="nn.Module"):
        mc_dropout(thing)(torch.randn(3, 2))


def test_errors_of_the_network_restore_its_modes():
    net = nn.Sequential(nn.Linear(5, 3), nn.Dropout(0.5)).train()
    with pytest.raises(NescioError, match="does not take inputs of shape"):
        mc_dropout(net, passes=2)(torch.randn(4, 6))
    assert all(m.training for m in net.modules())
