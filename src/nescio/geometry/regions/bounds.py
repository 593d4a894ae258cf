"""Published upper bounds on the number of linear regions of a network."""

from collections.abc import Sequence
from math import comb, prod


def zaslavsky(lines: int, dimension: int = 2) -> int:
    """Cells of an arrangement of hyperplanes, at most (Zaslavsky, 1975).

    >>> zaslavsky(3)
    7
    """
    return sum(comb(lines, j) for j in range(dimension + 1))


def montufar(widths: Sequence[int], dimension: int = 2) -> int:
    """Linear regions of a chain of one-bend layers (Montufar, 2017): the product over the layers.

    A layer cuts a space of at most the least width before it.
    """
    least = [min([dimension, *widths[:i]]) for i in range(len(widths))]
    return prod(zaslavsky(n, d) for n, d in zip(widths, least, strict=True))


def serra(widths: Sequence[int], dimension: int = 2) -> int:
    """Linear regions of a chain of ReLU layers (Serra et al., 2018, theorem 1).

    The sum over j_1, ..., j_L of the products of n_l choose j_l, where j_l is at most the inputs,
    n_l, and what is left of every layer before, n_i - j_i.
    """
    ways = {dimension: 1}  # by the least of what is left so far
    for n in widths:
        after: dict[int, int] = {}
        for room, count in ways.items():
            for j in range(min(room, n) + 1):
                left = min(room, n - j)
                after[left] = after.get(left, 0) + count * comb(n, j)
        ways = after
    return sum(ways.values())


__all__ = ["montufar", "serra", "zaslavsky"]
