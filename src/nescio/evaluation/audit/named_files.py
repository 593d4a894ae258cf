"""The files that a command names, by their digests: what an audit read."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from nescio.core import NescioError

BLOCK = 1 << 20  # bytes at a time


@dataclass(frozen=True, kw_only=True)
class FileDigest:
    """SHA-256 of a file, of all files of a folder with their names, or of a module's source.

    kind: `"file"`, `"folder"` or `"module"`.
    bytes: size in bytes.
    sha256: the digest, in hexadecimal digits.
    files: number of files.
    """

    kind: Literal["file", "folder", "module"]
    bytes: int
    sha256: str
    files: int = 1


def file_sha256(path: Path) -> str:
    """SHA-256 of all bytes of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_of(path: Path, *, module: bool = False) -> FileDigest:
    """The digest of a file or of a folder; hidden files of a folder do not count.

    path: the file or folder.
    module: whether the file is the source of a module.
    """
    try:
        if not path.is_dir():
            kind: Literal["file", "module"] = "module" if module else "file"
            return FileDigest(kind=kind, bytes=path.stat().st_size, sha256=file_sha256(path))
        return _of_folder(path)
    except OSError as error:
        raise NescioError(f"cannot read {path}: {error.strerror}") from None


def _of_folder(path: Path) -> FileDigest:
    total, size, count = hashlib.sha256(), 0, 0
    for file in sorted(path.rglob("*")):
        inner = file.relative_to(path)
        if not file.is_file() or any(part.startswith(".") for part in inner.parts):
            continue
        total.update(f"{inner.as_posix()}\0{file_sha256(file)}\n".encode())
        size, count = size + file.stat().st_size, count + 1
    return FileDigest(kind="folder", bytes=size, sha256=total.hexdigest(), files=count)
