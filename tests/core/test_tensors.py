"""Hashes of inputs: guard files hold them, so that another version must compute the same."""

import torch

from nescio.core import hash_inputs

GOLDEN = -7046029254386353131
ALL = (1 << 64) - 1


def signed(value: int) -> int:
    value &= ALL
    return value - (1 << 64) if value >> 63 else value


def by_hand(words: list[int]) -> int:
    """The definition in whole numbers of Python."""
    total = len(words)
    for index, word in enumerate(words, start=1):
        odd = index * 0xBF58476D1CE4E5B9 & ALL
        odd = (odd ^ odd >> 30) * 0x94D049BB133111EB & ALL
        odd = (odd ^ odd >> 27) | 1
        mixed = signed(word * GOLDEN)
        total += (mixed ^ mixed >> 32) * odd
    total = signed(total)
    total = signed((total ^ total >> 29) * GOLDEN)
    return total ^ total >> 32


def test_a_hash_is_its_definition() -> None:
    rows = [[3, 1, 4, 1], [5, 9, 2, 6]]
    assert hash_inputs(torch.tensor(rows)).tolist() == [by_hand(row) for row in rows]
    assert by_hand(rows[0]) == 705999347690590110


def test_hashes_of_numbers_and_bytes_are_those_of_files() -> None:
    x = torch.tensor([[0.0, 0.25, -1.5], [1.0, 2.0, 3.0]])
    assert hash_inputs(x).tolist() == [6106871446295969101, 8580533427725366513]
    image = torch.tensor([[0, 128, 255]], dtype=torch.uint8)
    assert hash_inputs(image).tolist() == [5520701243323641368]
    assert torch.equal(hash_inputs(image), hash_inputs(image / 255))
