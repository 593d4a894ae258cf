"""Inputs with checksums are read through them: damage is an error that names the file."""

import gzip
import lzma
import random

import numpy as np
import pytest

from nescio.core import NescioError
from nescio.data import read_table
from nescio.data.readers import open_stream

NUMBERS = np.random.default_rng(0).normal(size=(400, 3))
TEXT = "\n".join(["a,b,c", *(",".join(f"{v:.6f}" for v in row) for row in NUMBERS)])


def npz(path):
    np.savez(path, x=NUMBERS)


def packed_npz(path):
    np.savez_compressed(path, x=NUMBERS)


def parquet(path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet as writer

    table = pa.table({name: NUMBERS[:, i] for i, name in enumerate("abc")})
    writer.write_table(table, path, write_page_checksum=True, compression="none")


FILES = {
    "a.npz": npz,
    "b.npz": packed_npz,
    "c.csv.gz": lambda path: path.write_bytes(gzip.compress(TEXT.encode())),
    "d.csv.xz": lambda path: path.write_bytes(lzma.compress(TEXT.encode())),
    "e.parquet": parquet,
}


def rows(path, start=0):
    return np.concatenate([block.numpy() for _, block in open_stream(path).blocks(64, start=start)])


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_never_read_as_other_numbers(tmp_path, name):
    path = tmp_path / name
    FILES[name](path)
    whole, good = path.read_bytes(), rows(path)
    draws, refused = random.Random(0), []
    for _ in range(60):
        damaged = bytearray(whole)
        at = draws.randrange(len(whole))
        damaged[at] ^= 1 << draws.randrange(8)
        path.write_bytes(damaged if draws.random() < 0.7 else whole[:at])
        try:
            found = rows(path)
        except NescioError as error:
            refused.append(str(error))
        else:  # a byte that says nothing about the numbers, such as a date
            np.testing.assert_array_equal(found, good)
    assert len(refused) > 40
    assert all(name in said for said in refused)


def test_a_resumed_stream_is_checked_too(tmp_path):
    path = tmp_path / "a.npz"
    npz(path)
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 4] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(NescioError, match=r"a\.npz"):
        rows(path, start=300)


def test_a_table_is_read_through_checksums_too(tmp_path):
    path = tmp_path / "e.parquet"
    parquet(path)
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(NescioError, match=r"e\.parquet"):
        read_table(path)
