"""Sketches: the exact metrics lie within the bounds, which some order within the bins attains."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import nescio
from nescio import metrics
from nescio.core import NescioError, save_tensors
from nescio.metrics import Sketch, sketch
from nescio.metrics import sketching as module

anything = st.floats(allow_nan=False, width=64)
near = st.floats(1.0, 1.25, width=32)
scores = st.one_of(
    st.lists(anything, min_size=1, max_size=20), st.lists(near, min_size=1, max_size=20)
)
TINY = 1e-12


def groups(samples=4000, others=3000, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(0, 1, samples), rng.normal(1, 1.5, others)


def equal(one, two):
    return all(np.array_equal(getattr(one, name), getattr(two, name)) for name in module.PARTS)


def holds(interval, truth):
    assert interval.low - TINY <= truth <= interval.high + TINY
    assert interval.low - TINY <= interval.value <= interval.high + TINY


@given(scores, scores, st.sampled_from([10, 12, 16, 20, 32]))
@settings(max_examples=80, deadline=None)
def test_the_exact_metrics_lie_within_the_bounds(in_dist, ood, bits):
    made = sketch(in_dist, ood, bits=bits)
    holds(made.auroc, metrics.auroc(in_dist, ood))
    holds(made.detection_error, metrics.detection_error(in_dist, ood))
    for positive in ("ood", "in_dist"):
        holds(made.aupr(positive), metrics.aupr(in_dist, ood, positive=positive))
        for tpr in (0.3, 0.95, 1.0):
            exact = metrics.fpr_at_tpr(in_dist, ood, tpr=tpr, positive=positive)
            holds(made.fpr_at_tpr(tpr, positive), exact)


@given(st.lists(anything, min_size=2, max_size=30))
@settings(max_examples=80, deadline=None)
def test_bins_keep_the_order_of_scores(values):
    with np.errstate(over="ignore"):
        bins = module._bin(np.sort(values), 20).astype(int)
    assert np.all(np.diff(bins) >= 0)


def test_bins_are_as_wide_as_is_said():
    edges = np.float32(1) + np.arange(2048, dtype=np.float32) / 2048
    bins = module._bin(edges, 20).astype(int)
    assert np.all(np.diff(bins) == 1)
    assert np.array_equal(module._bin(np.nextafter(edges[1:], np.float32(0)), 20), bins[:-1])
    assert module._bin(np.array([-np.inf, np.inf]), 32).tolist() == [0x7FFFFF, 0xFF800000]
    assert len(set(module._bin(np.array([0.0, -0.0]), 32).tolist())) == 1


def one_bin(count, rng):
    """Scores between 1 and 1 + 2^-11, all of one bin of 20 bits."""
    return (1 + rng.random(count) * 2.0**-11 * 0.99).astype(np.float32)


def test_the_bounds_are_attained():
    rng = np.random.default_rng(0)
    low, high = np.sort(one_bin(40, rng)).reshape(2, 20)
    better, worse = sketch(low, high), sketch(high, low)
    assert (better.auroc.value, better.auroc.low, better.auroc.high) == (0.5, 0.0, 1.0)
    assert metrics.auroc(low, high) == better.auroc.high
    assert metrics.auroc(high, low) == worse.auroc.low
    assert metrics.aupr(low, high) == better.aupr().high
    assert metrics.detection_error(low, high) == better.detection_error.low == 0.0
    assert metrics.fpr_at_tpr(low, high) == better.fpr_at_tpr().low == 0.0
    assert metrics.fpr_at_tpr(high, low) == worse.fpr_at_tpr().high == 1.0
    assert worse.aupr().low <= metrics.aupr(high, low) <= worse.aupr().low + 0.05  # a chord


def test_the_error_of_auroc_is_half_the_pairs_within_bins():
    in_dist, ood = groups()
    for bits in (12, 16, 20):
        made = sketch(in_dist, ood, bits=bits)
        within = int(made.in_dist @ made.ood) / (len(in_dist) * len(ood))
        assert made.auroc.high - made.auroc.low == pytest.approx(within)
        error = abs(made.auroc.value - metrics.auroc(in_dist, ood))
        assert error <= within / 2 + TINY
    assert within < 1e-3


def test_scores_that_are_tied_in_float32_give_the_exact_numbers():
    in_dist, ood = (part.round(1).astype(np.float32) for part in groups(300, 200))
    made = sketch(in_dist, ood)
    assert made.auroc.value == metrics.auroc(in_dist, ood)
    assert made.aupr().value == pytest.approx(metrics.aupr(in_dist, ood), abs=1e-14)
    assert made.aupr("in_dist").value == pytest.approx(
        metrics.aupr(in_dist, ood, positive="in_dist"), abs=1e-14
    )
    assert made.fpr_at_tpr().value == metrics.fpr_at_tpr(in_dist, ood)
    assert made.detection_error.value == pytest.approx(metrics.detection_error(in_dist, ood))


def test_shards_merge_in_any_order_and_blocks_change_nothing(monkeypatch):
    in_dist, ood = groups()
    whole = sketch(in_dist, ood)
    parts = [sketch(in_dist[i::3], ood[i::3]) for i in range(3)]
    assert equal(parts[0].merge(*parts[1:]), whole)
    assert equal(parts[2].merge(parts[0]).merge(parts[1]), whole)
    assert equal(sketch().add(in_dist=in_dist).add(ood=torch.tensor(ood)), whole)
    monkeypatch.setattr(module, "BLOCK", 100)
    assert equal(sketch(in_dist, ood), whole)
    assert whole.counts == (4000, 3000)


def test_memory_does_not_grow_with_the_stream():
    rng = np.random.default_rng(1)
    made = sketch(bits=12)
    for _ in range(20):
        made = made.add(rng.uniform(1, 2, 5000), rng.uniform(1, 2, 5000))
    assert len(made.bins) <= 2**3 + 1  # one octave has 2^(12 - 9) bins
    assert made.counts == (100_000, 100_000)


def test_counts_beyond_64_bits_stay_exact():
    half = 1 << 40
    made = Sketch(
        bits=10, bins=np.array([1, 2]), in_dist=np.array([half, half]), ood=np.array([half, half])
    )
    assert made.auroc.value == 0.5
    assert (made.auroc.low, made.auroc.high) == (0.25, 0.75)


def test_a_sketch_is_saved_and_loaded(tmp_path):
    made = sketch(*groups(), bits=16)
    made.save(tmp_path / "shard.safetensors")
    again = nescio.load(tmp_path / "shard.safetensors")
    assert equal(again, made)
    assert again.bits == 16
    assert again.auroc == made.auroc


def test_files_that_hold_other_tensors_are_refused(tmp_path):
    path = tmp_path / "shard.safetensors"
    tensors = {name: torch.tensor([1, 2]) for name in module.PARTS}
    save_tensors(path, {"bins": torch.tensor([1])}, {"kind": "sketch", "bits": 16})
    with pytest.raises(NescioError, match="is damaged: a sketch holds bins"):
        nescio.load(path)
    save_tensors(path, tensors, {"kind": "sketch"})
    with pytest.raises(NescioError, match="`bits` must be"):
        nescio.load(path)
    save_tensors(path, tensors | {"bins": torch.tensor([2, 1])}, {"kind": "sketch", "bits": 16})
    with pytest.raises(NescioError, match="needs rising bins"):
        nescio.load(path)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: sketch([0.0]).auroc, "has no OOD scores"),
        (lambda: sketch(ood=[0.0]).aupr(), "has no in-distribution scores"),
        (lambda: sketch([np.nan, 0.0, np.nan], [1.0]), "`in_dist` holds NaN in 2 of 3 scores"),
        (lambda: sketch([[0.0]], [1.0]), "one-dimensional"),
        (lambda: sketch([0.0], [1.0], bits=9), "from 10 to 32, got 9"),
        (lambda: sketch([0.0], [1.0], bits=True), "from 10 to 32, got True"),
        (lambda: sketch(bits=12).merge(sketch(bits=16)), "12 and 16 bits cannot be merged"),
        (lambda: sketch([0.0], [1.0]).fpr_at_tpr(0.0), "`tpr` must be above 0"),
        (lambda: sketch([0.0], [1.0]).aupr("both"), "`positive` must be"),
        (
            lambda: Sketch(bits=10, bins=np.array([1]), in_dist=np.array([-1]), ood=np.array([1])),
            "rising bins",
        ),
        (
            lambda: Sketch(
                bits=10, bins=np.array([1024]), in_dist=np.array([1]), ood=np.array([1])
            ),
            "rising bins",
        ),
    ],
)
def test_bad_input_is_refused(call, said):
    with pytest.raises(NescioError, match=said):
        call()


@pytest.mark.parametrize("scores", [3.0, np.array(1.0), iter([1.0]), torch.tensor(2.0)])
def test_what_is_no_list_of_scores_is_refused(scores):
    with pytest.raises(NescioError, match="one-dimensional|real numbers"):
        metrics.sketch(scores, [1.0])
