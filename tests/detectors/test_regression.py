"""Features of a regression network: observed with their targets, read by some detectors."""

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

import nescio
from nescio import detectors
from nescio.core import NescioError
from nescio.detectors.default import default_detector


@pytest.fixture(scope="module")
def numbers():
    x = torch.randn(500, 3, generator=torch.Generator().manual_seed(0))
    return x, torch.stack([x.sum(1), x[:, 0] * x[:, 1]], 1)


def make(outputs):
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(3, 12), nn.ReLU(), nn.Linear(12, outputs))


@pytest.fixture(scope="module")
def seen(numbers):
    return nescio.observe(make(4), numbers, head="gaussian", inputs=True)


@pytest.mark.parametrize(
    ("head", "outputs"), [("gaussian", 4), ("double_exponential", 4), ("fixed_variance", 2)]
)
def test_means_and_targets_are_observed_with_every_regression_head(numbers, head, outputs):
    x, y = numbers
    net = make(outputs)
    found = nescio.observe(net, (x, y), head=head)
    assert found.regression
    torch.testing.assert_close(found.logits[0], net(x)[:, :2].detach())
    torch.testing.assert_close(found.labels, y)
    assert "2 targets" in repr(found)


def test_one_target_may_come_as_a_vector_of_whole_numbers(numbers):
    x, y = numbers
    found = nescio.observe(make(2), (x, y[:, 0].round().long()), head="gaussian")
    torch.testing.assert_close(found.labels, y[:, :1].round())


def test_the_mean_network_has_the_mean_of_the_means(numbers):
    nets = [make(4) for _ in range(3)]
    for scale, net in enumerate(nets):
        net[2].bias.data += scale
    found = nescio.observe(nets, numbers[0], head="gaussian")
    torch.testing.assert_close(found.mean().logits[0], found.logits.mean(0))


def test_mahalanobis_has_one_center(seen):
    features = seen.features[seen.layer()][0].double().numpy()
    gap = features - features.mean(0)
    cov = np.cov(features.T, bias=True)
    cov = 0.999 * cov + 0.001 * np.trace(cov) / len(cov) * np.eye(len(cov))
    wanted = (gap @ np.linalg.inv(cov) * gap).sum(1)
    np.testing.assert_allclose(detectors.mahalanobis(seen)(seen).numpy(), wanted, rtol=1e-3)


def test_the_default_detector_finds_inputs_far_away(numbers, seen):
    see = partial(nescio.observe, make(4), head="gaussian", inputs=True, progress=False)
    found = default_detector(seen, see)
    scores = nescio.scorer(nescio.models.plain(make(4), head="gaussian"), found)
    assert nescio.metrics.auroc(scores(numbers[0]), scores(10 * numbers[0])) > 0.9


@pytest.mark.parametrize("name", ["energy", "msp", "entropy", "max_logit", "odin"])
def test_detectors_of_class_logits_are_refused(seen, name):
    with pytest.raises(NescioError, match=rf"{name} reads class logits.*knn, mahalanobis"):
        getattr(detectors, name)()(seen)
    with pytest.raises(NescioError, match=rf"{name} reads class logits"):
        nescio.scorer(nescio.models.plain(make(4), head="gaussian"), name)


@pytest.mark.parametrize("name", ["relative_mahalanobis", "she", "trust_score", "kl_matching"])
def test_detectors_that_need_classes_are_refused(seen, name):
    with pytest.raises(NescioError, match="class labels|reads class|of a regression"):
        getattr(detectors, name)(seen)


def test_targets_that_are_not_numbers_are_refused(numbers):
    x, y = numbers[0], numbers[1].clone()
    y[3] = torch.nan
    with pytest.raises(NescioError, match="NaN"):
        nescio.observe(make(4), (x, y), head="gaussian")


def test_detectors_are_compared_on_a_regression(numbers, seen):
    model, far = nescio.models.plain(make(4), head="gaussian"), {"far": 5 * numbers[0]}
    options = {"train": numbers, "resamples": 50, "progress": False}
    found = nescio.compare(model, numbers, ood=far, **options)
    assert {"knn", "mahalanobis", "gower"} <= set(found.results.names("subject"))
    assert "energy" not in found.results.names("subject")
    fitted = detectors.mahalanobis(seen)
    own, other = (fitted(nescio.observe(model, x)) for x in (numbers[0], far["far"]))
    area = found.results.value(subject="mahalanobis", data="far", metric="auroc")
    assert area == pytest.approx(nescio.metrics.auroc(own, other), abs=1e-6)
    with pytest.raises(NescioError, match="class labels.*nescio.audit"):
        nescio.compare(model, numbers, task="errors", **options)
