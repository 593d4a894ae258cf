"""Activations: shapes, checks, slices, the mean network, numbers that recognize inputs."""

import math
import struct

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nescio.core import NescioError
from nescio.detectors.activations import Activations, hash_inputs, mean_logits


def made(members=1, samples=6, classes=3, features=4, **options):
    source = torch.Generator().manual_seed(members + samples)
    draw = lambda *shape: torch.randn(*shape, generator=source)  # noqa: E731
    return Activations(
        logits=draw(members, samples, classes), features=draw(members, samples, features), **options
    )


def test_arrays_of_one_network_get_a_member_axis():
    z, f = np.ones((5, 3)), np.ones((5, 4), np.float32)
    found = Activations(logits=z, features=f, labels=[0, 1, 2, 0, 5])
    assert found.logits.shape == (1, 5, 3)
    assert found.features["features"].shape == (1, 5, 4)
    assert (found.members, found.samples, found.classes, len(found)) == (1, 5, 3, 5)
    assert found.layer() == "features"
    assert found.known().tolist() == [0, 1, 2, 0, 5]
    assert found.about["widths"] == {"features": 4}
    assert found.about["classes"] == 3


def test_integers_become_floats():
    assert Activations(logits=[[1, 2], [3, 4]]).logits.dtype == torch.float32


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_not_finite_are_counted(bad):
    z, f = torch.zeros(6, 3), torch.zeros(6, 4)
    f[2, 1] = f[2, 3] = f[5, 0] = bad
    with pytest.raises(NescioError, match=r"deep are NaN or infinite for 2 of 6.*sample 2"):
        Activations(logits=z, features={"deep": f})
    z[4] = bad
    with pytest.raises(NescioError, match="logits are NaN or infinite for 1 of 6"):
        Activations(logits=z)


def test_numbers_whose_sum_overflows_are_finite():
    z = torch.full((4, 3), 3e38)
    assert torch.equal(Activations(logits=z).logits[0], z)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"features": torch.ones(5, 4)}, "1 network.s. and 5 inputs, the logits of 1 and 6"),
        ({"features": torch.ones(2, 6, 4)}, "of 2 network"),
        ({"features": torch.ones(6)}, r"must be \(samples, numbers\)"),
        ({"features": torch.ones(6, 0)}, r"must be \(samples, numbers\)"),
        ({"labels": [1, 2]}, r"labels must be \(6,\)"),
        ({"inputs": torch.ones(5, 2)}, r"inputs must be \(6, ...\)"),
    ],
)
def test_what_does_not_fit_is_refused(options, message):
    with pytest.raises(NescioError, match=message):
        Activations(logits=torch.ones(6, 3), **options)


def test_no_samples_are_refused():
    with pytest.raises(NescioError, match="hold no samples"):
        Activations(logits=torch.ones(0, 3))


def test_labels_must_be_classes_where_a_detector_asks():
    with pytest.raises(NescioError, match="needs labels"):
        made().known()
    with pytest.raises(NescioError, match="whole numbers"):
        made(labels=torch.rand(6)).known()


def test_layers_are_found_by_name():
    one = Activations(logits=torch.ones(2, 3), features={"a.b": torch.ones(2, 1)})
    assert one.layer() == one.layer("a.b") == "a.b"
    both = Activations(
        logits=torch.ones(2, 3), features={"first": torch.ones(2, 1), "second": torch.ones(2, 1)}
    )
    with pytest.raises(NescioError, match="none is known to be before the last"):
        both.layer()
    with pytest.raises(NescioError, match="did you mean 'second'"):
        both.layer("secnd")
    with pytest.raises(NescioError, match="no features"):
        Activations(logits=torch.ones(2, 3)).layer()


@pytest.mark.parametrize(
    "chosen", [slice(1, 4), torch.tensor([5, 0]), torch.arange(6) % 2 == 0, 3, -1]
)
def test_a_part_is_a_part_of_everything(chosen):
    whole = made(2, labels=torch.arange(6), inputs=torch.rand(6, 2))
    part = whole[chosen]
    rows = torch.arange(6)[chosen].reshape(-1)
    assert part.labels.tolist() == rows.tolist()
    assert torch.equal(part.logits, whole.logits[:, rows])
    assert torch.equal(part.features["features"], whole.features["features"][:, rows])
    assert torch.equal(part.inputs, whole.inputs[rows])
    assert torch.equal(part.hashes, whole.hashes[rows])


def test_the_mean_network_has_mean_probabilities_and_the_mean_energy():
    whole = made(3, weight=torch.randn(3, 3, 4))
    mean = whole.mean()
    exact = whole.logits.double()
    expected = exact.softmax(-1).mean(0)
    torch.testing.assert_close(mean.logits[0].double().softmax(-1), expected, rtol=1e-5, atol=1e-6)
    energies = exact.logsumexp(-1).mean(0)
    torch.testing.assert_close(
        mean.logits[0].double().logsumexp(-1), energies, rtol=1e-5, atol=1e-5
    )
    assert mean.members == 1
    torch.testing.assert_close(mean.features["features"][0], whole.features["features"].mean(0))
    torch.testing.assert_close(mean.weight[0], whole.weight.mean(0))
    assert mean.about["mean"] is True


def test_the_mean_of_one_network_is_that_network():
    whole = made(1)
    assert mean_logits(whole.logits) is whole.logits
    assert torch.equal(whole.mean().logits, whole.logits)


def test_blocks_put_together_are_the_whole(monkeypatch):
    monkeypatch.setattr("nescio.detectors.activations.BLOCK", 1000)
    whole = made(2, samples=700, inputs=torch.rand(700, 2))
    blocks = list(whole.views(1))
    assert len(blocks) > 1
    assert torch.equal(torch.cat([b.logits for b in blocks]), whole.logits[1])
    assert torch.equal(
        torch.cat([b.features["features"] for b in blocks]), whole.features["features"][1]
    )
    assert torch.equal(torch.cat([b.inputs for b in blocks]), whole.inputs)
    assert next(whole.views(0, [])).features == {}
    assert set(next(whole.views(0, ["features"])).features) == {"features"}


def test_repr_says_what_there_is():
    assert repr(made(2)) == "Activations(6 inputs of 2 networks, 3 classes; features (4))"


# Numbers that recognize inputs.

IMAGES = torch.randint(0, 256, (40, 1, 5, 5), dtype=torch.uint8, generator=torch.manual_seed(1))


def test_an_image_has_one_number_in_all_its_forms():
    expected = hash_inputs(IMAGES)
    assert expected.dtype == torch.int64
    assert expected.shape == (40,)
    for form in (IMAGES.float() / 255, (IMAGES.double() / 255), (IMAGES.float() / 255).flatten(1)):
        assert torch.equal(hash_inputs(form), expected)
    made = Activations(logits=torch.ones(40, 2), inputs=IMAGES)
    assert torch.equal(made.hashes, expected)


def test_minus_zero_is_zero():
    assert torch.equal(hash_inputs(torch.zeros(2, 3)), hash_inputs(-torch.zeros(2, 3)))


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 40), st.integers(1, 9))
def test_numbers_do_not_depend_on_the_batch(size, width):
    x = torch.randn(40, width, generator=torch.Generator().manual_seed(width))
    parts = torch.cat([hash_inputs(part) for part in x.split(size)])
    assert torch.equal(parts, hash_inputs(x))


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 24), st.integers(0, 24))
def test_swapped_pixels_are_another_image(a, b):
    image = torch.arange(25.0)[None] / 32
    other = image.clone()
    other[0, [a, b]] = other[0, [b, a]]
    assert (hash_inputs(image) == hash_inputs(other)).item() == (a == b)


def test_near_and_sparse_inputs_have_different_numbers():
    """All images with at most two pixels of few bits: where a weak sum of products collides."""
    values = torch.tensor([0.0, 0.25, 0.5, 1.0, 2.0, -1.0])
    places = torch.cartesian_prod(torch.arange(20), torch.arange(20))
    places = places[places[:, 0] < places[:, 1]]
    images = {(0.0,) * 20}
    for first, second in places.tolist():
        for a in values.tolist():
            for b in values.tolist():
                row = [0.0] * 20
                row[first], row[second] = a, b
                images.add(tuple(row))
    x = torch.tensor(sorted(images))
    assert len(hash_inputs(x).unique()) == len(x)


def test_many_random_bytes_do_not_collide():
    x = torch.randint(0, 4, (50_000, 16), generator=torch.Generator().manual_seed(2))
    distinct = len(x.unique(dim=0))
    floats = (x.to(torch.uint8)).reshape(-1, 1, 4, 4)
    assert len(hash_inputs(floats).unique()) == distinct
    assert len(hash_inputs(x).unique()) == distinct  # whole numbers: tokens


def by_hand(row):
    """The number of one input of float32, in Python's own whole numbers."""
    mask = (1 << 64) - 1
    signed = lambda n: n - (1 << 64) if n >> 63 else n  # noqa: E731
    golden = 0x9E3779B97F4A7C15
    padded = row + [0.0] * (len(row) % 2)
    words = struct.unpack(f"<{len(padded) // 2}Q", struct.pack(f"<{len(padded)}f", *padded))
    total = len(row)
    for place, word in enumerate(words, 1):
        odd = place * 0xBF58476D1CE4E5B9 & mask
        odd = (odd ^ odd >> 30) * 0x94D049BB133111EB & mask
        mixed = word * golden & mask
        mixed ^= signed(mixed) >> 32 & mask
        total += mixed * ((odd ^ odd >> 27) | 1)
    total &= mask
    total = ((total ^ signed(total) >> 29 & mask) * golden) & mask
    return signed(total ^ signed(total) >> 32 & mask)


def test_the_numbers_are_those_made_by_hand():
    """Files hold them: they must be the same on every machine and in every version."""
    x = torch.tensor([[0.0, 0.5, 1.0], [1.0, 2.0, 3.0]])
    assert hash_inputs(x).tolist() == [by_hand(row) for row in x.tolist()]
    assert hash_inputs(x)[0].item() == 5215748633525409147
