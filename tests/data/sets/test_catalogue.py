"""The list of data sets: complete, well formed, and the messages it gives."""

import os
import re
from collections import Counter
from urllib.parse import urlsplit

import pytest

import nescio_papers.data  # noqa: F401  (its entries are part of the catalogue)
from nescio.core import NescioError
from nescio.core.registry import datasets
from nescio.data.sets.catalogue import CATALOGUE, data_folder, entry, home, locate, root
from nescio.data.sets.download import missing, presence, verify


@pytest.mark.parametrize("name", CATALOGUE)
def test_an_entry_is_well_formed(name):
    known = entry(name)
    assert known.name == name
    assert name in datasets
    assert known.files or known.by_hand
    assert urlsplit(known.home).scheme in ("http", "https")
    for file in known.files:
        assert file.size > 0
        assert re.fullmatch(r"[0-9a-f]{64}", file.sha256)
        assert file.addresses
        assert all(address.endswith(f"/{file.name}") for address in file.addresses)
    for file in known.others:
        assert file.size > 0
        assert file.sha256 is None or re.fullmatch(r"[0-9a-f]{64}", file.sha256)


def test_a_data_set_is_in_the_catalogue_or_needs_no_download():
    embedded = {"half_moons", "blobs", "cubic", "spiral", "digits"}  # tests/data/test_loading.py
    assert set(datasets) == {*CATALOGUE, *embedded, "image_folder"}


def test_folders_are_named_once_unless_the_files_differ():
    every = [(folder, known.by_hand) for known in CATALOGUE.values() for folder in known.folders]
    assert len(set(every)) == len(every)
    shared = Counter(folder for folder, _ in every)
    assert [folder for folder, count in shared.items() if count > 1] == ["sequences"]
    checksums = [file.sha256 for known in CATALOGUE.values() for file in known.files]
    assert len(set(checksums)) == len(checksums)


def test_hyphens_are_as_good_as_underscores():
    assert entry("fashion-mnist") is entry("fashion_mnist")
    with pytest.raises(NescioError, match="did you mean 'cifar10'"):
        entry("cifar1")


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_missing_folder_names_the_setting_the_files_and_the_command(name, tmp_path, monkeypatch):
    monkeypatch.delenv("NESCIO_DATA", raising=False)
    known = entry(name)
    with pytest.raises(NescioError, match="set NESCIO_DATA to a folder that holds a folder") as one:
        datasets[name]()
    with pytest.raises(NescioError, match="there is no folder .*; NESCIO_DATA, or folder") as two:
        datasets[name](folder=str(tmp_path))
    for caught in (one, two):
        for file in known.files:
            assert file.name in str(caught.value)
        command = f"nescio data download {name}" if known.files else known.by_hand
        assert command in str(caught.value)


def test_where_things_are(tmp_path, monkeypatch):
    monkeypatch.delenv("NESCIO_DATA", raising=False)
    assert root() is None
    assert home("mnist") is None
    assert presence("mnist") == "no"
    monkeypatch.setenv("NESCIO_DATA", "~/data")
    assert str(root()) == os.path.expanduser("~/data")
    (tmp_path / "mnist-c-dev").mkdir()
    assert data_folder("mnist_c", tmp_path).name == "mnist-c-dev"
    (tmp_path / "mnist-c").mkdir()
    assert data_folder("mnist_c", tmp_path).name == "mnist-c"
    (tmp_path / "mnist-c" / "deep").mkdir()
    (tmp_path / "mnist-c" / "deep" / "x").write_bytes(b"")
    assert locate(tmp_path / "mnist-c", "x") == tmp_path / "mnist-c" / "deep" / "x"
    assert locate(tmp_path / "mnist-c", "y") is None


def test_an_unpacked_file_stands_for_its_packed_one(tmp_path):
    where = tmp_path / "mnist"
    where.mkdir()
    assert presence("mnist", tmp_path) == "no"
    (where / "train-labels-idx1-ubyte").write_bytes(bytes(60_008))
    assert len(missing(entry("mnist"), where)) == 3
    assert presence("mnist", tmp_path) == "in part"
    verdicts = sorted(one.verdict for one in verify("mnist", tmp_path))
    assert verdicts == ["missing", "missing", "missing", "ok"]
    for file in entry("mnist").files[2:]:
        (where / file.name).write_bytes(b"")
    (where / "train-images-idx3-ubyte").write_bytes(b"")
    assert presence("mnist", tmp_path) == "yes"


def test_all_unpacked_files_stand_for_an_archive(tmp_path):
    where = tmp_path / "cifar10" / "cifar-10-batches-bin"
    where.mkdir(parents=True)
    unpacked = entry("cifar10").others
    for file in unpacked[:-1]:
        (where / file.name).write_bytes(b"")
    assert presence("cifar10", tmp_path) == "in part"
    (where / unpacked[-1].name).write_bytes(b"")
    assert presence("cifar10", tmp_path) == "yes"
    assert [one.verdict for one in verify("cifar10", tmp_path)] == ["damaged"] * 6


def test_published_counts_and_sizes_agree():
    sizes = {file.name: file.size for file in entry("cifar10").others}
    assert sizes["data_batch_1.bin"] == 10_000 * 3073
    assert {file.size for file in entry("cifar100").others} == {50_000 * 3074, 10_000 * 3074}
    letters = {file.name: file.size for file in entry("emnist_letters").others}
    assert letters["emnist-letters-train-images-idx3-ubyte"] == 16 + 124_800 * 784
    assert letters["emnist-letters-test-labels-idx1-ubyte"] == 8 + 20_800


@pytest.mark.skipif(not os.environ.get("NESCIO_DATA"), reason="NESCIO_DATA is not set: no files")
@pytest.mark.parametrize("name", ["mnist", "fashion_mnist", "letters", "svhn", "mnist_c"])
def test_the_files_at_hand_are_whole(name):
    assert {one.verdict for one in verify(name)} <= {"ok", "present"}


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("cifar10", ["some.tar.xz"]),
        ("svhn", ["more_x.npy.xz", "more_y.npz"]),
        ("mnist_c", ["some.npz"]),
    ],
)
def test_files_that_are_published_nowhere_are_present_in_part(name, files, tmp_path):
    where = tmp_path / entry(name).folders[0]
    where.mkdir()
    for file in files:
        (where / file).write_bytes(b"")
    assert presence(name, tmp_path) == "in part"
    checked = verify(name, tmp_path)
    assert [(one.path.name, one.verdict) for one in checked] == [
        (file, "present") for file in files
    ]
    assert {one.reason for one in checked} == {"no published checksum"}


def test_the_catalogue_lists_only_what_is_published():
    names = [file.name for known in CATALOGUE.values() for file in (*known.files, *known.others)]
    assert not [name for name in names if any(mark in name for mark in ("_dev_", "2of5", "_2990"))]
