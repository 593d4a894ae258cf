"""What every OOD source promises: shape, range, and inputs that depend on (seed, index)."""

import inspect
import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nescio.core import NescioError
from nescio.core.registry import ood_sources
from nescio.data import ood
from nescio.data.ood import source

SHAPE = (3, 8, 12)
draw = np.random.default_rng(0)
BYTES = torch.from_numpy(draw.integers(0, 256, (41, *SHAPE), dtype=np.uint8))
OTHERS = torch.from_numpy(draw.integers(0, 256, (41, *SHAPE), dtype=np.uint8))
UNIFORM = ood.uniform(SHAPE)

SAMPLES = {  # how each is made from images and a seed
    "another": lambda x, seed: ood.another(x.roll(seed, 0), "letters"),
    "faded": lambda x, seed: ood.faded(x, seed=seed),
    "mixture": lambda x, seed: ood.mixture(
        [ood.permuted(x, seed=seed), ood.uniform(SHAPE, seed=seed)], (2, 1)
    ),
    "overlaid": lambda x, seed: ood.overlaid(x, seed=seed),
    "paper_noise": lambda x, seed: ood.paper_noise(x, seed=seed),
    "patches": lambda x, seed: ood.patches(x, seed=seed),
    "permuted": lambda x, seed: ood.permuted(x, seed=seed),
    "scaled": lambda x, seed: ood.scaled(ood.permuted(x, seed=seed), 0.5),
    "shapes": lambda x, seed: ood.shapes(SHAPE, seed=seed),
    "shuffled": lambda x, seed: ood.shuffled(x, seed=seed),
    "smoothed": lambda x, seed: ood.smoothed(ood.permuted(x, seed=seed), seed=seed),
    "stored": lambda x, seed: ood.stored(ood.permuted(x, seed=seed), 41),
    "strokes": lambda x, seed: ood.strokes(SHAPE, seed=seed),
    "uniform": lambda x, seed: ood.uniform(SHAPE, seed=seed),
}
OPTIONS = {  # a change of every option
    "another": [ood.another(BYTES, "letters"), ood.another(BYTES, "digits")],
    "faded": [
        ood.faded(BYTES),
        ood.faded(BYTES, low=0.1),
        ood.faded(BYTES, high=0.5),
        ood.faded(BYTES, seed=1),
    ],
    "mixture": [
        ood.mixture([UNIFORM, ood.permuted(BYTES)]),
        ood.mixture([ood.permuted(BYTES), UNIFORM]),
        ood.mixture([UNIFORM, ood.permuted(BYTES)], weights=(1, 2)),
    ],
    "overlaid": [
        ood.overlaid(BYTES),
        ood.overlaid(BYTES, shift=2),
        ood.overlaid(BYTES, seed=1),
    ],
    "paper_noise": [ood.paper_noise(BYTES), ood.paper_noise(BYTES, seed=1)],
    "patches": [
        ood.patches(BYTES),
        ood.patches(BYTES, grid=2),
        ood.patches(BYTES, seed=1),
    ],
    "permuted": [ood.permuted(BYTES), ood.permuted(BYTES, seed=1)],
    "scaled": [ood.scaled(UNIFORM, 0.5), ood.scaled(UNIFORM, 0.25)],
    "shapes": [ood.shapes(SHAPE), ood.shapes((1, 8, 12)), ood.shapes(SHAPE, seed=1)],
    "shuffled": [ood.shuffled(BYTES), ood.shuffled(BYTES, seed=1)],
    "smoothed": [
        ood.smoothed(UNIFORM),
        ood.smoothed(UNIFORM, low=2.0),
        ood.smoothed(UNIFORM, high=3.0),
        ood.smoothed(UNIFORM, seed=1),
    ],
    "stored": [
        ood.stored(UNIFORM, 9),
        ood.stored(ood.permuted(BYTES), 9),
        ood.stored(UNIFORM, 9, start=1),
    ],
    "strokes": [
        ood.strokes(SHAPE),
        ood.strokes((1, 8, 12)),
        ood.strokes(SHAPE, least=1),
        ood.strokes(SHAPE, seed=1),
    ],
    "uniform": [
        UNIFORM,
        ood.uniform(SHAPE, low=0.25),
        ood.uniform(SHAPE, high=0.5),
        ood.uniform(SHAPE, high=np.full(SHAPE, 0.75)),
        ood.uniform(SHAPE, seed=1),
    ],
}
MADE_FROM_IMAGES = sorted(set(SAMPLES) - {"shapes", "strokes", "uniform"})

every = pytest.mark.parametrize("name", list(ood_sources))


def test_every_registered_one_is_tested():
    assert set(ood_sources) == set(SAMPLES) == set(OPTIONS)


@every
def test_every_option_is_tried(name):
    signature = inspect.signature(ood_sources[name])
    options = [p for p in signature.parameters.values() if p.default is not p.empty]
    assert len(OPTIONS[name]) > len(options)


@every
def test_inputs_have_the_shape_and_stay_in_the_box(name):
    made = SAMPLES[name](BYTES, 0)
    x = made.take(30)
    assert made.shape == SHAPE
    assert x.shape == (30, *SHAPE)
    assert x.dtype == torch.float32
    assert x.is_contiguous()
    assert 0 <= x.min() < x.max() <= 1
    assert len(x.flatten(1).unique(dim=0)) == 30


@every
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_an_input_depends_on_its_index_alone(name, data):
    made = SAMPLES[name](BYTES, 3)
    indices = data.draw(st.lists(st.integers(0, 39), max_size=40))
    block = data.draw(st.sampled_from([1, 700, 1 << 18]))
    whole = made.take(40)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "BLOCK", block)
        assert torch.equal(made(torch.tensor(indices, dtype=torch.int64)), whole[indices])


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (1, 5, 9), (2, 1, 7)], ids=str)
def test_single_inputs_equal_those_of_large_batches(shape):
    x = torch.rand(50, *shape)
    made = ood.mixture([ood.paper_noise(x), ood.faded(x), ood.overlaid(x, shift=0)])
    whole = made.take(900)
    for index in (0, 1, 2, 3, 450, 898, 899):
        assert torch.equal(made.take(1, index)[0], whole[index])
    assert torch.equal(made.take(300, 301), whole[301:601])


@every
def test_seeds_make_other_inputs(name):
    first, second = (SAMPLES[name](BYTES, seed) for seed in (0, 1))
    assert not torch.equal(first.take(5), second.take(5))
    assert first.description != second.description


@every
def test_equal_descriptions_mean_equal_inputs(name):
    first, second = (SAMPLES[name](BYTES.clone(), 2) for _ in range(2))
    assert first.description == second.description
    assert torch.equal(first.take(20), second.take(20))


@every
def test_options_change_the_description_and_the_inputs(name):
    first, *others = OPTIONS[name]
    assert len({made.description for made in OPTIONS[name]}) == len(OPTIONS[name])
    if name != "another":  # whose option is its name
        for made in others:
            assert not torch.equal(made.take(4), first.take(4))


@pytest.mark.parametrize("name", MADE_FROM_IMAGES)
def test_other_images_change_the_description_and_the_inputs(name):
    first, second = SAMPLES[name](BYTES, 0), SAMPLES[name](OTHERS, 0)
    assert first.description != second.description
    assert not torch.equal(first.take(4), second.take(4))


@pytest.mark.parametrize("name", MADE_FROM_IMAGES)
def test_bytes_are_images_of_which_255_is_1(name):
    from_bytes, from_floats = SAMPLES[name](BYTES, 0), SAMPLES[name](BYTES.float() / 255, 0)
    torch.testing.assert_close(from_bytes.take(20), from_floats.take(20), rtol=0, atol=1e-6)
    assert from_bytes.description != from_floats.description  # they may differ in the last bit


@pytest.mark.parametrize("name", MADE_FROM_IMAGES)
def test_arrays_and_sideways_tensors_are_welcome_and_left_alone(name):
    sideways = BYTES.permute(2, 3, 0, 1).contiguous().permute(2, 3, 0, 1)
    before = BYTES.clone()
    expected = SAMPLES[name](BYTES, 0).take(6)
    assert torch.equal(SAMPLES[name](sideways, 0).take(6), expected)
    expected.fill_(-1)  # what was made belongs to the caller
    assert torch.equal(BYTES, before)
    floats = BYTES.float() / 255
    SAMPLES[name](floats, 0).take(6).fill_(-1)
    assert floats.min() >= 0


def test_another_process_makes_the_same():
    made = ood.mixture([SAMPLES[name](BYTES, 1) for name in ood_sources])
    whole = made.take(60).numpy()
    parts = np.array_split(np.arange(60), 7)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert np.array_equal(np.concatenate(list(pool.map(made.make, parts))), whole)


@every
def test_a_copy_of_the_value_makes_the_same(name):
    made = SAMPLES[name](BYTES, 1)
    assert torch.equal(pickle.loads(pickle.dumps(made)).take(3), made.take(3))


@every
def test_indices_far_out_are_found_where_there_is_no_end(name):
    made = SAMPLES[name](BYTES, 0)
    if made.size is None:
        far = made.take(3, 2**45)
        assert torch.equal(made(torch.tensor([2**45 + 2]))[0], far[2])
        assert not torch.equal(far[0], made.take(1)[0])
    else:
        assert made.size == 41
        with pytest.raises(NescioError, match=r"has 41 inputs, numbered 0\.\.40"):
            made.take(1, 41)


def test_no_indices_give_no_inputs():
    assert UNIFORM(torch.zeros(0, dtype=torch.int64)).shape == (0, *SHAPE)


@pytest.mark.parametrize(
    ("indices", "message"),
    [
        ([1, 2], r"must be an int64 tensor of shape \(n,\), got list"),
        (torch.tensor([1.0]), r"got float32 of shape \(1,\)"),
        (torch.tensor([[1]]), r"got int64 of shape \(1, 1\)"),
        (torch.tensor([3, -1]), "must be 0 or more, got -1"),
    ],
    ids=["list", "floats", "matrix", "negative"],
)
def test_bad_indices_are_refused(indices, message):
    with pytest.raises(NescioError, match=message):
        UNIFORM(indices)


@pytest.mark.parametrize(("count", "start"), [(0, 0), (3, -1)])
def test_bad_stretches_are_refused(count, start):
    with pytest.raises(NescioError, match=f"got {count} from {start}"):
        UNIFORM.take(count, start)


@pytest.mark.parametrize("name", sorted(set(MADE_FROM_IMAGES) - {"scaled", "mixture"}))
def test_bad_images_are_refused(name):
    make = SAMPLES[name]
    for x, message in (
        (torch.zeros(0, *SHAPE), "x are empty"),
        (torch.full((3, *SHAPE), torch.nan), "x contain NaN"),
        (torch.zeros(5, 6, dtype=torch.uint8), "x are uint8"),
        (torch.zeros(5), "x must have shape"),
    ):
        with pytest.raises(NescioError, match=message):
            make(x, 0)


@pytest.mark.parametrize("name", sorted(set(SAMPLES) - {"another"}))
@pytest.mark.parametrize("seed", [-1, 0.5], ids=str)
def test_bad_seeds_are_refused(name, seed):
    with pytest.raises(NescioError, match=f"`seed` must be a whole number, 0 or more, got {seed}"):
        SAMPLES[name](BYTES, seed)


def test_one_part_is_one_file_and_a_public_name():
    for name in ood_sources:
        assert getattr(ood, name) is ood_sources[name]
