"""Public functions that read labels: what is ignored changes nothing, or maps are refused."""

import importlib
import inspect

import pytest
import torch
from torch import Tensor

from nescio import attacks, calibration, evaluation, metrics, models, nets, observe
from nescio.core import Categorical, NescioError
from nescio.detectors.failure import true_class_probability

IGNORED = 255


def maps(count: int = 12) -> tuple[Tensor, Tensor, Categorical]:
    """Images, label maps with ignored pixels, and a prediction of them."""
    draws = torch.Generator().manual_seed(0)
    x = torch.rand(count, 3, 4, 5, generator=draws)
    y = (x + 0.5 * torch.rand(x.shape, generator=draws)).argmax(1)
    y[:, 0] = IGNORED
    return x, y, Categorical(4 * x.movedim(1, -1)[None])


def test_calibrations_of_predictions_leave_ignored_pixels_out() -> None:
    _, y, prediction = maps()
    known, labels = prediction[:, 1:], y[:, 1:]
    for fitted in (calibration.fit_temperature, calibration.fit_platt):
        found, truth = fitted(prediction, y, ignore_index=IGNORED), fitted(known, labels)
        torch.testing.assert_close(found, truth, rtol=1e-6, atol=1e-6)
        with pytest.raises(NescioError, match="labels must lie in 0..2"):
            fitted(prediction, y)


def test_the_probability_of_an_ignored_class_is_not_a_number() -> None:
    _, y, prediction = maps()
    found = true_class_probability(prediction, y, ignore_index=IGNORED)
    assert found[:, 0].isnan().all()
    assert torch.equal(found[:, 1:], true_class_probability(prediction[:, 1:], y[:, 1:]))


@pytest.mark.parametrize(
    "objective", [attacks.label_loss, attacks.wrong_confidence, attacks.margin]
)
def test_attacks_on_labels_leave_ignored_pixels_out(objective) -> None:  # type: ignore[no-untyped-def]
    x, y, _ = maps(4)
    torch.manual_seed(0)
    net = nets.dilated_cnn((3, 4, 5), 3, width=4, depth=1)
    value = objective(net, ignore_index=IGNORED)
    other = y.clone()
    other[:, 0] = 7
    assert torch.equal(value(x, y), objective(net, ignore_index=7)(x, other))
    whole = objective(net)(x, torch.where(y == IGNORED, 0, y))
    assert not torch.allclose(value(x, y), whole)
    attacked = attacks.pgd(value, x, y, radius=0.1, steps=3)
    assert (value(attacked.x, y) > value(x, y)).all()
    with pytest.raises(NescioError, match="labels must lie in 0..2"):
        objective(net)(x, y)
    y[2] = IGNORED
    with pytest.raises(NescioError, match="sample 2 has no label that counts"):
        value(x, y)


def test_one_answer_per_sample_is_read_elsewhere_and_maps_are_refused() -> None:
    x, y, _ = maps()
    net = nets.dilated_cnn((3, 4, 5), 3, width=4, depth=1)
    for call in (
        lambda: observe(net, (x, y)),
        lambda: evaluation.audit(net, (x, y)),
        lambda: evaluation.stability(net, (x, y)),
    ):
        with pytest.raises(NescioError, match="a map for each sample"):
            call()


def test_every_metric_with_a_truth_takes_an_ignore_index() -> None:
    module = importlib.import_module("nescio.metrics")
    truths = {"labels", "correct", "wrong"}
    of_groups = {"excess_test", "overconfidence_test"}  # of samples in two groups, never of pixels
    for name, one in vars(module).items():
        if name in of_groups:
            continue
        if inspect.isfunction(one) and truths & set(inspect.signature(one).parameters):
            assert "ignore_index" in inspect.signature(one).parameters, name


def test_a_class_that_is_absent_is_left_out_or_said() -> None:
    x, y, prediction = maps()
    y[y == 2] = 1
    assert metrics.iou(prediction.labels, y, classes=4, ignore_index=IGNORED).absent == (2, 3)
    assert metrics.classwise_ece(prediction.probs, y, ignore_index=IGNORED) > 0
    with pytest.raises(NescioError, match="1 of 3 classes have no calibration sample"):
        calibration.fit("vector", prediction, y, ignore_index=IGNORED)
    maps_found = models.uncertainty_maps(nets.dilated_cnn((3, 4, 5), 3, width=2, depth=1), x)
    assert maps_found.labels.shape == y.shape
