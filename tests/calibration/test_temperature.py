"""Temperature scaling against brute-force minimization."""

import importlib
import math

import numpy as np
import pytest
import torch
from scipy.optimize import brentq

from nescio import calibration
from nescio.calibration import fit_temperature
from nescio.calibration import temperature as calibrate
from nescio.core import Categorical, NescioError


def problem(members, samples=400, classes=5, truth=1.0, seed=0):
    """Logits and labels drawn from the mixture of the logits divided by `truth`."""
    rng = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(samples, classes, generator=rng, dtype=torch.float64)
    logits = logits + 1.5 * torch.randn(
        members, samples, classes, generator=rng, dtype=torch.float64
    )
    probs = (logits / truth).softmax(-1).mean(0)
    return Categorical(logits), torch.multinomial(probs, 1, generator=rng)[:, 0]


def brute_force(prediction, labels):
    """The best of a grid, then the root of the derivative."""
    logits, index = prediction.logits.numpy(), labels.numpy()

    def loss(log_temperature):
        scaled = logits / np.exp(log_temperature)
        logs = scaled - np.logaddexp.reduce(scaled, axis=-1, keepdims=True)
        own = np.take_along_axis(logs, index[None, :, None].repeat(len(logits), 0), -1)[..., 0]
        return -np.mean(np.logaddexp.reduce(own, axis=0) - np.log(len(logits)))

    grid = np.linspace(-4, 4, 81)
    best = grid[np.argmin([loss(point) for point in grid])]
    root = brentq(
        lambda point: slope_of(prediction, labels, point), best - 0.1, best + 0.1, xtol=1e-13
    )
    assert loss(root) <= loss(best)
    return math.exp(root)


def slope_of(prediction, labels, log_temperature):
    point = torch.tensor(log_temperature, dtype=torch.float64, requires_grad=True)
    loss = -Categorical(prediction.logits * (-point).exp()).log_prob(labels).mean()
    return torch.autograd.grad(loss, point)[0].item()


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("truth", [0.3, 1.0, 2.5])
def test_the_temperature_is_that_of_a_search(members, truth):
    prediction, labels = problem(members, truth=truth)
    fitted = fit_temperature(prediction, labels)
    assert fitted == pytest.approx(brute_force(prediction, labels), rel=1e-8)


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("truth", [0.5, 1.0, 3.0])
def test_a_known_temperature_is_recovered(members, truth):
    prediction, labels = problem(members, samples=20_000, truth=truth)
    assert fit_temperature(prediction, labels) == pytest.approx(truth, rel=0.05)


def test_member_logits_are_divided_not_those_of_the_average():
    prediction, labels = problem(3, truth=2.0)
    average = Categorical(prediction.log_probs[None])
    ours, other = fit_temperature(prediction, labels), fit_temperature(average, labels)
    assert abs(ours - other) > 0.05


def test_the_order_of_classes_stays():
    prediction, labels = problem(1)
    scaled = calibrate(lambda x: prediction, (torch.zeros(len(labels), 1), labels))
    after = scaled(None)
    assert torch.equal(after.labels, prediction.labels)
    assert torch.equal(after.logits.argsort(-1), prediction.logits.argsort(-1))
    assert scaled.temperature == pytest.approx(fit_temperature(prediction, labels))


def test_precision_of_float32_logits_and_pieces_does_not_matter(monkeypatch):
    prediction, labels = problem(3)
    whole = fit_temperature(prediction, labels)
    narrow = fit_temperature(prediction.to(torch.float32), labels)
    assert narrow == pytest.approx(whole, rel=1e-5)
    source = importlib.import_module("nescio.calibration.temperature")
    monkeypatch.setattr(source, "CHUNK", 500)
    assert fit_temperature(prediction, labels) == pytest.approx(whole, rel=1e-10)


def test_maps_are_longer_batches():
    prediction, labels = problem(2)
    maps = Categorical(prediction.logits.unflatten(1, (4, 10, 10)))
    fitted = fit_temperature(maps, labels.reshape(4, 10, 10))
    assert fitted == pytest.approx(fit_temperature(prediction, labels), rel=1e-10)


def test_classes_that_are_ruled_out_do_not_spoil_the_fit():
    prediction, labels = problem(1)
    padded = torch.cat([prediction.logits, torch.full((1, 400, 1), -math.inf)], -1)
    fitted = fit_temperature(Categorical(padded), labels)
    assert fitted == pytest.approx(fit_temperature(prediction, labels), rel=1e-8)


def test_a_mixture_that_is_always_right_can_have_members_that_are_not():
    """Then a best temperature exists: at low ones the wrong members stay wrong."""
    margins = torch.tensor([10.0, -0.2], dtype=torch.float64)[:, None] * torch.linspace(1, 2, 6)
    prediction = Categorical(torch.stack([margins, torch.zeros_like(margins)], -1))
    labels = torch.zeros(6, dtype=torch.long)
    assert (prediction.labels == labels).all()
    searched = brute_force(prediction, labels)
    assert 0.02 < searched < 50
    assert fit_temperature(prediction, labels) == pytest.approx(searched, rel=1e-8)


@pytest.mark.parametrize(("seed", "below_one"), [(18, 1.109), (19, 1.084), (26, 0.581)])
def test_of_several_minima_it_is_the_one_below_one(seed, below_one):
    """Few samples, three members: the least of all lies at T = 0, where members only vote."""
    rng = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(3, 12, 3, generator=rng, dtype=torch.float64)
    labels = torch.multinomial(logits.mean(0).softmax(-1), 1, generator=rng)[:, 0]

    def loss(temperature):
        return -Categorical(logits / temperature).log_prob(labels).mean().item()

    fitted = fit_temperature(Categorical(logits), labels)
    assert fitted == pytest.approx(below_one, rel=0.03)
    assert loss(fitted) < min(loss(0.99 * fitted), loss(1.01 * fitted))
    assert seed == 26 or loss(0.01) < loss(fitted)


@pytest.mark.parametrize(("seed", "other"), [(50, 1.776), (207, 2.861)])
def test_where_the_way_down_from_one_ends_nowhere_it_is_another_minimum(seed, other):
    rng = torch.Generator().manual_seed(seed)
    logits = 6 * torch.randn(3, 6, 3, generator=rng, dtype=torch.float64)
    labels = torch.multinomial(logits.mean(0).softmax(-1), 1, generator=rng)[:, 0]

    def loss(temperature):
        return -Categorical(logits / temperature).log_prob(labels).mean().item()

    fitted = fit_temperature(Categorical(logits), labels)
    assert fitted == pytest.approx(other, rel=1e-3)
    assert loss(fitted) < min(loss(0.99 * fitted), loss(1.01 * fitted))


def test_an_offset_of_all_logits_changes_nothing():
    """Single precision knows numbers near 1e9 to 64: the differences are taken before."""
    prediction, labels = problem(3, truth=2.0)
    moved = Categorical(prediction.logits + 1e9)
    fitted = fit_temperature(prediction, labels)
    assert fit_temperature(moved, labels) == pytest.approx(fitted, rel=1e-6)


def test_probabilities_that_are_taken_for_logits_are_named():
    probs = torch.tensor([[0.5, 0.5], [0.4, 0.6], [0.6, 0.4]], dtype=torch.float64)
    with pytest.raises(NescioError, match="inputs are scaled as in training.*pass probs=True"):
        fit_temperature(Categorical(probs[None]), torch.tensor([0, 0, 1]))
    with pytest.raises(NescioError, match="belong together$"):
        fit_temperature(Categorical(2 * probs[None]), torch.tensor([0, 0, 1]))


@pytest.mark.parametrize("members", [1, 3])
def test_logits_that_speak_against_the_labels_have_no_best_temperature(members):
    """The flatter the better: the optimum is infinite, not the end of a search interval."""
    prediction, labels = problem(members, classes=2)
    with pytest.raises(NescioError, match="temperature"):
        fit_temperature(prediction, 1 - labels)


@pytest.mark.parametrize("offset", [8192.0, -8192.0])
@pytest.mark.parametrize("name", ["temperature", "platt", "dirichlet", "isotonic", "histogram"])
def test_an_offset_does_not_show_in_single_precision(name, offset):
    draw = torch.Generator().manual_seed(0)
    logits = (128 * torch.randn(2000, 4, generator=draw)).round() / 64  # exact with the offset
    labels = torch.multinomial((logits / 2).softmax(1), 1, generator=draw)[:, 0]
    plain, moved = (calibration.fit(name, z, labels) for z in (logits, logits + offset))
    assert torch.allclose(moved(logits + offset).probs, plain(logits).probs, atol=1e-6)
    assert torch.allclose(plain(logits + offset).probs, plain(logits).probs, atol=1e-6)


@pytest.mark.parametrize("name", ["temperature", "platt"])
def test_a_huge_offset_does_not_show_in_double_precision(name):
    draw = torch.Generator().manual_seed(0)
    logits = (128 * torch.randn(400, 4, generator=draw).double()).round() / 64
    labels = torch.multinomial((logits / 2).softmax(1), 1, generator=draw)[:, 0]
    plain, moved = (calibration.fit(name, z, labels) for z in (logits, logits + 2.0**40))
    assert torch.allclose(moved(logits).probs, plain(logits).probs, atol=1e-6)
