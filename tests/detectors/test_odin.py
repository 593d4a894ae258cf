"""ODIN: the authors' recipe by hand in float64, and choices of temperature and radius."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from nescio import load
from nescio.core import NescioError
from nescio.detectors import msp, odin, tuned_odin
from nescio.detectors.activations import Activations
from nescio.detectors.odin import step
from nescio.metrics import auroc, fpr_at_tpr


def look(net, x, labels=None, **more):
    logits = net(x.float() / 255 if x.dtype == torch.uint8 else x)
    return Activations(logits=logits.detach(), inputs=x, answers=[net], labels=labels, **more)


def linear(seed=0, inputs=6, classes=4):
    rng = torch.Generator().manual_seed(seed)
    net = nn.Linear(inputs, classes)
    with torch.no_grad():
        net.weight.copy_(torch.randn(classes, inputs, generator=rng))
        net.bias.copy_(torch.randn(classes, generator=rng))
    return net.requires_grad_(False)


def by_hand(net, x, temperature, radius, scale=1.0):
    """z = W x + b: the gradient of the loss is W' (p - one-hot) / T."""
    weight, bias = net.weight.double().numpy(), net.bias.double().numpy()
    scores = []
    for row in x.double().numpy():
        z = (weight @ row + bias) / temperature
        p = np.exp(z) / np.exp(z).sum()
        p[z.argmax()] -= 1
        gradient = weight.T @ p / temperature
        moved = row - radius * np.where(gradient >= 0, 1.0, -1.0) / scale
        z = np.sort((weight @ moved + bias) / temperature)
        scores.append(np.log(np.exp(z[:-1] - z[-1]).sum()))
    return np.array(scores)


@pytest.mark.parametrize("temperature", [1.0, 10.0, 1000.0])
@pytest.mark.parametrize("radius", [0.0, 0.0014, 0.1])
def test_a_linear_network_by_hand(temperature, radius):
    net, x = linear(), torch.randn(300, 6)
    found = odin(temperature=temperature, radius=radius)(look(net, x))
    assert found.dtype == torch.float64
    np.testing.assert_allclose(found, by_hand(net, x, temperature, radius), rtol=1e-5, atol=1e-6)


def test_without_a_step_at_one_it_is_the_maximum_probability():
    observed = look(linear(), torch.randn(50, 6))
    torch.testing.assert_close(
        odin(temperature=1, radius=0)(observed).float(), msp()(observed), rtol=1e-5, atol=1e-5
    )


def test_the_temperature_acts_and_nothing_ties():
    """At T = 1000 the order is that of max z - mean z, not that of the probability."""
    observed = look(linear(), torch.randn(2000, 6))
    hot, cold = (odin(temperature=t, radius=0)(observed) for t in (1000.0, 1.0))
    logits = observed.logits[0].double()
    assert len(hot.unique()) == 2000
    simple = logits.mean(-1) - logits.amax(-1)
    assert np.corrcoef(hot.argsort().argsort(), simple.argsort().argsort())[0, 1] > 0.9999
    assert not torch.equal(hot.argsort(), cold.argsort())


def test_the_step_raises_the_confidence():
    observed = look(linear(), torch.randn(100, 6))
    assert (odin(radius=0.05)(observed) < odin(radius=0.0)(observed)).all()


def test_a_gradient_of_zero_counts_as_plus_one():
    """An input that the first layer ignores, where the second looks, shows the direction."""

    class Flat(nn.Module):
        def forward(self, x):
            kink = x[:, :1] + (x[:, 1:2] + 1e-3).clamp_max(0)  # flat in x[1] at 0
            return torch.cat([kink, torch.zeros_like(kink)], 1)

    x = torch.tensor([[1.0, 0.0]])
    found = odin(temperature=1, radius=0.5)(look(Flat(), x))
    # x[0] goes up by 0.5; x[1] goes down by 0.5, below the kink: 1.5 - 0.499
    assert float(found) == pytest.approx(-(1.5 - 0.499), abs=1e-6)


@pytest.mark.parametrize("scale", [0.25, [0.25, 0.25, 2.0, 2.0, 1.0, 1.0]])
def test_a_radius_in_units_before_standardizing(scale):
    net, x = linear(), torch.randn(40, 6)
    found = odin(radius=0.05, temperature=5, scale=scale)(look(net, x))
    expected = by_hand(net, x, 5, 0.05, np.broadcast_to(scale, 6))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_channels_of_images_and_bytes():
    net = nn.Sequential(nn.Flatten(), linear(inputs=3 * 4)).requires_grad_(False)
    images = torch.randint(0, 256, (200, 3, 2, 2), dtype=torch.uint8)
    scale = [0.2, 0.3, 0.4]
    found = odin(radius=0.01, scale=scale)(look(net, images))
    flat = (images.float() / 255).flatten(1)
    expected = by_hand(net[1], flat, 1000, 0.01, np.repeat(scale, 4))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_every_member_is_asked_itself():
    nets, x = [linear(0), linear(1)], torch.randn(20, 6)
    both = Activations(logits=torch.stack([net(x) for net in nets]), inputs=x, answers=nets)
    each = odin(radius=0.1).each(both)
    for row, net in zip(each, nets, strict=True):
        torch.testing.assert_close(row, odin(radius=0.1)(look(net, x)))


def test_the_network_keeps_its_gradients_as_they_were():
    net = nn.Linear(3, 2)
    odin()(look(net, torch.randn(4, 3)))
    assert net.weight.grad is None
    assert net.weight.requires_grad


def test_bad_input(toy):
    net, x = linear(), torch.randn(5, 6)
    with pytest.raises(NescioError, match="radius must be finite and not negative"):
        odin(radius=-1)
    with pytest.raises(NescioError, match="scale must be positive"):
        odin(scale=[1.0, 0.0])
    with pytest.raises(NescioError, match="scale has 2 numbers, the inputs 6 channels"):
        odin(scale=[1.0, 2.0])(look(net, x))
    with pytest.raises(NescioError, match="have no inputs; observe with inputs=True"):
        odin()(Activations(logits=net(x)))
    with pytest.raises(NescioError, match="no network"):
        odin()(Activations(logits=net(x), inputs=x))
    with pytest.raises(NescioError, match="no network"):
        odin()(toy.test(members=2).mean())


GRID = {"temperatures": (1.0, 100.0), "radii": (0.0, 0.05, 0.4)}


@pytest.mark.parametrize("by", ["auroc", "fpr95"])
def test_tuning_takes_the_best_of_the_grid(by):
    net = nn.Sequential(linear(0, 6, 16), nn.ReLU(), linear(1, 16, 4)).requires_grad_(False)
    in_dist = look(net, 2 * torch.randn(150, 6))
    ood = look(net, torch.randn(150, 6) + 1)
    values = {}
    for temperature in GRID["temperatures"]:
        for radius in GRID["radii"]:
            one = odin(temperature=temperature, radius=radius)
            metric = auroc if by == "auroc" else lambda a, b: -fpr_at_tpr(a, b)
            values[temperature, radius] = metric(one(in_dist), one(ood))
    best = max(values, key=values.get)
    found = tuned_odin(in_dist, ood, name="shifted", by=by, **GRID)
    assert (found.options["temperature"], found.options["radius"]) == best
    assert len(set(values.values())) > 1
    record = found.about["tuned"]
    assert record["value"] == pytest.approx(abs(values[best]))
    assert (record["by"], record["on"]) == (by, "shifted")
    assert (record["in_dist"], record["ood"]) == (150, 150)
    assert record["hashes"] == [*in_dist.hashes.tolist(), *ood.hashes.tolist()]
    assert record["radii"] == list(GRID["radii"])


def test_tuning_without_out_data_raises_the_confidence_most(tmp_path):
    net = nn.Sequential(linear(0, 6, 16), nn.ReLU(), linear(1, 16, 4)).requires_grad_(False)
    in_dist = look(net, torch.randn(100, 6))
    radii = (0.0, 0.5, 2.0, 8.0)
    confidence = [float((-odin(radius=r)(in_dist)).sigmoid().mean()) for r in radii]
    found = tuned_odin(in_dist, radii=radii)
    assert found.options["temperature"] == 1000
    assert found.options["radius"] == radii[confidence.index(max(confidence))]
    record = load(found.save(tmp_path / "o.safetensors")).about["tuned"]
    assert record["on"] is None
    assert record["by"] == "mean confidence of the in-distribution data"
    assert record["value"] == pytest.approx(max(confidence))


def test_tuning_an_ensemble_uses_the_mean_score():
    nets, x = [linear(0), linear(1)], torch.randn(40, 6)

    def both(x):
        return Activations(logits=torch.stack([n(x) for n in nets]), inputs=x, answers=nets)

    in_dist, ood = both(2 * x), both(x + 1)
    found = tuned_odin(in_dist, ood, temperatures=[1.0], radii=[0.2])
    one = odin(temperature=1.0, radius=0.2)
    assert found.about["tuned"]["value"] == pytest.approx(auroc(one(in_dist), one(ood)))


def test_bad_tuning():
    in_dist = look(linear(), torch.randn(5, 6))
    with pytest.raises(NescioError, match="unknown criterion 'aupr'"):
        tuned_odin(in_dist, in_dist, by="aupr")
    with pytest.raises(NescioError, match="give one temperature, not 2"):
        tuned_odin(in_dist, temperatures=(1, 10))
    with pytest.raises(NescioError, match="the grid is empty"):
        tuned_odin(in_dist, radii=())
    assert math.isfinite(tuned_odin(in_dist, radii=[0.1]).about["tuned"]["value"])


def test_the_gradient_does_not_vanish_in_half_precision():
    torch.manual_seed(0)
    half = nn.Linear(5, 40)
    half.weight.data *= 1e-4  # over T = 1000: less than the smallest number of float16
    half.half()
    exact = nn.Linear(5, 40).double()
    exact.load_state_dict({name: value.double() for name, value in half.state_dict().items()})
    x = torch.randn(200, 5).half()
    ours, theirs = (
        step(net, start, 1000.0, None) for net, start in ((half, x), (exact, x.double()))
    )
    assert (ours == theirs).double().mean() > 0.95  # but for sums that nearly cancel
