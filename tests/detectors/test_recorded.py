"""Arrays of a network that runs elsewhere: the same as the network itself gives."""

import numpy as np
import pytest
import torch
from torch import nn

import nescio
from nescio.core import NescioError
from nescio.detectors import (
    as_recorded,
    has_features,
    recorded_model,
    recorded_nets,
    recovered_logits,
)


def net_and_data(samples=900, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=samples)
    x = (rng.normal(size=(samples, 2)) + 2.5 * np.eye(3)[y][:, :2]).astype(np.float32)
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 3))
    with torch.no_grad():  # least squares is training enough
        hidden = net[1](net[0](torch.from_numpy(x)))
        target = 4 * torch.eye(3)[torch.from_numpy(y)]
        net[2].weight.copy_(torch.linalg.lstsq(hidden, target - net[2].bias).solution.T)
    return net, torch.from_numpy(x), torch.from_numpy(y)


def answers(net, x):
    with torch.no_grad():
        hidden = net[1](net[0](x))
        return net[2](hidden).numpy(), hidden.numpy()


def test_arrays_are_what_the_network_gives():
    net, x, y = net_and_data()
    logits, features = answers(net, x)
    found = nescio.recorded(logits, features=features, labels=y.numpy())
    seen = nescio.observe(net, (x, y))
    assert torch.equal(found.logits, seen.logits)
    assert torch.equal(found.features["features"], next(iter(seen.features.values())))
    assert torch.equal(found.labels, seen.labels)
    assert has_features(found)
    assert torch.allclose(
        recorded_model(found)(found.inputs).probs, torch.tensor(logits).softmax(1)
    )


def test_probabilities_and_logits_agree():
    net, x, y = net_and_data()
    logits, _ = answers(net, x)
    probs = torch.tensor(logits).double().softmax(1).numpy()
    found = nescio.recorded(probabilities=probs, labels=y)
    assert np.allclose(recorded_model(found)(found.inputs).probs, probs, atol=1e-6)
    assert not has_features(found)
    sharp = nescio.recorded(probabilities=[[1.0, 0.0], [0.25, 0.75]])  # as trees give them
    least = 2.0**-52
    assert sharp.logits[0, 0].tolist() == pytest.approx([0.0, np.log(least)])


def test_one_logit_is_that_of_two_classes():
    z = np.array([-1.0, 0.5, 3.0])
    found = nescio.recorded(z, labels=[0, 1, 1])
    expected = 1 / (1 + np.exp(-z))
    assert np.allclose(recorded_model(found)(found.inputs).probs[:, 1], expected)
    same = nescio.recorded(probabilities=expected)
    assert np.allclose(recorded_model(same)(same.inputs).probs[:, 1], expected)


def test_several_networks_keep_their_answers_apart():
    rng = np.random.default_rng(0)
    logits, features = rng.normal(size=(4, 6, 3)), rng.normal(size=(4, 6, 2))
    found = nescio.recorded(logits, features=features)
    assert found.members == 4
    assert np.allclose(found.logits, logits)
    assert np.allclose(found.features["features"], features)
    prediction = recorded_model(found)(found.inputs)
    assert np.allclose(prediction.logits, logits)


def test_a_guard_of_arrays_decides_the_same_from_file_and_rows(tmp_path):
    net, x, y = net_and_data(2000)
    logits, features = answers(net, x)
    parts = [slice(0, 600), slice(600, 1500), slice(1500, 2000)]
    train, calibration, test = (
        nescio.recorded(logits[p], features=features[p], labels=y[p]) for p in parts
    )
    made = nescio.guard(None, calibration, train=train, risk=0.4, false_alarm=0.05)
    found = made(test)
    again = nescio.load(made.save(tmp_path / "guard.safetensors", weights=True))
    for guard in (made, again):
        assert torch.equal(guard(test.inputs).decision, found.decision)
    path = tmp_path / "decisions.csv"
    assert nescio.score(again, test, path).inputs == 500
    assert path.read_text().count("\n") == 501
    model = recorded_model(calibration)
    pairs = [(one.inputs, one.labels) for one in (calibration, train)]
    same = nescio.guard(model, pairs[0], train=pairs[1], risk=0.4, false_alarm=0.05)
    assert torch.equal(same(test.inputs).score, found.score)
    bad = test.inputs[:3].clone()
    bad[1, 0] = torch.nan
    with pytest.warns(UserWarning, match="not finite|NaN"):
        assert made(bad).columns()["rule"][1] == "not finite"


def test_training_samples_among_the_calibration_samples_are_refused():
    net, x, y = net_and_data()
    logits, features = answers(net, x)
    seen = nescio.recorded(logits, features=features, labels=y)
    with pytest.raises(NescioError, match="among the training data given"):
        nescio.guard(None, seen, train=seen[:300], risk=0.4, false_alarm=0.05)


def test_comparisons_of_arrays_are_those_of_the_network():
    net, x, y = net_and_data(400)
    far = x + 6
    pairs = {"test": (x[:200], y[:200]), "train": (x[200:], y[200:]), "far": (far, None)}
    given = {}
    for name, (inputs, labels) in pairs.items():
        logits, features = answers(net, inputs)
        given[name] = nescio.recorded(logits, features=features, labels=labels)
    names = ["energy", "knn,k=5", "mahalanobis"]
    how = {"detectors": names, "resamples": 0}
    ours = nescio.compare(None, given["test"], {"far": given["far"]}, train=given["train"], **how)
    theirs = nescio.compare(net, pairs["test"], {"far": far}, train=pairs["train"], **how)
    for name in names:
        assert ours.value(name, "far", "auroc") == theirs.value(name, "far", "auroc")
    kind = {"task": "confidence", "resamples": 0}
    ours = nescio.compare(None, given["test"], {"far": given["far"]}, **kind)
    theirs = nescio.compare(net, pairs["test"], {"far": far}, **kind)
    mean = "mean_max_confidence"
    assert ours.value("network", "far", mean) == pytest.approx(theirs.value("network", "far", mean))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "give logits or probabilities"),
        ({"logits": [[1.0, 2.0]], "probabilities": [[0.5, 0.5]]}, "one of them"),
        ({"logits": [[0.5, 0.5], [0.1, 0.9]]}, "the logits are probabilities"),
        ({"probabilities": [[0.5, 0.2]]}, "each row sums to 1"),
        ({"probabilities": [[1.5, -0.5]]}, "not negative"),
        ({"logits": [[1.0, np.nan], [0.0, 3.0]]}, "logits are NaN or infinite for 1 of 2 inputs"),
        ({"logits": [[1.0, 2.0]], "features": [[np.inf]]}, "features are NaN or infinite"),
        ({"logits": [[1.0, 2.0]], "features": [[1.0], [2.0]]}, "they must agree"),
        ({"logits": [[1.0, 2.0]], "labels": [0, 1]}, "one per sample"),
        ({"logits": [[1.0, 2.0]], "labels": [2]}, r"labels must lie in 0\.\.1"),
        ({"logits": [[1.0, 2.0]], "labels": [0.5]}, "must be integers"),
        ({"logits": np.zeros((0, 3))}, "not empty"),
        ({"logits": np.zeros((1, 2, 3, 4))}, r"\(samples, numbers\)"),
        ({"logits": [["a", "b"]]}, "array of numbers"),
        ({"logits": [[1.0, 2.0]], "features": {"a": [[1.0]]}}, "one array"),
    ],
)
def test_bad_arrays_are_refused_in_words(given, words):
    with pytest.raises(NescioError, match=words):
        nescio.recorded(**given)


def test_what_is_no_array_is_refused():
    with pytest.raises(NescioError, match="training data are what one gave"):
        as_recorded((torch.zeros(2, 3), None), "training data")
    wide = nescio.recorded([[1.0, 2.0, 3.0]])
    with pytest.raises(NescioError, match="give them alike"):
        as_recorded(nescio.recorded([[1.0, 2.0]]), like=wide)
    assert recorded_nets(nn.Linear(2, 2)) == []
    own = nescio.Activations(logits=[[1.0, 2.0]], features=[[3.0]])
    assert recorded_nets(as_recorded(own))


def test_logits_of_other_features_come_from_the_last_layer():
    net, x, y = net_and_data()
    logits, features = answers(net, x)
    known = nescio.recorded(logits[:300], features=features[:300], labels=y[:300])
    found = recovered_logits(known, features[300:])
    assert np.allclose(found[0], logits[300:], atol=1e-4)
    bent = nescio.recorded(np.abs(logits[:300]), features=features[:300])
    with pytest.raises(NescioError, match="give the logits too"):
        recovered_logits(bent, features[300:])
    dead = nescio.recorded(logits[:300], features=np.hstack([features[:300], np.zeros((300, 1))]))
    with pytest.raises(NescioError, match="do not show all of it"):
        recovered_logits(dead, np.hstack([features[300:], np.ones((600, 1))]))
    same = nescio.recorded(found[0], features=features[300:], labels=y[300:])
    with pytest.raises(NescioError, match="among the training data given"):  # by their features
        nescio.guard(None, nescio.recorded(logits, features=features, labels=y), train=same)
