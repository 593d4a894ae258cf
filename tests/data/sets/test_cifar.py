"""CIFAR in its binary layout: files written record by record, loose and in archives."""

import hashlib
import io
import os
import tarfile

import numpy as np
import pytest
import torch

from nescio.core import NescioError
from nescio.data import cifar10, cifar100, load

RNG = np.random.default_rng(0)


def record(labels, pixels):
    """Label bytes, then the planes of (32, 32, 3) pixels, as the definition says."""
    planes = b"".join(pixels[:, :, channel].tobytes() for channel in range(3))
    return bytes(labels) + planes


def batch(count, *, coarse=False, start=0):
    pixels = RNG.integers(0, 256, (count, 32, 32, 3), dtype=np.uint8)
    labels = [[i % 20, (start + i) % 100] if coarse else [(start + i) % 10] for i in range(count)]
    return b"".join(map(record, labels, pixels)), pixels, labels


def write_tar(path, files, mode):
    with tarfile.open(path, mode) as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


@pytest.fixture
def place(tmp_path):
    (tmp_path / "cifar10").mkdir()
    (tmp_path / "cifar100").mkdir()
    return tmp_path


@pytest.fixture(scope="module")
def batches():
    """Training batches 1 and 4 and the test batch."""
    made = {name: batch(6, start=i) for i, name in enumerate(("1", "4", "test"))}
    files = {"data_batch_1.bin": "1", "data_batch_4.bin": "4", "test_batch.bin": "test"}
    return {file: made[key][0] for file, key in files.items()}, made


@pytest.mark.parametrize(
    ("file", "mode"),
    [
        ("cifar-10-binary.tar.gz", "w:gz"),
        ("some-of-it.tar.xz", "w:xz"),
        ("all.tar", "w"),
        (None, ""),
        ("cifar-10-batches-bin", ""),
    ],
    ids=["gz", "xz", "tar", "loose", "unpacked"],
)
def test_the_batches_that_are_there_are_read(place, batches, file, mode):
    files, made = batches
    where = place / "cifar10"
    if mode:
        write_tar(where / file, {"batches.meta.txt": b"airplane\n", **files}, mode)
    else:
        (where / (file or ".")).mkdir(exist_ok=True)
        for name, content in files.items():
            (where / (file or ".") / name).write_bytes(content)
    read = cifar10(folder=str(place), validation=0)
    pixels = np.concatenate([made["1"][1], made["4"][1]])
    assert read.train[0].dtype == torch.uint8
    assert np.array_equal(read.train[0].permute(0, 2, 3, 1).numpy(), pixels)
    assert read.train[1].tolist() == [*range(6), *range(1, 7)]
    assert np.array_equal(read.test[0].permute(0, 2, 3, 1).numpy(), made["test"][1])
    assert read.test[1].tolist() == [2, 3, 4, 5, 6, 7]
    assert read.validation is None


def test_validation_is_set_apart(place, batches):
    write_tar(place / "cifar10" / "x.tar", batches[0], "w")
    read = load("cifar10", folder=str(place), validation=5, seed=1)
    assert [len(part[0]) for part in (read.train, read.validation, read.test)] == [7, 5, 6]
    both = torch.cat([read.train[0], read.validation[0]]).flatten(1).tolist()
    every = cifar10(folder=str(place), validation=0).train[0].flatten(1).tolist()
    assert sorted(both) == sorted(every)
    with pytest.raises(NescioError, match="`validation` must be in 0..11, got 12"):
        cifar10(folder=str(place), validation=12)


def test_cifar100_has_two_labels(place):
    train, pixels, _ = batch(30, coarse=True, start=70)
    for name, content in {"train.bin": train, "test.bin": train[: 5 * 3074]}.items():
        (place / "cifar100" / name).write_bytes(content)
    fine = cifar100(folder=str(place), validation=0)
    assert fine.classes == 100
    assert fine.train[1].tolist() == list(range(70, 100))
    assert np.array_equal(fine.test[0].permute(0, 2, 3, 1).numpy(), pixels[:5])
    coarse = cifar100(folder=str(place), coarse=True, validation=0)
    assert coarse.classes == 20
    assert coarse.train[1].tolist() == [*range(20), *range(10)]


def test_a_file_of_broken_records_is_refused(place, batches):
    where = place / "cifar10"
    for name, content in batches[0].items():
        (where / name).write_bytes(content)
    (where / "data_batch_4.bin").write_bytes(batches[0]["data_batch_4.bin"][:-1])
    with pytest.raises(NescioError, match=r"data_batch_4.bin holds 18437 bytes, .* of 3073"):
        cifar10(folder=str(place))
    (where / "data_batch_4.bin").write_bytes(b"")
    with pytest.raises(NescioError, match=r"holds 0 bytes"):
        cifar10(folder=str(place))


def test_what_is_missing_is_named(place, batches):
    where = place / "cifar10"
    with pytest.raises(NescioError, match=r"lacks a .tar .* nescio data download cifar10"):
        cifar10(folder=str(place))
    (where / "data_batch_1.bin").write_bytes(batches[0]["data_batch_1.bin"])
    with pytest.raises(NescioError, match=r"lacks test_batch.bin"):
        cifar10(folder=str(place))
    (where / "data_batch_1.bin").rename(where / "test_batch.bin")
    with pytest.raises(NescioError, match=r"lacks data_batch_1.bin"):
        cifar10(folder=str(place))


def test_archives_must_be_whole_and_one(place, batches):
    path = place / "cifar10" / "a.tar.xz"
    write_tar(path, batches[0], "w:xz")
    path.write_bytes(path.read_bytes()[:-3000])
    with pytest.raises(NescioError, match=r"cannot read .*a.tar.xz: .* copy it again"):
        cifar10(folder=str(place))
    path.write_bytes(b"no archive at all")
    with pytest.raises(NescioError, match=r"cannot read .*a.tar.xz"):
        cifar10(folder=str(place))
    (place / "cifar10" / "b.tar").write_bytes(b"")
    with pytest.raises(NescioError, match=r"several archives, a.tar.xz and b.tar"):
        cifar10(folder=str(place))
    write_tar(place / "cifar10" / "cifar-10-binary.tar.gz", batches[0], "w:gz")
    assert len(cifar10(folder=str(place), validation=0).test[0]) == 6


def test_labels_beyond_the_classes_are_refused(place):
    content, _, _ = batch(12)
    wrong = bytearray(content)
    wrong[0] = 11
    for name in ("data_batch_1.bin", "test_batch.bin"):
        (place / "cifar10" / name).write_bytes(wrong)
    with pytest.raises(NescioError, match=r"must be in 0..9, got 0..11"):
        cifar10(folder=str(place), validation=0)


@pytest.mark.skipif(not os.environ.get("NESCIO_DATA"), reason="NESCIO_DATA is not set: no CIFAR-10")
def test_cifar10_itself():
    read = cifar10(validation=0)
    assert read.features == (3, 32, 32)
    assert torch.bincount(read.test[1]).tolist() == [1000] * 10
    assert read.train[1][:8].tolist() == [6, 9, 9, 4, 1, 1, 2, 7]  # as is known
    x, y = read.test
    again = torch.cat([y[:, None].to(torch.uint8), x.flatten(1)], 1).numpy().tobytes()
    known = "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"
    assert hashlib.sha256(again).hexdigest() == known  # the published test_batch.bin
