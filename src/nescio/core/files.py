"""Files that survive a crash: written beside, synced, renamed; read without unpickling."""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO, Any

import numpy as np
from torch import Tensor

from nescio.core.errors import NescioError

FORMAT = 1
SHOWN = 60  # characters of a setting in a message


class DamagedError(NescioError):
    """A file that cannot be read; whoever made it may add what to do."""


def write_atomically(path: Path, content: bytes | str) -> None:
    """Write a file so that a crash leaves the old one or the new one, never half of one."""
    with writing_atomically(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextmanager
def writing_atomically(path: Path) -> Iterator[IO[bytes]]:
    """The same for what comes piece by piece: the file gets its name at the end of the block."""
    make_folder(path.parent)
    beside = path.with_name(f".{path.name}.new")  # one name, so that a crash leaves one file
    try:
        with beside.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
        _sync(path.parent)
    except OSError as error:
        raise NescioError(
            f"cannot write {path}: {error.strerror}; choose another folder"
        ) from error
    finally:
        beside.unlink(missing_ok=True)


def _sync(folder: Path) -> None:
    """Make a rename last through a power cut, where the system allows it."""
    if hasattr(os, "O_DIRECTORY"):
        handle = os.open(folder, os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def make_folder(path: Path) -> Path:
    """Make a folder, or say why it cannot be made or written to."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise NescioError(f"cannot make the folder {path}: {error.strerror}") from error
    if not os.access(path, os.W_OK):
        raise NescioError(f"the folder {path} is not writable; choose another one")
    return path


def save_tensors(path: Path, tensors: Mapping[str, Tensor], manifest: Mapping[str, Any]) -> None:
    """Write tensors and their manifest into one safetensors file, atomically."""
    from safetensors.torch import save

    whole, seen = {}, set()
    for name, tensor in tensors.items():  # safetensors refuses strided or shared memory
        packed = tensor.detach().cpu().contiguous()
        place = packed.untyped_storage().data_ptr()
        whole[name] = packed.clone() if place in seen else packed
        seen.add(place)
    text = json.dumps({"format": FORMAT, **manifest})
    write_atomically(path, save(whole, metadata={"nescio": text}))


def load_tensors(path: Path, kind: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read tensors and manifest of the given kind; a damaged or foreign file is refused."""
    with _opened(path) as file:
        tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
        return tensors, _manifest(path, file.metadata() or {}, kind)


def load_manifest(path: Path, kind: str) -> dict[str, Any]:
    """Read the manifest alone, with the same checks."""
    with _opened(path) as file:
        return _manifest(path, file.metadata() or {}, kind)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise NescioError(f"no file {path}; check the name")
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except (SafetensorError, OSError) as error:
        raise DamagedError(
            f"{path} is damaged, or no safetensors file ({error}); copy it again, or give another"
        ) from error


def _manifest(path: Path, metadata: Mapping[str, str], kind: str) -> dict[str, Any]:
    try:
        manifest: dict[str, Any] = json.loads(metadata["nescio"])
        written = int(manifest["format"])
    except (KeyError, ValueError, TypeError) as error:
        raise NescioError(f"{path} was not written by nescio: it has no manifest") from error
    if manifest.get("kind") != kind:
        raise NescioError(f"{path} holds a {manifest.get('kind')}, expected a {kind}")
    if written > FORMAT:
        raise NescioError(f"{path} was written by a newer nescio; upgrade to read it")
    return manifest


def write_json(path: Path, value: Any) -> None:
    """Write `value` as indented JSON, atomically; numbers that are not finite become null."""
    write_atomically(path, json.dumps(finite(value), indent=2, allow_nan=False) + "\n")


def kept(path: Path, key: Mapping[str, Any], make: Callable[[], Any]) -> Any:
    """What a file holds for this key; otherwise it is made and written, in one go."""
    same = json.loads(json.dumps(finite(dict(key))))
    if path.exists():
        try:
            there = json.loads(path.read_text())
            if there["key"] == same:
                return there["found"]
        except (ValueError, KeyError, TypeError) as error:
            raise NescioError(f"{path} is damaged ({error}); delete it to start again") from None
    write_json(path, {"key": same, "found": make()})
    return json.loads(path.read_text())["found"]


def finite(value: Any) -> Any:
    """`value` with every float that JSON cannot hold replaced by None."""
    if isinstance(value, Mapping):
        return {str(key): finite(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(part) for part in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not abs(value) < float("inf"):
        return None
    return value


def check_same_run(
    path: Path, there: Mapping[str, Any], here: Mapping[str, Any], anew: str = "delete that one"
) -> None:
    """Refuse to resume a run that had other settings, and say which differ.

    there, here: the settings in the file and those of this call. anew: how to start again.
    """
    if shown := _differences(there, here):
        raise NescioError(
            f"{path} belongs to another run ({shown}); choose another name, or {anew}"
        )


def _differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """Which settings differ, in words; of nested ones only what differs in them."""
    every = [*here, *(key for key in there if key not in here)]  # what is unset may be left out
    found = []
    for key in every:
        one, two = (run.get(key) or None for run in (there, here))
        if one == two:
            continue
        inner = ""
        if isinstance(one, Mapping) and isinstance(two, Mapping):
            inner = _differences(one, two)
        old, new = _apart(key, str(there.get(key)), str(here.get(key)))
        found.append(f"{key}: {inner or f'{old} there, {new} here'}")
    return "; ".join(found)


def _apart(key: str, one: str, two: str) -> tuple[str, str]:
    """Two texts, cut where they are long, but not before they differ."""
    if key == "written" and one.isdigit() and two.isdigit():  # nanoseconds
        return _time(int(one)), _time(int(two))
    same = next((i for i, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), 0)
    begin = max(0, same - SHOWN // 2)
    return _cut(one, begin), _cut(two, begin)


def _cut(text: str, begin: int) -> str:
    if len(text) <= SHOWN:
        return text
    part = text[begin : begin + SHOWN]
    return f"{'...' * (begin > 0)}{part}{'...' * (begin + SHOWN < len(text))}"


def _time(nanoseconds: int) -> str:
    seconds, rest = divmod(nanoseconds, 10**9)
    return f"{datetime.fromtimestamp(seconds):%Y-%m-%d %H:%M:%S}.{rest:09d}"
