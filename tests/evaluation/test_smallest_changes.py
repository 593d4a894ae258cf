"""Smallest changes: exact for linear networks, checked flips, never above a finer search."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import binom
from torch import nn

from nescio import NescioError, attacks, models, nets
from nescio.core import to_json
from nescio.evaluation import SmallestChanges, adversarial_examples, smallest_changes

DUAL = {"l2": 2, "linf": 1, "l1": math.inf}


def linear(seed=0):
    torch.manual_seed(seed)
    net = nn.Linear(6, 4)
    x = torch.rand(200, 6)
    return net, x, net(x).argmax(1)


def exact(net, x, y, norm):
    """The distance to the nearest other class in units of the range, without the box."""
    width = x.amax(0) - x.amin(0)
    logits, weight = net(x).detach().double(), (net.weight.detach() * width).double()
    best = torch.full((len(x),), math.inf, dtype=torch.float64)
    for k in range(4):
        slope = torch.linalg.vector_norm(weight[k] - weight[y], ord=DUAL[norm], dim=1)
        gap = logits.gather(1, y[:, None])[:, 0] - logits[:, k]
        best = torch.minimum(best, torch.where(y == k, math.inf, gap / slope))
    return best


@pytest.mark.parametrize("norm", DUAL)
def test_a_linear_network_is_flipped_at_its_distance(norm):
    net, x, y = linear()
    found = smallest_changes(net, (x, y), norm=norm, samples=60)
    rows = torch.tensor(found.sample)
    ratio = (found.sizes / exact(net, x, y, norm)[rows]).numpy()
    assert ratio.min() > 1 - 1e-3  # never below: a flip that was checked
    assert np.median(ratio) < 1.01
    free = ratio[found.sizes.numpy() < 0.1]  # near changes do not reach the ends of the range
    assert free.max() < 1.15 if norm != "l1" else np.median(free) < 1.01


def test_every_change_flips_and_has_its_size():
    torch.manual_seed(1)
    net = nets.mlp(3, 3, widths=(16,))
    x = 5 * torch.randn(100, 3)
    y = net(x).argmax(1)
    found = smallest_changes(net, (x, y), samples=30, norm="l2")
    there = torch.tensor([size is not None for size in found.size])
    after = net(found.changed).argmax(1)
    assert there.any()
    assert (after != y[list(found.sample)])[there].all()
    assert tuple(after[there].tolist()) == tuple(t for t in found.flipped_to if t is not None)
    width = x.amax(0) - x.amin(0)
    sizes = ((found.changed - found.x) / width).norm(dim=1)
    torch.testing.assert_close(sizes[there].double(), found.sizes[there], rtol=1e-4, atol=1e-6)


def test_no_smaller_change_on_a_grid():
    """Brute force in two dimensions, in units of the range."""
    torch.manual_seed(2)
    net = nets.mlp(2, 2, widths=(20, 20))
    x = torch.rand(60, 2)
    y = net(x).argmax(1)
    low, width = x.amin(0), x.amax(0) - x.amin(0)
    sides = torch.linspace(0, 1, 401)
    grid = torch.cartesian_prod(sides, sides)
    labels = net(low + grid * width).argmax(1)
    found = smallest_changes(net, (x, y), norm="linf", samples=25)
    for sample, size in zip(found.sample, found.sizes.tolist(), strict=True):
        others = grid[labels != y[sample]]
        if not len(others):
            assert size == math.inf
            continue
        nearest = (others - (x[sample] - low) / width).abs().amax(1).min().item()
        assert nearest - 1 / 400 <= size <= 1.1 * nearest + 1 / 200


def test_only_right_answers_are_drawn_and_numbers_add_up():
    net, x, y = linear()
    wrong = y.clone()
    wrong[::2] = (y[::2] + 1) % 4
    found = smallest_changes(net, (x, wrong), samples=30)
    assert all(sample % 2 for sample in found.sample)
    assert found.tried >= 30
    sizes = np.sort(found.sizes.numpy())
    assert found.median.value == pytest.approx(np.median(sizes))
    k = int(binom.ppf(0.025, 30, 0.5))
    assert (found.median.low, found.median.high) == (sizes[k - 1], sizes[30 - k])
    assert found.within(sizes[9]).value == pytest.approx(10 / 30)
    assert set(to_json(found)) == {
        "norm", "tried", "sample", "label", "flipped_to", "confidence", "size",
    }  # fmt: skip


def test_the_median_covers_its_truth():
    """Of 400 draws of 40 sizes, the interval holds the true median in at least 95 %."""
    net, x, y = linear()
    base = smallest_changes(net, (x, y), samples=2, steps=1)
    drawn = np.random.default_rng(0)
    hits = 0
    for _ in range(400):
        own = type(base)(**{**vars(base), "size": tuple(drawn.exponential(1.0, 40).tolist())})
        hits += own.median.low <= math.log(2) <= own.median.high
    assert hits / 400 > 0.94


def test_a_constant_answer_cannot_be_flipped():
    net = nn.Linear(2, 2)
    with torch.no_grad():
        net.weight.zero_()
        net.bias.copy_(torch.tensor([2.0, 0.0]))
    found = smallest_changes(net, (torch.rand(20, 2), torch.zeros(20, dtype=torch.long)), samples=5)
    assert found.size == (None,) * 5
    assert found.flipped_to == (None,) * 5
    assert found.within(1.0).value == 0
    assert adversarial_examples(net, (torch.rand(20, 2), torch.zeros(20).long()), count=3) == ()


def test_images_ensembles_and_the_network_as_it_was():
    torch.manual_seed(3)
    members = [nets.small_cnn((1, 8, 8), 3) for _ in range(2)]
    model = models.ensemble(members)
    x = torch.randint(0, 256, (20, 1, 8, 8), dtype=torch.uint8)
    y = model(x).labels
    with torch.inference_mode():
        found = smallest_changes(model, (x, y), samples=6, steps=5)
    assert found.changed.shape == (6, 1, 8, 8)
    assert found.changed.min() >= 0
    assert found.changed.max() <= 1
    assert found == smallest_changes(model, (x, y), samples=6, steps=5)


def test_examples_are_wrong_within_a_radius():
    torch.manual_seed(4)
    net = nets.small_cnn((1, 8, 8), 3)
    x = torch.rand(60, 1, 8, 8)
    y = net.eval()(x).argmax(1)
    found = adversarial_examples(net, (x, y), radius=0.3, count=4, steps=10)
    assert found
    for one in found:
        after = net(one.changed[None]).softmax(1).detach()
        assert int(after.argmax()) == one.wrong != one.label == int(y[one.sample])
        assert float(after.max()) == pytest.approx(one.wrong_confidence, abs=1e-5)
        assert one.size == pytest.approx(float((one.changed - one.x).abs().max()), abs=1e-6)
        assert one.size <= 0.3 + 1e-6
    twice = adversarial_examples(net, (x, y), count=4, steps=10)
    small = smallest_changes(net, (x, y), samples=4, steps=10)
    limits = dict(zip(small.sample, small.sizes.tolist(), strict=True))
    assert all(one.size <= 2 * limits[one.sample] + 1e-6 for one in twice)
    objective = attacks.wrong_confidence(net)
    assert all(objective(one.changed[None], torch.tensor([one.label])) > -1 for one in twice)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"norm": "l3"}, "unknown norm 'l3'"),
        ({"samples": 0}, "at least 1"),
        ({"steps": -1}, "steps"),
    ],
)
def test_bad_options(options, message):
    net, x, y = linear()
    with pytest.raises(NescioError, match=message):
        smallest_changes(net, (x, y), **options)


def test_bad_data():
    net, x, y = linear()
    with pytest.raises(NescioError, match="answered correctly"):
        smallest_changes(net, (x, (y + 1) % 4))
    with pytest.raises(NescioError, match="radius"):
        adversarial_examples(net, (x, y), radius=0.0)


def test_five_sizes_have_no_interval_for_their_median():
    def median(count):
        numbers = {"sample": range(count), "label": [0] * count, "flipped_to": [1] * count}
        fields = {name: tuple(values) for name, values in numbers.items()}
        sizes = tuple(0.1 * (1 + k) for k in range(count))
        given = {"confidence": (0.9,) * count, "size": sizes}
        return SmallestChanges(norm="linf", tried=count, **fields, **given).median

    assert (median(5).low, median(5).high) == (0.0, math.inf)
    assert (median(6).low, median(6).high) == pytest.approx((0.1, 0.6))  # 1 - 2 / 2^6 = 96.9 %
