"""Handwritten capital letters in an .npz file: a small stand-in for EMNIST."""

import torch

from nescio.data.archive import demand, only_archive, read_arrays, targets
from nescio.data.catalogue import data_folder
from nescio.data.dataset import Dataset, Part, only_tests
from nescio.data.images import as_images
from nescio.errors import NescioError
from nescio.registry import datasets

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@datasets.register
def letters(*, folder: str | None = None, without: str = "") -> Dataset:
    """2990 handwritten capital letters of 28 x 28 pixels, A to Z as 0 to 25, all to test on.

    folder: where the folder `letters-az` with the .npz file is, in place of NESCIO_DATA.
    without: letters to leave out; OISZ look like the digits 0, 1, 5, 2.
    """
    where = data_folder("letters", folder)
    path = only_archive("letters", where)
    arrays, found = read_arrays(path, {"x", "y"})
    demand(path, found, {"x", "y"})
    x, y = as_images(arrays["x"]), targets(f"y in {path}", arrays["y"])
    return only_tests("letters", leave_out((x, y), without), classes=26)


def leave_out(part: Part, without: str) -> Part:
    """A part of letters A to Z, labelled 0 to 25, without some; the others keep their labels."""
    wrong = sorted(set(without.upper()) - set(ALPHABET))
    if wrong:
        raise NescioError(f"`without` takes letters from A to Z, got {''.join(wrong)!r} in it")
    if not without:
        return part
    x, y = part
    kept = ~torch.isin(y, torch.tensor([ALPHABET.index(letter) for letter in without.upper()]))
    return x[kept], y[kept]
