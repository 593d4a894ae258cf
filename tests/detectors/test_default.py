"""The default detector: what it chooses from, that it travels, and that its rate is kept."""

import numpy as np
import pytest
import torch
from torch import nn

import nescio
from nescio.core import NescioError, quiet
from nescio.data.ood import from_inputs
from nescio.detectors.activations import Activations
from nescio.detectors.default import default_detector
from nescio.detectors.observe.layers import POOLS
from nescio.metrics import auroc


def blobs(count, seed, width=6):
    rng = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 3
    centers = 3 * torch.randn(3, width, generator=torch.Generator().manual_seed(9))
    return centers[labels] + torch.randn(count, width, generator=rng), labels


@pytest.fixture(scope="module")
def net():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 3))
    x, y = blobs(600, 0)
    optimizer = torch.optim.Adam(net.parameters(), 0.02)
    for _ in range(60):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
    return net.eval()


def test_tables_get_a_detector_for_tables_and_find_a_number_in_another_unit(net):
    guard = nescio.guard(net, blobs(400, 1), train=blobs(600, 0))
    assert guard.detector.options["parts"][0]["name"] == "gower"
    x, _ = blobs(300, 2)
    wrong = x.clone()
    wrong[:, 2] *= 20
    with quiet():  # the numbers are out of range, too
        assert auroc(guard(x).score, guard(wrong).score) > 0.95
    assert any("chosen by outliers" in line for line in guard.guarantees)


def test_rows_of_an_encoded_table_have_it_too_and_an_unseen_level_is_an_alarm():
    """Outliers are made from numbers, but Gower's coefficient reads levels and flags."""

    def patients(count, seed):
        rng = np.random.default_rng(seed)
        age, ward = rng.normal(60, 10, count), rng.choice(["A", "B", "C"], count)
        dose = np.where(rng.random(count) < 0.1, np.nan, rng.integers(1, 4, count))
        table = nescio.data.read_table({"age": age, "ward": ward, "dose": dose})
        return table, torch.tensor((ward == "A") ^ (age > 60)).long()

    model = nescio.train(
        lambda inputs: nescio.nets.mlp(inputs, 2, widths=(16,)), patients(300, 0), epochs=40
    )
    guard = nescio.guard(model, patients(400, 1), train=patients(300, 0), risk=0.9)
    assert guard.detector.options["parts"][0]["name"] == "gower"
    later = patients(100, 2)[0]
    assert float((guard(later).decision == 2).float().mean()) < 0.1
    with quiet():  # a flag that was never set is out of range, too
        found = guard(later.changed(ward=["D"] * 100)).decision == 2
    assert float(found.float().mean()) > 0.8


def test_a_level_that_training_rows_never_had_is_an_alarm(net):
    """One number of many: 0 in all training rows, now 1."""

    def levels(count, seed):
        x, y = blobs(count, seed)
        drawn = torch.randint(4, (count,), generator=torch.Generator().manual_seed(seed))
        hot = nn.functional.one_hot(drawn, 5).float()  # the fifth never comes
        return torch.cat([x, hot.repeat(1, 8)], 1), y

    wide = nn.Sequential(nn.Linear(46, 24), nn.ReLU(), nn.Linear(24, 3)).eval()
    guard = nescio.guard(wide, levels(400, 1), train=levels(600, 0), risk=0.9)
    x, _ = levels(300, 2)
    new = x.clone()
    new[:, 6:11] = torch.tensor([0.0, 0, 0, 0, 1])
    with quiet():
        assert (guard(new).p_value <= 0.01).float().mean() > 0.95
        assert (guard(x).p_value <= 0.01).float().mean() < 0.05


def test_the_false_alarm_rate_is_kept_over_redraws(net):
    """The choice reads training data alone: p-values of new samples are at most as small."""
    train = nescio.observe(net, blobs(600, 0), inputs=True, layers=["1", None], pool="grid")

    def see(x):
        return nescio.observe(net, x, inputs=True, layers=["1", None], pool="grid", progress=False)

    detector = default_detector(train, see)
    alarms = total = 0
    for seed in range(10, 50):
        samples, new = (detector(see(blobs(n, s)[0])) for n, s in ((99, seed), (60, 1000 + seed)))
        p = (1 + (samples[None] >= new[:, None]).sum(1)) / 100
        alarms, total = alarms + int((p <= 0.05).sum()), total + len(new)
    assert alarms / total < 0.05 + 4 * (0.05 / total) ** 0.5 + 0.01


def test_activations_alone_have_a_fixed_combination():
    x, y = blobs(300, 0)
    train = Activations(logits=x[:, :3], features={"last": x}, labels=y)
    detector = default_detector(train)
    assert detector.chosen is None
    assert len(detector.options["parts"]) == 3
    with pytest.raises(NescioError, match="there are no features"):
        default_detector(Activations(logits=x[:, :3]))


def test_a_grid_keeps_position():
    maps = torch.zeros(1, 2, 8, 8)
    maps[0, 0, :4, :4] = 1
    moved = maps.flip(2)
    assert torch.equal(POOLS["mean"](maps), POOLS["mean"](moved))
    assert not torch.equal(POOLS["grid"](maps), POOLS["grid"](moved))
    assert POOLS["grid"](maps).shape == (1, 2 * 4 * 4)
    assert POOLS["grid"](torch.zeros(1, 100, 8, 8)).shape == (1, 100 * 2 * 2)
    assert POOLS["grid"](torch.zeros(1, 3, 9)).shape == (1, 3 * 4)
    assert POOLS["grid"](torch.zeros(1, 3, 2, 5, 5)).shape == (1, 3 * 2**3)


@pytest.mark.parametrize("shape", [(5,), (3, 12), (1, 12, 12), (3, 7, 9)])
def test_outliers_of_inputs_of_any_shape(shape):
    x = torch.rand(40, *shape)
    found = from_inputs(x, 30)
    assert {"uniform", "mixed", "halves"} <= set(found)
    for rows in found.values():
        assert rows.shape == (30, *shape)
        assert rows.isfinite().all()
    again = from_inputs(x, 30)
    assert all(torch.equal(found[name], again[name]) for name in found)
