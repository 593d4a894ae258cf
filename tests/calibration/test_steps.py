"""Isotonic and histogram calibration against pools and bins by the book."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nescio import calibration, metrics
from nescio.core import NescioError


def problem(samples=500, classes=4, seed=0):
    rng = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(samples, classes, generator=rng, dtype=torch.float64)
    return logits, torch.multinomial((0.4 * logits).softmax(-1), 1, generator=rng)[:, 0]


def pooled(x, y):
    """Adjacent violators, pooled one by one, on the distinct x."""
    blocks = []
    for value in np.unique(x):
        blocks.append([y[x == value].sum(), (x == value).sum(), [value]])
        while len(blocks) > 1 and blocks[-2][0] * blocks[-1][1] >= blocks[-1][0] * blocks[-2][1]:
            hits, count, values = blocks.pop()
            blocks[-1] = [blocks[-1][0] + hits, blocks[-1][1] + count, blocks[-1][2] + values]
    return {value: hits / count for hits, count, values in blocks for value in values}


def pooled_weights(values):
    """Violators pooled in a row of values, by value."""
    steps = pooled(np.arange(len(values)), np.array(values))
    return {value: steps[place] for place, value in enumerate(values)}


@given(
    st.lists(st.tuples(st.integers(1, 9), st.booleans()), min_size=4, max_size=40).filter(
        lambda samples: len({truth for _, truth in samples}) == 2
    )
)
@settings(deadline=None, max_examples=60)
def test_isotonic_is_pooling_with_a_made_up_sample_at_each_end(samples):
    p = torch.tensor([tenth / 10 for tenth, _ in samples], dtype=torch.float64)
    labels = torch.tensor([int(truth) for _, truth in samples])
    probs = torch.stack([1 - p, p], -1)
    fitted = calibration.fit("isotonic", probs, labels, probs=True, keep_argmax=False)
    found = fitted(probs, probs=True).probs
    each = []
    for column in (0, 1):
        x = np.concatenate([[0.0], probs[:, column].numpy(), [1.0]])
        y = np.concatenate([[1.0], (labels == column).numpy(), [0.0]])
        steps = pooled(x, y)
        each.append([steps[value] for value in probs[:, column].numpy()])
    expected = np.array(each).T
    np.testing.assert_allclose(found, expected / expected.sum(1, keepdims=True), rtol=1e-9)


def test_isotonic_is_linear_between_steps():
    probs = torch.tensor([[0.8, 0.2], [0.2, 0.8]] * 20, dtype=torch.float64)
    labels = torch.tensor([0, 1, 1, 1] * 10)
    found = calibration.fit("isotonic", probs, labels, probs=True, keep_argmax=False)
    middle = torch.tensor([[0.5, 0.5]], dtype=torch.float64)
    ends = found(probs[:2], probs=True).probs
    assert ends[:, 1].diff() > 0
    steps = found.state["y"]
    at = [np.interp(0.5, found.state["x"][c], steps[c]) for c in (0, 1)]
    expected = at[1] / sum(at)
    assert found(middle, probs=True).probs[0, 1].item() == pytest.approx(expected)


def test_histogram_counts_by_the_book():
    logits, labels = problem()
    probs = logits.softmax(-1).numpy()
    truth = np.eye(4)[labels.numpy()]
    expected = np.empty_like(probs)
    for c in range(4):
        order = np.argsort(probs[:, c])
        for rows in np.array_split(order, 10):  # 500 samples: bins of 50
            hits, mean = truth[rows, c].sum(), probs[rows, c].mean()
            mean = min(max(mean, 1 / 104), 1 - 1 / 104)
            expected[rows, c] = (hits + mean) / (len(rows) + 1)
    expected /= expected.sum(1, keepdims=True)
    fitted = calibration.fit("histogram", logits, labels, bins=10, keep_argmax=False)
    found = fitted(logits).probs
    np.testing.assert_allclose(found, expected, rtol=1e-10)


@pytest.mark.parametrize("name", ["isotonic", "histogram"])
@pytest.mark.parametrize("seed", range(5))
def test_one_map_for_all_classes_keeps_their_order(name, seed):
    logits, labels = problem(samples=300, seed=seed)
    found = calibration.fit(name, logits, labels)
    after = found(logits)
    assert torch.equal(after.labels, logits.argmax(-1))
    ordered = after.probs.gather(-1, logits.argsort(-1))
    assert (ordered.diff(dim=-1) > 0).all()
    assert (
        -after.log_prob(labels).mean() < -logits.log_softmax(-1).gather(1, labels[:, None]).mean()
    )


def test_one_histogram_for_all_classes_counts_by_the_book():
    """Bins of equal width, those without a sample joined to the next, made rising by pooling."""
    logits, labels = problem()
    probs = logits.softmax(-1).numpy()
    truth = np.eye(4)[labels.numpy()]
    slots = np.minimum((probs * 10).astype(int), 9)
    shares = []
    for slot in np.unique(slots):
        hits, mean, count = (
            truth[slots == slot].sum(),
            probs[slots == slot].mean(),
            (slots == slot).sum(),
        )
        shares += [(hits + mean) / (count + 1)] * count
    steps = pooled_weights(shares)
    found = calibration.fit("histogram", logits, labels, bins=10).state["y"][0].numpy()
    np.testing.assert_allclose(found, [steps[share] for share in dict.fromkeys(shares)], rtol=1e-10)


@pytest.mark.parametrize("scale", [1.0, 8.0])
def test_one_histogram_for_all_classes_keeps_sure_answers_calibrated(scale):
    """Of many classes most probabilities are near 0; bins must tell those of the answers apart."""
    rng = torch.Generator().manual_seed(0)
    logits = scale * torch.randn(4000, 10, generator=rng, dtype=torch.float64)
    labels = torch.multinomial(logits.softmax(-1), 1, generator=rng)[:, 0]
    after = calibration.fit("histogram", logits[:2000], labels[:2000])(logits[2000:])
    right = after.labels == labels[2000:]
    assert metrics.ece(after.probs.amax(-1), right) < 0.05


def test_maps_class_by_class_may_change_the_label():
    logits, labels = problem()
    shifted = logits + torch.tensor([3.0, 0, 0, 0], dtype=torch.float64)  # class 0 is overrated
    after = calibration.fit("isotonic", shifted, labels, keep_argmax=False)(shifted)
    assert (after.labels != shifted.argmax(-1)).any()
    assert (after.labels == labels).sum() > (shifted.argmax(-1) == labels).sum()


@pytest.mark.parametrize("name", ["isotonic", "histogram"])
def test_probabilities_beyond_those_seen_have_a_place(name):
    logits, labels = problem()
    found = calibration.fit(name, logits, labels)
    far = torch.tensor([[900.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]], dtype=torch.float64)
    after = found(far).probs
    assert (after > 0).all()
    torch.testing.assert_close(after.sum(-1), torch.ones(2, dtype=torch.float64))
    assert after[0].argmax() == 0


@pytest.mark.parametrize("keep_argmax", [True, False])
def test_no_share_of_a_bin_is_0_or_1_where_probabilities_are(keep_argmax):
    """Each case has two classes of 300; to a flat answer every class gives the share of a bin."""
    rng = torch.Generator().manual_seed(0)
    labels = torch.arange(900) % 300
    other = (labels + torch.randint(1, 300, (900,), generator=rng)) % 300
    probs = torch.zeros(900, 300, dtype=torch.float64)
    probs[torch.arange(900), labels], probs[torch.arange(900), other] = 0.7, 0.3
    found = calibration.fit("histogram", probs, labels, probs=True, keep_argmax=keep_argmax)
    assert found.state["y"].min() > 0
    assert found.state["y"].max() < 1
    flat = torch.full((1, 300), 1 / 300, dtype=torch.float64)
    assert found(flat, probs=True).probs.sum().item() == pytest.approx(1)


@pytest.mark.parametrize("bins", [0, 1.5, True])
def test_bins_must_be_a_number(bins):
    logits, labels = problem(samples=40)
    with pytest.raises(NescioError, match="`bins` must be a whole number"):
        calibration.fit("histogram", logits, labels, bins=bins)


def test_no_more_bins_than_distinct_probabilities():
    probs = torch.tensor([[0.5, 0.5], [0.2, 0.8]] * 20, dtype=torch.float64)
    labels = torch.arange(40) % 3 % 2
    found = calibration.fit("histogram", probs, labels, probs=True, bins=15, keep_argmax=False)
    assert found.state["x"].shape == (2, 2)
