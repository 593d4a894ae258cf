"""Neighbors against all distances in float64 and scikit-learn."""

import numpy as np
import pytest
import torch
from sklearn.neighbors import NearestNeighbors

from nescio import load
from nescio.core import NescioError
from nescio.detectors import knn
from nescio.detectors.activations import Activations
from nescio.metrics import auroc


def some(samples=300, width=6, members=1, seed=0, off=0.0, dtype=torch.float32):
    rng = torch.Generator().manual_seed(seed)
    features = torch.randn(members, samples, width, generator=rng, dtype=dtype) + 3 * (1 - off)
    layers = {"last": features, "early": features[..., :3].abs()}
    return Activations(logits=torch.zeros(members, samples, 2), features=layers, last="last")


def by_hand(train, test, k, layer="last", normalize=True, member=0):
    bank = train.features[layer][member].double().numpy()
    queries = test.features[layer][member].double().numpy()
    if normalize:
        bank = bank / np.linalg.norm(bank, axis=1, keepdims=True)
        queries = queries / np.linalg.norm(queries, axis=1, keepdims=True)
    distances = np.linalg.norm(queries[:, None] - bank[None], axis=2)
    return np.sort(distances, axis=1)[:, k - 1]


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("k", [1, 2, 50, 300])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_it_is_the_kth_smallest_distance(k, normalize, dtype):
    train, test = some(dtype=dtype), some(samples=70, seed=1, dtype=dtype)
    found = knn(train, k=k, normalize=normalize)(test)
    tolerance = 1e-12 if dtype == torch.float64 else 2e-5
    expected = by_hand(train, test, k, normalize=normalize)
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def test_it_is_that_of_scikit_learn_on_a_larger_bank():
    train, test = some(samples=5000, width=16), some(samples=600, width=16, seed=1)
    oracle = NearestNeighbors(n_neighbors=50, algorithm="brute").fit(train.features["last"][0])
    expected = oracle.kneighbors(test.features["last"][0])[0][:, -1]
    np.testing.assert_allclose(knn(train, normalize=False)(test), expected, rtol=1e-5)


def test_distances_do_not_depend_on_the_batch():
    train, test = some(samples=2000, width=32), some(samples=513, width=32, seed=1)
    detector = knn(train, k=10)
    one = torch.cat([detector(test[i : i + 1]) for i in range(0, 513, 8)])
    torch.testing.assert_close(detector(test)[::8], one, rtol=1e-6, atol=1e-7)


def test_columns_with_a_large_offset_lose_no_figures():
    """Year, Kelvin and hPa: what rows differ by is far below what they share."""
    rng = torch.Generator().manual_seed(0)
    offset, spread = torch.tensor([2000.0, 290.0, 1013.0]), torch.tensor([15.0, 8.0, 7.0])
    rows = offset + spread * torch.randn(3000, 3, generator=rng)
    train, test = (Activations(logits=torch.zeros(len(f), 2), features={"last": f})
                   for f in (rows[:2800], rows[2800:]))  # fmt: skip
    for normalize in (True, False):
        found = knn(train, k=10, normalize=normalize)(test)
        np.testing.assert_allclose(found, by_hand(train, test, 10, normalize=normalize), rtol=1e-4)


@pytest.mark.parametrize("normalize", [True, False])
def test_nearly_parallel_features_in_far_clusters(normalize):
    """Distances between neighbors of a millionth of the lengths: the bank is kept in float64."""
    rng = torch.Generator().manual_seed(0)
    centers = torch.randn(4, 8, generator=rng, dtype=torch.float64)
    rows = centers[torch.arange(800) % 4]
    rows = (rows + 1e-6 * torch.randn(800, 8, generator=rng, dtype=torch.float64)).float()
    train, test = (Activations(logits=torch.zeros(len(f), 2), features={"last": f})
                   for f in (rows[:700], rows[700:]))  # fmt: skip
    detector = knn(train, k=5, normalize=normalize)
    assert detector.states[0]["bank"].dtype == torch.float64
    expected = by_hand(train, test, 5, normalize=normalize)
    np.testing.assert_allclose(detector(test), expected, rtol=1e-4)


@pytest.mark.parametrize("size", [1e-30, 1e30])
def test_features_whose_squares_overflow_or_vanish(size):
    train, test = some(), some(samples=40, seed=1)
    large = [
        Activations(logits=a.logits, features={"last": a.features["last"] * size})
        for a in (train, test)
    ]
    expected = by_hand(*large, 5, normalize=False)
    np.testing.assert_allclose(knn(large[0], k=5, normalize=False)(large[1]), expected, rtol=1e-4)
    far = knn(train, k=5, normalize=False)(large[1])
    np.testing.assert_allclose(far, by_hand(train, large[1], 5, normalize=False), rtol=1e-4)


def test_equal_features_have_distance_zero():
    features = torch.randn(1, 40).repeat(60, 1) * 1000
    train = Activations(logits=torch.zeros(60, 2), features=features)
    assert (knn(train, k=60)(train) == 0).all()
    assert (knn(train, k=60, normalize=False)(train) == 0).all()


def test_a_training_input_finds_itself_first():
    train = some()
    assert (knn(train, k=1)(train) == 0).all()
    assert (knn(train, k=2)(train) > 0).all()


def test_features_of_length_zero_stay_where_they_are():
    train = some()
    zero = Activations(logits=torch.zeros(1, 2), features={"last": torch.zeros(1, 6)})
    np.testing.assert_allclose(knn(train)(zero), 1.0, rtol=1e-6)


def test_a_layer_by_name_and_each_network():
    train, test = some(members=2), some(samples=40, members=2, seed=1)
    each = knn(train, k=5, layer="early").each(test)
    for member in range(2):
        expected = by_hand(train, test, 5, "early", member=member)
        np.testing.assert_allclose(each[member], expected, rtol=1e-4, atol=1e-6)


def test_a_share_of_the_bank_is_drawn_by_the_seed():
    train, test = some(), some(samples=40, seed=1)
    one, again = (knn(train, k=5, share=0.1, seed=3) for _ in range(2))
    other = knn(train, k=5, share=0.1, seed=4)
    assert one.states[0]["bank"].shape == (30, 6)
    assert torch.equal(one(test), again(test))
    assert not torch.equal(one(test), other(test))
    rows, kept = (
        (state["bank"] + state["center"]).float()
        for state in (knn(train, k=5).states[0], one.states[0])
    )
    far = (kept[:, None] - rows).norm(dim=2)
    assert (far.amin(1) < 1e-5).all()
    assert len(far.argmin(1).unique()) == 30


def test_larger_is_further_out():
    train, test, out = some(), some(seed=1), some(seed=2, off=1.0)
    assert auroc(knn(train)(test), knn(train)(out)) > 0.95


def test_half_precision():
    train, test = some(), some(samples=40, seed=1)
    half = Activations(logits=test.logits.half(), features={"last": test.features["last"].half()})
    np.testing.assert_allclose(knn(train)(half), knn(train)(test), rtol=0.02, atol=2e-3)
    features = train.features["last"].half()
    bank = knn(Activations(logits=train.logits, features={"last": features})).states[0]["bank"]
    assert bank.dtype == torch.float32


def test_save_and_load(tmp_path):
    train, test = some(), some(samples=40, seed=1)
    detector = knn(train, k=7, share=0.5)
    again = load(detector.save(tmp_path / "d.safetensors"))
    assert torch.equal(again(test), detector(test))
    assert again.options == {"k": 7, "normalize": True, "share": 0.5, "seed": 0}


def test_a_bank_with_leading_directions_is_saved_with_them(tmp_path):
    features = torch.randn(9000, 128) * torch.arange(1, 129) ** -2.0
    train = Activations(logits=torch.zeros(9000, 2), features={"last": features})
    test = Activations(logits=torch.zeros(9, 2), features={"last": features[:9] + 0.01})
    detector = knn(train, k=7)
    assert set(detector.states[0]) == {"bank", "half", "center", "turn", "head"}
    again = load(detector.save(tmp_path / "d.safetensors"))
    assert torch.equal(again(test), detector(test))
    np.testing.assert_allclose(detector(test), by_hand(train, test, 7), rtol=1e-4, atol=1e-6)
    assert (knn(train, k=1)(train[:9]) == 0).all()


def test_gradients_reach_the_features():
    train = some(dtype=torch.float64)
    detector = knn(train, k=5)
    view = next(some(samples=4, seed=1, dtype=torch.float64).views(0))

    def score(features):
        return detector.score(type(view)(view.logits, {"last": features}, *[None] * 4))

    features = view.features["last"].clone().requires_grad_()
    assert torch.autograd.gradcheck(score, features)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 301}, "k must be from 1 to 300, the number of features in the bank, got 301"),
        ({"k": 0}, "k must be from 1 to 300"),
        ({"k": 50, "share": 0.1}, "k must be from 1 to 30,"),
        ({"share": 0.0}, r"share must be in \(0, 1\], got 0"),
        ({"layer": "lst"}, "did you mean 'last'"),
    ],
    ids=["large", "none", "of a share", "no share", "layer"],
)
def test_what_cannot_be(options, message):
    with pytest.raises(NescioError, match=message):
        knn(some(), **options)


def test_another_width_is_refused():
    train = some()
    other = Activations(logits=train.logits, features={"last": train.features["early"]})
    with pytest.raises(NescioError, match="fitted on 6 .* are 3"):
        knn(train)(other)
