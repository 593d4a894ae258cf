"""The judges against maxima that are known: each of their attacks finds what the others do not."""

import math

import pytest
import torch
from torch import nn

from nescio import NescioError, nets
from nescio.attacks import (
    adversarial_noise,
    adversarial_samples,
    class_confidence,
    confidence,
    label_loss,
    strong,
    strong_noise,
    strong_samples,
    wrong_confidence,
)
from nescio.attacks.judge import Judged, judge
from nescio.attacks.objectives import FAR, misread
from nescio.attacks.strong import CLASSES, FROM_DATA, HALVING, LABELS, LEAKING, PLAIN

WIDE = 50  # features: of that many, random starts have the mean of their input
HALF = torch.full((4, WIDE), 0.5)


class Logits(nn.Module):
    """The logits that a function makes of inputs, and every pass through them."""

    def __init__(self, function):
        super().__init__()
        self.function, self.one = function, nn.Parameter(torch.ones(()))
        passes = self.passes = []
        self.note = lambda: passes.append(torch.is_grad_enabled())  # in copies of the network too

    def forward(self, x):
        self.note()
        return self.one * self.function(x.flatten(1))


def two(value):
    """Two classes whose log-odds are this function's values."""
    return Logits(lambda x: torch.stack([value(x), torch.zeros(len(x))], 1))


def test_the_maximum_of_a_linear_network_is_that_of_the_closed_form():
    """The log-odds of two classes are |w x + b|: the ball and the box end on one of two sides."""
    net = nn.Linear(6, 2)
    x = torch.rand(40, 6)
    w, b = net.weight[0] - net.weight[1], net.bias[0] - net.bias[1]
    low, high = (x - 0.2).clamp(min=0), (x + 0.2).clamp(max=1)
    with torch.no_grad():
        most = torch.where(w > 0, high, low) @ w + b
        least = torch.where(w > 0, low, high) @ w + b
    found = strong_noise(net, x, radius=0.2, steps=20, step=0.02, enough=99.0)
    torch.testing.assert_close(found.value, torch.maximum(most, -least))


def test_halved_steps_reach_a_peak_that_plain_steps_jump_over():
    def peaked(x):
        far = (x - 0.613).abs().mean(1)
        return 2 - far + 5 * (1 - far / 0.01).relu()

    plain = {"radius": 0.3, "steps": 40, "step": 0.05}
    assert adversarial_noise(two(peaked), HALF, start="input", **plain).value.max() < 2
    found = strong_noise(two(peaked), HALF, halving_steps=40, **plain)
    assert found.value.min() > 3
    assert PLAIN not in found.by


def behind(x):
    """Dead where the mean is below 0.6; 5 at the edge of the ball around 0.4."""
    return 50 * (x.mean(1) - 0.6).relu()


def test_leaking_gradients_lead_out_of_a_dead_region():
    x = torch.full((4, WIDE), 0.4)
    plain = adversarial_noise(two(behind), x)
    assert plain.blind.all()
    assert torch.equal(plain.value, torch.zeros(4))
    found = strong_noise(two(behind), x)
    assert found.wins == {LEAKING: 4}
    assert not found.blind.any()
    torch.testing.assert_close(found.value, torch.full((4,), 5.0), rtol=1e-3, atol=0)
    torch.testing.assert_close(found.x, torch.full((4, WIDE), 0.7), rtol=0, atol=1e-4)


def test_a_region_around_data_is_found_only_from_the_data():
    """No slope anywhere else, not even one that leaks."""
    image = torch.rand(WIDE, generator=torch.Generator().manual_seed(1))

    def around(x):
        far = (x - image.clamp(0.2, 0.8)).abs().mean(1)
        return torch.where(far < 0.05, 4 * (1 - far / 0.05), torch.zeros(()))

    near = image[None] + 0.01 * torch.rand(WIDE)
    apart = torch.rand(60, WIDE).round()  # further from the ball
    data = torch.cat([apart[:30], near, apart[30:]])
    blind = strong_noise(two(around), HALF)
    assert blind.blind.all()
    assert set(blind.by) == {"input"}
    assert torch.equal(blind.x, HALF)
    found = strong_noise(two(around), HALF, starts=data)
    assert found.wins == {FROM_DATA: 4}
    assert not found.blind.any()
    assert (found.value > 3.75).all()  # higher than where it started, near the top of 4
    assert (found.value > around(near.clamp(0.2, 0.8))).all()
    assert strong_noise(two(around), HALF, starts=torch.rand(20, WIDE)).blind.all()


def test_who_names_data_in_a_ball_right_is_right():
    """A region around an image: alone it counts, with its label it does not, nor if misread."""
    image = torch.rand(1, WIDE, generator=torch.Generator().manual_seed(1)) * 0.5 + 0.25

    def around(x):
        far = (x - image).abs().mean(1)
        return torch.where(far < 0.05, 4 * (1 - far / 0.05), torch.zeros(()))

    alone = strong_noise(two(around), HALF, starts=image)
    assert alone.wins == {FROM_DATA: 4}
    torch.testing.assert_close(alone.value, torch.full((4,), 4.0))
    for label in (0, 1):  # read right, and an error on the data
        labeled = strong_noise(two(around), HALF, starts=(image, torch.tensor([label])))
        assert FROM_DATA not in labeled.wins
        assert torch.equal(labeled.value, torch.zeros(4))


def test_from_data_the_wrong_classes_are_raised():
    """Around an image of class 0 the slope of class 2 leads to where it has won."""
    image = torch.full((1, WIDE), 0.5)

    def sides(x):
        away = (x - 0.5).abs().mean(1)
        return torch.stack([3 - 0 * away, 0 * away, 20 * away], 1)

    start = torch.full((1, WIDE), 0.55)
    found = strong_noise(Logits(sides), image, starts=(start, torch.tensor([0])), steps=0)
    assert found.value.shape == (1,)
    best = 6 - torch.tensor([3.0, 0.0]).logsumexp(0)
    torch.testing.assert_close(found.value, best[None], rtol=1e-3, atol=0)


def test_a_wrong_answer_that_was_met_counts_before_a_right_one_that_is_nearly_wrong():
    """Ten classes: a wrong one has .35 where the label has .4, and .3 where it wins."""
    y = torch.tensor([0])
    right = torch.tensor([[0.4, 0.35, *[0.25 / 8] * 8]]).log()
    wrong = torch.tensor([[0.25, 0.3, *[0.45 / 8] * 8]]).log()
    both = misread(Logits(lambda x: x))(torch.cat([right, wrong]), y.expand(2))
    odds = torch.tensor([0.35 / 0.65, 0.3 / 0.7]).log() - torch.tensor([FAR, 0.0])
    torch.testing.assert_close(both, odds)


def test_what_reached_enough_before_is_not_blind():
    sure = two(lambda x: 30 + 0 * x.sum(1))
    assert not strong_noise(sure, HALF).blind.any()
    assert set(strong_noise(sure, HALF).by) == {"input"}


def test_a_class_that_is_not_the_first_is_raised_too():
    """Two classes rise together to the right, where the steps lead; a third alone to the left."""

    def sides(x):
        mean = x.mean(1)
        return torch.stack([1 + 2 * mean, 0.5 + 2 * mean, 10 - 20 * mean], 1)

    found = strong_noise(Logits(sides), HALF)
    assert adversarial_noise(Logits(sides), HALF).value.max() < 1
    assert found.wins == {CLASSES: 4}
    best = 6 - torch.tensor([1.4, 0.9]).logsumexp(0)
    torch.testing.assert_close(found.value, best.expand(4))


def recorded(monkeypatch):
    """What each attack of a judge arrives at, by the objective that counts."""
    seen = {}

    def recording(counted, x, targets, searches, **options):
        def kept(name, search):
            def run(near):
                found = search(near)
                with torch.no_grad():
                    seen[name] = (near.index, counted(found.x, *near.targets))
                return found

            return run

        kept_all = {name: kept(name, search) for name, search in searches.items()}
        return judge(counted, x, targets, kept_all, **options)

    monkeypatch.setattr(strong, "judge", recording)
    return seen


def hilly(net):
    with torch.no_grad():
        for layer in net.modules():
            if isinstance(layer, nn.Linear):
                layer.weight.mul_(3)
    return net


def test_it_is_never_below_its_attacks_nor_its_inputs(monkeypatch):
    net, x = hilly(nets.mlp(7, 4, widths=(20, 20))), torch.rand(60, 7)
    sure, seen = confidence(net), recorded(monkeypatch)
    found = strong_noise(net, x, starts=torch.rand(20, 7), enough=99.0)
    assert list(seen) == [PLAIN, HALVING, LEAKING, FROM_DATA, CLASSES]
    for index, values in seen.values():
        assert len(index) == 60
        assert (found.value >= values - 1e-5).all()
    with torch.no_grad():
        assert (found.value >= sure(x)).all()
        torch.testing.assert_close(found.value, sure(found.x))
    torch.testing.assert_close(seen[PLAIN][1], adversarial_noise(net, x).value)
    assert sum(found.wins.values()) == 60
    assert len(found.wins) > 2
    assert list(found.wins.values()) == sorted(found.wins.values(), reverse=True)


def test_settled_inputs_are_left_out_of_what_follows():
    """A confidence of 0.999 after the plain steps: their 200 passes, and no more."""
    net = two(lambda x: 10 * x.mean(1))
    found = strong_noise(net, HALF, starts=HALF)
    assert found.wins == {PLAIN: 4}
    assert net.passes.count(True) == 200
    net.passes.clear()
    assert strong_noise(net, HALF, steps=0, enough=4.0).wins == {"input": 4}
    assert True not in net.passes


def test_what_was_found_is_shown_in_short():
    blind, by = torch.tensor([True, False, False, False]), ("input", PLAIN, PLAIN, HALVING)
    found = Judged(HALF, torch.tensor([-1.0, 0.5, 2.0, 3.25]), blind, by=by)
    assert repr(found) == "Judged(4 inputs, median value 0.5 (-1 to 3.25), 1 blind)"
    none = Judged(HALF[:0], torch.zeros(0), torch.zeros(0, dtype=torch.bool), by=())
    assert repr(none) == "Judged(0 inputs, 0 blind)"


def test_what_an_input_costs():
    """The numbers of passes that the documentation states, for ten classes."""
    net = Logits(lambda x: x[:, :10])
    strong_noise(net, HALF, starts=torch.rand(20, WIDE))
    assert net.passes.count(True) == 370
    assert net.passes.count(False) == 41
    net.passes.clear()
    strong_samples(net, HALF, torch.arange(4))
    assert net.passes.count(True) == 227


def test_the_batch_size_does_not_matter_with_starts():
    net, x, data = nets.mlp(5, 3, widths=(16,)), torch.rand(13, 5), torch.rand(9, 5)
    whole, parts = (strong_noise(net, x, starts=data, batch_size=size) for size in (128, 4))
    torch.testing.assert_close(parts.x, whole.x, rtol=0, atol=1e-5)
    torch.testing.assert_close(parts.value, whole.value, rtol=0, atol=1e-5)


def test_images_of_bytes_are_starts():
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    x, data = torch.rand(5, 1, 4, 4), torch.randint(0, 256, (700, 1, 4, 4), dtype=torch.uint8)
    found, floats = (strong_noise(net, x, starts=given) for given in (data, data.float() / 255))
    assert torch.equal(found.x, floats.x)


def test_of_label_maps_all_pixels_have_one_class():
    net = nn.Conv2d(1, 3, 1)
    found = strong_noise(net, torch.rand(4, 1, 3, 3), steps=10, step=0.05, halving_steps=5)
    assert found.value.shape == (4,)
    value = class_confidence(net)(found.x, torch.tensor([0, 1, 2, 0]))
    logs = net(found.x).log_softmax(1)
    odds = logs - torch.log1p(-logs.exp())
    expected = torch.stack([odds[i, k].mean() for i, k in enumerate((0, 1, 2, 0))])
    torch.testing.assert_close(value, expected)


def test_class_confidence_is_the_negative_of_label_loss():
    net, x, y = nn.Linear(4, 3), torch.rand(6, 4), torch.arange(6) % 3
    torch.testing.assert_close(class_confidence(net)(x, y), -label_loss(net)(x, y))


def against(x):
    """Class 0 is the label. To the right eight classes gain together, to the left one alone."""
    away = x.mean(1) - 0.5
    label = torch.full_like(away, 1.5)
    return torch.stack([label, -10 * away, *(12 * away for _ in range(8))], 1)


def test_samples_are_judged_by_the_confidence_in_a_wrong_class():
    """The label loss leads to a tie of eight classes, the objective to a sure one."""
    net, y = Logits(against), torch.zeros(4, dtype=torch.long)
    wrong = wrong_confidence(net)
    lost = adversarial_samples(net, HALF, y)
    with torch.no_grad():
        assert wrong(lost.x, y).max().sigmoid() < 0.13
    found = strong_samples(net, HALF, y)
    left = against(torch.full((1, WIDE), 0.2)).softmax(1)[0, 1]
    torch.testing.assert_close(found.value.sigmoid(), left.expand(4), rtol=1e-3, atol=0)
    assert not any(name.startswith(LABELS) for name in found.by)
    assert (net(found.x).argmax(1) == 1).all()


def test_samples_are_never_below_their_attacks(monkeypatch):
    net, x, y = hilly(nets.mlp(6, 4, widths=(20,))), torch.rand(30, 6), torch.arange(30) % 4
    wrong, seen = wrong_confidence(net), recorded(monkeypatch)
    found = strong_samples(net, x, y, radius=0.2, enough=99.0)
    assert len(seen) == 6
    for index, values in seen.values():
        assert (found.value[index] >= values - 1e-5).all()
    with torch.no_grad():
        assert (found.value >= wrong(x, y)).all()
        plain = adversarial_samples(net, x, y, radius=0.2).x
        torch.testing.assert_close(seen[LABELS + PLAIN][1], wrong(plain, y))
        torch.testing.assert_close(found.value, wrong(found.x, y))


def test_they_work_where_gradients_are_off():
    net, x, y = nets.mlp(3, 2, widths=(8,)), torch.rand(4, 3), torch.tensor([0, 1, 0, 1])
    few = {"steps": 3, "step": 0.1, "halving_steps": 3}
    outside = strong_noise(net, x, starts=x, **few), strong_samples(net, x, y, **few)
    with torch.inference_mode():
        again = x.clone()
        inside = strong_noise(net, again, starts=again, **few), strong_samples(net, again, y, **few)
    for one, other in zip(outside, inside, strict=True):
        assert torch.equal(one.x, other.x)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"starts": torch.rand(3, 7)}, "starts must be inputs of the same shape"),
        ({"starts": 255 * HALF + 1}, "the starts range from 128.5"),
        ({"starts": (HALF, torch.zeros(3, dtype=torch.long))}, "4 starts but labels are"),
        ({"starts": (HALF, torch.zeros(4))}, "give one class each"),
        ({"restarts": 0}, "restarts must be a whole number, at least 1, got 0"),
        ({"data_starts": True}, "data_starts must be a whole number"),
        ({"classes": 1.5}, "classes must be a whole number"),
        ({"radius": 2.0}, "leaves the box"),
        ({"high": 0.4}, "outside the box"),
        ({"norm": "l3"}, "unknown norm"),
        ({"halving_steps": -1}, "steps must be a whole number"),
        ({"halving_steps": 0}, "halving_steps must be a whole number, at least 1, got 0"),
        ({"enough": math.nan}, "enough must be the log-odds of a confidence, such as 6.9"),
        ({"enough": "sure"}, "enough must be"),
        ({"seed": "q"}, "seed must be a whole number"),
        ({"batch_size": 0}, "batch_size must be a whole number, at least 1, got 0"),
        ({"radius": "wide"}, "radius must be a number from 0 up, or None, got 'wide'"),
    ],
)
def test_bad_options_are_refused(options, said):
    with pytest.raises(NescioError, match=said):
        strong_noise(nn.Linear(WIDE, 3), HALF, **options)


def test_samples_need_one_label_each():
    with pytest.raises(NescioError, match="one per sample"):
        strong_samples(nn.Linear(WIDE, 3), HALF, torch.zeros(4, 2))


def test_names_are_told_apart():
    assert len({PLAIN, HALVING, LEAKING, FROM_DATA, CLASSES}) == 5
