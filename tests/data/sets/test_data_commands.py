"""`nescio data list | download | verify`."""

import hashlib
import subprocess
import sys

import pytest
from click.testing import CliRunner

import nescio_papers.data  # noqa: F401  (its entries are part of the catalogue)
from nescio.cli.main import main
from nescio.data.sets import catalogue
from nescio.data.sets.catalogue import CATALOGUE, CatalogueEntry, File
from nescio.data.sets.download import presence


def run(*words):
    return CliRunner().invoke(main, ["data", *words])


@pytest.fixture
def known(monkeypatch):
    monkeypatch.delenv("NESCIO_DATA", raising=False)
    checksum = hashlib.sha256(b"abc").hexdigest()
    file = File(name="a.bin", size=3, sha256=checksum, addresses=("http://127.0.0.1:9/a.bin",))
    mine = CatalogueEntry(
        name="mine", what="numbers", license="CC0", home="http://x", folders=("own",), files=(file,)
    )
    monkeypatch.setattr(catalogue, "CATALOGUE", {"mine": mine})


def test_list_says_what_there_is_and_where(tmp_path, monkeypatch):
    monkeypatch.delenv("NESCIO_DATA", raising=False)
    bare = run("list")
    assert bare.exit_code == 0
    assert "no folder: set NESCIO_DATA, or give --folder" in bare.output
    for name, known in CATALOGUE.items():
        assert name in bare.output
        assert known.what in bare.output
        assert known.license in bare.output
        assert f"expected: {known.expected}" in bare.output
    (tmp_path / "letters-az").mkdir()
    (tmp_path / "letters-az" / "x.npz").write_bytes(b"")
    lines = run("list", "--folder", str(tmp_path)).output.splitlines()
    assert lines[0] == f"folder: {tmp_path}"
    rows = {line.split()[0]: line.split() for line in lines if line}
    assert rows["letters"][1:3] == ["yes", "-"]
    assert rows["mnist"][1:3] == ["no", "11.6"]
    assert rows["cifar10"][1:3] == ["no", "170.1"]


def test_list_has_the_data_of_the_papers_last(tmp_path):
    (tmp_path / "sequences").mkdir()
    (tmp_path / "sequences" / "GunPoint_TRAIN.ts.xz").write_bytes(b"")
    (tmp_path / "sequences" / "GunPoint_TEST.ts").write_bytes(b"")
    (tmp_path / "medical" / "heart-disease").mkdir(parents=True)
    (tmp_path / "medical" / "heart-disease" / "processed.cleveland.data").write_bytes(b"")
    (tmp_path / "uci").mkdir()
    (tmp_path / "uci" / "README").write_bytes(b"")
    result = run("list", "--folder", str(tmp_path)).output
    own, of_papers = result.split("only the papers read these (nescio reproduce):\n")
    assert "tiny_imagenet" in own
    rows = {line.split()[0]: line for line in of_papers.splitlines() if line[0] != " "}
    there = {
        name: line[len("italy_power_demand") :].split("  -  ")[0].strip()
        for name, line in rows.items()
    }
    assert there.pop("mnist_c").startswith("no ")  # beside the size of its download
    assert there == {
        "heart_disease": "in part",
        "diabetes_130": "no",
        "uci": "no",
        "japanese_vowels": "no",
        "gun_point": "yes",
        "italy_power_demand": "no",
    }
    assert "folder medical/heart-disease; license" in of_papers
    assert "expected: GunPoint_TRAIN.ts and GunPoint_TEST.ts, plain or .xz" in of_papers
    (tmp_path / "uci" / "concrete.tar.xz").write_bytes(b"")
    assert presence("uci", tmp_path) == "in part"  # one of seven
    for other in catalogue.entry("uci").others:
        (tmp_path / "uci" / other.name).write_bytes(b"")
    assert presence("uci", tmp_path) == "yes"


def test_list_loads_the_papers_itself():
    code = "from nescio.cli.main import main; main(['data', 'list'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "heart_disease" in done.stdout


def test_a_download_of_nothing_is_refused(known, tmp_path):
    result = run("download", "--folder", str(tmp_path))
    assert result.exit_code == 1
    assert "Missing argument" in result.output


def test_verify_has_an_exit_code(known, tmp_path):
    (tmp_path / "own").mkdir()
    path = tmp_path / "own" / "a.bin"
    result = run("verify", "mine", "--folder", str(tmp_path))
    assert (result.exit_code, result.output) == (0, f"missing  {path}\n")
    path.write_bytes(b"abc")
    result = run("verify", "mine", "--folder", str(tmp_path))
    assert (result.exit_code, result.output) == (0, f"ok       {path}\n")
    path.write_bytes(b"ab")
    result = run("verify", "--folder", str(tmp_path))
    assert result.exit_code == 1
    assert result.output == f"damaged  {path}  (2 bytes, expected 3)\n"


def test_download_keeps_what_is_whole_and_fails_with_words(known, tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "a.bin").write_bytes(b"abc")
    result = run("download", "mine", "--folder", str(tmp_path))
    assert result.exit_code == 0
    assert "there already" in result.output
    result = run("download", "mine", "yours", "--folder", str(tmp_path))
    assert result.exit_code == 1
    assert "unknown data set to download 'yours'" in result.output
    assert "there already" not in result.output  # names are checked first
    assert "set NESCIO_DATA" in run("download", "mine").output
    assert "set NESCIO_DATA" in run("verify").output
    assert run("download").exit_code == 1
