"""Files and folders under kills, links and a second process."""

import multiprocessing
import os
import signal
import threading
import time

import pytest

import nescio.core.writing as core_writing
from nescio.core import (
    NescioError,
    known_by,
    owned,
    owned_folder,
    write_atomically,
    writing,
    writing_atomically,
)

FORK = multiprocessing.get_context("fork")


def test_names_beside_are_unpredictable_and_new(tmp_path):
    names = set()
    for _ in range(3):
        with writing_atomically(tmp_path / "x") as file:
            names |= {p.name for p in tmp_path.iterdir() if p.name != "x"}
            file.write(b"1")
    assert len(names) == 3
    assert all(len(name) > 20 for name in names)
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


def test_a_link_in_place_of_the_output_is_replaced_not_followed(tmp_path):
    target, link = tmp_path / "theirs", tmp_path / "out"
    target.write_text("theirs")
    link.symlink_to(target)
    write_atomically(link, "mine")
    assert (target.read_text(), link.read_text()) == ("theirs", "mine")
    assert not link.is_symlink()


def test_a_planted_link_is_not_written_through(tmp_path, monkeypatch):
    target = tmp_path / "theirs"
    target.write_text("theirs")
    (tmp_path / ".x.guess.new").symlink_to(target)
    monkeypatch.setattr(writing, "token_hex", lambda _: "guess")
    with pytest.raises(NescioError, match="cannot write"):
        write_atomically(tmp_path / "x", "mine")
    (tmp_path / writing.OWNER).symlink_to(target)
    with pytest.raises(NescioError, match="cannot own"), owned(tmp_path):
        pass
    assert target.read_text() == "theirs"


def hold(path, ready, how):
    with how(path):
        ready.set()
        time.sleep(60)


def started(path, how):
    ready = FORK.Event()
    process = FORK.Process(target=hold, args=(path, ready, how))
    process.start()
    assert ready.wait(30)
    return process


def kill(process):
    os.kill(process.pid, signal.SIGKILL)
    process.join()


def test_what_a_killed_writer_left_is_removed_and_what_a_living_one_writes_is_not(tmp_path):
    killed, living = (started(tmp_path / "x", writing_atomically) for _ in range(2))
    assert len(list(tmp_path.iterdir())) == 2
    kill(killed)
    write_atomically(tmp_path / "x", "mine")
    assert len(list(tmp_path.iterdir())) == 2  # the file, and that of the living writer
    kill(living)
    write_atomically(tmp_path / "x", "mine")
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


@pytest.mark.parametrize("name", [".", "out.csv"])
def test_a_second_process_is_told_who_the_owner_is(tmp_path, name):
    path = tmp_path / name
    process = started(path, owned)
    with pytest.raises(NescioError, match=rf"in use by process {process.pid} on .* since 20"), \
            owned(path):  # fmt: skip
        pass
    kill(process)
    with owned(path):  # the system freed it
        pass
    assert not list(tmp_path.iterdir())


def test_a_block_within_a_block_owns_too_but_another_thread_does_not(tmp_path):
    said = []

    def other():
        try:
            with owned(tmp_path):
                pass
        except NescioError as error:
            said.append(str(error))

    with owned(tmp_path), owned(tmp_path):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert f"process {os.getpid()}" in said[0]


def test_without_locks_of_the_system_a_file_says_who_the_owner_is(tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "fcntl", None)
    with owned(tmp_path / "a"):
        (left,) = tmp_path.iterdir()
        about = left.read_text()
    assert not left.exists()
    left.write_text(about)  # as a kill leaves it
    with pytest.raises(NescioError, match=rf"process {os.getpid()}.*delete .*\.owner"), \
            owned(tmp_path / "a"):  # fmt: skip
        pass


def test_large_files_are_known_by_samples_of_their_content(tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "WHOLE", 1000)
    monkeypatch.setattr(writing, "BLOCK", 10)
    path = tmp_path / "x"
    path.write_bytes(bytes(10_000))
    os.utime(path, ns=(5, 5))
    before = known_by(path)
    for at in (0, 9_999):
        content = bytearray(10_000)
        content[at] = 1
        path.write_bytes(bytes(content))
        os.utime(path, ns=(5, 5))
        assert known_by(path) != before
    path.write_bytes(bytes(10_000))
    assert known_by(path) != before  # written at another time
    os.utime(path, ns=(5, 5))
    assert known_by(path) == before


@pytest.mark.parametrize(("before", "written"), [(False, False), (True, False), (False, True)])
def test_a_new_folder_that_nothing_was_written_to_goes_with_the_error(tmp_path, before, written):
    folder = tmp_path / "runs" / "run"
    if before:
        folder.mkdir(parents=True)

    def refused():
        with owned_folder(folder):
            if written:
                (folder / "begun").write_text("1")
            raise NescioError("refused")

    with pytest.raises(NescioError, match="refused"):
        refused()
    assert folder.is_dir() == folder.parent.is_dir() == (before or written)
    assert not folder.is_dir() or [path.name for path in folder.iterdir()] == ["begun"] * written


def test_a_folder_that_goes_before_it_is_owned_is_made_again(tmp_path, monkeypatch):
    folder, made = tmp_path / "run", []
    own = core_writing.make_folder

    def gone_at_first(path):
        own(path)
        made.append(path)
        if made == [folder]:
            folder.rmdir()  # another process was refused, and tidies up
        return path

    monkeypatch.setattr(core_writing, "make_folder", gone_at_first)
    with owned_folder(folder):
        assert folder.is_dir()
        assert [path.name for path in folder.iterdir()] == [core_writing.OWNER]


def test_a_folder_with_too_long_a_name_is_refused(tmp_path):
    with pytest.raises(NescioError, match="cannot make the folder"), owned_folder("x" * 300):
        pass
