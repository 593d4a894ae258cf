"""Files survive a crash, and a damaged or foreign one is refused with its reason."""

import json
import math
import os
import stat

import pytest
import torch
from safetensors.torch import save_file

from nescio.core import NescioError, files, writing

TENSORS = {
    "a": torch.arange(6.0).reshape(2, 3),
    "turned": torch.arange(6.0).reshape(2, 3).T,
    "wide": torch.ones(1, 3).expand(4, 3),
    "count": torch.tensor(3),
    "trained": torch.ones(2, requires_grad=True),
}


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "deep" / "model.safetensors"
    files.save_tensors(path, TENSORS, {"kind": "model", "notes": {"seed": 3}})
    return path


def test_tensors_and_manifest_come_back(saved):
    tensors, manifest = files.load_tensors(saved, "model")
    assert manifest.keys() == {"format", "nescio", "kind", "notes", "contents", "digest"}
    assert (manifest["format"], manifest["notes"]) == (files.FORMAT, {"seed": 3})
    assert set(tensors) == set(TENSORS)
    assert all(torch.equal(tensors[name], tensor.detach()) for name, tensor in TENSORS.items())


def test_one_tensor_under_two_names_is_two_tensors(tmp_path):
    tensor = torch.ones(3)
    files.save_tensors(tmp_path / "x", {"a": tensor, "b": tensor, "c": tensor[1:]}, {"kind": "k"})
    tensors, _ = files.load_tensors(tmp_path / "x", "k")
    assert torch.equal(tensors["b"], tensor)
    assert torch.equal(tensors["c"], tensor[1:])


def test_a_file_that_is_read_is_not_held(saved):
    tensors, _ = files.load_tensors(saved, "model")
    files.save_tensors(saved, {"a": torch.zeros(2, 3)}, {"kind": "model"})
    tensors["a"] += 1
    assert torch.equal(tensors["a"], TENSORS["a"] + 1)


@pytest.mark.parametrize("call", ["replace", "fsync"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_writer_that_dies_leaves_the_old_file_and_nothing_else(saved, monkeypatch, call, error):
    before = saved.read_bytes()

    def dies(*_):
        raise error

    monkeypatch.setattr(os, call, dies)
    expected = NescioError if isinstance(error, OSError) else KeyboardInterrupt
    with pytest.raises(expected) as caught:
        files.save_tensors(saved, {"a": torch.zeros(1)}, {"kind": "model"})
    if isinstance(error, OSError):
        assert "No space left on device" in str(caught.value)
        assert str(saved) in str(caught.value)
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]


def test_files_have_the_permissions_that_the_user_asked_for(tmp_path):
    before = os.umask(0o027)
    try:
        writing.write_atomically(tmp_path / "a.txt", "text")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o640
    assert (tmp_path / "a.txt").read_text() == "text"


@pytest.mark.parametrize("length", [0, 5, 60, -1])
def test_truncated_files_are_damaged(saved, length):
    saved.write_bytes(saved.read_bytes()[:length])
    with pytest.raises(NescioError, match="damaged, or not a file of nescio") as caught:
        files.load_tensors(saved, "model")
    assert "delete" not in str(caught.value)  # it may be the only copy


def test_a_foreign_file_has_no_manifest(tmp_path):
    for name, metadata in (("none", None), ("other", {"format": "pt"}), ("text", {"nescio": "{"})):
        save_file({"a": torch.zeros(2)}, tmp_path / name, metadata=metadata)
        with pytest.raises(NescioError, match="not written by nescio"):
            files.load_tensors(tmp_path / name, "model")


@pytest.mark.parametrize("manifest", [[1], 5, None, "text", {"kind": "model", "format": "new"}])
def test_a_manifest_that_is_none_is_refused(tmp_path, manifest):
    save_file({"a": torch.zeros(2)}, tmp_path / "x", metadata={"nescio": json.dumps(manifest)})
    with pytest.raises(NescioError, match="nescio"):
        files.load_tensors(tmp_path / "x", "model")


def test_another_kind_of_file_is_refused(saved):
    with pytest.raises(NescioError, match="holds a model, expected a checkpoint"):
        files.load_tensors(saved, "checkpoint")


def test_a_newer_format_asks_for_an_upgrade(tmp_path):
    files.save_tensors(tmp_path / "x", TENSORS, {"kind": "model", "format": files.FORMAT + 1})
    with pytest.raises(NescioError, match="newer nescio; upgrade"):
        files.load_tensors(tmp_path / "x", "model")


def test_missing_files_and_folders_are_named(tmp_path):
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(NescioError, match=f"no file {path}"):
            files.load_tensors(path, "model")


def test_a_folder_below_a_file_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    for write in (writing.write_atomically, writing.write_json):
        with pytest.raises(NescioError, match="cannot make the folder"):
            write(tmp_path / "file" / "deep" / "x", "text")


def test_a_folder_in_the_way_of_a_file_is_an_error(tmp_path):
    (tmp_path / "x").mkdir()
    with pytest.raises(NescioError, match="cannot write"):
        writing.write_atomically(tmp_path / "x", "text")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_is_not_writable_is_an_error(tmp_path):
    (tmp_path / "locked").mkdir(mode=0o500)
    with pytest.raises(NescioError, match="not writable"):
        writing.write_atomically(tmp_path / "locked" / "x", "text")


def test_json_holds_numbers_that_are_not_finite_as_null(tmp_path):
    value = {"a": math.nan, 3: [1.5, -math.inf, (math.inf, "x", None, True)], "n": 2}
    writing.write_json(tmp_path / "x.json", value)
    assert json.loads((tmp_path / "x.json").read_text()) == {
        "a": None,
        "3": [1.5, None, [None, "x", None, True]],
        "n": 2,
    }
