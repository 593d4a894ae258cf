"""Downloads from a server on loopback that is good, slow of mind, broken or lying."""

import hashlib
import re
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from nescio.core import NescioError
from nescio.data.sets import catalogue
from nescio.data.sets.catalogue import CatalogueEntry, File
from nescio.data.sets.download import check, download, fetch, presence, verify

CONTENT = np.random.default_rng(0).bytes(300_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@dataclass
class Manners:
    """How the server behaves, and what it was asked."""

    content: bytes = CONTENT
    ranges: bool = True  # whether it goes on where asked
    cuts: list[int] = field(default_factory=list)  # bytes after which it hangs up, by request
    codes: list[int] = field(default_factory=list)  # errors to answer first
    shift: int = 0  # goes on this far from where it was asked to
    told: bool = True  # says how much there is
    asked: list[str | None] = field(default_factory=list)


@contextmanager
def serving(manners):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            wanted = self.headers.get("Range")
            manners.asked.append(wanted)
            if self.path != "/file.bin":
                self.send_error(404, "Not Found")
                return
            if manners.codes:
                self.send_error(manners.codes.pop(0))
                return
            start = 0
            if wanted and manners.ranges:
                start = int(re.fullmatch(r"bytes=(\d+)-", wanted).group(1)) + manners.shift
                if start >= len(manners.content):
                    self.send_error(416)
                    return
            body = manners.content[start:]
            self.send_response(206 if start else 200)
            if start:
                end, total = len(manners.content) - 1, len(manners.content)
                self.send_header("Content-Range", f"bytes {start}-{end}/{total}")
            if manners.told:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: manners.cuts.pop(0)] if manners.cuts else body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/file.bin"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def published(*addresses):
    return File(name="file.bin", size=len(CONTENT), sha256=SHA256, addresses=addresses)


def get(manners, path, *, waits=(0.0, 0.0)):
    """Fetch the file from a server of such manners; what was said meanwhile."""
    said = []
    with serving(manners) as address:
        fetch(published(address), path, note=said.append, waits=waits)
    return said


@pytest.fixture
def path(tmp_path):
    return tmp_path / "file.bin"


def part(path):
    return path.with_name("file.bin.part")


def test_a_file_is_fetched_and_nothing_else_is_left(path):
    assert get(Manners(), path) == []
    assert path.read_bytes() == CONTENT
    assert [p.name for p in path.parent.iterdir()] == ["file.bin"]


def test_a_connection_that_is_cut_goes_on_where_it_was(path):
    manners = Manners(cuts=[100_000, 50_000])
    said = get(manners, path)
    assert path.read_bytes() == CONTENT
    assert manners.asked == [None, "bytes=100000-", "bytes=150000-"]
    assert "ended after 100000 of 300000 bytes; trying again" in said[0]
    assert not part(path).exists()


def test_the_next_command_goes_on_too(path):
    path.write_bytes(b"old")
    with pytest.raises(NescioError, match=r"ended after 70000 .* file.bin.part stays"):
        get(Manners(cuts=[70_000]), path, waits=())
    assert path.read_bytes() == b"old"
    assert part(path).read_bytes() == CONTENT[:70_000]
    manners = Manners()
    get(manners, path, waits=())
    assert manners.asked == ["bytes=70000-"]
    assert path.read_bytes() == CONTENT


def test_a_server_without_ranges_begins_anew(path):
    manners = Manners(ranges=False, cuts=[100_000])
    get(manners, path)
    assert manners.asked == [None, "bytes=100000-"]
    assert path.read_bytes() == CONTENT


def test_a_server_that_goes_on_elsewhere_is_not_believed(path):
    part(path).write_bytes(CONTENT[:1000])
    manners = Manners(shift=500)
    said = get(manners, path)
    assert "another byte" in said[0]
    assert manners.asked == ["bytes=1000-", None]
    assert path.read_bytes() == CONTENT


@pytest.mark.parametrize("told", [True, False])
def test_wrong_bytes_are_removed_and_the_old_file_is_kept(path, told):
    path.write_bytes(b"old")
    wrong = bytearray(CONTENT)
    wrong[12345] ^= 1
    with pytest.raises(NescioError, match=r"gave wrong bytes \(sha256 .* they were removed"):
        get(Manners(content=bytes(wrong), told=told), path)
    assert path.read_bytes() == b"old"
    assert [p.name for p in path.parent.iterdir()] == ["file.bin"]


def test_a_page_with_an_apology_is_another_file(path):
    with pytest.raises(NescioError, match=r"serves 8 bytes, expected 300000: it is another file"):
        get(Manners(content=b"<html/>\n"), path)
    assert not list(path.parent.iterdir())


def test_too_many_bytes_are_wrong_bytes(path):
    with pytest.raises(NescioError, match=r"gave wrong bytes \(3\d+ bytes, expected 300000\)"):
        get(Manners(content=CONTENT + bytes(200_000), told=False), path)
    assert not list(path.parent.iterdir())


def test_a_part_of_another_file_is_replaced(path):
    part(path).write_bytes(bytes(1000))
    manners = Manners()
    said = get(manners, path)
    assert "does not fit" in said[0]
    assert manners.asked == ["bytes=1000-", None]
    assert path.read_bytes() == CONTENT


def test_a_part_that_is_whole_only_gets_its_name(path):
    part(path).write_bytes(CONTENT)
    manners = Manners()
    get(manners, path)
    assert manners.asked == []
    assert path.read_bytes() == CONTENT


def test_a_part_that_is_too_long_is_dropped(path):
    part(path).write_bytes(bytes(300_001))
    manners = Manners()
    get(manners, path)
    assert manners.asked == [None]
    assert path.read_bytes() == CONTENT


def test_a_server_whose_file_is_shorter_than_the_part(path):
    part(path).write_bytes(CONTENT[:2000])
    with pytest.raises(NescioError, match=r"serves 1000 bytes, expected 300000"):
        get(Manners(content=CONTENT[:1000]), path)
    assert not part(path).exists()


def test_a_busy_server_is_asked_again_and_a_missing_file_is_not(path):
    manners = Manners(codes=[503, 429])
    said = get(manners, path)
    assert len(manners.asked) == 3
    assert "answered 503" in said[0]
    assert path.read_bytes() == CONTENT
    for code in (404, 403):
        manners = Manners(codes=[code, code])
        with pytest.raises(NescioError, match=f"could not download file.bin: .* answered {code}"):
            get(manners, path)
        assert len(manners.asked) == 1


def test_the_next_address_is_tried(path):
    with serving(Manners()) as address:
        base = address.removesuffix("/file.bin")
        file = published("ftp://example.org/file.bin", f"{base}/gone.bin", address)
        fetch(file, path, waits=())
        assert path.read_bytes() == CONTENT
        with pytest.raises(NescioError, match=r"ftp.* is not an address of http.*answered 404"):
            fetch(published(*file.addresses[:2]), path, waits=())


def test_no_server_at_all(path):
    with serving(Manners()) as address:
        pass
    said = []
    with pytest.raises(NescioError, match=r"no connection \(.*refused"):
        fetch(published(address), path, note=said.append, waits=(0.0,))
    assert len(said) == 1


@pytest.fixture
def known(monkeypatch):
    """A catalogue with one data set, served here."""
    with serving(Manners()) as address:
        about = {"license": "none", "home": "http://x"}
        mine = CatalogueEntry(
            name="mine", what="numbers", folders=("own",), files=(published(address),),
            patterns=("instead*",), **about,
        )  # fmt: skip
        bare = CatalogueEntry(
            name="bare", what="nothing", folders=("bare",), by_hand="a stone", **about
        )
        monkeypatch.setattr(catalogue, "CATALOGUE", {"mine": mine, "bare": bare})
        yield mine


def test_download_and_verify(known, tmp_path):
    said = []
    assert presence("mine", tmp_path) == "no"
    assert [(f.verdict, f.path.name) for f in verify("mine", tmp_path)] == [("missing", "file.bin")]
    where = download("mine", tmp_path, note=said.append)
    path = where / "file.bin"
    assert path.read_bytes() == CONTENT
    assert said == [f"{path}: 0.3 MB, checksum right"]
    download("mine", tmp_path, note=said.append)
    assert said[1] == f"{path}: there already"
    assert presence("mine", tmp_path) == "yes"
    assert [f.verdict for f in verify("mine", tmp_path)] == ["ok"]
    path.write_bytes(CONTENT[:-1] + b"?")
    (found,) = verify("mine", tmp_path)
    assert found.verdict == "damaged"
    assert found.reason.startswith("sha256 ")
    download("mine", tmp_path, note=said.append)  # a damaged file is fetched again
    assert path.read_bytes() == CONTENT


def test_files_that_serve_in_place_of_the_published(known, tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "instead.bin").write_bytes(b"abc")
    (found,) = verify("mine", tmp_path)
    assert found.verdict == "present"
    assert "no published checksum" in found.reason
    assert presence("mine", tmp_path) == "in part"


def test_a_stand_in_of_the_wrong_size_is_refused(known, tmp_path, monkeypatch):
    stand_in = File(name="whole.bin", size=5)
    monkeypatch.setitem(catalogue.CATALOGUE, "mine", replace(known, others=(stand_in,)))
    (tmp_path / "own").mkdir()
    path = tmp_path / "own" / "whole.bin"
    for content, verdict in ((b"abc", "damaged"), (b"abcde", "ok")):
        path.write_bytes(content)
        (found,) = verify("mine", tmp_path)
        assert found.verdict == verdict
        assert found.reason.startswith("3 bytes, expected 5" if verdict == "damaged" else "by its")


def test_what_cannot_be_downloaded_says_what_to_do(known, tmp_path, monkeypatch):
    with pytest.raises(NescioError, match=r"cannot be downloaded: put a stone into .*bare"):
        download("bare", tmp_path)
    with pytest.raises(NescioError, match="unknown data set to download 'yours'"):
        download("yours", tmp_path)
    monkeypatch.delenv("NESCIO_DATA", raising=False)
    with pytest.raises(NescioError, match="set NESCIO_DATA"):
        download("mine")
    with pytest.raises(NescioError, match="set NESCIO_DATA"):
        verify("mine")
    monkeypatch.setenv("NESCIO_DATA", str(tmp_path))
    assert download("mine", note=lambda _: None) == tmp_path / "own"


def test_check_by_hand(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"abc")
    assert (
        check(path, File(name="x", size=3, sha256=hashlib.sha256(b"abc").hexdigest())).verdict
        == "ok"
    )
    assert (
        check(path, File(name="x", size=3, sha256=hashlib.sha256(b"abd").hexdigest())).verdict
        == "damaged"
    )
    assert check(path, File(name="x", size=4)).verdict == "damaged"
