"""Near-duplicates against the distribution of spacings, brute force, and planted copies."""

import numpy as np
import pytest
import torch
from scipy import stats

from nescio.core import NescioError
from nescio.evaluation import find_duplicates
from nescio.evaluation.near_duplicates import (
    comparable_rows,
    near_duplicates,
    spacing_p_values,
)


def uniform_rows(count, width, seed):
    return torch.rand(count, width, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("width", [1, 2, 5])
def test_p_values_are_uniform_at_most_where_points_are_spread_evenly(width):
    rng = np.random.default_rng(width)
    inside = rng.random((2000, 30)) ** (1 / width)  # distances of points in a ball
    far = torch.from_numpy(np.sort(inside, axis=1))
    p = spacing_p_values(far).numpy()
    for level in (0.001, 0.01, 0.05):
        assert (p <= level).mean() <= level + 3 * (level * (1 - level) / len(p)) ** 0.5


def test_one_spacing_has_an_f_distribution():
    far = torch.tensor([[0.1, 0.9, 1.0, 1.2, 1.3, 1.6, 1.7, 1.9, 2.0, 2.2]], dtype=torch.float64)
    steps = far.log().diff(dim=1)[0] * torch.arange(1, 10)
    ratios = [float(steps[j] / steps[j + 1 :].mean()) for j in range(3)]
    expected = 3 * min(stats.f.sf(ratio, 2, 2 * (8 - j)) for j, ratio in enumerate(ratios))
    assert float(spacing_p_values(far)[0]) == pytest.approx(expected, rel=1e-9)


def test_planted_copies_are_found_and_nothing_else():
    train, test = uniform_rows(2000, 6, 0), uniform_rows(500, 6, 1)
    test[:20] = train[100:120] + 1e-4
    found = near_duplicates(test, train)
    assert (found[:20] == torch.arange(100, 120)).all()
    assert (found[20:] == -1).all()


def test_several_copies_of_one_sample_are_found():
    train, test = uniform_rows(2000, 6, 0), uniform_rows(300, 6, 1)
    train[:3] = test[0] + 1e-4 * uniform_rows(3, 6, 2)
    assert near_duplicates(test, train)[0] in (0, 1, 2)


def test_no_near_duplicate_is_named_in_most_draws_without_one():
    named = [int((near_duplicates(uniform_rows(300, 4, s)) >= 0).sum()) for s in range(60)]
    assert sum(count > 0 for count in named) <= 3  # 0.6 are expected


def test_values_on_a_grid_are_not_compared():
    rows = (
        torch.randint(0, 3, (400, 4), generator=torch.Generator().manual_seed(0))
        .float()
        .unique(dim=0)
    )
    with pytest.raises(NescioError, match="distances to neighbors are equal"):
        near_duplicates(rows)


def test_brightness_and_contrast_of_images_do_not_count():
    images = uniform_rows(4, 3 * 20 * 20, 0).view(4, 3, 20, 20)
    rows = comparable_rows(images)
    assert rows.shape == (4, 3 * 16 * 16)
    assert torch.allclose(rows, comparable_rows(0.5 * images + 0.2), atol=1e-5)
    assert torch.allclose(rows, comparable_rows((255 * images).round().byte()), atol=0.02)


def test_tokens_have_no_distances():
    with pytest.raises(NescioError, match="tokens"):
        comparable_rows(torch.zeros(4, 3, dtype=torch.long))


@pytest.fixture
def copied():
    """Test data of which 12 are training images, 5 nearly so, and 2 repeat within."""
    train, test = (uniform_rows(n, 64, s).view(n, 1, 8, 8) for n, s in ((600, 0), (200, 1)))
    test[:12] = train[50:62]
    test[12:17] = 0.9 * train[70:75] + 0.001 * uniform_rows(5, 64, 3).view(5, 1, 8, 8)
    test[190:192] = test[30:32]
    return test, train


def test_copies_of_training_and_test_data_are_counted_and_named(copied):
    test, train = copied
    labels, known = torch.zeros(200, dtype=torch.long), torch.zeros(600, dtype=torch.long)
    labels[0], wrong = 1, torch.zeros(200, dtype=torch.bool)
    wrong[100:120] = True
    found = find_duplicates(test, train, labels=labels, train_labels=known, wrong=wrong)
    leaked, own = found.in_training, found.in_test
    assert (leaked.exact, leaked.near, leaked.conflicts) == (12, 5, 1)
    assert leaked.rows == tuple(range(17))
    assert [(one.sample, one.other) for one in leaked.pairs][12:] == list(
        zip(range(12, 17), range(70, 75), strict=True)
    )
    assert (own.exact, own.near) == (2, 0)
    assert [(one.sample, one.other) for one in own.pairs] == [(190, 30), (191, 31)]
    assert found.accuracy.value == 0.9
    assert found.accuracy_without.value == pytest.approx(1 - 20 / 183)


def test_of_a_regression_the_mean_error_is_given(copied):
    errors = torch.ones(200)
    errors[:17] = 0.0
    found = find_duplicates(*copied, wrong=errors)
    assert (found.mean_error, found.mean_error_without) == (pytest.approx(183 / 200), 1.0)
    assert found.accuracy is None


def test_where_near_ones_cannot_be_found_the_exact_ones_are():
    tokens = torch.randint(0, 50, (30, 8), generator=torch.Generator().manual_seed(0))
    found = find_duplicates(tokens, tokens[:10])
    assert (found.in_training.exact, found.in_training.near) == (10, None)
    assert "tokens" in found.in_training.skipped
    features = uniform_rows(30, 4, 0)
    by_features = find_duplicates(
        tokens, tokens[:20], features=features, train_features=features[:20]
    )
    assert (by_features.in_training.exact, by_features.in_training.near) == (20, 0)


def test_two_samples_are_enough_for_the_exact_ones():
    found = find_duplicates(torch.ones(2, 3))
    assert (found.in_test.exact, found.in_test.near) == (1, None)
    assert found.in_training is None


def test_arrays_without_inputs_are_compared_by_their_features():
    features = uniform_rows(300, 5, 0)
    found = find_duplicates(None, features=features[:100], train_features=features)
    assert found.in_training.exact == 100


def test_answers_without_inputs_and_features_are_refused():
    with pytest.raises(NescioError, match="neither is known"):
        find_duplicates(None)
