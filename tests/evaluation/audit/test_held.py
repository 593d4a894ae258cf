"""Held-out data: one part fits, the other measures."""

import pytest
import torch

from nescio.core import NescioError
from nescio.evaluation.audit import hold


def pair(count: int, start: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.arange(start, start + count, dtype=torch.float32)[:, None]
    return x, torch.arange(start, start + count) % 2


@pytest.mark.parametrize("count", [1, 2, 7, 100])
def test_without_validation_the_test_data_are_halved(count: int) -> None:
    held = hold(pair(count), None, seed=3)
    fitting, measured = held.fitting[0][:, 0].tolist(), held.measured[0][:, 0].tolist()
    assert sorted(fitting + measured) == list(range(count))  # each sample once
    assert len(measured) - len(fitting) in (0, 1)
    assert held.measured[1].tolist() == [int(value) % 2 for value in measured]
    assert f"{count // 2} of the {count} test samples" in held.words


def test_the_halves_are_drawn_by_the_seed() -> None:
    first, again, other = (hold(pair(50), None, seed=s).rows.tolist() for s in (0, 0, 1))
    assert first == again
    assert first != other


def test_validation_fits_and_all_of_the_test_data_measure() -> None:
    held = hold(pair(10), pair(5, start=100), seed=0)
    assert held.fitting[0].tolist() == pair(5, start=100)[0].tolist()
    assert held.measured[0].tolist() == pair(10)[0].tolist()
    assert held.words == "fitted on the 5 validation samples, measured on the 10 test samples"


def test_test_samples_that_are_validation_samples_measure_nothing() -> None:
    held = hold(pair(10), pair(5, start=3), seed=0)
    assert held.measured[0][:, 0].tolist() == [0, 1, 2, 8, 9]
    assert held.measured[1].tolist() == [0, 1, 0, 0, 1]
    assert held.fitting[0][:, 0].tolist() == [3, 4, 5, 6, 7]
    assert held.left_out == 5
    assert held.words == (
        "fitted on the 5 validation samples, measured on the 5 of the 10 test samples that are not "
        "among them (5 left out)"
    )


def test_inputs_that_repeat_within_the_test_data_tell_no_sample_from_another() -> None:
    x = torch.tensor([0.0, 0, 0, 1, 2])[:, None]
    held = hold((x, torch.zeros(5, dtype=torch.long)), pair(2), seed=0)
    assert held.rows.tolist() == [0, 1, 2, 4]


def test_validation_that_is_the_test_data_is_refused() -> None:
    with pytest.raises(NescioError, match="among the validation samples"):
        hold(pair(10), pair(12), seed=0)
