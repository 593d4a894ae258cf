"""Samples predicted by the members that were trained without them; members of a model chosen."""

import pytest
import torch

from nescio import NescioError, data, heads, losses, models, nets, train

DRAW = torch.Generator().manual_seed(0)
X = torch.randn(23, 2, generator=DRAW)
Y = (X[:, 0] > 0).long()


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


def test_a_model_of_other_splits_is_refused():
    model = train(lambda: nets.mlp(2, 2), (X, Y), members=2, epochs=1)
    with pytest.raises(NescioError, match="2 members, the splits are 5"):
        models.out_of_fold(model, data.folds(23, 5), X)
    with pytest.raises(NescioError, match="22 inputs"):
        models.out_of_fold(model, data.folds(23, 2), X[1:])


def test_members_are_chosen_by_index():
    model = train(lambda: nets.mlp(2, 2), (X, Y), members=3, epochs=2)
    some = model.choose([2, 0, -1])
    assert torch.equal(some(X).member_probs, model(X).member_probs[[2, 0, 2]])
    assert torch.equal(some.history.train, model.history.train[:, [2, 0, 2]])
    for wrong in ([], [3], [-4]):
        with pytest.raises(NescioError, match=r"members of 0\.\.2"):
            model.choose(wrong)


def test_inputs_of_any_kind_are_taken():
    parts = data.folds(23, 3)
    model = train(lambda: nets.mlp(2, 2), (X, Y), members=3, rows=parts.train, epochs=2)
    found = models.out_of_fold(model, parts, X).probs
    for other in (X.numpy(), X.tolist()):
        assert torch.equal(models.out_of_fold(model, parts, other).probs, found)
    table = data.Table({"a": X[:, 0].double().numpy(), "b": X[:, 1].double().numpy()})
    options = {"members": 3, "rows": parts.train, "epochs": 2}
    encoded = train(lambda inputs: nets.mlp(inputs, 2), (table, Y), **options)
    assert models.out_of_fold(encoded, parts, table).probs.shape == (23, 2)
