"""Folds: every sample is tested once, by members that were trained without it."""

import pytest
import torch

from nescio import NescioError, data, heads, losses, models, nets, train

DRAW = torch.Generator().manual_seed(0)
X = torch.randn(23, 2, generator=DRAW)
Y = (X[:, 0] > 0).long()


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


def test_predictions_are_those_of_networks_trained_without_the_sample():
    parts = data.folds(23, 4).repeated(2)
    assert (len(parts), parts.each) == (8, 2)
    make = lambda: nets.mlp(2, 2, widths=(5,))  # noqa: E731
    options = {"epochs": 3, "batch_size": 5, "standardize": True}
    model = train(make, (X, Y), members=8, rows=parts.train, **options)
    found = models.out_of_fold(model, parts, X)
    assert found.members == 2
    for split in range(4):
        own, rest = parts.train[2 * split], parts.test[2 * split]
        numbers = [2 * split, 2 * split + 1]
        alone = train(make, (X[own], Y[own]), members=numbers, **options)
        torch.testing.assert_close(found[rest].probs, alone(X[rest]).probs, rtol=0, atol=1e-5)


def test_leave_one_out_of_a_regression_is_in_the_units_of_the_targets():
    y = 100 + 5 * X[:, :1]
    parts = data.leave_one_out(23)
    model = train(
        lambda: nets.mlp(2, 2, widths=(8,)),
        (X, y),
        loss=losses.nll(heads.gaussian()),
        members=23,
        rows=parts.train,
        standardize_targets=True,
        learning_rate=0.01,
        epochs=200,
    )
    error = (models.out_of_fold(model, parts, X).mean[0] - y).abs().mean()
    assert error < 2  # their deviation is 5


def test_what_is_not_a_partition_is_refused():
    with pytest.raises(NescioError, match="not a partition: sample 2 is in 2"):
        data.splits_of([[0, 1, 2], [2, 3]], 4)
    with pytest.raises(NescioError, match="not a partition: sample 3 is in 0"):
        data.splits_of([[0, 1], [2]], 4)
    with pytest.raises(NescioError, match=r"part 1 must be indices in 0\.\.3"):
        data.splits_of([[0, 1, 2], [7]], 4)
    with pytest.raises(NescioError, match="part 1 must be indices"):
        data.splits_of([[0, 1, 2, 3], []], 4)
    with pytest.raises(NescioError, match="nothing to train on"):
        data.splits_of([[0, 1, 2, 3]], 4)
    for count in (1, 24):
        with pytest.raises(NescioError, match=r"folds must be in 2\.\.23"):
            data.folds(23, count)
    with pytest.raises(NescioError, match="at least 2 samples"):
        data.leave_one_out(1)
    with pytest.raises(NescioError, match="at least one member"):
        data.folds(23, 5).repeated(0)


def test_a_model_of_other_splits_is_refused():
    model = train(lambda: nets.mlp(2, 2), (X, Y), members=2, epochs=1)
    with pytest.raises(NescioError, match="2 members, the splits are 5"):
        models.out_of_fold(model, data.folds(23, 5), X)
    with pytest.raises(NescioError, match="22 inputs"):
        models.out_of_fold(model, data.folds(23, 2), X[1:])
