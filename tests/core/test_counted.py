"""Which labels count, and the means of measures over them."""

import pytest
import torch

from nescio import NescioError, measures
from nescio.core import (
    Categorical,
    check_counted,
    check_ignore_index,
    counted,
    mean_per_sample,
    without_ignored,
)

LABELS = torch.tensor([[0, 1, 255], [2, 255, 255]])


def test_ignored_labels_become_class_zero_and_do_not_count():
    labels, counts = without_ignored(LABELS, 255)
    assert labels.tolist() == [[0, 1, 0], [2, 0, 0]]
    assert counts.tolist() == [[True, True, False], [True, False, False]]
    assert without_ignored(LABELS, None) == (LABELS, None)


@pytest.mark.parametrize("index", [-1, -256, 256, 511])
def test_an_index_that_bytes_do_not_hold_is_none_of_them(index):
    """torch would wrap it: 256 is 0, -1 is 255."""
    _, counts = without_ignored(LABELS.to(torch.uint8), index)
    assert counts.all()


@pytest.mark.parametrize("index", [1.0, "11", True, [11]])
def test_an_ignore_index_is_a_whole_number(index):
    with pytest.raises(NescioError, match="must be a whole number"):
        check_ignore_index(index)


def test_an_ignore_index_is_none_of_the_classes():
    assert [check_ignore_index(index, 11) for index in (None, 11, -100, 255)] == [
        None,
        11,
        -100,
        255,
    ]
    for index in (0, 10):
        with pytest.raises(NescioError, match=f"ignore_index={index} is a class: with 11 classes"):
            check_ignore_index(index, 11)


def test_labels_that_count_are_classes_and_there_are_some():
    assert check_counted(LABELS, 3, (2, 3), 255).sum() == 3
    with pytest.raises(NescioError, match="labels must lie in 0..1, got 0..2"):
        check_counted(LABELS, 2, (2, 3), 255)
    with pytest.raises(NescioError, match="all 6 labels are ignored"):
        check_counted(torch.full((2, 3), 255), 3, (2, 3), 255)


def test_predictions_of_what_counts():
    logits = torch.randn(2, 2, 3, 4)
    prediction, labels = counted(Categorical(logits), LABELS, ignore_index=255)
    assert labels.tolist() == [0, 1, 2]
    assert torch.equal(prediction.logits, logits[:, LABELS != 255])
    whole = Categorical(logits)
    assert counted(whole, LABELS % 4)[0] is whole


def test_a_measure_is_averaged_over_the_pixels_of_each_sample():
    prediction = Categorical(torch.randn(3, 2, 3, 4, dtype=torch.double))
    values = measures.mutual_information(prediction)
    assert torch.equal(mean_per_sample(values), values.sum(1) / 3)
    expected = torch.stack([values[0, :2].mean(), values[1, 0]])
    found = measures.mean_per_sample(values, LABELS, ignore_index=255)
    torch.testing.assert_close(found, expected)


def test_bad_means_are_refused():
    values = torch.zeros(2, 3)
    with pytest.raises(NescioError, match="both labels and ignore_index"):
        mean_per_sample(values, LABELS)
    with pytest.raises(NescioError, match="one label for each value"):
        mean_per_sample(values, LABELS[:, 0], ignore_index=255)
    nothing = torch.full((2, 3), 255)
    nothing[0] = 1
    with pytest.raises(NescioError, match="sample 1 has no label"):
        mean_per_sample(values, nothing, ignore_index=255)
