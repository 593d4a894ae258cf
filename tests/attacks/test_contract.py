"""What every attack keeps: ball and box, a raised objective, the network as it was."""

import inspect

import pytest
import torch
from torch import nn

from nescio import attacks
from nescio.core.registry import attacks as registry

SAMPLES, CLASSES = 13, 4
SLACK = 1e-6  # of float32 sums
LABELED = {
    "adversarial_samples": attacks.label_loss,
    "fgsm": attacks.label_loss,
    "strong_samples": attacks.wrong_confidence,
}


def network(*, training=True):
    """Convolutions, BatchNorm and dropout, left in training mode with a frozen layer."""
    net = nn.Sequential(
        nn.Conv2d(1, 6, 3, padding=1),
        nn.BatchNorm2d(6),
        nn.ReLU(),
        nn.Dropout(0.3),
        nn.Flatten(),
        nn.Linear(6 * 25, CLASSES),
    )
    with torch.no_grad():
        net(torch.rand(50, 1, 5, 5))  # statistics other than 0 and 1
    net[0].weight.requires_grad_(False)
    net[5].weight.grad = torch.ones_like(net[5].weight)
    return net.train(training)


def situation():
    return network(), torch.rand(SAMPLES, 1, 5, 5), torch.arange(SAMPLES) % CLASSES


def run(name, net, x, y, **options):
    """The attack with few steps, and the objective it raises as a function of inputs."""
    make = registry[name]
    wanted = inspect.signature(make).parameters
    labeled = name in LABELED
    objective = LABELED.get(name, attacks.confidence)(net)
    first = objective if "objective" in wanted else net
    targets = (y,) if labeled else ()
    if "steps" in wanted or name.startswith("adversarial"):
        options = {"steps": 7, "step": None, **options}
    if "halving_steps" in wanted:
        options = {"halving_steps": 7, **options}
    return make(first, x, *targets, **{"radius": 0.2, **options}), lambda z: objective(z, *targets)


SEEDED = [name for name in registry if name != "fgsm"]


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
@pytest.mark.parametrize("name", registry)
def test_it_stays_in_ball_and_box_and_raises_its_objective(name, norm):
    net, x, y = situation()
    x[0, 0, 0] = 0.0  # inputs at the edges of the box
    x[1, 0, 0] = 1.0
    radius = {"linf": 0.2, "l2": 0.7, "l1": 2.0}[norm]
    found, objective = run(name, net, x, y, norm=norm, radius=radius)
    size = attacks.balls.NORMS[norm].size((found.x - x).flatten(1))
    assert found.x.shape == x.shape
    assert len(found) == SAMPLES
    assert (size <= radius + SLACK).all()
    assert found.x.min() >= 0
    assert found.x.max() <= 1
    with torch.no_grad():
        before, after = objective(x), objective(found.x)
    torch.testing.assert_close(found.value, after, rtol=0, atol=1e-5)
    assert (found.value >= before).all()
    assert (found.value > before).float().mean() > 0.9
    assert not found.x.requires_grad
    assert not found.value.requires_grad


@pytest.mark.parametrize("name", registry)
def test_the_batch_size_does_not_matter(name):
    net, x, y = situation()
    whole, _ = run(name, net, x, y)
    parts, _ = run(name, net, x, y, batch_size=4)
    torch.testing.assert_close(parts.x, whole.x, rtol=0, atol=1e-6)
    torch.testing.assert_close(parts.value, whole.value, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", SEEDED)
def test_a_seed_repeats_and_another_one_differs(name):
    net, x, y = situation()
    before = torch.get_rng_state()
    one, again, other = (run(name, net, x, y, seed=seed)[0] for seed in (5, 5, 6))
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(one.x, again.x)
    assert torch.equal(one.value, again.value)
    assert not torch.equal(one.x, other.x)


@pytest.mark.parametrize("name", registry)
def test_the_network_and_the_inputs_stay_as_they_were(name):
    net, x, y = situation()
    inputs = x.clone()
    before = {key: tensor.clone() for key, tensor in net.state_dict().items()}
    flags = [p.requires_grad for p in net.parameters()]
    modes = [module.training for module in net.modules()]
    run(name, net, x, y)
    assert torch.equal(x, inputs)
    assert all(torch.equal(net.state_dict()[key], tensor) for key, tensor in before.items())
    assert [p.requires_grad for p in net.parameters()] == flags
    assert [module.training for module in net.modules()] == modes
    assert torch.equal(net[5].weight.grad, torch.ones_like(net[5].weight))
    assert all(p.grad is None for p in net.parameters() if p is not net[5].weight)


@pytest.mark.parametrize("name", registry)
def test_the_network_answers_as_in_evaluation(name):
    """Dropout off and BatchNorm by its own statistics, whatever mode the network was in."""
    net, x, y = situation()
    trained, _ = run(name, net, x, y)
    evaluated, _ = run(name, net.eval(), x, y)
    assert torch.equal(trained.x, evaluated.x)
    assert torch.equal(trained.value, evaluated.value)


@pytest.mark.parametrize("name", registry)
def test_bytes_are_images(name):
    net, _, y = situation()
    images = torch.randint(0, 256, (SAMPLES, 1, 5, 5), dtype=torch.uint8)
    found, _ = run(name, net, images, y, batch_size=5)
    floats, _ = run(name, net, images.float() / 255, y, batch_size=5)
    assert found.x.dtype == torch.float32
    assert torch.equal(found.x, floats.x)
    assert torch.equal(found.value, floats.value)


@pytest.mark.parametrize("name", registry)
def test_double_precision_stays_double(name):
    net, x, y = situation()
    found, _ = run(name, net.double(), x.double(), y)
    assert found.x.dtype == torch.float64
    assert found.value.dtype == torch.float64


@pytest.mark.parametrize("name", registry)
def test_every_attack_has_a_sentence_of_help(name):
    assert registry.summary(name)
