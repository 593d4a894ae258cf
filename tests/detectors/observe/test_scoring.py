"""A detector on raw inputs: what it gives for activations, and gradients that an attack follows."""

import inspect

import pytest
import torch
from torch import nn

import nescio
from nescio import detectors, nets
from nescio.attacks import pgd
from nescio.core import NescioError, registry


def fitted(name, train):
    """A detector of any name; those that need something of their own are made here."""
    make = registry.detectors[name]
    wanted = inspect.signature(make).parameters
    if name == "measured":
        return make("predictive_entropy")
    if name == "combined":
        return make([detectors.msp(), detectors.knn(train, k=3)], train)
    if name == "tuned_odin":
        return make(train[:70], train[70:])
    options = {"k": 3} if "k" in wanted else {}
    return make(train, **options) if "train" in wanted else make(**options)


def close(found, expected):
    torch.testing.assert_close(found.double(), expected.double(), rtol=1e-3, atol=1e-4)


@pytest.fixture
def train(net, x, y):
    several = torch.cat([x + 0.05 * shift for shift in range(6)])
    return nescio.observe(net, (several, y.repeat(6)), inputs=True)


@pytest.mark.parametrize("name", ["msp", "max_logit", "energy", "entropy"])
def test_detectors_that_need_no_fitting(net, x, name):
    detector = getattr(detectors, name)()
    score = nescio.scorer(net, detector, batch_size=5)
    close(score(x), detector(nescio.observe(net, x)))
    assert score(x).shape == (23,)
    assert repr(score) == f"Scorer({name} on 1 network(s))"


@pytest.mark.parametrize("name", registry.detectors)
def test_every_detector_scores_raw_inputs(net, x, train, name):
    detector = fitted(name, train)
    expected = detector(nescio.observe(net, x, inputs=True))
    for size in (4, 100):
        close(nescio.scorer(net, detector, batch_size=size)(x), expected)


@pytest.mark.parametrize("name", registry.detectors)
def test_every_detector_can_be_attacked(net, x, train, name):
    start = x[:6].clone().requires_grad_()
    scores = nescio.scorer(net, fitted(name, train), batch_size=4)(start)
    slope = torch.autograd.grad(scores.sum(), start)[0]
    assert slope.isfinite().all()
    assert slope.any()


def test_odin_reads_inputs_and_asks_the_network(net, x):
    detector = detectors.odin(radius=0.01)
    expected = detector(nescio.observe(net, x, inputs=True))
    close(nescio.scorer(net, detector)(x), expected)
    images = (x * 255).to(torch.uint8)
    expected = detector(nescio.observe(net, images, inputs=True))
    close(nescio.scorer(net, detector)(images), expected)


@pytest.mark.parametrize("pool", ["mean", "max", "flatten"])
@pytest.mark.parametrize("layers", ["block.norm", "block.relu#2", "input of block"])
def test_it_reads_the_layers_and_the_pooling_of_the_detector(net, x, y, layers, pool, tmp_path):
    train = nescio.observe(net, (x, y), layers=layers, pool=pool)
    detector = detectors.knn(train, k=2)
    expected = detector(nescio.observe(net, x + 0.1, layers=layers, pool=pool))
    close(nescio.scorer(net, detector)(x + 0.1), expected)
    loaded = nescio.load(detector.save(tmp_path / "knn.safetensors"))
    close(nescio.scorer(net, loaded)(x + 0.1), expected)


def test_arrays_and_bytes(net, x):
    score = nescio.scorer(net, detectors.energy())
    close(score(x.numpy()), score(x))
    images = (x * 255).to(torch.uint8)
    close(score(images), score(images.float() / 255))


@pytest.mark.parametrize("name", ["msp", "energy", "mahalanobis", "react", "gaussian_mixture"])
def test_gradients_are_those_of_differences(net, x, train, name):
    net.double()
    detector = getattr(detectors, name)() if name in ("msp", "energy") else fitted(name, train)
    score = nescio.scorer(net, detector, batch_size=2)
    start = x[:3].double().requires_grad_()
    slope = torch.autograd.grad(score(start).sum(), start)[0]
    way = torch.randn(start.shape, dtype=torch.float64)
    with torch.no_grad():
        ahead, back = (score(start + step * way) for step in (1e-5, -1e-5))
    expected = (ahead - back).double() / 2e-5
    torch.testing.assert_close(
        (slope * way).flatten(1).sum(1),
        expected,
        rtol=2e-2,
        atol=2e-2 * expected.abs().max().item(),
    )


def test_gradients_reach_the_inputs_only(net, x):
    before = [p.requires_grad for p in net.parameters()]
    leaf = x[:4].clone().requires_grad_()
    nescio.scorer(net, detectors.energy())(leaf).sum().backward()
    assert leaf.grad.abs().sum() > 0
    assert all(p.grad is None for p in net.parameters())
    assert [p.requires_grad for p in net.parameters()] == before
    assert net.training
    assert not nescio.scorer(net, detectors.energy())(x).requires_grad
    with torch.no_grad():
        assert not nescio.scorer(net, detectors.energy())(leaf).requires_grad


def test_an_attack_lowers_a_score(net, x):
    score = nescio.scorer(net, detectors.energy())
    found = pgd(lambda inputs: -score(inputs), x, radius=0.1, steps=5)
    assert (score(found.x) < score(x)).all()
    close(-found.value, score(found.x))


def test_it_can_be_compared(net, x, y):
    table = nescio.compare(
        net,
        (x, y),
        ood={"other": torch.rand(20, 2, 8, 8) * 3},
        task="confidence",
        scores={"energy": nescio.scorer(net, detectors.energy())},
        progress=False,
    )
    assert "energy" in str(table)


# Several networks.


@pytest.fixture
def model(x, y):
    return nescio.train(
        lambda: nets.mlp((2, 8, 8), 3, widths=(6,)), (x, y), members=3, epochs=2, progress=False
    )


def test_scores_of_an_ensemble_are_the_mean_over_members(model, x, y):
    train = nescio.observe(model, (x, y))
    for detector in (detectors.energy(), detectors.knn(train, k=2), detectors.mahalanobis(train)):
        expected = detector(nescio.observe(model, x + 0.1))
        close(nescio.scorer(model, detector)(x + 0.1), expected)


def test_measures_read_all_members_at_once(model, x):
    detector = detectors.measured("mutual_information")
    close(nescio.scorer(model, detector)(x), detector(nescio.observe(model, x)))


def test_detectors_of_the_mean_network(model, x, y):
    train = nescio.observe(model, (x, y)).mean()
    for detector in (detectors.knn(train, k=2), detectors.react(train)):
        expected = detector(nescio.observe(model, x + 0.1).mean())
        close(nescio.scorer(model, detector)(x + 0.1), expected)


# What does not fit.


def test_a_changed_width_is_refused(net, x, y):
    detector = detectors.knn(nescio.observe(net, (x, y)), k=2)
    net.head[1], net.fc = nn.Linear(36, 9), nn.Linear(9, 3)
    message = "'input of fc': knn was fitted on 7 features, these are 9"
    with pytest.raises(NescioError, match=message):
        nescio.scorer(net, detector)(x)
    with pytest.raises(NescioError, match=message):
        detector(nescio.observe(net, x))


def test_another_pooling_is_refused(net, x):
    detector = detectors.knn(nescio.observe(net, x, layers="block"), k=2)
    with pytest.raises(NescioError, match="pooled by 'mean', these are pooled by 'max'"):
        detector(nescio.observe(net, x, layers="block", pool="max"))


def test_a_layer_that_is_not_there_is_refused(net, x):
    detector = detectors.knn(nescio.observe(net, x), k=2)
    with pytest.raises(NescioError, match="no layer matches 'fc'"):
        nescio.scorer(nets.mlp((2, 8, 8), 3), detector)


def test_a_detector_of_arrays_has_no_place_in_a_network(net, x):
    arrays = nescio.Activations(logits=torch.randn(9, 3), features=torch.randn(9, 4))
    with pytest.raises(NescioError, match="fitted on arrays.*nescio.observe"):
        nescio.scorer(net, detectors.knn(arrays, k=2))


def test_functions_must_be_given_again(net, x):
    def middle(features):
        return features[:, :, 1, 1]

    train = nescio.observe(net, x, layers="block", pool=middle)
    detector = detectors.knn(train, k=2)
    with pytest.raises(NescioError, match=r"pool was the function .*middle.*give pool="):
        nescio.scorer(net, detector)
    close(nescio.scorer(net, detector, pool=middle)(x), detector(train))


def test_the_output_option_is_kept(x):
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.fc = nn.Flatten(), nn.Linear(128, 3)

        def forward(self, x):
            return {"loss": 0, "logits": self.fc(self.body(x))}

    net = Two()
    train = nescio.observe(net, x, output="logits")
    detector = detectors.knn(train, k=2)
    close(nescio.scorer(net, detector)(x), detector(train))
    expected = detectors.energy()(train)
    close(nescio.scorer(net, detectors.energy())(x), expected)
    close(nescio.scorer(net, detectors.energy(), output="logits")(x), expected)


def test_another_number_of_networks_is_refused(model, net, x, y):
    detector = detectors.knn(nescio.observe(model, (x, y), layers=None), k=2)
    with pytest.raises(NescioError, match="fitted on 3 network.*this source has 1"):
        nescio.scorer(model.member(0), detector)
    alone = detectors.knn(nescio.observe(model.member(0), (x, y)), k=2)
    with pytest.raises(NescioError, match="fitted on 1 network.*this source has 3"):
        nescio.scorer(model, alone)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (lambda x: x * torch.nan, "NaN"),
        (lambda x: x[:0], "empty"),
        (lambda x: x[:, :1], "does not take inputs of shape"),
        (lambda x: "x", "data must be an array.*got a str"),
    ],
)
def test_inputs_are_checked(net, x, inputs, message):
    with pytest.raises(NescioError, match=message):
        nescio.scorer(net, detectors.energy())(inputs(x))


def test_a_batch_has_at_least_one_input(net):
    with pytest.raises(NescioError, match="batch_size"):
        nescio.scorer(net, detectors.energy(), batch_size=0)
