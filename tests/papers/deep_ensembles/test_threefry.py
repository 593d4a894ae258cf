"""JAX's random numbers: known answers, and what they must be like."""

import numpy as np
import pytest
from scipy.special import erfinv

from nescio_papers.deep_ensembles.threefry import (
    cipher,
    inverse_error,
    key_of,
    normal,
    shuffled,
    split,
)


def test_the_cipher_has_the_known_answer():
    first, second = cipher(key_of(0), 1)  # from the test vectors of Random123
    assert (int(first[0]), int(second[0])) == (0x6B200159, 0x99BA4EFE)


def test_keys_are_split_as_in_jax():
    # jax.random.split(jax.random.PRNGKey(0)), JAX 0.6
    assert split(key_of(0)).tolist() == [[1797259609, 2579123966], [928981903, 3453687069]]


def test_a_normal_number_is_that_of_jax():
    assert normal(key_of(0), (1,))[0] == pytest.approx(1.6226422, abs=2e-7)
    assert normal(key_of(0), (1,)).dtype == np.float32


def test_normal_numbers_are_standard_and_do_not_repeat():
    drawn = normal(key_of(1), (200, 250))
    assert drawn.shape == (200, 250)
    assert abs(drawn.mean()) < 0.02
    assert drawn.std() == pytest.approx(1, abs=0.02)
    assert len(np.unique(drawn)) > 49_000


def test_the_inverse_error_function_is_right_near_zero_and_near_one():
    x = np.linspace(-0.999999, 0.999999, 2001).astype(np.float32)
    assert inverse_error(x) == pytest.approx(erfinv(x.astype(float)), abs=1e-5, rel=1e-5)


def test_an_order_has_every_number_once_and_depends_on_the_key():
    one, two = shuffled(key_of(0), 3000), shuffled(key_of(1), 3000)
    assert sorted(one) == sorted(two) == list(range(3000))
    assert not np.array_equal(one, two)
    assert abs(np.corrcoef(one, np.arange(3000))[0, 1]) < 0.1
