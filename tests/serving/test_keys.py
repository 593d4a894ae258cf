"""Keys: files, roles, and who is recognized."""

import os
from pathlib import Path

import pytest

from nescio import NescioError
from nescio.serving.keys import Keys, Who, key_digest, new_key


def test_a_new_key_is_recognized_and_not_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "keys.txt"
    first, second = new_key(path, "predict", "anna"), new_key(path, "admin", "bo")
    keys = Keys.read(path)
    assert keys.who(f"Bearer {first}") == keys.who(first) == Who("anna", "predict")
    assert keys.who(f"bearer  {second} ") == Who("bo", "admin")
    assert keys.who("Bearer wrong") is None
    assert keys.who("") is None
    assert keys.who("Bearer schl\udcfcssel") is None
    text = path.read_text()
    assert first not in text
    assert f"predict anna {key_digest(first)}\n" in text
    assert os.stat(path).st_mode & 0o077 == 0


def test_roles_contain_those_before_them() -> None:
    assert Who("a", "admin").may("predict")
    assert Who("a", "review").may("predict")
    assert not Who("a", "review").may("admin")
    assert not Who("a", "predict").may("review")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no key"),
        ("# none\n", "holds no key"),
        ("root anna " + "0" * 64, "line 1"),
        ("predict anna 12", "line 1"),
        ("\npredict anna", "line 2"),
    ],
)
def test_a_bad_file_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "keys.txt"
    path.write_text(text)
    with pytest.raises(NescioError, match=said):
        Keys.read(path)


def test_comments_and_blank_lines_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "keys.txt"
    path.write_text(f"# ours\n\nreview anna {key_digest('k').upper()}  # until May\n")
    assert Keys.read(path).who("k") == Who("anna", "review")


def test_what_cannot_be_a_key_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "keys.txt"
    new_key(path, "predict", "anna")
    for role, name in (("root", "x"), ("predict", ""), ("predict", "a b"), ("predict", "anna")):
        with pytest.raises(NescioError):
            new_key(path, role, name)
    with pytest.raises(NescioError, match="--new-key"):
        Keys.read(tmp_path / "none.txt")
