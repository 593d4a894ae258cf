"""What a reader with fresh eyes found: each once wrong, crashing or silent."""

from dataclasses import replace

import pytest
import torch
from torch import nn

import nescio
from nescio import attacks, losses, recipes
from nescio.calibration import scaled as scaled_by
from nescio.core import NescioError
from nescio.data.augmentation import Augment, crops
from nescio.data.ood import another, paper_noise
from nescio.data.ranges import noise, units_of
from nescio.models import plain
from nescio.training.recipe import ood_of


def images(count, classes=3):
    source = torch.Generator().manual_seed(0)
    return torch.rand(count, 1, 8, 8, generator=source), torch.arange(count) % classes


def network():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 3))


@pytest.mark.parametrize(
    ("samples", "batch", "share"), [(301, 100, 1.0), (3500, None, 1.0), (300, 100, 2.0)]
)
def test_acet_keeps_enough_inputs_for_its_largest_batch(samples, batch, share):
    x, y = images(samples)
    loss = losses.acet(losses.nll(), paper_noise(x), share=share)
    model = nescio.train(network, (x, y), loss=loss, epochs=2, batch_size=batch, progress=False)
    assert model.history.train.isfinite().all()


def test_a_run_with_another_augmentation_is_refused(tmp_path):
    x, y = images(60)
    options = {"epochs": 1, "run": tmp_path, "progress": False}
    nescio.train(network, (x, y), augment=crops(2), **options)
    with pytest.raises(NescioError, match="belongs to another run"):
        nescio.train(network, (x, y), **options)


class Written(nn.Module):
    """A network that overwrites with a statement, or names its argument."""

    def __init__(self, way):
        super().__init__()
        self.first, self.last, self.way = nn.Linear(64, 16), nn.Linear(16, 3), way

    def forward(self, x):
        hidden = self.first(x.flatten(1))
        if self.way == "statement":
            hidden.relu_()
        elif self.way == "function":
            nn.functional.relu(hidden, inplace=True)
        else:
            hidden = nn.functional.relu(input=hidden)
        return self.last(hidden)


@pytest.mark.parametrize("way", ["statement", "function", "keyword"])
def test_leaking_keeps_the_values_of_every_way_to_write_relu(way):
    x, _ = images(10)
    value = attacks.confidence(Written(way))
    leaf = x.clone().requires_grad_()
    leaked = attacks.leaking(value)(leaf)
    assert torch.equal(leaked.detach(), value(x))
    (slope,) = torch.autograd.grad(leaked.sum(), leaf)
    assert slope.abs().amax() > 0


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_an_attack_switches_gradients_on_for_itself(mode):
    x, _ = images(10)
    value = attacks.confidence(network())
    ood = attacks.pgd(value, x, radius=0.1, steps=3)
    with mode():
        in_dist = attacks.pgd(value, x, radius=0.1, steps=3)
    assert torch.equal(ood.value, in_dist.value.clone())


def test_a_scaled_model_in_float64_can_be_attacked():
    x, _ = images(10)
    scaled = scaled_by(plain(network().double()), 0.5, (0.0, 0.0, 0.0))
    assert attacks.adversarial_noise(scaled, x, steps=2).value.isfinite().all()


def test_noise_of_images_in_other_units_is_in_the_units_of_the_attack():
    x, _ = images(100)
    standardized = (x - 0.5) / 0.25
    standardized[5] = -2.0  # an image of one value
    found = noise(standardized, seed=0).take(300)
    assert (found.amin(), found.amax()) == (0.0, 1.0)
    recipe = recipes.ceda(ood=paper_noise)
    assert "paper_noise" in recipe.loss_for(255 * x).description
    made = ood_of(paper_noise, 255 * x, units_of(255 * x)).take(50)
    assert made.amax() == 1.0


def test_compare_takes_predictors_whose_answers_have_gradients():
    x, y = images(30)
    net = network()
    answer = lambda z: nescio.Categorical(net(z)[None])  # noqa: E731
    others = {"other": 1 - x}
    table = nescio.compare({"mine": answer}, (x, y), others, task="confidence", resamples=0)
    assert table.rows


def test_a_pool_is_taken_from_all_of_a_sorted_out_set():
    x, y = images(400)
    sorted_set = another(
        (torch.arange(1000.0) / 1000).view(-1, 1, 1, 1).expand(-1, 1, 8, 8), "sorted"
    )
    seen = []
    spied = replace(
        sorted_set,
        make=lambda indices: (seen.extend(indices.tolist()), sorted_set.make(indices))[1],
    )
    loss = losses.acet(losses.nll(), spied, pool=100)
    nescio.train(network, (x, y), loss=loss, epochs=1, batch_size=50, progress=False)
    assert len(set(seen)) == 100
    assert (min(seen), max(seen)) == (0, 990)


def test_an_augmentation_that_changes_the_type_is_refused():
    x, y = images(20)
    bad = Augment("floats", lambda images, _: images.float())
    with pytest.raises(NescioError, match="an augmentation keeps type and shape"):
        nescio.train(network, ((255 * x).byte(), y), augment=bad, epochs=1, progress=False)


def test_normalized_images_are_within_a_box_that_was_computed_in_float64():
    x, _ = images(50)
    x[0, 0, 0, 0], x[0, 0, 0, 1] = 0.0, 1.0
    for mean, spread in ((0.1307, 0.3081), (0.4914, 0.2023), (0.2860, 0.3530)):
        scaled = (x - mean) / spread
        options = {"low": (0 - mean) / spread, "high": (1 - mean) / spread, "radius": 0.5}
        found = attacks.pgd(attacks.confidence(network()), scaled, steps=2, **options)
        assert found.x.amin() >= scaled.amin() - 1e-5


def test_compare_says_where_an_attack_was_blind():
    x, y = images(30)
    dead = network()
    with torch.no_grad():
        dead[1].bias.fill_(-100.0)
    row = nescio.AdversarialNoise(paper_noise(x), 10, steps=2)
    both = {"dead": dead, "live": network()}
    table = nescio.compare(both, (x, y), {"attack": row}, task="confidence", resamples=0)
    assert table.row("dead", "attack", "blind").value == 1.0
    assert table.row("live", "attack", "blind").value == 0.0
    words = " ".join(str(table).split())
    assert "the attack on dead had no gradient to follow on 100% of the inputs" in words
    assert "the attack on live" not in words
