"""What every out-distribution promises: shape, range, and inputs that depend on (seed, index)."""

import inspect
import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import nescio
from nescio.data import outside
from nescio.data.outside import value
from nescio.errors import NescioError
from nescio.registry import outsides

SHAPE = (3, 8, 12)
draw = np.random.default_rng(0)
BYTES = torch.from_numpy(draw.integers(0, 256, (41, *SHAPE), dtype=np.uint8))
OTHERS = torch.from_numpy(draw.integers(0, 256, (41, *SHAPE), dtype=np.uint8))
UNIFORM = outside.uniform(SHAPE)

CASES = {  # how each is made from images and a seed
    "another": lambda x, seed: outside.another(x.roll(seed, 0), "letters"),
    "faded": lambda x, seed: outside.faded(x, seed=seed),
    "mixture": lambda x, seed: outside.mixture(
        [outside.permuted(x, seed=seed), outside.uniform(SHAPE, seed=seed)], (2, 1)
    ),
    "overlaid": lambda x, seed: outside.overlaid(x, seed=seed),
    "paper_noise": lambda x, seed: outside.paper_noise(x, seed=seed),
    "patches": lambda x, seed: outside.patches(x, seed=seed),
    "permuted": lambda x, seed: outside.permuted(x, seed=seed),
    "scaled": lambda x, seed: outside.scaled(outside.permuted(x, seed=seed), 0.5),
    "shapes": lambda x, seed: outside.shapes(SHAPE, seed=seed),
    "shuffled": lambda x, seed: outside.shuffled(x, seed=seed),
    "smoothed": lambda x, seed: outside.smoothed(outside.permuted(x, seed=seed), seed=seed),
    "stored": lambda x, seed: outside.stored(outside.permuted(x, seed=seed), 41),
    "strokes": lambda x, seed: outside.strokes(SHAPE, seed=seed),
    "uniform": lambda x, seed: outside.uniform(SHAPE, seed=seed),
}
OPTIONS = {  # a change of every option
    "another": [outside.another(BYTES, "letters"), outside.another(BYTES, "digits")],
    "faded": [
        outside.faded(BYTES),
        outside.faded(BYTES, low=0.1),
        outside.faded(BYTES, high=0.5),
        outside.faded(BYTES, seed=1),
    ],
    "mixture": [
        outside.mixture([UNIFORM, outside.permuted(BYTES)]),
        outside.mixture([outside.permuted(BYTES), UNIFORM]),
        outside.mixture([UNIFORM, outside.permuted(BYTES)], weights=(1, 2)),
    ],
    "overlaid": [
        outside.overlaid(BYTES),
        outside.overlaid(BYTES, shift=2),
        outside.overlaid(BYTES, seed=1),
    ],
    "paper_noise": [outside.paper_noise(BYTES), outside.paper_noise(BYTES, seed=1)],
    "patches": [
        outside.patches(BYTES),
        outside.patches(BYTES, grid=2),
        outside.patches(BYTES, seed=1),
    ],
    "permuted": [outside.permuted(BYTES), outside.permuted(BYTES, seed=1)],
    "scaled": [outside.scaled(UNIFORM, 0.5), outside.scaled(UNIFORM, 0.25)],
    "shapes": [outside.shapes(SHAPE), outside.shapes((1, 8, 12)), outside.shapes(SHAPE, seed=1)],
    "shuffled": [outside.shuffled(BYTES), outside.shuffled(BYTES, seed=1)],
    "smoothed": [
        outside.smoothed(UNIFORM),
        outside.smoothed(UNIFORM, low=2.0),
        outside.smoothed(UNIFORM, high=3.0),
        outside.smoothed(UNIFORM, seed=1),
    ],
    "stored": [
        outside.stored(UNIFORM, 9),
        outside.stored(outside.permuted(BYTES), 9),
        outside.stored(UNIFORM, 9, start=1),
    ],
    "strokes": [
        outside.strokes(SHAPE),
        outside.strokes((1, 8, 12)),
        outside.strokes(SHAPE, least=1),
        outside.strokes(SHAPE, seed=1),
    ],
    "uniform": [
        UNIFORM,
        outside.uniform(SHAPE, low=0.25),
        outside.uniform(SHAPE, high=0.5),
        outside.uniform(SHAPE, high=np.full(SHAPE, 0.75)),
        outside.uniform(SHAPE, seed=1),
    ],
}
MADE_FROM_IMAGES = sorted(set(CASES) - {"shapes", "strokes", "uniform"})

every = pytest.mark.parametrize("name", list(outsides))


def test_every_registered_one_is_tested():
    assert set(outsides) == set(CASES) == set(OPTIONS)


@every
def test_every_option_is_tried(name):
    signature = inspect.signature(outsides[name])
    options = [p for p in signature.parameters.values() if p.default is not p.empty]
    assert len(OPTIONS[name]) > len(options)


@every
def test_inputs_have_the_shape_and_stay_in_the_box(name):
    made = CASES[name](BYTES, 0)
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
    made = CASES[name](BYTES, 3)
    indices = data.draw(st.lists(st.integers(0, 39), max_size=40))
    block = data.draw(st.sampled_from([1, 700, 1 << 18]))
    whole = made.take(40)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(value, "BLOCK", block)
        assert torch.equal(made(torch.tensor(indices, dtype=torch.int64)), whole[indices])


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (1, 5, 9), (2, 1, 7)], ids=str)
def test_single_inputs_equal_those_of_large_batches(shape):
    x = torch.rand(50, *shape)
    made = outside.mixture([outside.paper_noise(x), outside.faded(x), outside.overlaid(x, shift=0)])
    whole = made.take(900)
    for index in (0, 1, 2, 3, 450, 898, 899):
        assert torch.equal(made.take(1, index)[0], whole[index])
    assert torch.equal(made.take(300, 301), whole[301:601])


@every
def test_seeds_make_other_inputs(name):
    first, second = (CASES[name](BYTES, seed) for seed in (0, 1))
    assert not torch.equal(first.take(5), second.take(5))
    assert first.description != second.description


@every
def test_equal_descriptions_mean_equal_inputs(name):
    first, second = (CASES[name](BYTES.clone(), 2) for _ in range(2))
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
    first, second = CASES[name](BYTES, 0), CASES[name](OTHERS, 0)
    assert first.description != second.description
    assert not torch.equal(first.take(4), second.take(4))


@pytest.mark.parametrize("name", MADE_FROM_IMAGES)
def test_bytes_are_images_of_which_255_is_1(name):
    from_bytes, from_floats = CASES[name](BYTES, 0), CASES[name](BYTES.float() / 255, 0)
    torch.testing.assert_close(from_bytes.take(20), from_floats.take(20), rtol=0, atol=1e-6)
    assert from_bytes.description != from_floats.description  # they may differ in the last bit


@pytest.mark.parametrize("name", MADE_FROM_IMAGES)
def test_arrays_and_sideways_tensors_are_welcome_and_left_alone(name):
    sideways = BYTES.permute(2, 3, 0, 1).contiguous().permute(2, 3, 0, 1)
    before = BYTES.clone()
    expected = CASES[name](BYTES, 0).take(6)
    assert torch.equal(CASES[name](sideways, 0).take(6), expected)
    expected.fill_(-1)  # what was made belongs to the caller
    assert torch.equal(BYTES, before)
    floats = BYTES.float() / 255
    CASES[name](floats, 0).take(6).fill_(-1)
    assert floats.min() >= 0


def test_another_process_makes_the_same():
    made = outside.mixture([CASES[name](BYTES, 1) for name in outsides])
    whole = made.take(60).numpy()
    parts = np.array_split(np.arange(60), 7)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert np.array_equal(np.concatenate(list(pool.map(made.make, parts))), whole)


@every
def test_a_copy_of_the_value_makes_the_same(name):
    made = CASES[name](BYTES, 1)
    assert torch.equal(pickle.loads(pickle.dumps(made)).take(3), made.take(3))


@every
def test_indices_far_out_are_found_where_there_is_no_end(name):
    made = CASES[name](BYTES, 0)
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
    make = CASES[name]
    for x, message in (
        (torch.zeros(0, *SHAPE), "x are empty"),
        (torch.full((3, *SHAPE), torch.nan), "x contain NaN"),
        (torch.zeros(5, 6, dtype=torch.uint8), "x are uint8"),
        (torch.zeros(5), "x must have shape"),
    ):
        with pytest.raises(NescioError, match=message):
            make(x, 0)


@pytest.mark.parametrize("name", sorted(set(CASES) - {"another"}))
@pytest.mark.parametrize("seed", [-1, 0.5], ids=str)
def test_bad_seeds_are_refused(name, seed):
    with pytest.raises(NescioError, match=f"`seed` must be a whole number, 0 or more, got {seed}"):
        CASES[name](BYTES, seed)


def test_one_part_is_one_file_and_a_public_name():
    folder = Path(nescio.__file__).parent / "data" / "outside"
    for name in outsides:
        assert (folder / f"{name}.py").is_file()
        assert getattr(outside, name) is outsides[name]
