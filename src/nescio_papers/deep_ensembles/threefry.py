"""JAX's random numbers in NumPy: the Threefry generator, and what the practical draws from it.

A key is two 32-bit words. Number i that is drawn from a key is the key's cipher of the counter i
(Salmon et al., 2011), as JAX has it where `jax_threefry_partitionable` is set, which is its default
since version 0.5. Normal numbers differ from JAX's in the last bit at most.
"""

import math

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint32]
Floats = NDArray[np.float32]

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = np.uint32(0x1BD11BDA)
NEAR = (  # coefficients of the inverse error function, highest power first (Giles, 2010)
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
    -0.00125372503, -0.00417768164, 0.246640727, 1.50140941,
)  # fmt: skip
FAR = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
    -0.0076224613, 0.00943887047, 1.00167406, 2.83297682,
)  # fmt: skip


def key_of(seed: int) -> Words:
    """The key of a seed below 2^32, `jax.random.PRNGKey`."""
    return np.array([0, seed], dtype=np.uint32)


def split(key: Words, count: int = 2) -> Words:
    """Keys made from one, `(count, 2)`."""
    return np.stack(cipher(key, count), axis=1)


def random_bits(key: Words, count: int) -> Words:
    """Random words of 32 bits, `(count,)`."""
    first, second = cipher(key, count)
    return first ^ second


def normal(key: Words, shape: tuple[int, ...]) -> Floats:
    """Standard normal numbers of 32 bits."""
    words = random_bits(key, math.prod(shape)) >> np.uint32(9) | np.uint32(0x3F800000)
    low = np.nextafter(np.float32(-1), np.float32(0))
    uniform = (words.view(np.float32) - np.float32(1)) * (np.float32(1) - low) + low
    return (np.float32(math.sqrt(2)) * inverse_error(np.maximum(low, uniform))).reshape(shape)


def shuffled(key: Words, count: int) -> NDArray[np.intp]:
    """The numbers below `count` in a random order: sorted by random words, as often as needed."""
    order = np.arange(count)
    for _ in range(math.ceil(3 * math.log(max(count, 1)) / math.log(2**32 - 1))):
        key, own = split(key)
        order = order[np.argsort(random_bits(own, count), kind="stable")]
    return order


def cipher(key: Words, count: int) -> tuple[Words, Words]:
    """The two words for each of the counters 0, 1, ..., by twenty rounds of Threefry."""
    words = (key[0], key[1], key[0] ^ key[1] ^ PARITY)
    first = np.full(count, words[0])
    second = np.arange(count, dtype=np.uint32) + words[1]
    for block in range(5):
        for turn in ROTATIONS[block % 2]:
            first = first + second
            second = (second << np.uint32(turn) | second >> np.uint32(32 - turn)) ^ first
        first = first + words[(block + 1) % 3]
        second = second + words[(block + 2) % 3] + np.uint32(block + 1)
    return first, second


def inverse_error(x: Floats) -> Floats:
    """The inverse of the error function in 32 bits, by the polynomials that XLA has."""
    far = -np.log1p(-x * x)
    is_near = far < 5
    w = np.where(is_near, far - np.float32(2.5), np.sqrt(far) - np.float32(3))
    found = np.zeros_like(x)
    for near, other in zip(NEAR, FAR, strict=True):
        found = np.where(is_near, np.float32(near), np.float32(other)) + found * w
    return found * x
