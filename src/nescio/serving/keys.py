"""Who may ask: a file of keys, each known by its digest, with a name and a role.

A line of the file is `role name digest`; what follows a # is left out. The file holds no key, so
reading it lets nobody in.
"""

import hmac
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

from nescio.core import NescioError, write_atomically
from nescio.serving.file_states import FileState, file_state

ROLES = ("predict", "review", "admin")  # each may do what those before it may
BYTES = 32  # of a key that is made here, and of a digest


@dataclass(frozen=True)
class Who:
    """Somebody who was recognized."""

    name: str
    role: str

    def may(self, role: str) -> bool:
        """Whether somebody of this role may do what `role` may."""
        return ROLES.index(self.role) >= ROLES.index(role)


LOCAL = Who("local", "admin")  # everybody, where there are no keys


@dataclass(frozen=True)
class Keys:
    """The keys of a service.

    known: who has the key of each digest.
    seen: the state of their file when it was read; None: they came from none.
    """

    known: Mapping[str, Who]
    seen: FileState | None = field(default=None, compare=False)

    @classmethod
    def read(cls, path: str | Path) -> "Keys":
        """The keys of the file `path`."""
        path = Path(path)
        seen = file_state(path)
        try:
            lines = path.read_text("utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise NescioError(f"cannot read the keys {path}: {error}; {_make_one(path)}") from error
        known: dict[str, Who] = {}
        for number, line in enumerate(lines, 1):
            if words := line.split("#")[0].split():
                digest, who = _line(words, f"{path}, line {number}")
                known[digest] = who
        if not known:
            raise NescioError(f"{path} holds no key; {_make_one(path)}")
        return cls(known, seen)

    def who(self, authorization: str) -> Who | None:
        """Who sent this header, `Bearer KEY` or the key alone; None: nobody who is known.

        Every key is compared, each in constant time.

        authorization: the header.
        """
        kind, _, rest = authorization.partition(" ")
        key = rest.strip() if kind.lower() == "bearer" else authorization.strip()
        digest = key_digest(key)
        found = None
        for known, who in self.known.items():
            if hmac.compare_digest(known, digest):
                found = who
        return found


def key_digest(key: str) -> str:
    """What a file of keys says about a key."""
    return blake2b(key.encode("utf-8", "surrogateescape"), digest_size=BYTES).hexdigest()


def new_key(path: str | Path, role: str, name: str) -> str:
    """A new key, whose digest is added to the file `path`; it is said here once, and nowhere else.

    path: the file of keys, which is made where there is none.
    role: what may be done with it: predict, review or admin.
    name: who has it, one word.
    """
    path = Path(path)
    if role not in ROLES:
        raise NescioError(f"a role is one of {', '.join(ROLES)}, got {role!r}")
    if not name or len(name.split()) != 1 or name != name.strip() or "#" in name:
        raise NescioError(f"a key is for somebody of one word, such as anna, got {name!r}")
    before = path.read_text("utf-8") if path.exists() else ""
    if before.strip() and name in {who.name for who in Keys.read(path).known.values()}:
        raise NescioError(f"{path} has a key of {name!r}; remove its line first")
    key = secrets.token_urlsafe(BYTES)
    start = before if not before or before.endswith("\n") else before + "\n"
    write_atomically(path, f"{start}{role} {name} {key_digest(key)}\n")
    os.chmod(path, 0o600)
    return key


def _line(words: list[str], where: str) -> tuple[str, Who]:
    """The digest and the owner of one line."""
    if len(words) != 3 or words[0] not in ROLES or not _is_digest(words[2]):
        raise NescioError(
            f"{where}: expected `role name digest` with a role of {', '.join(ROLES)} and a digest "
            f"of {2 * BYTES} hexadecimal digits"
        )
    return words[2].lower(), Who(words[1], words[0])


def _is_digest(text: str) -> bool:
    return len(text) == 2 * BYTES and all(one in "0123456789abcdefABCDEF" for one in text)


def _make_one(path: Path) -> str:
    return f"make one: nescio serve --new-key predict:NAME --keys {path}"
