"""Folds and leave-one-out: every sample is tested once, and what is no partition is refused."""

import pytest
import torch

from nescio import NescioError, data


@pytest.mark.parametrize("parts", [data.folds(23, 5), data.leave_one_out(23)])
def test_each_sample_is_tested_once_and_never_by_its_training(parts):
    assert sorted(torch.cat(parts.test).tolist()) == list(range(23))
    for own, rest in zip(parts.train, parts.test, strict=True):
        assert sorted([*own.tolist(), *rest.tolist()]) == list(range(23))
    sizes = [len(rest) for rest in parts.test]
    assert max(sizes) - min(sizes) <= 1


def test_folds_are_a_function_of_the_seed():
    one, two, other = data.folds(23, 5), data.folds(23, 5), data.folds(23, 5, seed=1)
    assert [part.tolist() for part in one.test] == [part.tolist() for part in two.test]
    assert [part.tolist() for part in one.test] != [part.tolist() for part in other.test]


def test_what_is_not_a_partition_is_refused():
    with pytest.raises(NescioError, match="not a partition: sample 2 is in 2"):
        data.splits_of([[0, 1, 2], [2, 3]], 4)
    with pytest.raises(NescioError, match="not a partition: sample 3 is in 0"):
        data.splits_of([[0, 1], [2]], 4)
    with pytest.raises(NescioError, match=r"part 1 must be in 0\.\.3"):
        data.splits_of([[0, 1, 2], [7]], 4)
    with pytest.raises(NescioError, match="part 1 must be a list of at least one index"):
        data.splits_of([[0, 1, 2, 3], []], 4)
    with pytest.raises(NescioError, match="part 0 must be whole numbers"):
        data.splits_of([[0.5, 1, 2], [3]], 4)
    with pytest.raises(NescioError, match="of a mask take"):
        data.splits_of([[True, False], [False, True]], 2)
    with pytest.raises(NescioError, match="nothing to train on"):
        data.splits_of([[0, 1, 2, 3]], 4)
    for count in (1, 24):
        with pytest.raises(NescioError, match=r"folds must be in 2\.\.23"):
            data.folds(23, count)
    with pytest.raises(NescioError, match="at least 2 samples"):
        data.leave_one_out(1)
    with pytest.raises(NescioError, match="at least one member"):
        data.folds(23, 5).repeated(0)
